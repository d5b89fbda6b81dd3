"""Other rules for other requests: what brings them about, and what holds there."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

from compiler.probe.conversations import words_of
from compiler.probe.experiment import Base, Learning, Reply, asked, together
from compiler.probe.sections import Scope, Sections, learn_sections
from compiler.probe.seed_corpus import SWITCHES, Switch
from compiler.verify.check import Fields
from compiler.verify.oracle.values import at

ABOUT: Final = "mode"

_OTHER_MODE: Final = {"thinking": "non-thinking", "non-thinking": "thinking", "greedy": "sampling"}
_ACCEPTED_TOO: Final[dict[str, tuple[Any, ...]]] = {
    "temperature": (0, 0.37, 0.6, 1),
    "top_p": (0.5, 0.95),
    "tool_choice": ("required", {"type": "function", "function": {"name": "look"}}),
    "response_format": ({"type": "json_object"},),
    "reasoning_effort": ("none", "high"),
}
"""Accepted values that other rules would be likely to refuse."""

_MARK: Final = "checks.messages"


Marks = tuple[tuple[str, str] | None, ...]
"""What came of each of some questions: the verdict and the words; None where it cannot be told."""


class Situations(NamedTuple):
    """The sections `mode` and `cases` as a profile writes them, and what could not be told."""

    mode: Fields
    cases: dict[str, Fields]
    learnt: dict[str, Sections]
    untold: tuple[str, ...] = ()


class _Seen(NamedTuple):
    """A switch, and what it made of each of the telling questions: None where it cannot be told."""

    switch: Switch
    marks: Marks


def learn_situations(base: Base, usual: Sections, scope: Scope) -> Learning[Situations]:
    """Learn what brings requests under other rules than usual, and these."""
    telling = _telling(usual.replies)
    known = [switch for switch in SWITCHES if not _roots(switch.fields) & scope.unknown]
    plain = yield from asked(*(base.question(ABOUT, switch.fields) for switch in known))
    switches = [switch for switch, reply in zip(known, plain, strict=True) if reply.is_accepted]
    seen = yield from together({switch.said: _see(base, switch, telling) for switch in switches})
    before = tuple(_mark(reply) for reply in telling)
    others = [each for each in seen.values() if _differs(each.marks, before)]
    of_modes = [each for each in others if each.switch.mode is not None]
    if not of_modes:
        return (
            yield from _of_values(base, [each for each in others if each.switch.mode is None], before, telling, scope)
        )
    groups = _grouped(of_modes)
    default = _OTHER_MODE.get(str(of_modes[0].switch.mode), "usual")
    mode: Fields = {"default": default}
    names = {name if name != default else f"{name} too": group for name, group in groups.items()}
    mode["match"] = yield from _readings(base, names, [*seen.values()], default, telling)
    cases: dict[str, Fields] = {}
    learnt: dict[str, Sections] = {}
    for name, group in names.items():
        switch = group[0].switch
        apart = scope._replace(apart=_roots(switch.fields))
        turned = base.switched(switch.fields)
        changed = _differing(group[0].marks, before, telling)
        changed |= yield from _changed(turned, usual.replies, apart)
        narrowed = apart._replace(only=tuple(sorted(changed)))
        learnt[name] = (yield from learn_sections(turned, narrowed)) if changed else Sections({}, (), ())
        cases[name] = {"when": {"mode": name}}
    said = "; ".join(f"{', '.join(each.switch.said for each in group)}: other rules" for group in names.values())
    return Situations({**mode, "source": said}, cases, learnt)


def _differing(marks: Marks, before: Marks, telling: Sequence[Reply]) -> set[str]:
    """Return what the telling questions that a switch changes are about."""
    return {
        reply.question.about
        for reply, one, other in zip(telling, marks, before, strict=True)
        if None not in {one, other} and one != other
    }


def _changed(turned: Base, usual: Sequence[Reply], scope: Scope) -> Learning[set[str]]:
    """Return what is answered otherwise under a switch: of each rule, some of what was asked is asked again."""
    chosen: list[Reply] = []
    by_about: dict[str, list[Reply]] = {}
    for reply in usual:
        if reply.is_told and not scope.apart & _roots(reply.question.changes):
            by_about.setdefault(reply.question.about, []).append(reply)
    for replies in by_about.values():
        refused = list({words_of(reply): reply for reply in replies if reply.is_refused}.values())
        accepted = [reply for reply in replies if reply.is_accepted]
        if refused:
            # Where everything is accepted, the extremes are; where something is refused, what stands at the edge.
            chosen += [*_spread(refused), *_spread(accepted)]
        else:
            chosen += accepted[:2]
    again = yield from asked(*(turned.moved(reply.question) for reply in chosen))
    return {
        reply.question.about
        for reply, other in zip(chosen, again, strict=True)
        if other.is_told and _mark(reply) != _mark(other)
    }


def _spread(replies: list[Reply]) -> list[Reply]:
    """Return the first, the middle and the last."""
    return [replies[place] for place in sorted({0, len(replies) // 2, len(replies) - 1})] if replies else []


def _telling(replies: Sequence[Reply]) -> list[Reply]:
    """Return replies that other rules would change: a refusal of each kind, and what is accepted and often is not."""
    chosen: list[Reply] = []
    kinds: set[str] = set()
    for reply in replies:
        about = reply.question.about
        kind = f"{about}: {words_of(reply)}" if about == _MARK else about
        if reply.is_refused and kind not in kinds:
            kinds.add(kind)
            chosen.append(reply)
    for path, values in _ACCEPTED_TOO.items():
        for value in values:
            found = [each for each in replies if each.is_accepted and at(each.question.changes, path) == value]
            chosen += [each for each in found if each.question.about.endswith(path)][:1]
    chosen += [each for each in replies if each.is_accepted and _calls_thoughtlessly(each)][:1]
    return chosen


def _calls_thoughtlessly(reply: Reply) -> bool:
    messages = reply.question.changes.get("messages")
    return reply.question.about == _MARK and any(
        message.get("tool_calls") and "reasoning_content" not in message for message in messages or ()
    )


def _mark(reply: Reply) -> tuple[str, str] | None:
    if not reply.is_told:
        return None
    return reply.verdict, words_of(reply) if reply.is_refused else ""


def _see(base: Base, switch: Switch, telling: Sequence[Reply]) -> Learning[_Seen]:
    """Ask the telling questions of a base in which a switch is turned."""
    turned, roots = base.switched(switch.fields), _roots(switch.fields)
    apart = [bool(roots & _roots(reply.question.changes)) for reply in telling]
    asked_of = [reply.question for reply, is_apart in zip(telling, apart, strict=True) if not is_apart]
    replies = iter((yield from asked(*map(turned.moved, asked_of))))
    return _Seen(switch, tuple(None if is_apart else _mark(next(replies)) for is_apart in apart))


def _roots(fields: Fields) -> frozenset[str]:
    return frozenset(path.partition(".")[0] for path in fields)


def _differs(marks: Marks, before: Marks) -> bool:
    return any(one != other for one, other in zip(marks, before, strict=True) if None not in {one, other})


def _grouped(seen: Sequence[_Seen]) -> dict[str, list[_Seen]]:
    """Return the switches that have the same effect together, each group by the name of its mode."""
    groups: dict[str, list[_Seen]] = {}
    for each in seen:
        alike = next((group for group in groups.values() if not _differs(group[0].marks, each.marks)), None)
        if alike is not None:
            alike.append(each)
            continue
        name = str(each.switch.mode)
        groups[name if name not in groups else f"{name} {len(groups) + 1}"] = [each]
    return groups


def _readings(
    base: Base, groups: dict[str, list[_Seen]], seen: list[_Seen], default: str, telling: list[Reply]
) -> Learning[list[Fields]]:
    """Return how the mode is read, in the order in which one switch prevails over another."""
    of_mode = {each.switch.said: name for name, group in groups.items() for each in group}
    readers = [each for each in seen if each.switch.mode is not None]
    pairs = [
        (one, other, place)
        for one, other in combinations(readers, 2)
        if of_mode.get(one.switch.said) != of_mode.get(other.switch.said)
        if (place := _telling_apart(one, other, telling)) is not None
    ]
    replies = yield from asked(
        *(
            base.switched({**one.switch.fields, **other.switch.fields}).moved(telling[place].question)
            for one, other, place in pairs
        )
    )
    before: dict[str, set[str]] = {each.switch.said: set() for each in readers}
    for (one, other, place), reply in zip(pairs, replies, strict=True):
        if _mark(reply) == one.marks[place]:
            before[other.switch.said].add(one.switch.said)
        elif _mark(reply) == other.marks[place]:
            before[one.switch.said].add(other.switch.said)
    prevailing = {name for names in before.values() for name in names}
    kept = [each for each in readers if each.switch.said in of_mode or each.switch.said in prevailing]
    return [
        {"mode": of_mode.get(each.switch.said, default), "when": dict(each.switch.fields)}
        for each in _sorted(kept, before)
    ]


def _telling_apart(one: _Seen, other: _Seen, telling: list[Reply]) -> int | None:
    """Return the place of a question that two switches answer differently; None where both cannot be turned."""
    if {*one.switch.fields} & {*other.switch.fields}:
        return None
    roots = _roots({**one.switch.fields, **other.switch.fields})
    for place, reply in enumerate(telling):
        marks = {one.marks[place], other.marks[place]}
        if len(marks) > 1 and None not in marks and not roots & _roots(reply.question.changes):
            return place
    return None


def _sorted(seen: list[_Seen], before: dict[str, set[str]]) -> list[_Seen]:
    """Return switches such that each stands behind those that prevail over it, and else as they stand."""
    left, result = list(seen), []
    while left:
        names = {each.switch.said for each in left}
        first = next((each for each in left if not before[each.switch.said] & names), left[0])
        left.remove(first)
        result.append(first)
    return result


def _of_values(
    base: Base, others: list[_Seen], before: Marks, telling: list[Reply], scope: Scope
) -> Learning[Situations]:
    """Learn what a single value of a field changes: what was seen to be otherwise, and no more."""
    cases: dict[str, Fields] = {}
    learnt: dict[str, Sections] = {}
    for each in others:
        changed = _differing(each.marks, before, telling)
        ((path, value),) = each.switch.fields.items()
        name = f"{path}-{value}"
        narrowed = scope._replace(only=tuple(sorted(changed)), apart=_roots(each.switch.fields))
        learnt[name] = yield from learn_sections(base.switched(each.switch.fields), narrowed)
        cases[name] = {"when": {"fields": {path: value}}}
    return Situations({}, cases, learnt)
