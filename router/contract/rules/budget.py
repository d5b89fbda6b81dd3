"""The cap on the output-token budget, under every spelling of the field."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from router.contract.errors import ApiError
from router.contract.jsonbytes.numbers import read_whole
from router.contract.jsonbytes.parsing import ParsedRequest, parse
from router.contract.jsonbytes.splice import JsonEdit, apply_edits, drop_all_repetitions, raw_at, supply, to_json
from router.contract.rules.evaluation import EvaluationContext
from router.contract.schema.conditions import path_of
from router.contract.schema.fields import BOUND_TO_BUDGET, BUDGET_FIELDS, spellings_of, standard_name
from router.contract.schema.rule_list import Budget, FieldRule, Rule
from router.contract.templates import raw_value

SOURCES: Final = ("client", "default", "clamp")
"""Who set a budget: the client; the contract where the client set none, or too much."""

_POSITIVE_INTEGER = re.compile(rb"[1-9][0-9]*")
SPELLINGS: Final = (*BUDGET_FIELDS, *spellings_of("max_tokens"))
"""All names by which engines know the budget, in the precedence of vLLM and SGLang."""

_EXACT_DIGITS: Final = 9


def other_names(rules: Iterable[Rule]) -> Iterator[str]:
    """Yield the further fields that a contract uses as the budget, besides the names that engines know."""
    for rule in rules:
        if isinstance(rule, FieldRule) and rule.path in BUDGET_FIELDS:
            yield from (name for name in rule.field.sources if name not in SPELLINGS and "." not in name)


class Tokens(NamedTuple):
    """The requested output tokens (None: not stated), the granted ones, and who set them (see SOURCES)."""

    source: str
    asked: int | None
    granted: int


class BudgetResult(NamedTuple):
    """The result of the budget rule: the edits, and the granted tokens (None: none requested and no default)."""

    edits: list[JsonEdit]
    tokens: Tokens | None


def judge(request: ParsedRequest, rule: Budget, others: tuple[str, ...] = ()) -> BudgetResult:
    """Return the edits that keep a request's budget within the cap, and the granted tokens.

    `others` are further field names for the budget that the contract allows.

    Raises ApiError `bad_request` for a budget that is not a positive integer or is repeated, `max_tokens_exceeded` for
    one over the cap under `reject`.
    """
    spellings = (*SPELLINGS, *others)
    for field in spellings:
        request.reject_repeated(field)
    asked = {field: _read(request, field, rule) for field in spellings if request.value(field) is not None}
    over = [field for field, tokens in asked.items() if tokens > rule.cap]
    if over and rule.on_exceed == "reject":
        raise _exceeded(request, over[0], rule)
    granted = {field: min(tokens, rule.cap) for field, tokens in asked.items()}
    edits = [supply(request, rule.rule, field, to_json(rule.cap)) for field in over]
    if not any(field in granted for field in BUDGET_FIELDS):
        tokens = next(iter(granted.values()), rule.default)
        if tokens is not None:
            edits.append(supply(request, rule.rule, "max_tokens", to_json(tokens)))
    return BudgetResult(edits, _tokens(asked, rule))


def _tokens(asked: dict[str, int], rule: Budget) -> Tokens | None:
    """Return the tokens granted for the first spelling that was sent; most engines read that one."""
    if not asked:
        return None if rule.default is None else Tokens("default", None, rule.default)
    first = next(iter(asked.values()))
    return Tokens("clamp" if first > rule.cap else "client", first, min(first, rule.cap))


def _read(request: ParsedRequest, field: str, rule: Budget) -> int:
    """Return the tokens a field asks for; beyond many digits, any number above the cap."""
    raw = _raw(request, field)
    if not _POSITIVE_INTEGER.fullmatch(raw):
        message = f"{field} is {request.written(field)}: expected a positive integer, or omit the field"
        details = {"value": raw_value(request.value(field)), "min": 1, "max": rule.cap, "model": request.value("model")}
        raise ApiError("bad_request", message, standard_name(field), details=details)
    return int(raw) if len(raw) <= max(_EXACT_DIGITS, len(str(rule.cap))) else rule.cap + 1


def _raw(request: ParsedRequest, field: str) -> bytes:
    """Return a value as the client wrote it; one that its alias implies, as that writes it."""
    raw = raw_at(request, (field,))
    return to_json(request.value(field)) if raw is None or raw == b"null" else raw


def _exceeded(request: ParsedRequest, field: str, rule: Budget) -> ApiError:
    message = f"{field} is {request.written(field)}: at most {rule.cap} output tokens are allowed"
    # The parser reads integers from 2^64 on as floats; the message shows the digits that the client sent.
    asked = int(_raw(request, field))
    details = {"value": raw_value(asked), "min": 1, "max": rule.cap, "count": raw_value(asked)}
    details["model"] = request.value("model")
    return ApiError("max_tokens_exceeded", message, standard_name(field), details=details)


def without_budget(body: bytes) -> bytes:
    """Return the body of a forwarded request without the budget that was injected into it."""
    return apply_edits(parse(body), [JsonEdit("output.max_tokens", "drop", ("max_tokens",))])


NAMES_OF_BOUND: Final = frozenset(path.partition(".")[0] for path in BOUND_TO_BUDGET)
"""The top-level fields that a budget bounds. A request without any of them needs no adjustment."""

_BOUND: Final = tuple((path_of(dotted), below) for dotted, below in BOUND_TO_BUDGET.items())


def keep_bound_fields_valid(context: EvaluationContext, rule: Budget | FieldRule, others: tuple[str, ...] = ()) -> None:
    """Make the fields that a budget bounds fit a budget set by the router. A client's own budget stays unchanged.

    A default budget is raised for them up to the cap. Fields that still do not fit are lowered.
    `others` are as for `judge`.
    """
    fields, values = context.request.fields, context.values
    bound = [
        (path, below, read_whole(context.value_at(path)))
        for path, below in _BOUND
        if path[0] in fields or path in values
    ]
    least = max([value + below for _, below, value in bound if value is not None], default=None)
    if least is None and not context.request.repeats:
        return
    budget = next((tokens for name in SPELLINGS if (tokens := read_whole(context.value_at((name,)))) is not None), None)
    if budget is None:
        return
    sent = [name for name in (*SPELLINGS, *others) if context.request.value(name) is not None]
    if sent and not any(_is_changed(context, name) for name in sent):
        return
    if not sent and isinstance(rule, Budget) and least is not None and budget < least:
        budget = _raise_default(context, rule, min(rule.cap, least))
    for path, below, value in bound:
        context.edits += drop_all_repetitions(context.request, rule.rule, path)
        if value is not None and value + below > budget:
            fitting = max(0, budget - below)
            context.put(rule.rule, path, fitting, to_json(fitting))


def _is_changed(context: EvaluationContext, name: str) -> bool:
    value = context.value_at((name,))
    return value is not None and value != context.request.value(name)


def _raise_default(context: EvaluationContext, rule: Budget, tokens: int) -> int:
    """Return the budget once the default that was injected is one of so many tokens, unless other rules set it."""
    path = ("max_tokens",)
    place = next((at for at, edit in enumerate(context.edits) if (edit.rule, edit.path) == (rule.rule, path)), None)
    if place is None or context.value_at(path) != rule.default:
        return read_whole(context.value_at(path)) or 0
    context.edits[place] = context.edits[place]._replace(value=to_json(tokens))
    context.values[path] = tokens
    context.tokens = Tokens("default", None, tokens)
    return tokens
