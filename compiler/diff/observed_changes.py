"""Requests with different results → changes, one for each setting that causes them and each case."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

from compiler.diff.change import Change
from compiler.diff.client_visible import Setting, changes_of, own_words, setting_of, stated, subject_of, words_for_all
from compiler.diff.fields import listed_words
from compiler.diff.models import answered_no_longer, default_model, newly_answered
from compiler.diff.observe import Difference, Observation
from compiler.diff.values import text_of
from compiler.diff.wording import differing_members, error_differences, sentence_of

_MODELS: Final = "models"
_EVERY_REQUEST: Final = frozenset({"request", "models", "limits.max_body_bytes"})
"""Steps that are passed before a case is known."""

_DEFAULT_MODEL: Final = ("models", "default")
_NAME_ANSWERED: Final = ("models", "respond_as")

_ORDER_OF_SECTIONS: Final = (
    "models", "limits", "output", "sampling", "fields", "checks", "unknown_fields", "errors", "order",
)  # fmt: skip


class _DifferenceGroup(NamedTuple):
    """Requests with different results because of one setting, in one case."""

    setting: Setting
    case: str | None
    found: list[Difference]


class _ScopedChange(NamedTuple):
    """A change, its case (None: all requests), and a description of the requests if the case is not one."""

    case: str | None
    whose: str
    change: Change


def observed_changes(observation: Observation) -> tuple[Change, ...]:
    """Return what clients see of a change from one contract to another, in the order of the profile language."""
    differences = observation.differences
    plain = [each for each in differences if not _is_about_two_rules(each)]
    groups = _grouped((_setting(each), each) for each in plain)
    explained = {subject for each in plain for subject in _subjects(each)}
    left = [each for each in differences if _is_about_two_rules(each) and not _subjects(each) & explained]
    groups += _grouped((_setting_of_two(each), each) for each in left)
    return tuple(sorted(_merged(_placed(group, observation) for group in groups), key=_place))


def _is_about_two_rules(difference: Difference) -> bool:
    """Return whether a request is rejected by both contracts, for another reason."""
    old, new = difference.old.rule, difference.new.rule
    return old is not None and new is not None and subject_of(old) != subject_of(new)


def _subjects(difference: Difference) -> set[Setting]:
    return {
        subject_of(observation.rule) for observation in (difference.old, difference.new) if observation.rule is not None
    }


def _setting(difference: Difference) -> Setting:
    """Return the setting that causes the difference: the rule that rejects, or its error texts."""
    old, new = difference.old, difference.new
    rule = new.rule or old.rule
    if rule is None:
        return _NAME_ANSWERED
    setting = setting_of(rule)
    if old.rule is None or new.rule is None:
        named = ("models", "aliases", difference.model) if difference.model else _DEFAULT_MODEL
        return named if rule == _MODELS else setting
    if own_words(old, setting_of(old.rule)) != own_words(new, setting):
        return (*setting, "error")
    is_told_otherwise = rule in _EVERY_REQUEST or words_for_all(old.sections) != words_for_all(new.sections)
    return ("errors",) if is_told_otherwise else setting


def _setting_of_two(difference: Difference) -> Setting:
    old, new = difference.old, difference.new
    return ("order",) if old.sections.order != new.sections.order else setting_of(new.rule or "")


def _grouped(found: Iterable[tuple[Setting, Difference]]) -> list[_DifferenceGroup]:
    groups: dict[Any, _DifferenceGroup] = {}
    for setting, difference in found:
        old, new = difference.old, difference.new
        case = None if setting[0] in {"models", "errors"} or setting[-1] == "max_body_bytes" else new.case or old.case
        errors = tuple(error_differences(difference)) if setting == ("errors",) else ()
        key = (setting, case, *(() if case is None else (old.case, new.case)), errors)
        groups.setdefault(key, _DifferenceGroup(setting, case, [])).found.append(difference)
    return list(groups.values())


def _change(group: _DifferenceGroup) -> Change:
    """Return one change for a group of requests, described in the setting's own terms if they show exactly that."""
    setting, (old, new) = group.setting, group.found[0][2:]
    tightens = any(each.old.rule is None and each.new.rule is not None for each in group.found)
    loosens = any(each.old.rule is not None and each.new.rule is None for each in group.found)
    if setting[:2] == ("models", "aliases"):
        return newly_answered(setting[-1]) if loosens else answered_no_longer(setting[-1])
    if setting == _DEFAULT_MODEL:
        before, after = (None if each.rule is not None else json.loads(each.response_text) for each in (old, new))
        return default_model(before, after)
    if setting == _NAME_ANSWERED:
        return Change(setting, json.loads(old.response_text), json.loads(new.response_text), sentence_of(group.found))
    if setting == ("errors",):
        return Change(setting, *differing_members(group.found[0]), sentence_of(group.found))
    if setting[-1] == "error":
        values = own_words(old, setting[:-1]), own_words(new, setting[:-1])
        return Change(setting, *values, sentence_of(group.found))
    if tightens or loosens:
        known = list(changes_of(old.sections, new.sections, setting))
        if len(known) == 1 and (known[0].tightens, known[0].loosens) == (tightens, loosens):
            return known[0]
    return Change(setting, stated(old, setting), stated(new, setting), sentence_of(group.found), tightens, loosens)


def _placed(group: _DifferenceGroup, observation: Observation) -> _ScopedChange:
    old, new = (each.case for each in group.found[0][2:])
    names = {each.model for each in group.found} if group.setting[0] != "models" else set()
    whose = [f"naming {text_of(name)}" for name in names if len(names) == 1 and name in observation.aliases]
    if group.case is not None and old != new and {old, new} <= {None, *observation.cases}:
        whose.append(f"that come under {_case(new)} instead of {_case(old)}")
    return _ScopedChange(group.case, ", ".join(whose), _change(group))


def _case(name: str | None) -> str:
    return "no case" if name is None else f"case {text_of(name)}"


def _merged(found: Iterable[_ScopedChange]) -> Iterator[Change]:
    """Yield each change once, with the cases that it is a change of, too."""
    alike: dict[str, list[_ScopedChange]] = {}
    for placed in found:
        change = placed.change
        key = repr((change.at, change.before, change.after, change.tightens, change.loosens))
        alike.setdefault(key, []).append(placed)
    return map(_as_one, alike.values())


def _as_one(alike: list[_ScopedChange]) -> Change:
    """Return changes that differ only in the case as one; if one is for all requests, the result is too."""
    base = [placed.change for placed in alike if placed.case is None]
    cases = list(dict.fromkeys(placed.case for placed in alike if placed.case is not None))
    change = base[0] if base else alike[0].change
    others = [text_of(case) for case in cases[not base :]]
    words = [change.consequence]
    if len({placed.whose for placed in alike}) == 1 and alike[0].whose:
        words.append(f"of requests {alike[0].whose}")
    if others:
        words.append(f"the same in case{'s' if len(others) > 1 else ''} {listed_words(others)}")
    at = change.at if base else ("cases", cases[0], *change.at)
    return replace(change, at=at, consequence="; ".join(words))


def _place(change: Change) -> tuple[bool, int]:
    is_of_case = change.at[0] == "cases"
    section = change.at[2] if is_of_case else change.at[0]
    return is_of_case, _ORDER_OF_SECTIONS.index(section) if section in _ORDER_OF_SECTIONS else -1
