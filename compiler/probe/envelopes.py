"""The shapes of error bodies: the positions of message, type, code and field, and the constant rest."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from compiler.probe.sent_values import SentValues, repeated
from compiler.probe.template_induction import escaped
from router.contract.errors import ApiError

BodyPath = tuple[str | int, ...]
"""The position of a value in a body: keys and indexes."""

OWN: Final = {"error": {"message": "{message}", "type": "{type}", "param": "{param}", "code": "{code}"}}
"""The router's default shape of errors."""

_TEXTS: Final = ("message", "msg", "detail", "error_msg", "error", "description")
_SLOTS: Final = ("type", "code", "param")
_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|[0-9a-f]{16,}|[0-9]{20,}")


class ErrorSample(NamedTuple):
    """One rejection: its rule, the draft's own error for it, and the response.

    place: the name of the case. rule: the rule or step. sent: the request's values that the message may repeat.
    """

    place: str | None
    rule: str
    error: ApiError
    status: int
    body: dict[str, Any]
    request_id: str
    sent: SentValues = frozenset()

    @property
    def details(self) -> dict[str, Any]:
        """The values of the placeholders."""
        known = {**self.error.details, "message": self.error.message, "param": self.error.param}
        return {**known, "status": self.status, "request_id": self.request_id}


class Envelope(NamedTuple):
    """A shape: its template, the position of the message, and those of the values that vary, by slot."""

    template: dict[str, Any]
    text_at: BodyPath
    slots: Mapping[str, BodyPath]


def leaves_of(value: object, at: BodyPath = ()) -> dict[BodyPath, Any]:
    """Return the scalar values in a body by their positions."""
    if isinstance(value, dict) and value:
        return {place: leaf for key, inner in value.items() for place, leaf in leaves_of(inner, (*at, key)).items()}
    if isinstance(value, list) and value:
        return {place: leaf for key, inner in enumerate(value) for place, leaf in leaves_of(inner, (*at, key)).items()}
    return {at: value}


def shape_of(body: object) -> tuple[BodyPath, ...]:
    """Return what bodies of the same shape share."""
    return tuple(leaves_of(body))


def envelope_of(samples: Sequence[ErrorSample]) -> Envelope:
    """Return the envelope of samples that have the same shape."""
    leaves = [leaves_of(without_ids(sample)) for sample in samples]
    text_at = _text_place(leaves)
    slots: dict[str, BodyPath] = {}
    marks: dict[BodyPath, Any] = {text_at: "{message}"}
    for place in leaves[0]:
        if place != text_at:
            marks[place] = _mark(place, [each[place] for each in leaves], samples, slots)
    return Envelope(_with_marks(samples[0].body, marks), text_at, slots)


def without_ids(sample: ErrorSample) -> dict[str, Any]:
    """Return a body with a placeholder for the id of the request, or for a text that looks like an id."""
    return _replacing(sample.body, sample.request_id)  # type: ignore[no-any-return]


def _replacing(value: Any, request_id: str) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {key: _replacing(inner, request_id) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replacing(inner, request_id) for inner in value]
    if not isinstance(value, str):
        return value
    return _ID.sub(_marked, value.replace(request_id, ID_MARK) if request_id else value)


def _marked(found: re.Match[str]) -> str:
    """Return a mark for a text that looks like an id; a run of few distinct letters is a sent value instead."""
    return ID_MARK if len(set(found[0])) > _FEW else found[0]


_FEW: Final = 5


ID_MARK: Final = "\0id\0"
"""Stands for the id of a request in texts that are looked at."""


def _text_place(leaves: list[dict[BodyPath, Any]]) -> BodyPath:
    texts = [place for place in leaves[0] if all(isinstance(each[place], str) for each in leaves)]
    named = sorted(
        (place for place in texts if _key(place) in _TEXTS), key=lambda place: (_TEXTS.index(_key(place)), len(place))
    )
    varied = {place: len({each[place] for each in leaves}) for place in texts}
    for place in named:
        if varied[place] > 1:
            return place
    most = max(varied, key=lambda place: varied[place], default=None)
    if most is not None and varied[most] > 1 and (not named or len(leaves) > 1):
        return most
    return named[0] if named else most if most is not None else next(iter(leaves[0]))


def _key(place: BodyPath) -> str:
    return next((str(step) for step in reversed(place) if isinstance(step, str)), "")


def _mark(place: BodyPath, values: list[Any], samples: Sequence[ErrorSample], slots: dict[str, BodyPath]) -> Any:  # noqa: ANN401
    """Return the value at a position of the template."""
    first = values[0]
    key = _key(place)
    if all(value is None for value in values):
        is_field = key == "param" and all(sample.error.param is None for sample in samples)
        return "{param}" if is_field else "{null}"
    is_alike = all(value == first and type(value) is type(first) for value in values)
    if key == "param" and "param" not in slots:
        slots["param"] = place
        return "{param}"
    if all(value == sample.error.param for value, sample in zip(values, samples, strict=True)):
        return "{param}"
    if is_alike and key not in _SLOTS:
        return _literal(first, samples)
    if not is_alike and all(
        value == sample.details.get("value") for value, sample in zip(values, samples, strict=True)
    ):
        return "{value}"
    if not all(map(_may_be_words, values)):
        return _literal(first, samples)
    slot = (
        key
        if key in _SLOTS and key not in slots
        else next((each for each in ("type", "code") if each not in slots), None)
    )
    if slot is None or (is_alike and key in slots):
        return _literal(first, samples)
    slots[slot] = place
    return f"{{{slot}}}"


def _may_be_words(value: object) -> bool:
    """Return whether a profile can express such a type or code."""
    if isinstance(value, str):
        return 0 < len(value) <= _LONGEST_WORD and value.isprintable()
    return isinstance(value, int) and not isinstance(value, bool)


_LONGEST_WORD: Final = 200


def _literal(value: Any, samples: Sequence[ErrorSample]) -> Any:  # noqa: ANN401 - any JSON
    if _is_sent(value, samples):
        return "{value}" if all(value == sample.details.get("value") for sample in samples) else "{null}"
    if isinstance(value, str):
        if value and all(value == str(sample.status) for sample in samples) and len({s.status for s in samples}) > 1:
            return "{status}{null}"
        return escaped(value).replace(ID_MARK, "{request_id}")
    return value


def _is_sent(value: Any, samples: Sequence[ErrorSample]) -> bool:  # noqa: ANN401 - any JSON
    """Return whether a value repeats what each of the samples sent."""
    sent = frozenset.intersection(*(sample.sent for sample in samples))
    if isinstance(value, str):
        return bool(repeated(value, sent))
    return isinstance(value, int | float) and not isinstance(value, bool) and float(value) in sent


def _with_marks(value: Any, marks: Mapping[BodyPath, Any], at: BodyPath = ()) -> Any:  # noqa: ANN401 - any JSON
    if at in marks:
        return marks[at]
    if isinstance(value, dict):
        return {key: _with_marks(inner, marks, (*at, key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_marks(inner, marks, (*at, key)) for key, inner in enumerate(value)]
    return value


def value_at_place(body: Any, place: BodyPath) -> Any:  # noqa: ANN401 - any JSON
    """Return the value at a position of a body."""
    for step in place:
        body = body[step]
    return body
