"""The heart: one pure function from a request body to what happens with it."""

from typing import Final, NamedTuple

from router.contract import budget, images, sampling
from router.contract.editing import Edit, apply_edits, replace, to_json
from router.contract.errors import ApiError, request_too_large
from router.contract.fields import ONCE_ONLY_FIELDS
from router.contract.model import Contract
from router.contract.parsing import Request, parse
from router.contract.rules import Budget

BODY_SIZE: Final = "limits.max_body_bytes"
"""The rule of the largest body, which is refused before all of it is read."""

READING: Final = "request"
"""The step that reads the request: strict JSON, with some fields only once and of the right type."""

MODELS: Final = "models"
"""The step that resolves the model name."""

SERVED_ID: Final = "<served id>"
"""Stands for the served id that an alias is routed as, where nobody says which ids are served."""

_COUNTED_BY_PARAM: Final = frozenset({"limits.max_images", "output.max_tokens"})
_SHOWN_NAME: Final = 200


class ServedIds(NamedTuple):
    """The model ids that engines serve; the first is what aliases are routed as, unless which one is not clear."""

    ids: tuple[str, ...]
    routes_aliases: bool = True


class Forward(NamedTuple):
    """The request goes to an engine: these bytes, and what was changed and counted on the way.

    `answer_as` is the model name to write into the answer, None when the answer keeps the engine's; `tokens` is the
    output budget, None where the contract sets none.
    """

    body: bytes
    model_asked: str
    model_served: str
    stream: bool
    answer_as: str | None
    edits: tuple[Edit, ...] = ()
    violations: tuple[str, ...] = ()
    tokens: budget.Tokens | None = None


class Refusal(NamedTuple):
    """The request is answered by the router itself: the error, and the rule or step (READING, MODELS) that refused.

    `model_asked` is None where the request could not be read so far.
    """

    error: ApiError
    rule: str
    violations: tuple[str, ...] = ()
    model_asked: str | None = None


def decide(body: bytes, contract: Contract, served_ids: ServedIds | None) -> Forward | Refusal:
    """Decide what happens with the body of a chat completion request.

    `served_ids` None means that every name which is not an alias counts as served.
    """
    step = BODY_SIZE
    violations: tuple[str, ...] = ()
    asked = tokens = None
    try:
        _check_size(body, contract)
        step = READING
        request = parse(body)
        stream = _read_once_only_fields(request)
        step = MODELS
        asked = _read_model(request)
        served = _resolve_model(asked, contract, served_ids)
        verdict = sampling.judge(request, contract.sampling_rules)
        violations = tuple(verdict.violations)
        if verdict.error is not None:
            step = f"sampling.params.{verdict.error.param}"
            raise verdict.error
        edits = [*_route(request, asked, served), *verdict.edits]
        for rule in contract.size_rules:
            step = rule.rule
            if isinstance(rule, Budget):
                held = budget.judge(request, rule)
                edits += held.edits
                tokens = held.tokens
            else:
                images.judge(request, rule)
    except ApiError as error:
        own = (error.param,) if step in _COUNTED_BY_PARAM and error.param else ()
        return Refusal(error, step, violations + own, asked)
    answer_as = asked if asked != served and contract.models.answer_as == "requested" else None
    return Forward(apply_edits(body, edits), asked, served, stream, answer_as, tuple(edits), violations, tokens)


def _check_size(body: bytes, contract: Contract) -> None:
    if len(body) > contract.limits.max_body_bytes:
        raise request_too_large(contract.limits.max_body_bytes)


def _read_once_only_fields(request: Request) -> bool:
    for field in sorted(ONCE_ONLY_FIELDS):
        request.refuse_repeated(field)
    stream = request.value("stream")
    if not isinstance(stream, bool | None):
        message = f"stream is {request.written('stream')}: expected true or false, or omit the field"
        raise ApiError("bad_request", message, "stream")
    return bool(stream)


def _read_model(request: Request) -> str:
    asked = request.value("model")
    if asked is None:
        raise ApiError("bad_request", "model is missing: name the model that should answer", "model")
    if not isinstance(asked, str):
        raise ApiError("bad_request", f"model is {request.written('model')}: expected a string", "model")
    return asked


def _resolve_model(asked: str, contract: Contract, served_ids: ServedIds | None) -> str:
    """Return the model served. A served id beats an equal alias."""
    is_alias = asked in contract.models.aliases
    if served_ids is None:
        return SERVED_ID if is_alias else asked
    if not served_ids.ids:
        raise ApiError("no_healthy_engines", "No engine has said yet which models it serves")
    if asked in served_ids.ids:
        return asked
    if not is_alias:
        shown = asked if len(asked) <= _SHOWN_NAME else asked[:_SHOWN_NAME] + "…"
        raise ApiError("model_not_found", f"The model {shown!r} does not exist here", "model")
    if not served_ids.routes_aliases:
        raise ApiError(
            "no_healthy_engines", "Several models are served and it is not configured which one aliases mean"
        )
    return served_ids.ids[0]


def _route(request: Request, asked: str, served: str) -> list[Edit]:
    if asked == served:
        return []
    return [replace(request.members["model"][0], "models.aliases", to_json(served))]
