"""Two contracts → what changes for a client, one setting after the other.

A change tightens when it refuses requests that passed or lowers a budget that they ask for, and loosens when it does
the reverse. Each rule judges for itself, so what no change does alone, all of them together do not do either: where
none tightens, nothing is newly refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from compiler.comparison.parameters import Rule, injection, passing_only
from compiler.comparison.values import Value, span, text_of
from router.contract.errors import INVALID_REQUEST
from router.contract.fields import SAMPLING_FIELDS
from router.contract.model import Contract
from router.contract.numbers import show
from router.contract.rules import Pin
from router.contract.sections import Errors, Limits, MaxTokens, Models, Sampling

UNSEEN = "no request sees a difference"


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that differs, and in one sentence what a client sees of it."""

    path: str
    before: Value
    after: Value
    consequence: str
    tightens: bool = False
    loosens: bool = False

    @property
    def effect(self) -> Literal["tighter", "looser", "other"]:
        """The direction of the change; other where it has both or none."""
        if self.tightens == self.loosens:
            return "other"
        return "tighter" if self.tightens else "looser"


def compare(before: Contract, after: Contract) -> tuple[Change, ...]:
    """Return every change between two contracts, in the order of the profile language; none if they are equal."""
    return (
        *_models(before.models, after.models),
        *_limits(before.limits, after.limits),
        *_output(before.output.max_tokens, after.output.max_tokens),
        *_sampling(before, after),
        *_errors(before.errors, after.errors),
    )


def _models(before: Models, after: Models) -> Iterator[Change]:
    path = "models.aliases"
    kept = set(before.aliases) & set(after.aliases)
    for alias in before.aliases:
        if alias not in kept:
            gone = f"requests naming {text_of(alias)} will be answered 404, unless a served model has that name"
            yield Change(path, alias, None, gone, tightens=True)
    added = [alias for alias in after.aliases if alias not in kept]
    for alias in added:
        answered = f"requests naming {text_of(alias)} will be answered instead of a 404"
        first = not before.aliases and alias == added[0]
        yield Change(path, None, alias, f"{answered}{_ID_NEEDED if first else ''}", loosens=True)
    old, new = (tuple(alias for alias in models.aliases if alias in kept) for models in (before, after))
    if old != new:
        yield Change(path, old, new, "GET /v1/models lists the aliases in another order")
    if before.answer_as != after.answer_as:
        yield Change("models.answer_as", before.answer_as, after.answer_as, _answer_as(after))


_ID_NEEDED = "; where engines list several models, ROUTER_MODEL_ID must now say which one aliases mean"


def _answer_as(after: Models) -> str:
    if not after.aliases:
        return f"{UNSEEN}: there are no aliases"
    if after.answer_as == "served":
        return "answers to requests naming an alias will carry the served model's name instead of the alias"
    return "answers to requests naming an alias will carry the alias instead of the served model's name"


def _limits(before: Limits, after: Limits) -> Iterator[Change]:
    old, new = before.max_body_bytes, after.max_body_bytes
    if old != new:
        which = f"bodies of {span(min(old, new) + 1, max(old, new))} bytes on any inference route"
        yield _refusing("limits.max_body_bytes", old, new, which, tightens=new < old)
    if before.max_images != after.max_images:
        yield _images(before.max_images, after.max_images)


def _images(before: int | None, after: int | None) -> Change:
    limits = [limit for limit in (before, after) if limit is not None]
    least = min(limits)
    if len(limits) == 1:
        found = f"more than {_count(least)}" if least else "an image"
    else:
        most = max(limits)
        found = f"{span(least + 1, most)} image{'s' if most > 1 else ''}"
    return _refusing("limits.max_images", before, after, f"requests carrying {found}", tightens=after == least)


def _count(images: int) -> str:
    return f"{images} image{'s' if images > 1 else ''}"


def _refusing(path: str, before: Value, after: Value, which: str, *, tightens: bool) -> Change:
    outcome = f"will {'' if tightens else 'no longer '}be refused"
    return Change(path, before, after, f"{which} {outcome}", tightens=tightens, loosens=not tightens)


def _output(before: MaxTokens | None, after: MaxTokens | None) -> Iterator[Change]:
    path = "output.max_tokens"
    if before is not None and after is not None:
        yield from _budget(path, before, after)
    elif after is not None:
        yield Change(path, None, after, _governed(after), tightens=True)
    elif before is not None:
        yield Change(path, before, None, _let_go(before), loosens=True)


def _governed(budget: MaxTokens) -> str:
    return f"requests asking {_beyond(budget, 'will', 'and')}; those naming no budget will get {budget.default}"


def _let_go(budget: MaxTokens) -> str:
    unnamed = f"those naming no budget will get the engine's default instead of {budget.default}"
    return f"requests asking {_beyond(budget, 'will no longer', 'nor')}; {unnamed}"


def _beyond(budget: MaxTokens, will: str, joined_by: str) -> str:
    """Say what a budget rule does to a budget above the cap, and to one that says no number of tokens."""
    if budget.on_exceed == "reject":
        return f"more than {budget.cap} tokens, or anything but a positive integer, {will} be refused"
    malformed = f"{joined_by} those asking anything but a positive integer refused"
    return f"more than {budget.cap} tokens {will} be {_above(budget)}, {malformed}"


def _above(budget: MaxTokens) -> str:
    """Say what happens to a budget above the cap."""
    return "refused" if budget.on_exceed == "reject" else f"lowered to {budget.cap}"


def _budget(path: str, before: MaxTokens, after: MaxTokens) -> Iterator[Change]:
    if before.cap != after.cap:
        tightens = after.cap < before.cap
        yield Change(f"{path}.cap", before.cap, after.cap, _cap(before, after), tightens, not tightens)
    if before.on_exceed != after.on_exceed:
        tightens = after.on_exceed == "reject"
        above = f"requests asking more than {max(before.cap, after.cap)} tokens"
        outcome = f"{above} will be {_above(after)} instead of {_above(before)}"
        yield Change(f"{path}.on_exceed", before.on_exceed, after.on_exceed, outcome, tightens, not tightens)
    if before.default != after.default:
        unnamed = f"requests naming no budget will get {after.default} instead of {before.default}"
        yield Change(f"{path}.default", before.default, after.default, unnamed)


def _cap(before: MaxTokens, after: MaxTokens) -> str:
    between = f"requests asking {span(min(before.cap, after.cap) + 1, max(before.cap, after.cap))} tokens"
    outcome = f"be {_above(after)}" if after.cap < before.cap else f"no longer be {_above(before)}"
    both_clamp = before.on_exceed == after.on_exceed == "clamp"
    beyond = f", those asking more to {after.cap} instead of {before.cap}" if both_clamp else ""
    return f"{between} will {outcome}{beyond}"


def _sampling(before: Contract, after: Contract) -> Iterator[Change]:
    old_rules = {rule.field: rule for rule in before.sampling_rules}
    new_rules = {rule.field: rule for rule in after.sampling_rules}
    if before.sampling.conflict != after.sampling.conflict:
        pinned = [
            (old, new)
            for field in SAMPLING_FIELDS
            if isinstance(old := old_rules.get(field), Pin) and isinstance(new := new_rules.get(field), Pin)
        ]
        yield _conflict(before.sampling, after.sampling, pinned)
    for field in SAMPLING_FIELDS:
        old_value, new_value = before.sampling.params.get(field), after.sampling.params.get(field)
        # Compared as written: the engine gets `1.0` where the pin is 1.0.
        if repr(old_value) != repr(new_value):
            words, tightens, loosens = _parameter(field, old_rules.get(field), new_rules.get(field))
            yield Change(f"sampling.params.{field}", old_value, new_value, words, tightens, loosens)


def _conflict(before: Sampling, after: Sampling, pinned: list[tuple[Pin, Pin]]) -> Change:
    """Return the change that the parameters pinned in both contracts see; others say by themselves what changes."""
    path = "sampling.conflict"
    if not pinned:
        return Change(path, before.conflict, after.conflict, f"{UNSEEN} by it alone: no parameter is pinned in both")
    tightens = after.conflict == "reject"
    pins = [new if tightens else old for old, new in pinned]
    values = " or ".join(f"another {pin.field} than {show(pin.value)}" for pin in pins)
    return _refusing(path, before.conflict, after.conflict, f"requests sending {values}", tightens=tightens)


def _parameter(field: str, before: Rule, after: Rule) -> tuple[str, bool, bool]:
    """Say what one parameter's change means, and whether it tightens and loosens."""
    gone, gained = passing_only(field, before, after), passing_only(field, after, before)
    if isinstance(before, Pin) and isinstance(after, Pin) and before.conflict != after.conflict:
        gone = gained = ""  # what changes by the conflict is told there
    parts = [
        f"requests sending {gone} will be refused" if gone else "",
        f"requests sending {gained} will no longer be refused" if gained else "",
        injection(before, after),
    ]
    words = "; ".join(part for part in parts if part)
    return words or f"{UNSEEN}: the same numbers, written differently", bool(gone), bool(gained)


def _errors(before: Errors, after: Errors) -> Iterator[Change]:
    old, new = before.bad_request_type, after.bad_request_type
    if old != new:
        yield Change("errors.bad_request_type", old, new, _retyped(old, new))


def _retyped(before: str | None, after: str | None) -> str:
    """Say whose 400s change; the router's own are of type invalid_request_error by themselves."""
    own_too = (before or INVALID_REQUEST) != (after or INVALID_REQUEST)
    whose = (
        "400s on the chat route, the router's and the engine's," if own_too else "an engine's 400s on the chat route"
    )
    kind = f"type {text_of(after)}" if after is not None else "their own type"
    was = "their own" if before is None else text_of(before)
    return f"{whose} will carry {kind} instead of {was}"
