"""Two contracts → what changes for a client, setting by setting.

A change tightens when it rejects requests that passed or lowers a budget that they ask for, and loosens when it does
the reverse. Rules are evaluated independently, so changes do not add up to more than each of them: if none
tightens, no request is newly rejected.
"""

from collections.abc import Iterator

from compiler.diff.change import EVIDENCE, UNSEEN, Change
from compiler.diff.checks import compare_checks
from compiler.diff.error_text import compare_errors, compare_order, compare_stream, compare_unknown_fields
from compiler.diff.fields import compare_fields
from compiler.diff.intervals import Rule, injection, passing_only
from compiler.diff.values import Value, same, span
from router.contract.jsonbytes.numbers import show
from router.contract.schema.fields import SAMPLING_FIELDS
from router.contract.schema.model import Sections
from router.contract.schema.rule_list import PART_LIMITS, Const, Range, rules_of
from router.contract.schema.sections import Limits, MaxTokens, Sampling


def compare_sections(
    before: Sections, after: Sections, read: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
) -> tuple[Change, ...]:
    """Return every change between the rules for the requests of two cases, in the order of the profile language.

    `read`: the fields in the conditions of both contracts; these count as known fields.
    """
    rules = rules_of(before, read[0]), rules_of(after, read[1])
    return (
        *_limits(before.limits, after.limits),
        *_output(before.output.max_tokens, after.output.max_tokens),
        *_sampling(before, after),
        *compare_fields(before.fields, after.fields),
        *compare_checks(before.checks, after.checks),
        *compare_unknown_fields(before.unknown_fields, after.unknown_fields, rules),
        *compare_stream(before.response.stream, after.response.stream),
        *compare_errors(before.errors, after.errors),
        *compare_order(before.order, after.order),
    )


def _limits(before: Limits, after: Limits) -> Iterator[Change]:
    old, new = before.max_body_bytes, after.max_body_bytes
    if old != new:
        which = f"bodies of {span(min(old, new) + 1, max(old, new))} bytes on any inference route"
        yield _rejecting(("limits", "max_body_bytes"), old, new, which, tightens=new < old)
    for modality, limit in PART_LIMITS.items():
        old_limit, new_limit = getattr(before, limit), getattr(after, limit)
        if old_limit != new_limit:
            yield _part_limit(modality, old_limit, new_limit)
    if before.source != after.source:
        yield Change(("limits", "source"), before.source, after.source, EVIDENCE)


def _part_limit(modality: str, before: int | None, after: int | None) -> Change:
    limits = [limit for limit in (before, after) if limit is not None]
    least = min(limits)
    if len(limits) == 1:
        one = f"{'a' if modality in {'video', 'file'} else 'an'} {modality}"
        found = f"more than {_count(least, modality)}" if least else one
    else:
        most = max(limits)
        found = f"{span(least + 1, most)} {modality}{'s' if most > 1 else ''}"
    return _rejecting(
        ("limits", f"max_{modality}s"), before, after, f"requests carrying {found}", tightens=after == least
    )


def _count(number: int, modality: str) -> str:
    return f"{number} {modality}{'s' if number > 1 else ''}"


def _rejecting(path: tuple[str, ...], before: Value, after: Value, which: str, *, tightens: bool) -> Change:
    outcome = f"will {'' if tightens else 'no longer '}be rejected"
    return Change(path, before, after, f"{which} {outcome}", tightens=tightens, loosens=not tightens)


def _output(before: MaxTokens | None, after: MaxTokens | None) -> Iterator[Change]:
    path = ("output", "max_tokens")
    if before is not None and after is not None:
        yield from _budget(path, before, after)
    elif after is not None:
        yield Change(path, None, after, _governed(after), tightens=True)
    elif before is not None:
        yield Change(path, before, None, _let_go(before), loosens=True)


def _governed(budget: MaxTokens) -> str:
    return f"requests asking {_beyond(budget, 'will', 'and')}; those naming no budget will get {_default(budget)}"


def _let_go(budget: MaxTokens) -> str:
    if budget.default is None:
        return f"requests asking {_beyond(budget, 'will no longer', 'nor')}"
    unnamed = f"those naming no budget will get {_ENGINES} instead of {budget.default}"
    return f"requests asking {_beyond(budget, 'will no longer', 'nor')}; {unnamed}"


_ENGINES = "the engine's default"


def _default(budget: MaxTokens) -> int | str:
    """Return the budget of a request that names none."""
    return _ENGINES if budget.default is None else budget.default


def _beyond(budget: MaxTokens, will: str, joined_by: str) -> str:
    """Describe what a budget rule does with a budget above the cap, and with one that is not a number."""
    if budget.on_exceed == "reject":
        return f"more than {budget.cap} tokens, or anything but a positive integer, {will} be rejected"
    malformed = f"{joined_by} those asking anything but a positive integer rejected"
    return f"more than {budget.cap} tokens {will} be {_above(budget)}, {malformed}"


def _above(budget: MaxTokens) -> str:
    """Describe what happens to a budget above the cap."""
    return "rejected" if budget.on_exceed == "reject" else f"lowered to {budget.cap}"


def _budget(path: tuple[str, ...], before: MaxTokens, after: MaxTokens) -> Iterator[Change]:
    if before.cap != after.cap:
        tightens = after.cap < before.cap
        yield Change((*path, "cap"), before.cap, after.cap, _cap(before, after), tightens, not tightens)
    if before.on_exceed != after.on_exceed:
        tightens = after.on_exceed == "reject"
        above = f"requests asking more than {max(before.cap, after.cap)} tokens"
        outcome = f"{above} will be {_above(after)} instead of {_above(before)}"
        yield Change((*path, "on_exceed"), before.on_exceed, after.on_exceed, outcome, tightens, not tightens)
    if before.default != after.default:
        unnamed = f"requests naming no budget will get {_default(after)} instead of {_default(before)}"
        yield Change((*path, "default"), before.default, after.default, unnamed)
    if before.source != after.source:
        yield Change((*path, "source"), before.source, after.source, EVIDENCE)


def _cap(before: MaxTokens, after: MaxTokens) -> str:
    between = f"requests asking {span(min(before.cap, after.cap) + 1, max(before.cap, after.cap))} tokens"
    outcome = f"be {_above(after)}" if after.cap < before.cap else f"no longer be {_above(before)}"
    both_clamp = before.on_exceed == after.on_exceed == "clamp"
    beyond = f", those asking more to {after.cap} instead of {before.cap}" if both_clamp else ""
    return f"{between} will {outcome}{beyond}"


def _sampling(before: Sections, after: Sections) -> Iterator[Change]:
    old_rules, new_rules = _rules(before), _rules(after)
    if before.sampling.conflict != after.sampling.conflict:
        pinned = [
            (old, new)
            for field in SAMPLING_FIELDS
            if isinstance(old := old_rules.get(field), Const) and isinstance(new := new_rules.get(field), Const)
        ]
        yield _conflict(before.sampling, after.sampling, pinned)
    for field in SAMPLING_FIELDS:
        old_value, new_value = before.sampling.params.get(field), after.sampling.params.get(field)
        # Compared as written: the engine receives `1.0` if the pin is 1.0.
        if not same(old_value, new_value):
            words, tightens, loosens = _parameter(field, old_rules.get(field), new_rules.get(field))
            yield Change(("sampling", "params", field), old_value, new_value, words, tightens, loosens)

    if before.sampling.source != after.sampling.source:
        yield Change(("sampling", "source"), before.sampling.source, after.sampling.source, EVIDENCE)


def _rules(sections: Sections) -> dict[str, Const | Range]:
    return {rule.field: rule for rule in rules_of(sections) if isinstance(rule, Const | Range)}


def _conflict(before: Sampling, after: Sampling, pinned: list[tuple[Const, Const]]) -> Change:
    """Return the change of the parameters that both contracts pin; other changes describe themselves."""
    path = ("sampling", "conflict")
    if not pinned:
        return Change(path, before.conflict, after.conflict, f"{UNSEEN} by it alone: no parameter is pinned in both")
    tightens = after.conflict == "reject"
    pins = [new if tightens else old for old, new in pinned]
    values = " or ".join(f"another {pin.field} than {show(pin.value)}" for pin in pins)
    return _rejecting(path, before.conflict, after.conflict, f"requests sending {values}", tightens=tightens)


def _parameter(field: str, before: Rule, after: Rule) -> tuple[str, bool, bool]:
    """Describe the change of one parameter, and whether it tightens and loosens."""
    gone, gained = passing_only(field, before, after), passing_only(field, after, before)
    if isinstance(before, Const) and isinstance(after, Const) and before.conflict != after.conflict:
        gone = gained = ""  # The conflict's own change reports this.
    parts = [
        f"requests sending {gone} will be rejected" if gone else "",
        f"requests sending {gained} will no longer be rejected" if gained else "",
        injection(before, after),
    ]
    words = "; ".join(part for part in parts if part)
    return words or f"{UNSEEN}: the same numbers, written differently", bool(gone), bool(gained)
