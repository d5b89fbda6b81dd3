"""The heart: one pure function from a request body to what happens with it."""

from typing import Final, NamedTuple

from router.contract import budget, images, sampling
from router.contract.editing import Edit, apply_edits, replace, to_json
from router.contract.errors import ApiError
from router.contract.fields import ONCE_ONLY_FIELDS
from router.contract.model import Budget, Contract, ImageLimit, Rule
from router.contract.parsing import Request, parse

_SHOWN_NAME: Final = 200


class ServedIds(NamedTuple):
    """The model ids that engines serve; the first is what aliases are routed as, unless which one is not clear."""

    ids: tuple[str, ...]
    routes_aliases: bool = True


class Forward(NamedTuple):
    """The request goes to an engine: these bytes, and what was changed and counted on the way.

    `answer_as` is the model name to write into the answer, None when the answer keeps the engine's.
    """

    body: bytes
    model_asked: str
    model_served: str
    stream: bool
    answer_as: str | None
    edits: tuple[Edit, ...] = ()
    violations: tuple[str, ...] = ()


class Refusal(NamedTuple):
    """The request is answered by the router itself."""

    error: ApiError
    violations: tuple[str, ...] = ()


def decide(body: bytes, contract: Contract, served_ids: ServedIds | None) -> Forward | Refusal:
    """Decide what happens with the body of a chat completion request.

    `served_ids` None means that every name which is not an alias counts as served.
    """
    try:
        check_size(len(body), contract)
        request = parse(body)
        stream = _read_once_only_fields(request)
        asked, served = _resolve_model(request, contract, served_ids)
    except ApiError as error:
        return Refusal(error)
    verdict = sampling.judge(request, contract.sampling_rules)
    if verdict.error is not None:
        return Refusal(verdict.error, tuple(verdict.violations))
    try:
        edits = [*_route(request, asked, served), *verdict.edits, *_judge_size(request, contract.rules)]
    except ApiError as error:
        return Refusal(error, (*verdict.violations, *([error.param] if error.param else [])))
    answer_as = asked if asked != served and contract.models.answer_as == "requested" else None
    forwarded = apply_edits(body, edits)
    return Forward(forwarded, asked, served, stream, answer_as, tuple(edits), tuple(verdict.violations))


def check_size(length: int, contract: Contract) -> None:
    """Raise ApiError `request_too_large` when a body of this many bytes is over the limit."""
    limit = contract.limits.max_body_bytes
    if length > limit:
        raise ApiError("request_too_large", f"The request body is larger than the {limit} bytes that are allowed")


def _read_once_only_fields(request: Request) -> bool:
    for field in sorted(ONCE_ONLY_FIELDS):
        request.refuse_repeated(field)
    stream = request.value("stream")
    if not isinstance(stream, bool | None):
        message = f"stream is {request.written('stream')}: expected true or false, or omit the field"
        raise ApiError("bad_request", message, "stream")
    return bool(stream)


def _resolve_model(request: Request, contract: Contract, served_ids: ServedIds | None) -> tuple[str, str]:
    """Return the model asked and the model served. A served id beats an equal alias."""
    asked = request.value("model")
    if asked is None:
        raise ApiError("bad_request", "model is missing: name the model that should answer", "model")
    if not isinstance(asked, str):
        raise ApiError("bad_request", f"model is {request.written('model')}: expected a string", "model")
    is_alias = asked in contract.models.aliases
    if served_ids is None:
        return asked, asked
    if not served_ids.ids:
        raise ApiError("no_healthy_engines", "No engine has said yet which models it serves")
    if asked in served_ids.ids:
        return asked, asked
    if not is_alias:
        shown = asked if len(asked) <= _SHOWN_NAME else asked[:_SHOWN_NAME] + "…"
        raise ApiError("model_not_found", f"The model {shown!r} does not exist here", "model")
    if not served_ids.routes_aliases:
        raise ApiError(
            "no_healthy_engines", "Several models are served and it is not configured which one aliases mean"
        )
    return asked, served_ids.ids[0]


def _route(request: Request, asked: str, served: str) -> list[Edit]:
    if asked == served:
        return []
    return [replace(request.members["model"][0], "models.aliases", to_json(served))]


def _judge_size(request: Request, rules: tuple[Rule, ...]) -> list[Edit]:
    edits: list[Edit] = []
    for rule in rules:
        if isinstance(rule, ImageLimit):
            images.judge(request, rule)
        elif isinstance(rule, Budget):
            edits += budget.judge(request, rule)
    return edits
