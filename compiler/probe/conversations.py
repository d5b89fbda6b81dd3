"""Test conversations, and find the fewest named checks of messages that explain which of them are rejected."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from compiler.language.samples import FOREIGN
from compiler.probe.evidence import evidence_of
from compiler.probe.experiment import BaseRequest, ExperimentResult, Learner, ask_all
from compiler.verify.check import Fields
from compiler.verify.generation.conversations import ASSISTANT, calling, result, user
from router.contract.rules.checks import CheckEvaluator
from router.contract.schema.named_checks import CHECK_TYPES
from router.contract.schema.rule_list import CheckRule

ABOUT: Final = "checks.messages"

_ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function", "latest_reminder", FOREIGN)
_MOST_SYSTEM: Final = 4


class Conversation(NamedTuple):
    """A description of the conversation, and its messages."""

    description: str
    messages: list[Any]


class TriedConversation(NamedTuple):
    """A conversation and its result."""

    conversation: Conversation
    reply: ExperimentResult

    @property
    def fields(self) -> Fields:
        """The fields that checks look at."""
        return {"messages": self.conversation.messages}


class LearnedChecks(NamedTuple):
    """Named checks by name, as a profile writes them, and the rejections that no check explains."""

    rules: dict[str, Fields]
    undetermined: tuple[str, ...] = ()


def learn_messages(base: BaseRequest) -> Learner[LearnedChecks]:
    """Learn which checks of messages an endpoint makes."""
    conversations = list(_conversations(base.text))
    results = yield from ask_all(*(base.experiment(ABOUT, {"messages": each.messages}) for each in conversations))
    tried = [TriedConversation(*pair) for pair in zip(conversations, results, strict=True) if pair[1].is_conclusive]
    return _explained(tried)


def _conversations(text: str) -> Iterator[Conversation]:
    question, said = user(text), ASSISTANT
    plain = {name: value for name, value in calling("call_1").items() if name != "reasoning_content"}
    called, both = calling("call_1"), calling("call_1", "call_2")
    one, two = result("call_1"), result("call_2")
    bare = {"role": "assistant", "content": "OK."}
    for role in _ROLES:
        speaks = {"role": role, "content": text, **({"tool_call_id": "call_1"} if role == "tool" else {})}
        yield Conversation(f"role {role} alone", [speaks])
        yield Conversation(f"role {role} first", [speaks, question])
        yield Conversation(f"role {role} last", [question, said, speaks])
        yield Conversation(f"role {role} between", [question, said, speaks, said, question])
        yield Conversation(f"role {role} behind a system message", [{"role": "system", "content": text}, speaks])
    for count in range(2, _MOST_SYSTEM + 1):
        yield Conversation(f"{count} system messages", [{"role": "system", "content": text}] * count + [question])
    yield Conversation("a message without a role", [question, {"content": text}])
    yield Conversation("role USER", [{"role": "USER", "content": text}])
    yield Conversation("a user twice", [question, question])
    yield Conversation("an assistant twice", [question, said, said, question])
    yield Conversation("turns", [question, said, question])
    yield Conversation("turns that an assistant begins", [{"role": "system", "content": text}, said, question])
    yield Conversation("an assistant last", [question, said])
    yield Conversation("an assistant without reasoning_content", [question, bare, question])
    yield Conversation("a call and its result", [question, called, one])
    yield Conversation("a call, its result, a user", [question, called, one, question])
    yield Conversation("a call, its result, a response, a user", [question, called, one, said, question])
    yield Conversation("two calls and both results", [question, both, one, two])
    yield Conversation("two calls and both results the other way round", [question, both, two, one])
    yield Conversation("two rounds of calls", [question, called, one, calling("call_2"), two])
    yield Conversation("a result without tool_call_id", [question, called, {"role": "tool", "content": "Seen."}])
    yield Conversation("a result with an empty tool_call_id", [question, called, result("")])
    yield Conversation("a result that answers another call", [question, called, one, result("call_9")])
    yield Conversation("a result where nothing was called", [question, one])
    yield Conversation("the same at another place", [question, said, question, result("call_8")])
    yield Conversation("two calls and one result", [question, both, one])
    yield Conversation("a call and no result, a user behind", [question, said, question, called, question])
    yield Conversation("two calls and no result, a user behind", [question, both, question])
    yield Conversation("a call at the end", [question, called])
    yield Conversation("a user between the results", [question, both, one, question, two])
    yield Conversation("a call without reasoning_content", [question, plain, one])
    yield Conversation("the same later", [question, said, question, plain, one])
    yield Conversation("a call with reasoning_content null", [question, {**plain, "reasoning_content": None}, one])
    yield Conversation("a call with empty reasoning_content", [question, {**plain, "reasoning_content": ""}, one])
    parts = [{"type": "text", "text": text}]
    for content, word in ((parts, "a list"), (None, "null")):
        yield Conversation(f"a user's content that is {word}", [{"role": "user", "content": content}])
        yield Conversation(f"a system's content that is {word}", [{"role": "system", "content": content}, question])
        yield Conversation(f"an assistant's content that is {word}", [question, {**said, "content": content}, question])
        yield Conversation(f"a result's content that is {word}", [question, called, result("call_1", content)])
        yield Conversation(f"a later one that is {word}", [question, said, question, called, result("call_1", content)])


class _Check(NamedTuple):
    """A candidate check: its name, its section as a profile writes it, and the function that finds a violation."""

    name: str
    section: Fields
    find: Callable[[Fields], object]

    def rejects(self, tried: TriedConversation) -> bool:
        """Return whether the check rejects a conversation."""
        return self.find(tried.fields) is not None


def _check(name: str, section: Fields) -> _Check:
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in section.items()}
    kind: Any = CHECK_TYPES[name]
    return _Check(name, section, CheckEvaluator(CheckRule(kind(**values), f"checks.{name}")).find)


def _explained(tried: list[TriedConversation]) -> LearnedChecks:
    """Return the fewest checks that reject exactly what was rejected; rejections with the same message go together."""
    possible = list(_possible(tried))
    chosen: list[_Check] = []
    left = [each for each in tried if each.reply.is_rejected]
    while left:
        best = max(possible, key=lambda check: (*_gain(check, left), -_place(check)), default=None)
        if best is None or not _gain(best, left)[0]:
            break
        chosen.append(best)
        left = [each for each in left if not best.rejects(each)]
    kept = _without_idle(chosen, tried)
    rules = {check.name: {**check.section, "source": _said(check, tried)} for check in kept}
    undetermined = (f"{ABOUT}: {each.conversation.description} is rejected; no check says just that" for each in left)
    return LearnedChecks(rules, tuple(undetermined))


def _possible(tried: list[TriedConversation]) -> Iterator[_Check]:
    """Yield for each check the strictest form that rejects nothing that was accepted, if it rejects anything."""
    accepted = [each for each in tried if each.reply.is_accepted]
    rejected = [each for each in tried if each.reply.is_rejected]
    for name, form in _FORMS.items():
        for section in form(accepted):
            check = _check(name, section)
            if any(map(check.rejects, rejected)) and not any(map(check.rejects, accepted)):
                yield check
                break


def _gain(check: _Check, left: list[TriedConversation]) -> tuple[int, int]:
    """Return the most rejections with the same message that a check explains, and their total."""
    by_words = Counter(error_words(each.reply) for each in left if check.rejects(each))
    return max(by_words.values(), default=0), by_words.total()


def _without_idle(chosen: list[_Check], tried: list[TriedConversation]) -> list[_Check]:
    """Return the checks that are not superfluous beside the others, in the order of evaluation."""
    rejected = [each for each in tried if each.reply.is_rejected]
    kept = list(chosen)
    for check in reversed(chosen):
        others = [other for other in kept if other is not check]
        own = [each for each in rejected if check.rejects(each)]
        if others and all(any(other.rejects(each) for other in others) for each in own):
            kept = others
    return sorted(kept, key=_place)


def _place(check: _Check) -> int:
    return list(CHECK_TYPES).index(check.name)


def _said(check: _Check, tried: list[TriedConversation]) -> str:
    own = [each for each in tried if each.reply.is_accepted or check.rejects(each)]
    rejected = [each.conversation.description for each in own if each.reply.is_rejected]
    accepted = [each.conversation.description for each in own if each.reply.is_accepted]
    return evidence_of(accepted[:3], rejected, [each.reply for each in own])


def error_words(reply: ExperimentResult) -> str:
    """Return a message without roles and numbers, so that those of one rule are equal."""
    return _CHANGING.sub("", reply.response.body.decode(errors="replace"))


_CHANGING: Final = re.compile(f"{'|'.join(_ROLES)}|USER|call_|[0-9a-f]{{8,}}|[0-9]+|null|, |probe")


def _roles_of(tried: Iterable[TriedConversation]) -> list[str]:
    found = {message.get("role") for each in tried for message in each.conversation.messages}
    return [role for role in _ROLES if role in found]


def _roles(accepted: list[TriedConversation]) -> Iterator[Fields]:
    # Where a role that is unknown is accepted, there is no list of roles.
    if FOREIGN not in (roles := _roles_of(accepted)):
        yield {"allowed": roles}


def _system_messages(accepted: list[TriedConversation]) -> Iterator[Fields]:
    counts = [sum(m.get("role") == "system" for m in each.conversation.messages) for each in accepted]
    yield {"max": max(counts, default=0)}


def _role_at(place: int) -> Callable[[list[TriedConversation]], Iterator[Fields]]:
    def form(accepted: list[TriedConversation]) -> Iterator[Fields]:
        found = {each.conversation.messages[place].get("role") for each in accepted}
        if FOREIGN not in found:
            yield {"allowed": [role for role in _ROLES if role in found]}

    return form


def _required_role(_: list[TriedConversation]) -> Iterator[Fields]:
    yield from ({"any_of": [role]} for role in ("user", "system"))
    yield from ({"any_of": roles} for roles in (["user", "tool"], ["user", "assistant"]))


def _string_content(accepted: list[TriedConversation]) -> Iterator[Fields]:
    odd = {
        message.get("role")
        for each in accepted
        for message in each.conversation.messages
        if not isinstance(message.get("content"), str)
    }
    if roles := [role for role in ("system", "user", "assistant", "tool") if role not in odd]:
        yield {"roles": roles}


def _plain(_: list[TriedConversation]) -> Iterator[Fields]:
    yield {}


def _tool_results(_: list[TriedConversation]) -> Iterator[Fields]:
    yield {"known_call": True}
    yield {}


_FORMS: Final[dict[str, Callable[[list[TriedConversation]], Iterator[Fields]]]] = {
    "roles": _roles,
    "system_messages": _system_messages,
    "first_role": _role_at(0),
    "last_role": _role_at(-1),
    "required_role": _required_role,
    "alternation": _plain,
    "string_content": _string_content,
    "tool_results": _tool_results,
    "tool_calls_answered": _plain,
    "reasoning_passed_back": _plain,
}
"""The possible forms of each check, given what was accepted; the strictest first."""

MESSAGE_CHECKS: Final = frozenset(_FORMS)
"""The checks that are learned from conversations."""
