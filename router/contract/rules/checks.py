"""The named checks made on a request: about messages here, about tools and formats in modules of their own."""

from collections.abc import Callable, Iterator
from itertools import dropwhile
from typing import Any, Final

from router.contract.errors import ApiError
from router.contract.rules import format_checks, part_checks, tool_checks
from router.contract.rules.evaluation import EvaluationContext
from router.contract.rules.field_rules import error_text_for
from router.contract.rules.field_tests import Fields, Violation, listed
from router.contract.rules.messages import messages_of
from router.contract.schema import named_checks as named
from router.contract.schema.conditions import tester_of
from router.contract.schema.rule_list import CheckRule
from router.contract.templates import display

Check = Callable[[Fields], Violation | None]


class CheckEvaluator:
    """Makes one named check."""

    def __init__(self, rule: CheckRule) -> None:
        self.rule = rule.rule
        self.check = rule.check
        self.param = next(iter(rule.fields_read or ("messages",)))
        self._is_of_parts = type(rule.check) in part_checks.MADE_BY
        self.find: Callable[[Any], Violation | None] = _MADE_BY[type(rule.check)](rule.check)

    def __call__(self, context: EvaluationContext) -> None:
        """Reject a request that fails the check. Does nothing if the request is already rejected."""
        if context.error is not None:
            return
        violation = self.find(context.parts() if self._is_of_parts else context.request.fields)
        if violation is None:
            return
        context.violations.append(self.param)
        words = error_text_for(self.check, violation.part)
        details = {"model": context.request.value("model"), **violation.details}
        error = ApiError(
            "contract_violation", violation.message, self.param, part=violation.part, words=words, details=details
        )
        context.reject(self.rule, error)


def _roles(check: named.Roles) -> Check:
    allowed, words = frozenset(check.allowed), listed(check.allowed)

    def find(fields: Fields) -> Violation | None:
        for index, message in messages_of(fields):
            role = message.get("role")
            if not isinstance(role, str) or role not in allowed:
                said = f"messages[{index}] has the role {display(role)}: expected {words}"
                return Violation("roles", said, {"value": display(role), "allowed": words, "index": index})
        return None

    return find


def _system_messages(check: named.SystemMessages) -> Check:
    def find(fields: Fields) -> Violation | None:
        count = sum(message.get("role") == "system" for _, message in messages_of(fields))
        if count <= check.max:
            return None
        said = f"There are {count} system messages: at most {check.max} are allowed"
        return Violation("system_messages", said, {"count": count, "max": check.max})

    return find


def _first_role(check: named.FirstRole) -> Check:
    return _role_at(0, "first", check)


def _last_role(check: named.LastRole) -> Check:
    return _role_at(-1, "last", check)


def _role_at(place: int, which: str, check: named.FirstRole | named.LastRole) -> Check:
    words = listed(check.allowed)

    def find(fields: Fields) -> Violation | None:
        messages = [*messages_of(fields)]
        if not messages:
            return None
        index, message = messages[place]
        role = message.get("role")
        if isinstance(role, str) and role in check.allowed:
            return None
        said = f"messages[{index}] has the role {display(role)}: the {which} must have the role {words}"
        return Violation(f"{which}_role", said, {"value": display(role), "allowed": words, "index": index})

    return find


def _required_role(check: named.RequiredRole) -> Check:
    words = listed(check.any_of)

    def find(fields: Fields) -> Violation | None:
        if any(message.get("role") in check.any_of for _, message in messages_of(fields)):
            return None
        return Violation("required_role", f"No message has the role {words}", {"allowed": words})

    return find


def _alternation(_: named.Alternation) -> Check:
    def find(fields: Fields) -> Violation | None:
        before = "assistant"
        behind_system = dropwhile(lambda located: located[1].get("role") in _SYSTEM, messages_of(fields))
        for index, message in behind_system:
            role = message.get("role")
            side = "assistant" if role == "assistant" else "user"
            if side == before and role != "tool":
                said = f"messages[{index}] has the role {display(role)}: user or tool and assistant must alternate"
                return Violation("alternation", said, {"value": display(role), "index": index})
            before = side
        return None

    return find


_SYSTEM: Final = ("system", "developer")


def _string_content(check: named.StringContent) -> Check:
    def find(fields: Fields) -> Violation | None:
        for index, message in messages_of(fields):
            if message.get("role") in check.roles and not isinstance(message.get("content"), str):
                role = message["role"]
                said = f"messages[{index}].content of a {role} message is not a string"
                return Violation("string_content", said, {"value": role, "index": index})
        return None

    return find


def _reasoning_passed_back(_: named.ReasoningPassedBack) -> Check:
    def find(fields: Fields) -> Violation | None:
        for index, message in messages_of(fields):
            calls = message.get("role") == "assistant" and message.get("tool_calls")
            if calls and not isinstance(message.get("reasoning_content"), str):
                said = f"messages[{index}] calls tools and has no reasoning_content"
                return Violation("reasoning_passed_back", said, {"index": index})
        return None

    return find


def _prompt_contains(check: named.PromptContains) -> Check:
    is_due, word = tester_of(check.when), check.word.casefold()

    def find(fields: Fields) -> Violation | None:
        if not is_due(fields) or any(word in text.casefold() for text in _texts(fields)):
            return None
        return Violation("prompt_contains", f"No message contains the word {check.word!r}", {"expected": check.word})

    return find


def _texts(fields: Fields) -> Iterator[str]:
    for _, message in messages_of(fields):
        content = message.get("content")
        for part in content if isinstance(content, list) else [content]:
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str):
                yield text


_MADE_BY: Final[dict[type, Callable[[Any], Check | part_checks.PartsCheck]]] = {
    named.Roles: _roles,
    named.SystemMessages: _system_messages,
    named.FirstRole: _first_role,
    named.LastRole: _last_role,
    named.RequiredRole: _required_role,
    named.Alternation: _alternation,
    named.StringContent: _string_content,
    named.ReasoningPassedBack: _reasoning_passed_back,
    named.PromptContains: _prompt_contains,
    **tool_checks.MADE_BY,
    **format_checks.MADE_BY,
    **part_checks.MADE_BY,
}
