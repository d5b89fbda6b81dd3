"""Compare how responses and rejections are worded, and how unknown fields are treated."""

from collections.abc import Iterator
from typing import Final

import msgspec

from compiler.artifact.to_profile import error_of, words_of
from compiler.diff.change import EVIDENCE, UNSEEN, Change, ConstraintEffect, change, rejection_and_acceptance
from compiler.diff.fields import OTHER_WORDS, listed_words
from compiler.diff.values import Value, listed, same, same_body, text_of
from router.contract.protocols import INVALID_REQUEST
from router.contract.schema.rule_list import Rule, UnknownFieldsRule
from router.contract.schema.sections import Errors, Stream, UnknownFields, UnknownMembers
from router.contract.schema.types import ErrorText

_POLICIES: Final = {"pass": "reach the engine", "drop": "not reach the engine", "reject": "be rejected"}
_USAGE: Final = {
    "as_asked": "report their usage as the engine does, when a client asks",
    "end_frame": "carry their usage in the frame that ends the response, unless a client asks for none",
    "tail_frame": "carry their usage in a frame of its own, unless a client asks for none",
}
_SHORT: Final = ("status", "type", "code", "param")


def compare_unknown_fields(
    before: UnknownFields, after: UnknownFields, rules: tuple[tuple[Rule, ...], tuple[Rule, ...]]
) -> Iterator[Change]:
    """Yield the changes for unknown fields; `rules` are those of both contracts, as a governed field is known."""
    at = ("unknown_fields",)
    if before.policy != after.policy:
        words = f"fields that are not known will {_POLICIES[after.policy]} instead of being {_was(before)}"
        effect = ConstraintEffect(words, tightens=after.policy == "reject", loosens=before.policy == "reject")
        yield change((*at, "policy"), before.policy, after.policy, effect)
    old, new = (_known(side, "") for side in rules)
    gone, gained = sorted(old - new), sorted(new - old)
    same_policy = before.policy == after.policy
    effect = (
        _known_fields_effect(after.policy, gone, gained) if same_policy else ConstraintEffect(f"{UNSEEN} by it alone")
    )
    if before.known != after.known:
        yield change((*at, "known"), before.known, after.known, effect)
    elif same_policy and (gone or gained):
        yield change(at, tuple(gone) or None, tuple(gained) or None, effect)
    if not same(error_of(before), error_of(after)):
        yield Change((*at, "error"), error_of(before), error_of(after), OTHER_WORDS)
    if before.source != after.source:
        yield Change((*at, "source"), before.source, after.source, EVIDENCE)
    for path in sorted(before.within.keys() | after.within.keys()):
        yield from _unknown_members(path, before.within.get(path), after.within.get(path), rules)


def _unknown_members(
    path: str,
    before: UnknownMembers | None,
    after: UnknownMembers | None,
    rules: tuple[tuple[Rule, ...], tuple[Rule, ...]],
) -> Iterator[Change]:
    """Yield the changes for unknown members of the object at a path."""
    at = ("unknown_fields", "within", path)
    old, new = (_PASSED if side is None else UnknownFields(**msgspec.structs.asdict(side)) for side in (before, after))
    if old.policy != new.policy:
        words = f"members of {path} that are not known will {_POLICIES[new.policy]} instead of being {_was(old)}"
        effect = ConstraintEffect(words, tightens=new.policy == "reject", loosens=old.policy == "reject")
        is_whole = before is None or after is None
        if is_whole:
            yield change(at, _members_shown(before), _members_shown(after), effect)
            return
        yield change((*at, "policy"), old.policy, new.policy, effect)
    known = [{f"{path}.{name}" for name in _known(side, path)} for side in rules]
    gone, gained = sorted(known[0] - known[1]), sorted(known[1] - known[0])
    same_policy = old.policy == new.policy
    effect = (
        _known_fields_effect(new.policy, gone, gained) if same_policy else ConstraintEffect(f"{UNSEEN} by it alone")
    )
    if old.known != new.known:
        yield change((*at, "known"), old.known, new.known, effect)
    elif same_policy and (gone or gained):
        yield change(at, tuple(gone) or None, tuple(gained) or None, effect)
    if not same(error_of(old), error_of(new)):
        yield Change((*at, "error"), error_of(old), error_of(new), OTHER_WORDS)
    if old.source != new.source:
        yield Change((*at, "source"), old.source, new.source, EVIDENCE)


def _members_shown(side: UnknownMembers | None) -> Value:
    return None if side is None else {"policy": side.policy, "known": list(side.known)}


_PASSED: Final = UnknownFields()


def _was(section: UnknownFields) -> str:
    return {"pass": "passed on", "drop": "dropped", "reject": "rejected"}[section.policy]


def _known(rules: tuple[Rule, ...], path: str) -> set[str]:
    of_path = (rule for rule in rules if isinstance(rule, UnknownFieldsRule) and rule.path == path)
    return {name for rule in of_path for name in rule.known}


def _known_fields_effect(policy: str, gone: list[str], gained: list[str]) -> ConstraintEffect:
    if policy == "reject":
        sending = "requests sending {}"
        return rejection_and_acceptance(
            sending.format(listed(gone)) if gone else "", sending.format(listed(gained)) if gained else ""
        )
    if policy == "pass" or not (gone or gained):
        return ConstraintEffect(
            f"{UNSEEN}: fields that are not known {'pass too' if policy == 'pass' else 'are the same'}"
        )
    parts = [f"{listed(gone, 'and')} will not reach the engine"] if gone else []
    parts += [f"{listed(gained, 'and')} will reach the engine"] if gained else []
    return ConstraintEffect("; ".join(parts))


def compare_stream(before: Stream, after: Stream) -> Iterator[Change]:
    """Yield what changes in streamed responses."""
    if before.usage != after.usage:
        yield Change(
            ("response", "stream", "usage"), before.usage, after.usage, f"streamed responses will {_USAGE[after.usage]}"
        )
    if before.source != after.source:
        yield Change(("response", "stream", "source"), before.source, after.source, EVIDENCE)


def compare_errors(before: Errors, after: Errors) -> Iterator[Change]:
    """Yield what changes in the error texts of rejections."""
    old, new = before.bad_request_type, after.bad_request_type
    if old != new:
        yield Change(("errors", "bad_request_type"), old, new, _retyped(old, new))
    if not same_body(before.body, after.body):
        which = "have the router's own envelope" if after.body is None else "have another envelope"
        if same(before.body, after.body):
            which = "have the members of its envelope in another order"
        yield Change(("errors", "body"), before.body, after.body, f"every error of the router will {which}")
    if before.omit_null != after.omit_null:
        words = f"members of an error that are null will be {'left out' if after.omit_null else 'present'}"
        yield Change(("errors", "omit_null"), before.omit_null, after.omit_null, words)
    for code in sorted(before.codes.keys() | after.codes.keys()):
        yield from _answer(code, before.codes.get(code), after.codes.get(code))
    if not same(before.engine_400, after.engine_400):
        words = "be worded differently and in the envelope" if after.engine_400 else "pass as the engine words it"
        shown = _shown(before.engine_400), _shown(after.engine_400)
        yield Change(("errors", "engine_400"), *shown, f"an engine's 400 will {words}")
    if before.source != after.source:
        yield Change(("errors", "source"), before.source, after.source, EVIDENCE)


def compare_order(before: tuple[str, ...], after: tuple[str, ...]) -> Iterator[Change]:
    """Yield what changes in the order of evaluation."""
    if before != after:
        words = "the error for a request that several rules reject may come from another one of them"
        yield Change(("order",), before, after, words)


def _answer(code: str, old: ErrorText | None, new: ErrorText | None) -> Iterator[Change]:
    if same(old, new):
        return
    was, now = old or ErrorText(), new or ErrorText()
    short = [
        f"{name} {'of their own' if getattr(now, name) is None else text_of(getattr(now, name))}"
        for name in _SHORT
        if not same(getattr(was, name), getattr(now, name))
    ]
    long = [] if same(was.message, now.message) else ["another message"]
    long += [] if same_body(was.body, now.body) else ["another body"]
    who = "400s that have no words of their own" if code == "bad_request" else f"responses of code {code}"
    words = f"{who} will have {listed_words([*short, *long])}" if short or long else UNSEEN
    yield Change(("errors", "codes", code), _shown(old), _shown(new), words)


def _shown(text: ErrorText | None) -> Value:
    return None if text is None else words_of(text)


def _retyped(before: str | None, after: str | None) -> str:
    """Name the origin of the 400s that change; the router's own have type invalid_request_error by default."""
    own_too = (before or INVALID_REQUEST) != (after or INVALID_REQUEST)
    whose = (
        "400s on the chat route, the router's and the engine's," if own_too else "an engine's 400s on the chat route"
    )
    kind = f"type {text_of(after)}" if after is not None else "their own type"
    was = "their own" if before is None else text_of(before)
    return f"{whose} will carry {kind} instead of {was}"
