"""Learn everything about an endpoint, in this order: base request, fields and checks, limits, modes and cases."""

import json
import re
from typing import Any, Final, NamedTuple

from compiler.artifact.sizes import bytes_of
from compiler.language.samples import items_of
from compiler.probe.baseline import learn_base
from compiler.probe.conversations import ABOUT as ABOUT_MESSAGES
from compiler.probe.conversations import MESSAGE_CHECKS
from compiler.probe.evidence import evidence_of
from compiler.probe.experiment import BaseRequest, Experiment, ExperimentResult, Learner, ask_all
from compiler.probe.limits import LearnedLimits, learn_body, learn_images, merged_limits
from compiler.probe.modes import LearnedModes, learn_modes
from compiler.probe.part_limits import OTHER_LIMITS, learn_part_limits
from compiler.probe.sections import LearnedSections, Scope, collect_results, learn_sections
from compiler.probe.seed_corpus import ENTRIES, OTHER_NAMES, CorpusEntry
from compiler.verify.check import Fields, written
from router.contract.schema.fields import OTHER_SPELLINGS
from router.contract.schema.rule_list import ALWAYS_KNOWN

UNKNOWN_FIELDS: Final = ("probe_unknown", "probe_unheard_of")
UNKNOWN_MODELS: Final = ("probe-unknown-model", "probe-unheard-of")


class ProbeGoal(NamedTuple):
    """What to learn: the model, the largest body in bytes, and the rules (none: all)."""

    model: str
    max_body: int
    only: tuple[str, ...] = ()


class LearnedContract(NamedTuple):
    """Everything that was learned.

    values: the sections of a profile, without error texts. cases: the complete sections of each case, by its name.
    undetermined: lines on what could not be determined. results: all results, in order.
    """

    values: Fields
    cases: dict[str, Fields]
    undetermined: tuple[str, ...]
    results: tuple[ExperimentResult, ...]


def learn(aims: ProbeGoal) -> Learner[LearnedContract]:
    """Learn the contract of an endpoint for a model. Raises BaseError if no request is accepted."""
    kept: list[ExperimentResult] = []
    base = yield from collect_results(learn_base(aims.model), kept)
    scope = Scope(aims.only)
    values, undetermined = yield from collect_results(_learn_around(base, scope, aims.max_body), kept)
    unknown: _UnknownFields = yield from collect_results(_learn_unknown(base, scope), kept)
    scope = scope._replace(unknown=unknown.names)
    if unknown.section:
        values["unknown_fields"] = unknown.section
    usual: LearnedSections = yield from collect_results(learn_sections(base, scope), kept)
    usual = usual._replace(values=_with(usual.values, "fields", unknown.fields))
    if scope.wants("limits.max_images") or scope.wants("checks.images"):
        largest = _largest(values, aims.max_body)
        images = yield from collect_results(learn_images(base, largest), kept)
        if images.limits:
            values["limits"] = merged_limits(values.get("limits", {}), images.limits)
        usual = usual._replace(values=_with(usual.values, "checks", images.checks))
        undetermined += images.undetermined
    counted: LearnedLimits = yield from collect_results(_learn_part_limits(base, scope, usual), kept)
    if counted.limits:
        values["limits"] = merged_limits(values.get("limits", {}), counted.limits)
    undetermined += counted.undetermined
    values |= usual.values
    modes = LearnedModes({}, {}, {})
    if scope.wants("mode") or scope.wants("cases"):
        modes = yield from collect_results(learn_modes(base, usual, scope), kept)
    if modes.mode:
        values["mode"] = modes.mode
    cases = {name: _case(values, modes, name) for name in modes.cases}
    undetermined += [*usual.undetermined, *modes.undetermined]
    undetermined += [f"{name}: {line}" for name, each in modes.learned.items() for line in each.undetermined]
    return LearnedContract(values, cases, tuple(dict.fromkeys(undetermined)), tuple(kept))


def _learn_part_limits(base: BaseRequest, scope: Scope, usual: LearnedSections) -> Learner[LearnedLimits]:
    names = [name for name in OTHER_LIMITS if scope.wants(f"limits.{name}")]
    parts = usual.values.get("checks", {}).get("content_parts", {})
    return (yield from learn_part_limits(base, names, parts.get("allowed")))


def _with(values: dict[str, Fields], section: str, rules: dict[str, Fields]) -> dict[str, Fields]:
    """Return sections with further rules in one of them."""
    if not rules:
        return values
    return {**values, section: dict(sorted({**values.get(section, {}), **rules}.items()))}


def _largest(values: Fields, max_body: int) -> int:
    """Return the size of the largest body to send, in bytes."""
    limit = values.get("limits", {}).get("max_body_bytes")
    size = bytes_of(limit) if isinstance(limit, str) else limit
    return max_body if size is None else min(size, max_body)


def _case(values: Fields, modes: LearnedModes, name: str) -> Fields:
    """Return all sections of a case: those learned in it, and the base's for all that was not tested in it."""
    when, learned = modes.cases[name]["when"], modes.learned[name]
    own = {section: dict(learned.values.get(section, {})) for section in ("fields", "checks")}
    asked_about = {result.experiment.about for result in learned.results}
    for section, rules in own.items():
        for path, rule in values.get(section, {}).items():
            about = _ABOUT.get(path, f"{section}.{path}")
            if about not in asked_about:
                rules.setdefault(path, rule)
    if "output" in learned.values or "fields.max_tokens" in asked_about:
        own["output"] = learned.values.get("output", {})
    elif "output" in values:
        own["output"] = values["output"]
    kept = {name: section for name, section in own.items() if section}
    same = {name: section for name, section in values.items() if name not in ("fields", "checks", "output", "mode")}
    return {"when": when, **same, **kept}


_ABOUT: Final = {**dict.fromkeys(MESSAGE_CHECKS, ABOUT_MESSAGES), "response_format": "checks.response_format"}
"""The name under which `--only` selects a rule, if it is not the rule's own."""


def _learn_around(base: BaseRequest, scope: Scope, max_body: int) -> Learner[tuple[Fields, list[str]]]:
    """Learn what concerns no field: malformed requests, unknown models, streams, and the size of bodies."""
    values: Fields = {}
    undetermined: list[str] = []
    if scope.wants("errors"):
        yield from ask_all(*_unreadable(base))
    names = UNKNOWN_MODELS if scope.wants("models") else ()
    unknown = yield from ask_all(*(base.experiment("models", {"model": name}) for name in names))
    if any(result.is_accepted for result in unknown):
        undetermined.append("models: any model name is accepted")
    if scope.wants("response.stream.usage"):
        values |= yield from _learn_stream(base)
    if scope.wants("limits.max_body_bytes"):
        limits = yield from learn_body(base, max_body)
        values |= {"limits": limits.limits} if limits.limits else {}
        undetermined += limits.undetermined
    return values, undetermined


def _unreadable(base: BaseRequest) -> list[Experiment]:
    whole = base.experiment("request").request
    malformed = [whole._replace(text=text) for text in ("{", "", "[]")]
    malformed += [whole.replaced("model"), whole.replaced("model", "1"), whole.replaced("stream", '"true"')]
    return [Experiment("request", {}, request) for request in malformed]


def _learn_stream(base: BaseRequest) -> Learner[Fields]:
    plain, _, _ = yield from ask_all(
        base.experiment("response.stream.usage", {"stream": True}),
        base.experiment("response.stream.usage", {"stream": True, "stream_options": {"include_usage": True}}),
        base.experiment("response.stream.usage", {"stream": True, "stream_options": {"include_usage": False}}),
    )
    if not plain.is_accepted:
        return {}
    in_end, in_tail = _usage_of(plain)
    if not in_end and not in_tail:
        return {}
    usage = "end_frame" if in_end else "tail_frame"
    said = evidence_of(["a stream that asks for no usage reports it"], [], [plain])
    return {"response": {"stream": {"usage": usage, "source": said}}}


def _usage_of(result: ExperimentResult) -> tuple[bool, bool]:
    """Return whether a stream reports usage in the frame that ends the response, and in a frame of its own."""
    frames: list[dict[str, Any]] = []
    for line in result.response.body.decode(errors="replace").splitlines():
        try:
            frame = json.loads(line.removeprefix("data:"))
        except ValueError:
            continue
        if line.startswith("data:") and isinstance(frame, dict):
            frames.append(frame)
    choices = [choice for frame in frames for choice in frame.get("choices") or () if isinstance(choice, dict)]
    in_end = any(choice.get("usage") and choice.get("finish_reason") for choice in choices)
    return in_end, any(frame.get("usage") and not frame.get("choices") for frame in frames)


class _UnknownFields(NamedTuple):
    """The names that are not known, the section `unknown_fields`, and rules of fields that are rejected like these."""

    names: frozenset[str] = frozenset()
    section: Fields = {}  # noqa: RUF012 - never changed
    fields: dict[str, Fields] = {}  # noqa: RUF012


def _learn_unknown(base: BaseRequest, scope: Scope) -> Learner[_UnknownFields]:
    """Learn whether unknown fields are rejected, and if so which fields are known."""
    if not scope.wants("unknown_fields") and scope.only:
        return _UnknownFields()
    first = yield from ask_all(*(base.experiment("unknown_fields", {name: 1}) for name in UNKNOWN_FIELDS))
    if not all(result.is_rejected for result in first):
        return _UnknownFields()
    values: Fields = {entry.root: _likely(entry) for entry in ENTRIES} | OTHER_NAMES
    names = sorted(name for name in values if name not in (*base.fields, *ALWAYS_KNOWN))
    results = yield from ask_all(*(base.experiment("unknown_fields", {name: values[name]}) for name in names))
    unlike = _without_name(first[0])
    unknown = {
        name
        for name, result in zip(names, results, strict=True)
        if result.is_rejected and _without_name(result) == unlike
    }
    nulls = sorted(unknown & {entry.root for entry in ENTRIES})
    of_nulls = yield from ask_all(
        *(base.experiment("unknown_fields", {name: None}) for name in (*UNKNOWN_FIELDS[:1], *nulls))
    )
    # Where only a value is rejected, the field is known.
    rejected = [
        name for name, result in zip(nulls, of_nulls[1:], strict=True) if result.is_accepted and of_nulls[0].is_rejected
    ]
    known = sorted({*names, *base.fields} - unknown - {*ALWAYS_KNOWN} - {*OTHER_SPELLINGS})
    said = evidence_of([], [f"{UNKNOWN_FIELDS[0]} and {len(unknown)} more"], first)
    rule = {"reject": True, "source": "any value is rejected like an unknown field, null is not"}
    section = {"policy": "reject", "known": known, "source": said}
    return _UnknownFields(frozenset(unknown), section, dict.fromkeys(rejected, rule))


def _without_name(result: ExperimentResult) -> tuple[int, str]:
    """Return a rejection without the field that it is about, its value, numbers and ids."""
    ((name, value),) = result.experiment.changes.items()
    body = result.response.body.decode(errors="replace")
    for text in (written(value), json.dumps(value), json.dumps(written(value))[1:-1]):
        body = body.replace(text, "")
    return result.response.status, re.sub(rf"\b{re.escape(name)}\b|[0-9a-f-]{{8,}}|[0-9]+|\W", "", body)


def _likely(entry: CorpusEntry) -> Any:  # noqa: ANN401 - any JSON value
    if "." in entry.path or entry.kind == "object":
        return {}
    if entry.kind == "list":
        return items_of(entry.path, 1)
    return "abcdef" if entry.kind == "text" else 1 if entry.kind != "words" else entry.values[0]
