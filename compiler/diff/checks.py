"""Compare named checks, setting by setting."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from compiler.artifact.to_profile import check_of, error_of
from compiler.diff import constraints
from compiler.diff.change import EVIDENCE, UNSEEN, Change, ConstraintEffect, change, combined, rejection_of
from compiler.diff.fields import OTHER_WORDS
from compiler.diff.values import Value, listed, same, text_of
from router.contract.schema.named_checks import CHECKS, Check


class _Setting(NamedTuple):
    """How a setting of a check is compared, and a text for the requests that certain values of it concern."""

    kind: str
    which: str


class _TypesByRole(NamedTuple):
    """The accepted types of content parts, in messages of single roles and of all others."""

    by_role: Mapping[str, tuple[str, ...]]
    allowed: tuple[str, ...]

    def of(self, role: str) -> tuple[str, ...]:
        """Return the types that are accepted in messages of a role."""
        return self.by_role.get(role, self.allowed)


_WHOLE: Final = {
    "alternation": "requests whose messages do not alternate between user and assistant",
    "tool_results": "requests with a tool result that does not name the call it answers",
    "tool_calls_answered": "requests with a tool call that the messages right behind it do not answer",
    "reasoning_passed_back": "requests with an assistant message that calls tools and carries no reasoning_content",
    "tools": "requests with tools that are not well formed",
    "message_tools": "requests with tools in a message that are not well formed",
}
"""What a check rejects independently of its settings."""

_SETTINGS: Final = {
    "roles": {"allowed": _Setting("accepted", "requests with a message of role {}")},
    "system_messages": {"max": _Setting("at most", "requests whose messages of role system number {}")},
    "first_role": {"allowed": _Setting("accepted", "requests whose first message is of role {}")},
    "last_role": {"allowed": _Setting("accepted", "requests whose last message is of role {}")},
    "required_role": {"any_of": _Setting("some", "message of role {}")},
    "string_content": {"roles": _Setting("applied", "requests with a message of role {} whose content is no string")},
    "content_parts": {
        "allowed": _Setting("accepted", "requests with a content part of type {}"),
        "by_role": _Setting("by role", "requests with a content part of type {}"),
    },
    "tool_results": {"known_call": _Setting("flag", "requests with a tool result for a call that no message made")},
    "tools": {
        "types": _Setting("accepted", "requests with a tool of type {}"),
        "name_pattern": _Setting("pattern", "requests with a tool name"),
        "forbidden_names": _Setting("applied", "requests with a tool named {}"),
        "unique": _Setting("flag", "requests with two tools of one name"),
    },
    "message_tools": {
        "roles": _Setting("accepted", "requests with tools in a message of role {}"),
        "empty_content": _Setting("flag", "requests with tools in a message that has content"),
        "types": _Setting("accepted", "requests with a tool of type {} in a message"),
        "name_pattern": _Setting("pattern", "requests with a tool name in a message"),
        "unique": _Setting("flag", "requests with two tools of one name, in messages or not"),
    },
    "tool_choice": {
        "allowed": _Setting("accepted", "requests with tool_choice {}"),
        "requires_tools": _Setting("applied", "requests with tool_choice {} and no tools"),
        "known": _Setting("flag", "requests whose tool_choice names a function that is not among the tools"),
        "drop_without_tools": _Setting("edit", "tool_choice of a request without tools"),
    },
    "response_format": {
        "types": _Setting("accepted", "requests with response_format.type {}"),
        "named_schema": _Setting("flag", "requests with a json_schema without a name or a schema"),
    },
    "images": {
        "sources": _Setting("accepted", "requests with an image given as {}"),
        "file_prefix": _Setting("prefix", "requests with an image file"),
        "max_bytes": _Setting("at most", "requests with an image of {} bytes"),
        "max_url_bytes": _Setting("at most", "requests with an image URL of {} bytes"),
        "max_data_urls": _Setting("at most", "requests whose images as data URLs number {}"),
        "max_total_bytes": _Setting("at most", "requests whose images as data URLs have {} bytes together"),
        "wrap_bare_url": _Setting("wrap", "an image_url that is a string"),
    },
    "prompt_contains": {
        "word": _Setting("word", "requests whose messages do not contain {}"),
        "when": _Setting("condition", "requests whose messages do not contain the word"),
    },
}

_NOTHING_REJECTED: Final[Mapping[str, Any]] = {
    "applied": (),
    "edit": False,
    "flag": False,
    "wrap": False,
    "condition": {},
}
"""The settings of a check that is not made."""


def compare_checks(before: Mapping[str, Check], after: Mapping[str, Check]) -> Iterator[Change]:
    """Yield what changes in the named checks, in their order."""
    for name in CHECKS:
        old, new = before.get(name), after.get(name)
        if old is not None and new is not None:
            yield from _changed(name, old, new)
        elif old is not None or new is not None:
            yield change(("checks", name), _written(old), _written(new), _made(name, old, new))


def _written(check: Check | None) -> Value:
    return None if check is None else check_of(check)


def _changed(name: str, old: Check, new: Check) -> Iterator[Change]:
    written = msgspec.to_builtins(old), msgspec.to_builtins(new)
    for key, setting in _SETTINGS.get(name, {}).items():
        shown = getattr(old, key) or None, getattr(new, key) or None
        if not same(getattr(old, key), getattr(new, key)):
            effect = _compared(setting, _value(old, key, setting), _value(new, key, setting))
            yield change(("checks", name, key), *shown, effect)
        elif (key in written[0]) != (key in written[1]):
            yield change(("checks", name, key), *shown, ConstraintEffect(f"{UNSEEN}: one side states the default"))
    if not same(error_of(old), error_of(new)):
        yield Change(("checks", name, "error"), error_of(old), error_of(new), OTHER_WORDS)
    if old.source != new.source:
        yield Change(("checks", name, "source"), old.source, new.source, EVIDENCE)


def _made(name: str, old: Check | None, new: Check | None) -> ConstraintEffect:
    """Describe what an added or removed check rejects."""
    effects = [rejection_of(_WHOLE[name], tightens=old is None)] if name in _WHOLE else []
    for key, setting in _SETTINGS.get(name, {}).items():
        values = [_value(check, key, setting) for check in (old, new)]
        if not same(*values) and setting.kind != "condition":
            effects.append(_compared(setting, *values))
    return combined(effects) if effects else ConstraintEffect(UNSEEN)


def _value(check: Check | None, key: str, setting: _Setting) -> Any:  # noqa: ANN401 - any value of a check
    """Return the value of a setting; if the check is not made, the value that rejects nothing."""
    if check is None:
        return _NOTHING_REJECTED.get(setting.kind)
    value = getattr(check, key)
    if setting.kind == "by role":
        return _TypesByRole(value, getattr(check, "allowed", ()))
    return None if setting.kind == "accepted" and not value else value


def _compared(setting: _Setting, old: Any, new: Any) -> ConstraintEffect:  # noqa: ANN401 - any value of a check
    return _COMPARISONS[setting.kind](old, new, setting.which)


def _phrase(which: str) -> Callable[[str], str]:
    """Return the phrase for requests with certain values; `of any role but user` for all values but some."""
    return lambda values: re.sub(r"\bof (role|type) anything but\b", r"of any \1 but", which.format(values))


def _some(old: tuple[str, ...] | None, new: tuple[str, ...] | None, which: str) -> ConstraintEffect:
    """Compare the values of which a request must contain one."""
    if old is None or new is None:
        return rejection_of(f"requests without a {which.format(listed(old or new or ()))}", tightens=old is None)

    def alone(values: str) -> str:
        return f"requests with a {which.format(values)} and none of the other roles asked for"

    return constraints.accepted(old, new, alone)


def _by_role(old: _TypesByRole | None, new: _TypesByRole | None, which: str) -> ConstraintEffect:
    """Compare the types that parts may have in the messages of single roles; None: of any type."""
    effects = []
    for role in sorted({*(old.by_role if old else ()), *(new.by_role if new else ())}):
        before, after = (None if each is None else each.of(role) for each in (old, new))
        if before != after:
            effects.append(constraints.accepted(before, after, _phrase(f"{which} in a message of role {role}")))
    return combined(effects) if effects else ConstraintEffect(UNSEEN)


def _edit(_: bool | None, new: bool | None, which: str) -> ConstraintEffect:
    """Compare a switch that, on, keeps something from the engine."""
    return ConstraintEffect(f"{which} will {'not ' if new else ''}reach the engine")


def _wrap(_: bool | None, new: bool | None, which: str) -> ConstraintEffect:
    """Compare a switch that, on, gives the engine another form of a value."""
    return ConstraintEffect(f"{which} will reach the engine {'as an object' if new else 'as it is sent'}")


def _prefix(old: str | None, new: str | None, which: str) -> ConstraintEffect:
    if old is not None and new is not None and not (old.startswith(new) or new.startswith(old)):
        begins = f"{which} that begins with {old}"
        return combined(
            [rejection_of(begins, tightens=True), rejection_of(f"{which} that begins with {new}", tightens=False)]
        )
    tightens = len(new or "") > len(old or "")
    longer = max(old or "", new or "", key=len)
    return rejection_of(f"{which} that does not begin with {longer}", tightens=tightens)


def _word(old: str | None, new: str | None, which: str) -> ConstraintEffect:
    if old is not None and new is not None:
        return combined(
            [
                rejection_of(which.format(text_of(new)), tightens=True),
                rejection_of(which.format(text_of(old)), tightens=False),
            ]
        )
    return rejection_of(which.format(text_of(old if new is None else new)), tightens=old is None)


def _condition(old: Mapping[str, Any], new: Mapping[str, Any], which: str) -> ConstraintEffect:
    """Compare when a check is made: a condition that more requests meet rejects more of them."""
    gone, gained = (constraints.demands({**these}, {**those}, str) for these, those in ((old, new), (new, old)))
    words = f"{which} will be checked under another condition"
    return ConstraintEffect(words, tightens=gained.tightens is True, loosens=gone.tightens is True)


_COMPARISONS: Final[Mapping[str, Callable[[Any, Any, str], ConstraintEffect]]] = {
    "accepted": lambda old, new, which: constraints.accepted(old, new, _phrase(which)),
    "some": _some,
    "applied": lambda old, new, which: constraints.applied(old, new, which.format),
    "at most": lambda old, new, which: constraints.at_most(old, new, which.format),
    "by role": _by_role,
    "edit": _edit,
    "wrap": _wrap,
    "flag": constraints.flag,
    "pattern": constraints.pattern,
    "prefix": _prefix,
    "word": _word,
    "condition": _condition,
}
