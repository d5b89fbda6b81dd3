"""Requests that fare otherwise → changes, each told once: by the setting that answers, and the case."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

from compiler.comparison.change import Change
from compiler.comparison.fields import listed_words
from compiler.comparison.naming import answered_no_longer, newly_answered
from compiler.comparison.observation import Difference, Observation
from compiler.comparison.values import Value, text_of
from compiler.comparison.visible import Setting, changes_of, own_words, setting_of, stated, subject_of, words_for_all

_MODELS: Final = "models"
_EVERY_REQUEST: Final = frozenset({"request", "models", "limits.max_body_bytes"})
"""Steps that are passed before a case is known."""

_NAME_ANSWERED: Final = ("models", "answer_as")

_MOST_SHOWN: Final = 3
"""Requests that a sentence names; more are counted. Of members that come or go, more are another shape."""

_ORDER_OF_SECTIONS: Final = (
    "models", "limits", "output", "sampling", "fields", "checks", "unknown_fields", "errors", "order",
)  # fmt: skip


class _Group(NamedTuple):
    """Requests that fare otherwise by one setting, in one case."""

    setting: Setting
    case: str | None
    found: list[Difference]


def changes_seen(seen: Observation) -> tuple[Change, ...]:
    """Return what clients see of a change from one contract to another, in the order of the profile language."""
    differences = seen.differences
    plain = [each for each in differences if not _is_about_two_rules(each)]
    groups = _grouped((_setting(each), each) for each in plain)
    explained = {subject for each in plain for subject in _subjects(each)}
    left = [each for each in differences if _is_about_two_rules(each) and not _subjects(each) & explained]
    groups += _grouped((_setting_of_two(each), each) for each in left)
    changes = _merged((group.case, _located(_change(group), group, seen)) for group in groups)
    return tuple(sorted(changes, key=_place))


def _is_about_two_rules(difference: Difference) -> bool:
    """Tell whether a request is refused by both contracts, for another reason."""
    old, new = difference.old.rule, difference.new.rule
    return old is not None and new is not None and subject_of(old) != subject_of(new)


def _subjects(difference: Difference) -> set[Setting]:
    return {subject_of(seen.rule) for seen in (difference.old, difference.new) if seen.rule is not None}


def _setting(difference: Difference) -> Setting:
    """Return the setting by which a request fares otherwise: what refuses it, or how that is told."""
    old, new = difference.old, difference.new
    rule = new.rule or old.rule
    if rule is None:
        return _NAME_ANSWERED
    setting = setting_of(rule)
    if old.rule is None or new.rule is None:
        return ("models", "aliases", difference.model) if rule == _MODELS else setting
    if own_words(old, setting_of(old.rule)) != own_words(new, setting):
        return (*setting, "error")
    is_told_otherwise = rule in _EVERY_REQUEST or words_for_all(old.sections) != words_for_all(new.sections)
    return ("errors",) if is_told_otherwise else setting


def _setting_of_two(difference: Difference) -> Setting:
    old, new = difference.old, difference.new
    return ("order",) if old.sections.order != new.sections.order else setting_of(new.rule or "")


def _grouped(found: Iterable[tuple[Setting, Difference]]) -> list[_Group]:
    groups: dict[Any, _Group] = {}
    for setting, difference in found:
        old, new = difference.old, difference.new
        case = None if setting[0] in {"models", "errors"} or setting[-1] == "max_body_bytes" else new.case or old.case
        told = tuple(_told_otherwise(difference)) if setting == ("errors",) else ()
        key = (setting, case, *(() if case is None else (old.case, new.case)), told)
        groups.setdefault(key, _Group(setting, case, [])).found.append(difference)
    return list(groups.values())


def _change(group: _Group) -> Change:
    """Return what a group of requests shows as one change, in the words for its setting where they say just that."""
    setting, (old, new) = group.setting, group.found[0][2:]
    tightens = any(each.old.rule is None and each.new.rule is not None for each in group.found)
    loosens = any(each.old.rule is not None and each.new.rule is None for each in group.found)
    if setting[:2] == ("models", "aliases"):
        return newly_answered(setting[-1]) if loosens else answered_no_longer(setting[-1])
    if setting == _NAME_ANSWERED:
        return Change(setting, json.loads(old.told), json.loads(new.told), _words(group.found))
    if setting == ("errors",):
        return Change(setting, *_members_told(group.found[0]), _words(group.found))
    if setting[-1] == "error":
        values = own_words(old, setting[:-1]), own_words(new, setting[:-1])
        return Change(setting, *values, _words(group.found))
    if tightens or loosens:
        known = list(changes_of(old.sections, new.sections, setting))
        if len(known) == 1 and (known[0].tightens, known[0].loosens) == (tightens, loosens):
            return known[0]
    return Change(setting, stated(old, setting), stated(new, setting), _words(group.found), tightens, loosens)


def _located(change: Change, group: _Group, seen: Observation) -> Change:
    """Return a change with whose requests it is of, where the setting does not say it."""
    if group.case is None and change.at[0] == "models":
        return change
    old, new = (each.case for each in group.found[0][2:])
    names = {each.model for each in group.found}
    words = [f"naming {text_of(name)}" for name in names if len(names) == 1 and name in seen.aliases]
    if group.case is not None and old != new and {old, new} <= {None, *seen.cases}:
        words.append(f"that come under {_case(new)} instead of {_case(old)}")
    return replace(change, consequence=f"{change.consequence}; of requests {', '.join(words)}") if words else change


def _case(name: str | None) -> str:
    return "no case" if name is None else f"case {text_of(name)}"


def _words(found: list[Difference]) -> str:
    """Say which of the requests that were tried fare how."""
    refused = [each.shows for each in found if each.old.rule is None and each.new.rule is not None]
    passed = [each.shows for each in found if each.old.rule is not None and each.new.rule is None]
    named = [each for each in found if each.old.rule is None and each.new.rule is None]
    told = [each for each in found if each.old.rule is not None and each.new.rule is not None]
    parts = [f"requests will be refused: {_listed(refused)}"] if refused else []
    parts += [f"requests will no longer be refused: {_listed(passed)}"] if passed else []
    parts += [f"answers will carry the name {named[0].new.told} instead of {named[0].old.told}"] if named else []
    if told and not refused and not passed:
        shows = _listed([each.shows for each in told])
        parts.append(f"refusals will have {listed_words([*_told_otherwise(told[0])])}: {shows}")
    return "; ".join(parts)


def _listed(shows: list[str]) -> str:
    more = [f"{len(shows) - _MOST_SHOWN} more"] if len(shows) > _MOST_SHOWN else []
    return "; ".join([*shows[:_MOST_SHOWN], *more])


def _members_told(difference: Difference) -> tuple[Value, Value]:
    """Return the members of a refusal that are told otherwise, before and after."""
    was, now = difference.old.members(), difference.new.members()
    paths = [path for path in dict.fromkeys((*was, *now)) if repr(was.get(path)) != repr(now.get(path))]
    old, new = ({path: told[path] for path in paths if path in told} for told in (was, now))
    return old or None, new or None


def _told_otherwise(difference: Difference) -> Iterator[str]:
    """Yield what differs in how a refusal is told, member by member."""
    old, new = difference.old, difference.new
    if old.rule is not None and new.rule is not None and subject_of(old.rule) != subject_of(new.rule):
        yield f"the reason of {new.rule} instead of that of {old.rule}"
        return
    was, now = old.members(), new.members()
    if len(was.keys() ^ now.keys()) > _MOST_SHOWN:
        yield "a body of another shape"
        return
    for path in dict.fromkeys((*was, *now)):
        if path not in was or path not in now:
            yield f"{path} {'left out' if path not in now else 'beside the rest'}"
        elif repr(was[path]) != repr(now[path]):
            is_long = isinstance(now[path], str) and isinstance(was[path], str) and " " in now[path] + was[path]
            yield f"another {path}" if is_long else f"{path} {text_of(now[path])} instead of {text_of(was[path])}"


def _merged(changes: Iterable[tuple[str | None, Change]]) -> Iterator[Change]:
    """Yield each change once, with the cases that it is a change of, too."""
    found: dict[str, list[tuple[str | None, Change]]] = {}
    for case, change in changes:
        _, _, whose = change.consequence.partition("; of requests ")
        key = repr((change.at, change.before, change.after, change.tightens, change.loosens, whose))
        found.setdefault(key, []).append((case, change))
    for alike in found.values():
        cases = [case for case, _ in alike if case is not None]
        is_of_base = len(cases) < len(alike)
        change = next(change for case, change in alike if case is None or not is_of_base)
        yield _in_cases(change, list(dict.fromkeys(cases)), is_of_base=is_of_base)


def _in_cases(change: Change, cases: list[str], *, is_of_base: bool) -> Change:
    at = change.at if is_of_base else ("cases", cases[0], *change.at)
    others = [text_of(case) for case in cases[not is_of_base :]]
    if not others:
        return replace(change, at=at)
    where = f"case{'s' if len(others) > 1 else ''} {listed_words(others)}"
    return replace(change, at=at, consequence=f"{change.consequence}; the same in {where}")


def _place(change: Change) -> tuple[bool, int]:
    is_of_case = change.at[0] == "cases"
    section = change.at[2] if is_of_case else change.at[0]
    return is_of_case, _ORDER_OF_SECTIONS.index(section) if section in _ORDER_OF_SECTIONS else -1
