"""Learn the error texts of rejections: what all share goes to `errors`, the rest to the `error` of each rule."""

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from compiler.artifact.from_profile import contract_of
from compiler.probe.envelopes import (
    ID_MARK,
    OWN,
    Envelope,
    ErrorSample,
    envelope_of,
    shape_of,
    value_at_place,
    without_ids,
)
from compiler.probe.experiment import ExperimentResult
from compiler.probe.sent_values import sent_by
from compiler.probe.template_induction import Example, template_of
from compiler.verify.check import Fields
from router.contract.decide import Rejection, ServedIds, decide
from router.contract.errors import STATUS_OF
from router.contract.schema.model import Contract
from router.contract.schema.rule_list import CheckRule, FieldRule, Rule

_BAD_REQUEST: Final = "bad_request"
_SERVER_ERROR: Final = 500
_LARGE: Final = 1024 * 1024
_MESSAGE: Final = "{message}"
_OF_RULES: Final = ("fields.", "checks.")


class _RejectionGroup(NamedTuple):
    """Rejections by one part of one rule in one case, and their error texts as a profile writes them."""

    place: str | None
    rule: str
    part: str
    code: str
    shape: tuple[Any, ...]
    words: Fields
    examples: tuple[Example, ...]


def samples_of(values: Fields, results: Iterable[ExperimentResult], model: str) -> list[ErrorSample]:
    """Return the rejections that a draft reproduces, each with the draft's error and the response."""
    contract, served = contract_of(values), ServedIds((model,))
    found: list[ErrorSample] = []
    for result in results:
        body = _object_in(result)
        if not result.is_rejected or body is None:
            continue
        decision = decide(result.experiment.request.body(), contract, served)
        if isinstance(decision, Rejection):
            place = decision.case_selection.case.name if decision.case_selection.case is not None else None
            place = None if _is_as_usual(contract, place, decision.rule) else place
            request_id = result.experiment.request.request_id()
            decision.error.details.setdefault("model", model)
            details = (decision.error, result.response.status, body, request_id, sent_by(result.experiment))
            found.append(ErrorSample(place, decision.rule, *details))
    return found


def _is_as_usual(contract: Contract, place: str | None, rule: str) -> bool:
    """Return whether a rule is the same in a case as outside all cases."""
    if place is None:
        return True
    usual = next((each for each in contract.rules if each.rule == rule), None)
    own = next((each for each in contract.case_rules[place] if each.rule == rule), None)
    return _plain(usual) == _plain(own)


def _plain(rule: Rule | None) -> Rule | None:
    """Return a rule without its evidence."""
    if isinstance(rule, FieldRule):
        return replace(rule, field=replace(rule.field, source=None))
    return replace(rule, check=replace(rule.check, source=None)) if isinstance(rule, CheckRule) else rule


def _object_in(result: ExperimentResult) -> dict[str, Any] | None:
    try:
        value = json.loads(result.response.body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and value else None


class ErrorTemplates(NamedTuple):
    """The section `errors`, and the error texts of rules: by case and rule, by part."""

    errors: Fields
    of_rules: dict[tuple[str | None, str], Fields]


def wording_of(samples: Sequence[ErrorSample]) -> ErrorTemplates:
    """Return the error texts that reproduce the rejections."""
    by_shape: dict[Hashable, list[ErrorSample]] = {}
    for sample in samples:
        by_shape.setdefault(shape_of(sample.body), []).append(sample)
    if not by_shape:
        return ErrorTemplates({}, {})
    envelopes = {shape: envelope_of(alike) for shape, alike in by_shape.items()}
    groups = list(_groups(samples, envelopes))
    commonest = max(by_shape, key=lambda shape: _weight(groups, shape))
    errors: Fields = {}
    if envelopes[commonest].template != OWN:
        errors["body"] = envelopes[commonest].template
    groups = _in_words_of_base(_in_shared_words(groups))
    codes = _codes(groups, commonest, envelopes)
    if codes:
        errors["codes"] = codes
    return ErrorTemplates(errors, _of_rules(groups, codes, commonest, envelopes))


def _weight(groups: list[_RejectionGroup], shape: Hashable) -> int:
    """Return the weight of a shape as the default; groups that no rule can correct weigh more."""
    own = [group for group in groups if group.shape == shape]
    return sum(1 if group.rule.startswith(_OF_RULES) else _NOT_OF_RULES for group in own)


def _groups(samples: Sequence[ErrorSample], envelopes: dict[Any, Envelope]) -> Iterable[_RejectionGroup]:
    by_part: dict[tuple[str | None, str, str, str], list[ErrorSample]] = {}
    for sample in samples:
        key = (sample.place, sample.rule, sample.error.part or "", sample.error.code)
        by_part.setdefault(key, []).append(sample)
    for (place, rule, part, code), own in by_part.items():
        shape: Any = _commonest(shape_of(sample.body) for sample in own)
        alike = [sample for sample in own if shape_of(sample.body) == shape]
        envelope = envelopes[shape]
        examples = tuple(Example(_text(sample, envelope), sample.details, sample.sent) for sample in alike)
        words = {**_words(alike, envelope), "message": _sayable(template_of(examples)[0])}
        yield _RejectionGroup(place, rule, part, code, shape, words, examples)


def _sayable(template: str) -> str:
    """Return a message if a profile can express it: printable, one line, not too long."""
    return template if template.isprintable() and 0 < len(template) <= _LONGEST_MESSAGE else _MESSAGE


_LONGEST_MESSAGE: Final = 2000


def _in_shared_words(groups: list[_RejectionGroup]) -> list[_RejectionGroup]:
    """Return groups with a common message where one template gives several messages of a code."""
    shared: list[_RejectionGroup] = []
    for code in dict.fromkeys(group.code for group in groups):
        own = [group for group in groups if group.code == code]
        template = _shared_template(own)
        for group in own:
            fits = template is not None and all(each.is_given_by(template) for each in group.examples)
            shared.append(group._replace(words={**group.words, "message": template}) if fits else group)
    return shared


def _in_words_of_base(groups: list[_RejectionGroup]) -> list[_RejectionGroup]:
    """Return the groups of cases with the error text of the same part outside all cases, if it fits."""
    usual = {(group.rule, group.part): group for group in groups if group.place is None}
    result = []
    for group in groups:
        base = usual.get((group.rule, group.part))
        fits = base is not None and all(each.is_given_by(base.words["message"]) for each in group.examples)
        if base is not None and fits:
            result.append(group._replace(words={**group.words, "message": base.words["message"]}))
        else:
            result.append(group)
    return result


def _shared_template(groups: list[_RejectionGroup]) -> str | None:
    firsts = [group.examples[0] for group in groups]
    if len(groups) == 1:
        return None
    found = [template_of([first, *firsts]) for first in firsts[:_MOST_TRIED]]
    template, count = max(found, key=lambda each: each[1])
    return template if (count - 1) * 2 > len(groups) and _sayable(template) == template else None


_MOST_TRIED: Final = 8


def _words(samples: Sequence[ErrorSample], envelope: Envelope) -> Fields:
    """Return the error members of a group of rejections, without the message."""
    words: Fields = {"status": _commonest(sample.status for sample in samples)}
    for slot, place in envelope.slots.items():
        values = [value_at_place(without_ids(sample), place) for sample in samples]
        if slot == "param" and all(value == sample.error.param for value, sample in zip(values, samples, strict=True)):
            continue
        words[slot] = _commonest(values)
    return words


def _text(sample: ErrorSample, envelope: Envelope) -> str:
    text = value_at_place(without_ids(sample), envelope.text_at)
    return str(text).replace(ID_MARK, sample.request_id)


def _commonest(values: Iterable[Any]) -> Any:  # noqa: ANN401 - any value
    """Return the most frequent value; of equally frequent ones the first."""
    listed = list(values)
    counts = Counter(map(repr, listed))
    return max(listed, key=lambda value: counts[repr(value)])


def _usual(group: _RejectionGroup) -> Fields:
    """Return the default error texts for a code."""
    status = STATUS_OF[group.code]
    kind = "server_error" if status >= _SERVER_ERROR else "invalid_request_error"
    return {"status": status, "type": kind, "code": group.code, "message": _MESSAGE}


def _codes(groups: list[_RejectionGroup], commonest: Any, envelopes: dict[Any, Envelope]) -> Fields:  # noqa: ANN401
    bad = [group for group in groups if STATUS_OF[group.code] == STATUS_OF[_BAD_REQUEST]]
    codes: Fields = {}
    if bad:
        codes[_BAD_REQUEST] = _shared(bad, [_usual(group) for group in bad], commonest, envelopes)
    for code in dict.fromkeys(group.code for group in groups):
        own = [group for group in groups if group.code == code and code != _BAD_REQUEST]
        if not own:
            continue
        layer = codes.get(_BAD_REQUEST, {}) if STATUS_OF[code] == STATUS_OF[_BAD_REQUEST] else {}
        shared = _shared(own, [{**_usual(group), **layer} for group in own], commonest, envelopes)
        if shared:
            codes[code] = shared
    return {code: words for code, words in codes.items() if words}


def _shared(
    groups: list[_RejectionGroup],
    usual: list[Fields],
    commonest: Any,  # noqa: ANN401 - any JSON value
    envelopes: dict[Any, Envelope],
) -> Fields:
    """Return the error members that most of some groups share and that are not the default."""
    shared: Fields = {}
    for name in ("status", "type", "code"):
        values = [group.words[name] for group in groups if name in group.words]
        if not values:
            continue
        gain, place = max((_gain(name, value, groups, usual), -place) for place, value in enumerate(values))
        if gain > 0 and values[-place] is not None:
            shared[name] = values[-place]
    message = _commonest(group.words["message"] for group in groups)
    gain = _gain("message", message, groups, usual)
    is_rule = all(group.rule.startswith(_OF_RULES) for group in groups)
    is_general = _MESSAGE in message or "{param}" in message
    if gain > 0 and (is_general or not (is_rule or _is_mixed(groups))):
        shared["message"] = message
    shape = max((group.shape for group in groups), key=lambda each: _weight(groups, each))
    active = usual[0].get("body", envelopes[commonest].template)
    if envelopes[shape].template != active:
        shared["body"] = envelopes[shape].template
    return shared


def _gain(name: str, value: object, groups: list[_RejectionGroup], usual: list[Fields]) -> int:
    """Return how many more groups are right if a value becomes the default for all.

    Groups that no rule can correct weigh more.
    """
    gain = 0
    for group, words in zip(groups, usual, strict=True):
        if name not in group.words:
            continue
        weight = 1 if group.rule.startswith(_OF_RULES) else _NOT_OF_RULES
        gain += weight * ((group.words[name] == value) - (group.words[name] == words.get(name)))
    return gain


_NOT_OF_RULES: Final = 100


def _is_mixed(groups: list[_RejectionGroup]) -> bool:
    """Return whether groups are those of every 400, so that their text belongs to no single code."""
    return len({group.code for group in groups}) > 1 or groups[0].code == _BAD_REQUEST


def _of_rules(
    groups: list[_RejectionGroup],
    codes: Fields,
    commonest: Any,  # noqa: ANN401
    envelopes: dict[Any, Envelope],
) -> dict[tuple[str | None, str], Fields]:
    """Return the rules' own error texts, by part, without what `errors` provides."""
    errors: dict[tuple[str | None, str], Fields] = {}
    for group in groups:
        if not group.rule.startswith(_OF_RULES):
            continue
        layer = {**codes.get(_BAD_REQUEST, {}), **codes.get(group.code, {})}
        active = {**_usual(group), **layer}
        own = {name: value for name, value in group.words.items() if active.get(name) != value and value is not None}
        if "param" in group.words and group.words["param"] is None:
            own["param"] = "{null}"
        body = envelopes[group.shape].template
        if body != layer.get("body", envelopes[commonest].template):
            own["body"] = body
        errors.setdefault((group.place, group.rule), {})[group.part] = own
    for (place, rule), parts in errors.items():
        if place is not None:
            errors[place, rule] = {**errors.get((None, rule), {}), **parts}
    return {key: _error(parts) for key, parts in errors.items()}


def _error(parts: Fields) -> Any:  # noqa: ANN401 - a text or a mapping
    """Return the `error` of a rule; parts with equal texts are merged."""
    alike = [words for part, words in parts.items() if part]
    if not any(parts.values()):
        return {}
    if "" in parts:
        return _short(parts[""])
    if all(words == alike[0] for words in alike):
        return _short(alike[0])
    return {part: _short(words) for part, words in parts.items() if words}


def _short(words: Fields) -> Any:  # noqa: ANN401
    return words["message"] if words.keys() == {"message"} else words


def with_words(values: Fields, wording: ErrorTemplates, place: str | None) -> Fields:
    """Return sections with the error texts of their rules."""
    result = dict(values)
    for section in ("fields", "checks"):
        for name, rule in result.get(section, {}).items():
            path = f"{section}.{name}"
            # A part that no request of a case violates has the same text as elsewhere.
            error = wording.of_rules.get((place, path), wording.of_rules.get((None, path)))
            if error:
                result[section] = {**result[section], name: {**rule, "error": error}}
    return result


class Mismatch(NamedTuple):
    """A response that a draft would not reproduce: the experiment, and the kind of difference."""

    result: ExperimentResult
    is_verdict: bool


def mismatches(contract: Contract, results: Iterable[ExperimentResult], model: str) -> list[Mismatch]:
    """Return the responses that a contract would not reproduce, in the decision or in the text."""
    from router.contract.errors import build_error_response  # noqa: PLC0415

    found, served = [], ServedIds((model,))
    for result in {result.experiment.request.key(): result for result in results}.values():
        if not result.is_conclusive or (result.is_accepted and result.experiment.request.size() > _LARGE):
            continue
        decision = decide(result.experiment.request.body(), contract, served)
        if isinstance(decision, Rejection) != result.is_rejected:
            found.append(Mismatch(result, is_verdict=True))
        elif isinstance(decision, Rejection):
            request_id = result.experiment.request.request_id()
            expected = build_error_response(decision.error, decision.errors, request_id)
            if expected.status != result.response.status or not _is_alike(expected.body, result, request_id):
                found.append(Mismatch(result, is_verdict=False))
    return found


def _is_alike(body: bytes, result: ExperimentResult, request_id: str) -> bool:
    came = _object_in(result)
    sample = ErrorSample(None, "", None, 0, came or {}, request_id)  # type: ignore[arg-type]
    ours = sample._replace(body=json.loads(body))
    return came is not None and without_ids(sample) == without_ids(ours)
