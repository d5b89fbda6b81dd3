"""Learn modes and cases: the requests to which other rules apply, and those rules."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

from compiler.probe.conversations import error_words
from compiler.probe.experiment import BaseRequest, ExperimentResult, Learner, ask_all, run_together
from compiler.probe.sections import LearnedSections, Scope, learn_sections
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
"""Accepted values that other rules would probably reject."""

_MARK: Final = "checks.messages"


Marks = tuple[tuple[str, str] | None, ...]
"""The verdicts and messages of some experiments; None where they cannot be determined."""


class LearnedModes(NamedTuple):
    """The sections `mode` and `cases` as a profile writes them, and what could not be determined."""

    mode: Fields
    cases: dict[str, Fields]
    learned: dict[str, LearnedSections]
    undetermined: tuple[str, ...] = ()


class _SwitchEffect(NamedTuple):
    """A switch, and its result in each indicator experiment; None where they cannot be determined."""

    switch: Switch
    marks: Marks


def learn_modes(base: BaseRequest, usual: LearnedSections, scope: Scope) -> Learner[LearnedModes]:
    """Learn which requests fall under other rules than the usual ones, and those rules."""
    indicators = _telling(usual.results)
    known = [switch for switch in SWITCHES if not _roots(switch.fields) & scope.unknown]
    plain = yield from ask_all(*(base.experiment(ABOUT, switch.fields) for switch in known))
    switches = [switch for switch, reply in zip(known, plain, strict=True) if reply.is_accepted]
    effects = yield from run_together({switch.said: _see(base, switch, indicators) for switch in switches})
    before = tuple(_mark(reply) for reply in indicators)
    others = [each for each in effects.values() if _differs(each.marks, before)]
    of_modes = [each for each in others if each.switch.mode is not None]
    if not of_modes:
        return (
            yield from _of_values(
                base, [each for each in others if each.switch.mode is None], before, indicators, scope
            )
        )
    groups = _grouped(of_modes)
    default = _OTHER_MODE.get(str(of_modes[0].switch.mode), "usual")
    mode: Fields = {"default": default}
    names = {name if name != default else f"{name} too": group for name, group in groups.items()}
    mode["match"] = yield from _readings(base, names, [*effects.values()], default, indicators)
    cases: dict[str, Fields] = {}
    learned: dict[str, LearnedSections] = {}
    for name, group in names.items():
        switch = group[0].switch
        apart = scope._replace(apart=_roots(switch.fields))
        turned = base.with_fields(switch.fields)
        changed = _differing(group[0].marks, before, indicators)
        changed |= yield from _changed(turned, usual.results, apart)
        narrowed = apart._replace(only=tuple(sorted(changed)))
        learned[name] = (yield from learn_sections(turned, narrowed)) if changed else LearnedSections({}, (), ())
        cases[name] = {"when": {"mode": name}}
    said = "; ".join(f"{', '.join(each.switch.said for each in group)}: other rules" for group in names.values())
    return LearnedModes({**mode, "source": said}, cases, learned)


def _differing(marks: Marks, before: Marks, indicators: Sequence[ExperimentResult]) -> set[str]:
    """Return the subjects of the indicator experiments that a switch changes."""
    return {
        reply.experiment.about
        for reply, one, other in zip(indicators, marks, before, strict=True)
        if None not in {one, other} and one != other
    }


def _changed(turned: BaseRequest, usual: Sequence[ExperimentResult], scope: Scope) -> Learner[set[str]]:
    """Return the subjects whose results differ under a switch; a sample of each rule's experiments is repeated."""
    chosen: list[ExperimentResult] = []
    by_about: dict[str, list[ExperimentResult]] = {}
    for reply in usual:
        if reply.is_conclusive and not scope.apart & _roots(reply.experiment.changes):
            by_about.setdefault(reply.experiment.about, []).append(reply)
    for results in by_about.values():
        rejected = list({error_words(reply): reply for reply in results if reply.is_rejected}.values())
        accepted = [reply for reply in results if reply.is_accepted]
        if rejected:
            # If everything is accepted, the sample has the extremes; if something is rejected, the values at the edges.
            chosen += [*_spread(rejected), *_spread(accepted)]
        else:
            chosen += accepted[:2]
    again = yield from ask_all(*(turned.on_base(reply.experiment) for reply in chosen))
    return {
        reply.experiment.about
        for reply, other in zip(chosen, again, strict=True)
        if other.is_conclusive and _mark(reply) != _mark(other)
    }


def _spread(results: list[ExperimentResult]) -> list[ExperimentResult]:
    """Return the first, the middle and the last."""
    return [results[place] for place in sorted({0, len(results) // 2, len(results) - 1})] if results else []


def _telling(results: Sequence[ExperimentResult]) -> list[ExperimentResult]:
    """Return results that other rules would change: a rejection of each kind, and values that are often rejected."""
    chosen: list[ExperimentResult] = []
    kinds: set[str] = set()
    for reply in results:
        about = reply.experiment.about
        kind = f"{about}: {error_words(reply)}" if about == _MARK else about
        if reply.is_rejected and kind not in kinds:
            kinds.add(kind)
            chosen.append(reply)
    for path, values in _ACCEPTED_TOO.items():
        for value in values:
            found = [each for each in results if each.is_accepted and at(each.experiment.changes, path) == value]
            chosen += [each for each in found if each.experiment.about.endswith(path)][:1]
    chosen += [each for each in results if each.is_accepted and _calls_thoughtlessly(each)][:1]
    return chosen


def _calls_thoughtlessly(reply: ExperimentResult) -> bool:
    messages = reply.experiment.changes.get("messages")
    return reply.experiment.about == _MARK and any(
        message.get("tool_calls") and "reasoning_content" not in message for message in messages or ()
    )


def _mark(reply: ExperimentResult) -> tuple[str, str] | None:
    if not reply.is_conclusive:
        return None
    return reply.kind, error_words(reply) if reply.is_rejected else ""


def _see(base: BaseRequest, switch: Switch, indicators: Sequence[ExperimentResult]) -> Learner[_SwitchEffect]:
    """Run the indicator experiments with a switch set in the base request."""
    turned, roots = base.with_fields(switch.fields), _roots(switch.fields)
    apart = [bool(roots & _roots(reply.experiment.changes)) for reply in indicators]
    asked_of = [reply.experiment for reply, is_apart in zip(indicators, apart, strict=True) if not is_apart]
    results = iter((yield from ask_all(*map(turned.on_base, asked_of))))
    return _SwitchEffect(switch, tuple(None if is_apart else _mark(next(results)) for is_apart in apart))


def _roots(fields: Fields) -> frozenset[str]:
    return frozenset(path.partition(".")[0] for path in fields)


def _differs(marks: Marks, before: Marks) -> bool:
    return any(one != other for one, other in zip(marks, before, strict=True) if None not in {one, other})


def _grouped(effects: Sequence[_SwitchEffect]) -> dict[str, list[_SwitchEffect]]:
    """Return the switches that have the same effect together, each group by the name of its mode."""
    groups: dict[str, list[_SwitchEffect]] = {}
    for each in effects:
        alike = next((group for group in groups.values() if not _differs(group[0].marks, each.marks)), None)
        if alike is not None:
            alike.append(each)
            continue
        name = str(each.switch.mode)
        groups[name if name not in groups else f"{name} {len(groups) + 1}"] = [each]
    return groups


def _readings(
    base: BaseRequest,
    groups: dict[str, list[_SwitchEffect]],
    effects: list[_SwitchEffect],
    default: str,
    indicators: list[ExperimentResult],
) -> Learner[list[Fields]]:
    """Return how the mode is read, in the order in which one switch prevails over another."""
    of_mode = {each.switch.said: name for name, group in groups.items() for each in group}
    readers = [each for each in effects if each.switch.mode is not None]
    pairs = [
        (one, other, place)
        for one, other in combinations(readers, 2)
        if of_mode.get(one.switch.said) != of_mode.get(other.switch.said)
        if (place := _distinguishing_index(one, other, indicators)) is not None
    ]
    results = yield from ask_all(
        *(
            base.with_fields({**one.switch.fields, **other.switch.fields}).on_base(indicators[place].experiment)
            for one, other, place in pairs
        )
    )
    before: dict[str, set[str]] = {each.switch.said: set() for each in readers}
    for (one, other, place), reply in zip(pairs, results, strict=True):
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


def _distinguishing_index(one: _SwitchEffect, other: _SwitchEffect, indicators: list[ExperimentResult]) -> int | None:
    """Return the index of an experiment with different results under two switches; None if both cannot be set."""
    if {*one.switch.fields} & {*other.switch.fields}:
        return None
    roots = _roots({**one.switch.fields, **other.switch.fields})
    for place, reply in enumerate(indicators):
        marks = {one.marks[place], other.marks[place]}
        if len(marks) > 1 and None not in marks and not roots & _roots(reply.experiment.changes):
            return place
    return None


def _sorted(effects: list[_SwitchEffect], before: dict[str, set[str]]) -> list[_SwitchEffect]:
    """Return the switches in an order in which each follows those that prevail over it."""
    left, result = list(effects), []
    while left:
        names = {each.switch.said for each in left}
        first = next((each for each in left if not before[each.switch.said] & names), left[0])
        left.remove(first)
        result.append(first)
    return result


def _of_values(
    base: BaseRequest, others: list[_SwitchEffect], before: Marks, indicators: list[ExperimentResult], scope: Scope
) -> Learner[LearnedModes]:
    """Learn the changes by a single value of a field: the observed ones only."""
    cases: dict[str, Fields] = {}
    learned: dict[str, LearnedSections] = {}
    for each in others:
        changed = _differing(each.marks, before, indicators)
        ((path, value),) = each.switch.fields.items()
        name = f"{path}-{value}"
        narrowed = scope._replace(only=tuple(sorted(changed)), apart=_roots(each.switch.fields))
        learned[name] = yield from learn_sections(base.with_fields(each.switch.fields), narrowed)
        cases[name] = {"when": {"fields": {path: value}}}
    return LearnedModes({}, cases, learned)
