"""The policy decision: one pure function from a request body to Forward or Rejection."""

from typing import Any, Final, NamedTuple

from router.contract.errors import ApiError, request_too_large, without_frames
from router.contract.jsonbytes.parsing import ParsedRequest, parse
from router.contract.jsonbytes.splice import JsonEdit, apply_edits, drop_all_repetitions, to_json
from router.contract.responses.stream_usage import Usage, ask
from router.contract.rules.budget import Tokens
from router.contract.rules.cases import CaseSelection
from router.contract.rules.compiled import compiled_contract_of
from router.contract.rules.evaluation import EvaluationContext
from router.contract.schema.conditions import path_of, value_at
from router.contract.schema.fields import ONCE_ONLY_FIELDS
from router.contract.schema.model import Contract
from router.contract.schema.sections import Alias, Errors
from router.contract.templates import display

BODY_SIZE: Final = "limits.max_body_bytes"
"""The rule that limits the size of the body. A larger body is rejected before it is read completely."""

READING: Final = "request"
"""The step that reads the request: strict JSON, with some fields only once and of the right type."""

MODELS: Final = "models"
"""The step that resolves the model name."""

DEFAULT_MODEL: Final = "models.default"

CONDITIONS: Final = "cases"
"""The step that finds the case of a request. Of a repeated field that it reads, only one value is forwarded."""

SERVED_ID: Final = "<served id>"
"""Placeholder for the served id of an alias when the served ids are unknown."""


class ServedIds(NamedTuple):
    """The model ids that engines serve. Aliases are routed to the first one if `routes_aliases` is set.

    `is_complete`: every engine has reported its model list, so no other id is served. `default` is the model of
    requests that name none, None if several models are possible. `absent` are the configured ids that no engine lists,
    empty until every engine has reported its list.
    """

    ids: tuple[str, ...]
    routes_aliases: bool = True
    is_complete: bool = True
    default: str | None = None
    absent: frozenset[str] = frozenset()

    @property
    def present(self) -> tuple[str, ...]:
        """The ids that an engine lists or may still list."""
        return tuple(model for model in self.ids if model not in self.absent) if self.absent else self.ids


class Forward(NamedTuple):
    """The request goes to an engine: its body after the edits, the edits, and the violations that were found.

    `respond_as` is the model name to write into the response, None to keep the engine's. `tokens` is the output budget,
    None if the contract sets none. `usage` says how the usage of a stream is rewritten. `errors` has the error texts
    for the engine's rejections. `case_selection` has the mode and the case.
    """

    body: bytes
    model_asked: str
    model_served: str
    stream: bool
    respond_as: str | None
    edits: tuple[JsonEdit, ...] = ()
    violations: tuple[str, ...] = ()
    tokens: Tokens | None = None
    usage: Usage | None = None
    errors: Errors = Errors()
    case_selection: CaseSelection = CaseSelection(None, None, None)
    is_default_model: bool = False
    """Whether `model_asked` is the contract's default, and the request names no model."""


class Rejection(NamedTuple):
    """The router rejects the request itself: the error, and the rule or step (READING, MODELS) that rejected it.

    `model_asked` is None if the model could not be read from the request. `errors` has the error texts.
    """

    error: ApiError
    rule: str
    violations: tuple[str, ...] = ()
    model_asked: str | None = None
    errors: Errors = Errors()
    case_selection: CaseSelection = CaseSelection(None, None, None)
    is_default_model: bool = False


def decide(body: bytes, contract: Contract, served_ids: ServedIds | None) -> Forward | Rejection:
    """Decide what happens with the body of a chat completion request.

    `served_ids` None means that every name which is not an alias counts as served.
    """
    step = BODY_SIZE
    asked = None
    is_default = False
    try:
        _check_size(body, contract)
        step = READING
        request = parse(body)
        stream = _read_once_only_fields(request)
        step = MODELS
        asked = request.value("model")
        if not isinstance(asked, str):
            asked, is_default = _default_model(request, contract), True
        served = resolve_model(asked, contract, served_ids)
    except ApiError as error:
        return unreadable(error, step, asked if isinstance(asked, str) else None, contract, is_default=is_default)
    try:
        return _evaluate(request, contract, _Names(asked, served, is_default), streamed=stream)
    except ApiError as error:
        # What only a rule looks into, and cannot be read within bounds.
        return unreadable(error, READING, asked, contract, is_default=is_default)


class _Names(NamedTuple):
    asked: str
    served: str
    is_default: bool


def unreadable(
    error: ApiError, step: str, asked: str | None, contract: Contract, *, is_default: bool = False
) -> Rejection:
    """Return the rejection of a request that was read only up to a step, with the name asked for, if that was read."""
    error.details.setdefault("model", None if asked is None else display(asked))
    return Rejection(without_frames(error), step, (), asked, contract.errors, is_default_model=is_default)


def _evaluate(request: ParsedRequest, contract: Contract, names: _Names, *, streamed: bool) -> Forward | Rejection:
    """Evaluate a request that is read and whose model is known; raises ApiError where it cannot be edited."""
    asked, served, is_default = names
    compiled = compiled_contract_of(contract)
    context = EvaluationContext(request, _set_default(request, served) if is_default else _route(asked, served))
    if asked != served:
        _imply(context, contract.models.aliases.get(asked))
    case_selection = compiled.case_matcher.match(asked, served, request.fields) if compiled.has_conditions else _NO_CASE
    for path in compiled.read_by_conditions:
        if path[0] in request.members and (len(path) > 1 or request.repeats):
            context.edits += drop_all_repetitions(request, CONDITIONS, path)
    rules, sections = compiled.rule_set_of(case_selection.case)
    rules.run(context)
    if context.error is not None and context.rejected_by is not None:
        context.error.details.setdefault("model", asked)
        return Rejection(
            context.error,
            context.rejected_by,
            tuple(context.violations),
            asked,
            sections.errors,
            case_selection,
            is_default,
        )
    usage = ask(context, sections.response.stream, streamed=streamed)
    edits = tuple(context.edits)
    return Forward(
        apply_edits(request, edits),
        asked,
        served,
        streamed,
        asked if asked != served and contract.models.respond_as == "requested" else None,
        edits,
        tuple(context.violations),
        context.tokens,
        usage,
        sections.errors,
        case_selection,
        is_default,
    )


_NO_CASE: Final = CaseSelection(None, None, None)


def _imply(context: EvaluationContext, alias: Alias | None) -> None:
    """Set the fields that the alias implies, as if the client had sent them. The client's own fields win."""
    for dotted, value in alias.implies.items() if alias is not None else ():
        path = path_of(dotted)
        if value_at(context.request.fields, path) is None and _set(context.request.fields, path, value):
            context.edits.append(JsonEdit("models.aliases", "inject", path, to_json(value)))


def _set(fields: dict[str, Any], path: tuple[str, ...], value: object) -> bool:
    """Set a value at a path of a parsed request; return whether that was possible."""
    holder = fields
    for step in path[:-1]:
        if holder.get(step) is None:
            holder[step] = {}
        holder = holder[step]
        if not isinstance(holder, dict):
            return False
    holder[path[-1]] = value
    return True


def _check_size(body: bytes, contract: Contract) -> None:
    if len(body) > contract.limits.max_body_bytes:
        raise request_too_large(contract.limits.max_body_bytes)


def _read_once_only_fields(request: ParsedRequest) -> bool:
    if request.repeats:
        for field in sorted(ONCE_ONLY_FIELDS):
            request.reject_repeated(field)
    stream = request.value("stream")
    if not isinstance(stream, bool | None):
        message = f"stream is {request.written('stream')}: expected true or false, or omit the field"
        raise ApiError("bad_request", message, "stream")
    return bool(stream)


def _default_model(request: ParsedRequest, contract: Contract) -> str:
    """Return the default model of a request that names none, and set it. Raises ApiError if there is none."""
    if request.value("model") is not None:
        raise ApiError("bad_request", f"model is {request.written('model')}: expected a string", "model")
    if contract.models.default is None:
        raise missing_model()
    request.fields["model"] = contract.models.default
    return contract.models.default


def missing_model() -> ApiError:
    """Return the error of a request without the required model name."""
    return ApiError("bad_request", "model is missing: set it to the name of a model", "model")


def resolve_model(asked: str, contract: Contract, served_ids: ServedIds | None) -> str:
    """Return the served id of a model name. A served id has precedence over an alias of the same name.

    Raises ApiError: `model_not_found`, or `no_healthy_engines` while it is not known whether an engine serves it.
    """
    alias = contract.models.aliases.get(asked)
    if served_ids is None:
        return asked if alias is None else alias.model or SERVED_ID
    if not served_ids.ids and not served_ids.is_complete:
        raise ApiError("no_healthy_engines", "No engine has listed its models yet")
    served = asked if asked in served_ids.ids else _target(alias, served_ids)
    if served is None or served in served_ids.absent:
        raise _unknown_model(asked, contract, served_ids)
    return served


def _target(alias: Alias | None, served_ids: ServedIds) -> str | None:
    """Return the id that an alias is routed as, None where there is no alias or that id is not served."""
    if alias is None or not served_ids.ids:
        return None
    if alias.model is not None:
        return alias.model if alias.model in served_ids.ids else None
    if not served_ids.routes_aliases:
        raise ApiError(
            "no_healthy_engines", "Several models are served and it is not configured which one aliases mean"
        )
    return served_ids.ids[0]


def _unknown_model(asked: str, contract: Contract, served_ids: ServedIds) -> ApiError:
    names = ", ".join(dict.fromkeys((*served_ids.present, *contract.models.aliases)))
    details = {"model": display(asked), "value": display(asked), "models": display(names)}
    if not served_ids.is_complete:
        message = f"No engine has listed the model {display(asked)!r} yet, and some could not be asked so far"
        return ApiError("no_healthy_engines", message, details=details)
    return ApiError("model_not_found", f"The model {display(asked)!r} does not exist here", "model", details=details)


def _set_default(request: ParsedRequest, served: str) -> list[JsonEdit]:
    is_null = "model" in request.members
    return [JsonEdit(DEFAULT_MODEL, "set" if is_null else "inject", ("model",), to_json(served))]


def _route(asked: str, served: str) -> list[JsonEdit]:
    return [] if asked == served else [JsonEdit("models.aliases", "set", ("model",), to_json(served))]
