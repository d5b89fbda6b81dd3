"""Learn the rules for the requests of one situation: all fields and checks, concurrently."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from compiler.probe.content_parts import learn_content_parts
from compiler.probe.conversations import ABOUT as ABOUT_MESSAGES
from compiler.probe.conversations import LearnedChecks, error_words, learn_messages
from compiler.probe.evidence import statuses
from compiler.probe.experiment import BaseRequest, Experiment, ExperimentResult, Learner, ask_all, run_together
from compiler.probe.fields import LearnedField, learn_field
from compiler.probe.seed_corpus import BUDGET_ENTRIES, ENTRIES, CorpusEntry
from compiler.probe.tools import learn_message_tools, learn_response_format, learn_tool_choice, learn_tools
from compiler.verify.check import Fields
from compiler.verify.oracle.values import at
from router.artifact.differences import difference_from
from router.contract.schema.named_checks import CHECKS as CHECK_NAMES
from router.contract.schema.rule_list import PART_LIMITS

OUTPUT: Final = "output.max_tokens"

_OWN_WORDS: Final = b"expected a positive integer"
"""Error message of this project's router for an invalid budget."""

_PAIRS: Final = (
    ("max_tokens", "max_completion_tokens"),
    ("temperature", "top_p"),
    ("reasoning_effort", "thinking.type"),
)
"""Fields that some endpoints do not take together."""


class LearnedSections(NamedTuple):
    """What was learned of one mode: sections as a profile writes them, what could not be determined, all results."""

    values: dict[str, Fields]
    undetermined: tuple[str, ...]
    results: tuple[ExperimentResult, ...]


class Scope(NamedTuple):
    """The scope of the experiments.

    only: names of rules, as `--only` gives them; empty: everything. unknown: top-level fields that the endpoint does
    not know. apart: top-level fields by which a situation is brought about.
    """

    only: tuple[str, ...] = ()
    unknown: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()

    def wants(self, about: str) -> bool:
        """Return whether a rule is in scope."""
        return not self.only or any(
            f"{about}.".startswith(f"{each}.") or f"{each}.".startswith(f"{about}.") for each in self.only
        )


def known_rules() -> tuple[str, ...]:
    """Return the names of all rules that can be in scope."""
    fields = dict.fromkeys(f"fields.{entry.path}" for entry in ENTRIES)
    checks = (f"checks.{name}" for name in CHECK_NAMES)
    return (*_AROUND, *fields, *checks)


_AROUND: Final = (
    *("models", "mode", "cases", "limits.max_body_bytes", *(f"limits.{name}" for name in PART_LIMITS.values())),
    *(OUTPUT, "unknown_fields", "response.stream.usage", "errors"),
)

_CHECKS: Final[dict[str, Callable[[BaseRequest], Learner[LearnedChecks]]]] = {
    "checks.messages": learn_messages,
    "checks.content_parts": learn_content_parts,
    "checks.tools": learn_tools,
    "checks.message_tools": learn_message_tools,
    "checks.tool_choice": learn_tool_choice,
    "checks.response_format": learn_response_format,
}


def learn_sections(base: BaseRequest, scope: Scope) -> Learner[LearnedSections]:
    """Learn the fields and checks of one situation."""
    kept: list[ExperimentResult] = []
    entries = [entry for entry in ENTRIES if _is_asked(entry, scope)]
    fields = {
        f"fields.{entry.path}": learn_field(_without_budget(base) if entry.path in BUDGET_ENTRIES else base, entry)
        for entry in entries
    }
    checks = {name: learn(base) for name, learn in _CHECKS.items() if _wants_check(scope, name)}
    learnings: dict[str, Learner[Any]] = {**fields, **checks}
    found: dict[str, Any] = yield from collect_results(run_together(learnings), kept)
    fields_found = {entry.path: found[f"fields.{entry.path}"] for entry in entries}
    rules, undetermined = yield from collect_results(_with_pairs(base, fields_found), kept)
    values: dict[str, Fields] = {"fields": rules, "checks": {}}
    for name in checks:
        for key, rule in found[name].rules.items():
            kind, _, path = key.partition(".")
            (values["fields"] if kind == "fields" else values["checks"])[path or key] = rule
        undetermined += found[name].undetermined
    if "required_role" in values["checks"] and _is_emptiness_alike(kept):
        # The check rejects an empty conversation, too.
        values["fields"]["messages"].pop("min_items", None)
        if values["fields"]["messages"].keys() == {"source"}:
            del values["fields"]["messages"]
    output = _folded_budget(values["fields"], kept)
    if output:
        values["output"] = output
    values["fields"] = {path: rule for path, rule in sorted(values["fields"].items()) if rule}
    return LearnedSections(
        {name: section for name, section in values.items() if section}, tuple(undetermined), tuple(kept)
    )


def collect_results(learning: Learner[Any], kept: list[ExperimentResult]) -> Learner[Any]:
    """Run a learner, and keep all results."""
    results = None
    while True:
        try:
            experiments = next(learning) if results is None else learning.send(results)
        except StopIteration as done:
            return done.value
        results = yield experiments
        kept += results


def _is_asked(entry: CorpusEntry, scope: Scope) -> bool:
    about = f"fields.{entry.path}"
    is_budget = entry.path in BUDGET_ENTRIES and scope.wants(OUTPUT)
    return entry.root not in scope.unknown | scope.apart and (is_budget or scope.wants(about))


def _wants_check(scope: Scope, name: str) -> bool:
    if name.removeprefix("checks.") in scope.unknown | scope.apart:
        return False
    members = {
        "checks.messages": (
            "roles",
            "system_messages",
            "first_role",
            "last_role",
            "required_role",
            "alternation",
            "string_content",
            "tool_results",
            "tool_calls_answered",
            "reasoning_passed_back",
            "messages",
        ),
        "checks.response_format": ("response_format", "prompt_contains"),
    }
    return any(scope.wants(f"checks.{each}") for each in members.get(name, (name.removeprefix("checks."),)))


def _without_budget(base: BaseRequest) -> BaseRequest:
    return base._replace(fields={name: value for name, value in base.fields.items() if name not in BUDGET_ENTRIES})


def _with_pairs(base: BaseRequest, found: dict[str, LearnedField]) -> Learner[tuple[dict[str, Fields], list[str]]]:
    """Return the rules of fields; rules of fields that exclude each other say so."""
    rules = {path: dict(each.rule) for path, each in found.items()}
    undetermined = [line for each in found.values() for line in each.undetermined]
    pairs = [pair for pair in _PAIRS if all(path in found and found[path].good is not None for path in pair)]
    results = yield from ask_all(*(_pair(base, found, pair) for pair in pairs))
    for (one, other), result in zip(pairs, results, strict=True):
        if result.is_rejected:
            said = f"rejected together with {other} {statuses([result])}"
            source = f"{rules[one]['source']}; {said}" if "source" in rules[one] else said
            rules[one] |= {"excludes": [other], "source": source}
    # An engine may ignore a budget if the request also has the one that it prefers.
    yield from ask_all(*_wrong_budgets(base, found))
    return rules, undetermined


def _wrong_budgets(base: BaseRequest, found: dict[str, LearnedField]) -> Iterator[Experiment]:
    """Yield experiments that combine budgets that are rejected alone, a number and a text, with accepted ones."""
    for one, other in ((path, beside) for path in sorted(BUDGET_ENTRIES) for beside in (*BUDGET_ENTRIES, "n_predict")):
        good = found[other].good if other in found else _SMALL_BUDGET
        if one in found and one != other and found[one].rule and good is not None:
            for value in (0, str(_SMALL_BUDGET)):
                yield _without_budget(base).experiment(f"fields.{one}", {other: good, one: value})


_SMALL_BUDGET: Final = 1


def _pair(base: BaseRequest, found: dict[str, LearnedField], pair: tuple[str, str]) -> Experiment:
    plain = _without_budget(base) if BUDGET_ENTRIES & {*pair} else base
    return plain.experiment(f"fields.{pair[0]}", {path: found[path].good for path in pair})


def _folded_budget(fields: dict[str, Fields], results: list[ExperimentResult]) -> Fields:
    """Replace the rules of both budgets in the fields by the section `output`, if they have one cap; return it."""
    caps = {path: fields.get(path, {}).get("max") for path in BUDGET_ENTRIES}
    most = set(caps.values())
    first = next(iter(most))
    if len(most) != 1 or first is None:
        return {}
    cap = int(first)
    source = fields["max_tokens"]["source"]
    for path in sorted(BUDGET_ENTRIES):
        rule = fields.pop(path)
        is_other = "min" in rule and not any(_OWN_WORDS in each.response.body for each in _rejected_low(path, results))
        # A budget of 0 gets the language's error text for bad requests; a field's rule has its own.
        if is_other:
            fields[path] = {"min": 1, "max": cap, "source": rule["source"]}
    return {"max_tokens": {"cap": cap, "default": "none", "source": source}}


def _is_emptiness_alike(results: list[ExperimentResult]) -> bool:
    """Return whether the rejection of some conversation has the same message as that of an empty list of messages."""
    empty = {
        error_words(result)
        for result in results
        if result.is_rejected and result.experiment.changes.get("messages") == []
    }
    others = {
        error_words(result) for result in results if result.is_rejected and result.experiment.about == ABOUT_MESSAGES
    }
    return bool(empty) and empty <= others


def _rejected_low(path: str, results: list[ExperimentResult]) -> Iterator[ExperimentResult]:
    for result in results:
        if result.is_rejected and result.experiment.about == f"fields.{path}":
            value = at(result.experiment.request.fields(), path)
            if isinstance(value, int) and not isinstance(value, bool) and value < 1:
                yield result


def assembled(base: Fields, cases: dict[str, Fields]) -> Fields:
    """Return a profile of sections, with cases that contain only the differences from these."""
    own = ("limits", "output", "fields", "checks", "response")
    below = {name: section for name, section in base.items() if name in own}
    different_cases = {}
    for name, case in cases.items():
        sections = {key: value for key, value in case.items() if key in own and key != "limits"}
        there = {key: value for key, value in below.items() if key != "limits"}
        different = difference_from(there, sections)
        different_cases[name] = {"when": case["when"], **_without_idle_sources(different, there)}
    kept = {name: case for name, case in different_cases.items() if len(case) > 1}
    if not any("mode" in case["when"] for case in kept.values()):
        # A mode without differences is no mode.
        base = {name: section for name, section in base.items() if name != "mode"}
    return {**base, **({"cases": kept} if kept else {})}


def _without_idle_sources(section: Fields, below: Fields) -> Fields:
    """Return the differences from the base, without rules that differ only in their evidence."""
    found: Fields = {}
    for key, value in section.items():
        under = below.get(key)
        if not isinstance(value, dict) or not isinstance(under, dict):
            found[key] = value
        elif value.keys() - {"source"} and (inner := _without_idle_sources(value, under)):
            found[key] = inner
    return found
