"""The contract as immutable values: the sections a reviewer reads and the ordered rules the router runs."""

from functools import cached_property
from typing import Annotated, Final, Literal

import msgspec

from router.contract.fields import SAMPLING_FIELDS

DEFAULT_MAX_BODY_BYTES: Final = 32 * 1024 * 1024
"""Largest request body in bytes where a profile says nothing."""

Positive = Annotated[int, msgspec.Meta(ge=1)]


class Frozen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An immutable value that refuses unknown keys when it is read from JSON."""


class Interval(Frozen, frozen=True):
    """The closed interval of accepted values of one sampling parameter, both ends included."""

    min: int | float
    max: int | float


class Models(Frozen, frozen=True):
    """Which names are answered besides the served ids, and which name an answer to an alias carries."""

    aliases: tuple[str, ...] = ()
    answer_as: Literal["requested", "served"] = "requested"


class Limits(Frozen, frozen=True):
    """Largest request body in bytes, and image parts per request (null: any number)."""

    max_body_bytes: Positive = DEFAULT_MAX_BODY_BYTES
    max_images: Annotated[int, msgspec.Meta(ge=0)] | None = None


class MaxTokens(Frozen, frozen=True):
    """The output budget in tokens: the cap, what happens above it, and what is injected when a request names none."""

    cap: Positive
    default: Positive
    on_exceed: Literal["reject", "clamp"] = "reject"


class Output(Frozen, frozen=True):
    """What the contract says about a request's output (null: nothing)."""

    max_tokens: MaxTokens | None = None


class Sampling(Frozen, frozen=True):
    """Pinned and banded sampling parameters, and what happens to a request that conflicts with a pin."""

    conflict: Literal["reject", "allow"] = "reject"
    params: dict[str, int | float | Interval] = {}


class Errors(Frozen, frozen=True):
    """The `type` that every 400 on the chat route carries (null: each keeps its own)."""

    bad_request_type: str | None = None


class BodyLimit(Frozen, frozen=True, tag_field="kind", tag="body_limit"):
    """Refuse request bodies above this many bytes with 413."""

    max_bytes: Positive
    rule: str = "limits.max_body_bytes"


class Pin(Frozen, frozen=True, tag_field="kind", tag="pin"):
    """Inject a sampling value where the request has none; refuse (or, under `allow`, pass) any other value."""

    field: str
    value: int | float
    conflict: Literal["reject", "allow"]
    rule: str


class Band(Frozen, frozen=True, tag_field="kind", tag="band"):
    """Refuse a sampling value outside the closed interval; do nothing where the request has none."""

    field: str
    min: int | float
    max: int | float
    rule: str


class ImageLimit(Frozen, frozen=True, tag_field="kind", tag="image_limit"):
    """Refuse requests that carry more image parts than this."""

    max_images: int
    rule: str = "limits.max_images"


class Budget(Frozen, frozen=True, tag_field="kind", tag="budget"):
    """Hold every budget field of a request to the cap; inject the default where it names none."""

    cap: Positive
    default: Positive
    on_exceed: Literal["reject", "clamp"]
    rule: str = "output.max_tokens"


Rule = BodyLimit | Pin | Band | ImageLimit | Budget


class Contract(Frozen, frozen=True, dict=True):
    """What a profile means once `extends` is resolved: every section, with every default spelled out."""

    errors: Errors = Errors()
    limits: Limits = Limits()
    models: Models = Models()
    output: Output = Output()
    sampling: Sampling = Sampling()

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules in the order in which a request meets them; the first violated one answers."""
        return rules_of(self)

    @cached_property
    def sampling_rules(self) -> tuple[Pin | Band, ...]:
        """Those of the rules that judge sampling parameters."""
        return tuple(rule for rule in self.rules if isinstance(rule, Pin | Band))

    @cached_property
    def size_rules(self) -> tuple["ImageLimit | Budget", ...]:
        """Those of the rules that judge how much a request asks for."""
        return tuple(rule for rule in self.rules if isinstance(rule, ImageLimit | Budget))

    def governs_beyond_body_size(self) -> bool:
        """Tell whether the contract says anything besides how large a body may be."""
        return bool(
            self.errors.bad_request_type is not None or self.models.aliases or self.sampling_rules or self.size_rules
        )


def rules_of(contract: Contract) -> tuple[Rule, ...]:
    """Derive the ordered rules from the sections of a contract."""
    rules: list[Rule] = [BodyLimit(contract.limits.max_body_bytes)]
    rules.extend(_sampling_rules(contract.sampling))
    if contract.limits.max_images is not None:
        rules.append(ImageLimit(contract.limits.max_images))
    if contract.output.max_tokens is not None:
        budget = contract.output.max_tokens
        rules.append(Budget(budget.cap, budget.default, budget.on_exceed))
    return tuple(rules)


def _sampling_rules(sampling: Sampling) -> list[Rule]:
    rules: list[Rule] = []
    for field in SAMPLING_FIELDS:
        expected = sampling.params.get(field)
        name = f"sampling.params.{field}"
        if isinstance(expected, Interval):
            rules.append(Band(field, expected.min, expected.max, name))
        elif expected is not None:
            rules.append(Pin(field, expected, sampling.conflict, name))
    return rules
