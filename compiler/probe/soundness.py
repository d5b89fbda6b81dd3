"""Remove from a draft every rule, or part of one, that would reject an accepted request, and report it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from compiler.artifact.from_profile import contract_of
from compiler.language.constraints import keys_of_part
from compiler.probe.experiment import ExperimentResult, is_read_otherwise, shown
from compiler.probe.learner import LearnedContract
from compiler.probe.sections import assembled
from compiler.verify.check import Fields
from router.contract.decide import Rejection, ServedIds, decide

LARGE: Final = 1024 * 1024
"""Largest body in bytes that is evaluated here."""

_PARTS_OF_CHECKS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "tool_results": {"known_call": ("known_call",)},
    "tools": {
        "types": ("types",),
        "name": ("name_pattern",),
        "forbidden": ("forbidden_names",),
        "unique": ("unique",),
    },
    "message_tools": {
        "roles": ("roles",),
        "content": ("empty_content",),
        "name": ("name_pattern",),
        "unique": ("unique",),
    },
    "tool_choice": {"requires_tools": ("requires_tools",), "known": ("known",)},
    "response_format": {"named_schema": ("named_schema",)},
    "images": {
        "sources": ("sources", "file_prefix"),
        "max_bytes": ("max_bytes",),
        "max_url_bytes": ("max_url_bytes",),
        "max_data_urls": ("max_data_urls",),
        "max_total_bytes": ("max_total_bytes",),
    },
}
"""The members of a rule that belong to a part; a part that is missing here is the whole rule."""

_SECTIONS: Final = ("fields", "checks")
_WHOLE: Final = {"output.max_tokens": "output", "unknown_fields": "unknown_fields"}


class _WrongRejection(NamedTuple):
    """A rejection of an accepted request: the case (None: outside all cases), the rule and its part."""

    place: str | None
    rule: str
    part: str
    result: ExperimentResult


def without_wrong_rejections(learned: LearnedContract, model: str) -> LearnedContract:
    """Return what was learned without the rules that would reject an accepted request, and a line on each."""
    taken = (result for result in learned.results if result.is_accepted and not is_read_otherwise(result))
    accepted = {result.experiment.request.key(): result for result in taken}
    evaluated = [result for result in accepted.values() if result.experiment.request.size() <= LARGE]
    while wrong := {(each.place, each.rule, each.part): each for each in _wrong(learned, evaluated, model)}:
        before = learned
        for each in wrong.values():
            learned = _without(learned, each)
        if learned is before:
            break
    return learned


def _wrong(learned: LearnedContract, evaluated: Sequence[ExperimentResult], model: str) -> Iterator[_WrongRejection]:
    contract, served = contract_of(assembled(learned.values, learned.cases)), ServedIds((model,))
    for result in evaluated:
        decision = decide(result.experiment.request.body(), contract, served)
        if isinstance(decision, Rejection):
            place = None if decision.case_selection.case is None else decision.case_selection.case.name
            yield _WrongRejection(place, decision.rule, decision.error.part or "", result)


def _without(learned: LearnedContract, wrong: _WrongRejection) -> LearnedContract:
    """Return what was learned without a part of a rule; unchanged if a profile has no such rule."""
    sections = learned.values if wrong.place is None else learned.cases[wrong.place]
    kind, _, name = wrong.rule.partition(".")
    changed: dict[str, Any] | None = None
    if kind in _SECTIONS and name in sections.get(kind, {}):
        rule = _lessened(kind, name, sections[kind][name], wrong.part)
        others = {each: other for each, other in sections[kind].items() if each != name}
        kept = dict(sorted({**others, **({name: rule} if rule else {})}.items()))
        changed = {
            each: kept if each == kind else section for each, section in sections.items() if each != kind or kept
        }
    elif kind == "limits" and name in sections.get("limits", {}):
        limits = {member: value for member, value in sections["limits"].items() if member != name}
        changed = {**sections, "limits": limits}
        if limits.keys() <= {"source"}:
            del changed["limits"]
    elif wrong.rule in _WHOLE and _WHOLE[wrong.rule] in sections:
        changed = {each: section for each, section in sections.items() if each != _WHOLE[wrong.rule]}
    if changed is None:
        return learned
    line = f"{wrong.rule}: {_said(wrong)}; what would reject that is left out"
    learned = learned._replace(undetermined=tuple(dict.fromkeys((*learned.undetermined, line))))
    if wrong.place is None:
        return learned._replace(values=changed)
    return learned._replace(cases={**learned.cases, wrong.place: changed})


def _lessened(kind: str, name: str, rule: Fields, part: str) -> Fields:
    """Return a rule without one part; empty where nothing is left."""
    gone = keys_of_part(part, frozenset(rule)) if kind == "fields" else _PARTS_OF_CHECKS.get(name, {}).get(part, ())
    kept = {key: value for key, value in rule.items() if key not in gone}
    is_nothing = kept.keys() <= {"source"} or kept.keys() == rule.keys()
    return {} if is_nothing else kept


def _said(wrong: _WrongRejection) -> str:
    changes = ", ".join(f"{path} {shown(value)}" for path, value in wrong.result.experiment.changes.items())
    return f"{changes or 'the simplest request'} is accepted"
