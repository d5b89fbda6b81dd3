"""The base types of a contract: immutable values, scalars, conditions and error texts."""

from typing import Annotated, Any

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Scalar = bool | int | float | str
Condition = dict[str, tuple[Scalar, ...]]
"""Dotted paths of request fields, each with the values it may have; an empty tuple: any value but null."""


class Frozen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An immutable value that rejects unknown keys when it is read from JSON."""


class OmitDefaults(Frozen, frozen=True, omit_defaults=True):
    """A value whose JSON has only the members that a profile states. An absent member has its default."""


class ErrorText(OmitDefaults, frozen=True):
    """How an error is reported: each member replaces the one that the error would have; None leaves it.

    `message` and the texts in `body` are templates; `body` replaces the envelope of `Errors.body`.
    """

    status: Annotated[int, msgspec.Meta(ge=400, le=599)] | None = None
    type: str | None = None
    code: int | str | None = None
    param: str | None = None
    message: str | None = None
    body: dict[str, Any] | None = None


class RuleBase(OmitDefaults, frozen=True, kw_only=True):
    """What every rule of its own may carry: its error texts, those of single parts, and its evidence."""

    error: ErrorText | None = None
    parts: dict[str, ErrorText] = {}
    source: str | None = None
