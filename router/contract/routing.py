"""Model routing of requests without a contract: the model is read from the raw bytes and resolved."""

from typing import Final, NamedTuple

import msgspec
import orjson

from router.contract.decide import MODELS, READING, Rejection, ServedIds, missing_model, resolve_model, unreadable
from router.contract.errors import ApiError
from router.contract.jsonbytes.members import Member, TooManyMembersError, find_members
from router.contract.jsonbytes.parsing import MAX_MEMBERS, MAX_VALUES, holds_too_many_values
from router.contract.jsonbytes.splice import to_json
from router.contract.schema.model import Contract
from router.contract.templates import display

_KEY: Final = b'"model"'
_ESCAPED_LETTER: Final = b"\\u006"
"""How an escape of a letter of `model` begins: with it a key may be the same in other bytes."""
_NULL: Final = b"null"


class ModelRoute(NamedTuple):
    """The request goes to an engine that lists `model_served`: these bytes, in which an alias was replaced.

    `model_asked` is None if the request names no model. `respond_as` is the model name to write into the response, None
    to keep the engine's.
    """

    body: bytes
    model_asked: str | None
    model_served: str
    respond_as: str | None = None
    is_default_model: bool = False
    """Whether `model_asked` is the contract's default, and the request names no model."""


class _RequestModel(msgspec.Struct):
    """The model name of a request. The parser validates and skips all other fields."""

    model: msgspec.Raw = msgspec.Raw()


_read_named: Final = msgspec.json.Decoder(_RequestModel).decode


def route_by_model(body: bytes, contract: Contract, served_ids: ServedIds) -> ModelRoute | Rejection:
    """Return the route of a request by its model. No other field is read.

    Only the member `model` of the outermost object counts. A request without it, or with null, is for the contract's
    default model, else for the one model that is served; where there are several, it is rejected.
    """
    step = READING
    asked = None
    is_default = False
    try:
        asked = _read_model(body)
        step = MODELS
        if asked is None:
            asked, is_default = contract.models.default, contract.models.default is not None
        if asked is None:
            return ModelRoute(body, None, _default(served_ids))
        served = resolve_model(asked, contract, served_ids)
        if served == asked and not is_default:
            return ModelRoute(body, asked, served)
        edited = _with_model(body, served)
    except ApiError as error:
        return unreadable(error, step, asked, contract, is_default=is_default)
    responds_as = asked if served != asked and contract.models.respond_as == "requested" else None
    return ModelRoute(edited, asked, served, responds_as, is_default)


def _with_model(body: bytes, served: str) -> bytes:
    """Return the body of a request with another model, or with one in front if it has none. Raises ApiError."""
    named = _members_named_model(body)
    if named:
        return b"".join([body[: named[0].start], to_json(served), body[named[0].end :]])
    start = body.index(b"{") + 1
    separator = b"" if body[start:].lstrip().startswith(b"}") else b","
    return b"".join([body[:start], b'"model":', to_json(served), separator, body[start:]])


def _read_model(body: bytes) -> str | None:
    """Return the model that a request names, None where it names none. Raises ApiError."""
    try:
        value = bytes(_read_named(body).model)
    except msgspec.ValidationError:
        raise ApiError("bad_request", "The request body must be a JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError("bad_request", f"The request body is not valid JSON: {error}") from None
    except RecursionError:
        raise ApiError("bad_request", "The request body is nested too deep") from None
    if not value:
        return None
    if (body.count(_KEY) > 1 or _ESCAPED_LETTER in body) and len(_members_named_model(body)) > 1:
        raise ApiError("bad_request", "model occurs more than once in the request; send it once", "model")
    if value == _NULL:
        return None
    try:
        asked = orjson.loads(value)
    except orjson.JSONDecodeError:  # no UTF-8
        asked = None
    if not isinstance(asked, str):
        raise ApiError("bad_request", f"model is {display(value.decode(errors='replace'))}: expected a string", "model")
    return asked


def _default(served_ids: ServedIds) -> str:
    if served_ids.default is not None:
        return served_ids.default
    if not served_ids.ids:
        raise ApiError("no_healthy_engines", "No engine has listed its models yet")
    raise missing_model()


def _members_named_model(body: bytes) -> list[Member]:
    """Return the members of the outermost object whose key is `model`, however it is spelled. Raises ApiError."""
    if holds_too_many_values(body):
        raise ApiError("bad_request", f"The request body holds more than {MAX_VALUES:,} JSON values")
    try:
        return [member for member in find_members(body, most=MAX_MEMBERS) if member.key == "model"]
    except TooManyMembersError:
        raise ApiError("bad_request", f"The request body holds more than {MAX_MEMBERS} members") from None
