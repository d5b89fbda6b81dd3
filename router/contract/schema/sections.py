"""The sections of a contract, as a reviewer reads them: each an immutable value with its defaults."""

from typing import Any, Final, Literal

import msgspec

from router.contract.schema.types import Condition, Count, ErrorText, Frozen, OmitDefaults, Positive, RuleBase, Scalar

DEFAULT_MAX_BODY_BYTES: Final = 32 * 1024 * 1024
"""Default limit of the request body in bytes."""


class Interval(Frozen, frozen=True):
    """The closed interval of accepted values of one sampling parameter, both ends included."""

    min: int | float
    max: int | float


class Alias(OmitDefaults, frozen=True):
    """A further model name besides the served ids: `model` is the id it is routed as (None: the first served id).

    `implies` are fields, by dotted path, that a request for the alias has where it does not send them.
    """

    model: str | None = None
    implies: dict[str, Scalar] = {}
    source: str | None = None


class Models(Frozen, frozen=True):
    """The aliases of served ids, the model name in the response to an alias, and the name if a request has none.

    A default of None: a request names its model.
    """

    aliases: dict[str, Alias] = {}
    respond_as: Literal["requested", "served"] = "requested"
    default: str | None = None


def plain_aliases(*names: str) -> dict[str, Alias]:
    """Return aliases that are routed as the first served id and imply nothing."""
    return dict.fromkeys(names, Alias())


class ModeMatch(OmitDefaults, frozen=True):
    """One way to read the mode: the mode of a request whose model and fields are these; empty: of any."""

    mode: str
    model: tuple[str, ...] = ()
    when: Condition = {}


class Mode(Frozen, frozen=True):
    """How the mode of a request is read: by the first reading that fits, else it is the default (None: no modes)."""

    default: str | None = None
    match: tuple[ModeMatch, ...] = ()
    source: str | None = None


class Limits(Frozen, frozen=True):
    """Largest request body in bytes, and content parts of each modality per request (None: any number)."""

    max_body_bytes: Positive = DEFAULT_MAX_BODY_BYTES
    max_images: Count | None = None
    max_videos: Count | None = None
    max_audios: Count | None = None
    max_files: Count | None = None
    source: str | None = None


class MaxTokens(Frozen, frozen=True):
    """The output budget in tokens: the cap, what happens above it, and what is injected when a request names none.

    A default of None injects nothing.
    """

    cap: Positive
    default: Positive | None = None
    on_exceed: Literal["reject", "clamp"] = "reject"
    source: str | None = None


class Output(Frozen, frozen=True):
    """What the contract says about a request's output (None: nothing)."""

    max_tokens: MaxTokens | None = None


class Sampling(Frozen, frozen=True):
    """Pinned and banded sampling parameters, and what happens to a request that conflicts with a pin."""

    conflict: Literal["reject", "allow"] = "reject"
    params: dict[str, int | float | Interval] = {}
    source: str | None = None


class ValueRule(OmitDefaults, frozen=True, kw_only=True):
    """What a value must be. `multiple_of` is exact for the decimal number as it is sent: 0.3 is a multiple of 0.1.

    `min_length` and `max_length` count characters (Unicode code points) of a string, `max_bytes` its UTF-8 bytes.
    """

    type: tuple[Literal["string", "number", "integer", "boolean", "array", "object"], ...] = ()
    allowed: tuple[Scalar, ...] | None = None
    min: int | float | None = None
    above: int | float | None = None
    max: int | float | None = None
    below: int | float | None = None
    multiple_of: int | float | None = None
    min_length: Count | None = None
    max_length: Count | None = None
    min_items: Count | None = None
    max_items: Count | None = None
    max_bytes: Positive | None = None
    pattern: str | None = None


class Field(ValueRule, frozen=True, kw_only=True):
    """The rule of one request field: what a value must be, then what becomes of it, then what an absent one gets.

    `items` is what each item of an array must be.
    Parts: required, reject, wrong_type, allowed, range (or too_low and too_high), multiple_of, length, items, bytes,
    pattern, item, requires, excludes. `error`, `parts` and `source` are as in `RuleBase`.
    """

    required: bool = False
    reject: bool = False
    items: ValueRule | None = None
    requires: Condition = {}
    excludes: Condition = {}
    sources: tuple[str, ...] = msgspec.field(default=(), name="from")
    map: dict[str, Scalar] = {}
    floor: int | float | None = None
    ceiling: int | float | None = None
    force: Scalar | None = None
    drop: bool = False
    default: Scalar | None = None
    error: ErrorText | None = None
    parts: dict[str, ErrorText] = {}
    source: str | None = None


_NOTHING_STATED: Final = Field()


def is_stated(rule: ValueRule, member: str) -> bool:
    """Return whether the rule of a field, or of its items, states one of its members; a default states nothing."""
    return bool(getattr(rule, member) != getattr(_NOTHING_STATED, member))


class UnknownMembers(RuleBase, frozen=True, kw_only=True):
    """What becomes of members of one object that are neither known nor governed."""

    policy: Literal["reject", "drop"] = "reject"
    known: tuple[str, ...] = ()


class UnknownFields(RuleBase, frozen=True, kw_only=True):
    """What becomes of top-level fields that are neither known nor governed.

    `within`: what becomes of such members of objects, by the dotted path of the object.
    """

    policy: Literal["pass", "drop", "reject"] = "pass"
    known: tuple[str, ...] = ()
    within: dict[str, UnknownMembers] = {}


class Stream(Frozen, frozen=True):
    """Where a streamed response reports its usage.

    `as_asked`: as the engine does, when the client asks. `end_frame`: in `choices[0].usage` of the frame that ends the
    response, and in a frame of its own after it only when the client asks. `tail_frame`: in a frame of its own, always.
    An explicit `include_usage: false` goes as sent under all three.
    """

    usage: Literal["as_asked", "end_frame", "tail_frame"] = "as_asked"
    source: str | None = None


class Response(Frozen, frozen=True):
    """What the contract says about responses."""

    stream: Stream = Stream()


class Errors(Frozen, frozen=True):
    """How rejections are reported.

    `body` is the envelope, a template in JSON (None: the router's own); `omit_null` leaves members out that are null.
    `codes` are words by error code; those of `bad_request` hold for every 400 that has none of its own. `engine_400`
    puts an engine's 400 into these words (None: it passes).
    """

    bad_request_type: str | None = None
    body: dict[str, Any] | None = None
    omit_null: bool = False
    codes: dict[str, ErrorText] = {}
    engine_400: ErrorText | None = None
    source: str | None = None
