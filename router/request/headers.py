"""Which headers travel, to the engine and to the client: those of a list each."""

import random
import re
from collections.abc import Iterable, Mapping, MutableMapping
from functools import lru_cache
from typing import Any, Final

from router.contract.errors import ApiError

TO_ENGINE: Final = (
    "Accept",
    "Accept-Encoding",
    "Anthropic-Beta",
    "Anthropic-Version",
    "Authorization",
    "Content-Type",
    "OpenAI-Beta",
    "OpenAI-Organization",
    "OpenAI-Project",
    "Traceparent",
    "Tracestate",
    "User-Agent",
    "X-API-Key",
)
"""Request headers that are passed on. From others engines take orders: SGLang from `x-override-*`, for example."""

HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers of one connection (RFC 9110, section 7.6.1)."""

TO_CLIENT: Final = frozenset(
    {
        "cache-control",
        "content-encoding",
        "content-type",
        "openai-processing-ms",
        "retry-after",
        "retry-after-ms",
        "vary",
        "x-should-retry",
    }
)
"""Response headers of an engine that are passed on: what clients of vendors' APIs read. Others may name machines."""

PREFIXES_TO_CLIENT: Final = ("anthropic-ratelimit-", "x-ratelimit-")
"""How the names of others begin that are passed on."""

NEVER_TO_CLIENT: Final = HOP_BY_HOP | {
    "alt-svc",  # would send clients past the router
    "authorization",  # no header of an answer: an engine that echoes requests would give its own key away
    "content-length",  # set anew from the bytes that are sent
    "date",  # gunicorn's
    "request-id",  # ours
    "server",  # gunicorn's
    "set-cookie",  # an engine's session is not the client's
    "x-accel-buffering",  # ours
    "x-api-key",  # as authorization
    "x-request-id",  # ours
}
"""Response headers of an engine that no setting lets pass, nor those that begin as the router's own."""

OWN_PREFIX: Final = "x-router-"
"""How the names of headers begin that only the router writes."""

BODY_HEADERS: Final = frozenset({"etag", "content-md5", "content-digest", "digest", "repr-digest"})
"""Response headers that are true of the engine's bytes alone: they go when the body is edited."""

ATTEMPTS: Final = "x-router-attempts"
"""Response header that says how often a request was sent to engines, where it was more than once."""

_NO_NAMES: Final[frozenset[str]] = frozenset()
_CONNECTION_LENGTH: Final = len("connection")
_SECOND_CREDENTIALS = re.compile(r",\s*[A-Za-z][A-Za-z0-9-]*\s+\S")
_KEY_CHARACTER: Final = r"[A-Za-z0-9._~+/=-]"
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", re.ASCII)
_PATTERN = re.compile(r"[a-z0-9-]{1,100}\*?", re.ASCII)
_FIELD_VALUE = re.compile(r"[ \t\x21-\x7e\x80-\xff]*")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}", re.ASCII)
_VARIABLES: Final = tuple(
    (name, "HTTP_" + name.upper().replace("-", "_"), name.lower()) for name in TO_ENGINE if name != "Content-Type"
)


def for_engine(environ: Mapping[str, str], request_id: str, engine_api_key: str | None) -> dict[str, str]:
    """Return the headers that an engine gets with a request; the engines' own key replaces the client's.

    Raises ApiError `bad_request` when the client sent Authorization more than once, which servers join with a comma.
    """
    if "," in environ.get("HTTP_AUTHORIZATION", "") and _SECOND_CREDENTIALS.search(environ["HTTP_AUTHORIZATION"]):
        raise ApiError("bad_request", "The Authorization header was sent more than once; send it once")
    named = _named_by_connection(environ["HTTP_CONNECTION"]) if "HTTP_CONNECTION" in environ else _NO_NAMES
    headers = {
        name: environ[variable] for name, variable, lower in _VARIABLES if variable in environ and lower not in named
    }
    content_type = environ.get("CONTENT_TYPE")
    if content_type:
        headers["Content-Type"] = content_type
    if engine_api_key is not None:
        headers.pop("X-API-Key", None)
        headers["Authorization"] = f"Bearer {engine_api_key}"
    headers["X-Request-Id"] = request_id
    return headers


def value_of(environ: Mapping[str, str], name: str) -> str | None:
    """Return the value of a request header, None when there is none."""
    return environ.get("HTTP_" + name.upper().replace("-", "_"))


def remove_credentials(environ: MutableMapping[str, Any]) -> None:
    """Take a client's credentials out of its request: they were the router's, so no engine may get them."""
    for variable in ("HTTP_AUTHORIZATION", "HTTP_X_API_KEY"):
        environ.pop(variable, None)


def without_key(headers: Iterable[tuple[str, str]], engine_api_key: str) -> list[tuple[str, str]]:
    """Return those of an engine's headers that do not hold the engine's key, under whatever name it may echo it."""
    key = re.compile(f"(?<!{_KEY_CHARACTER}){re.escape(engine_api_key)}(?!{_KEY_CHARACTER})")
    return [(name, value) for name, value in headers if not key.search(value)]


def for_client(headers: Iterable[tuple[str, str]], also: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Return those of an engine's headers that its client gets: those of TO_CLIENT and its kinds, and `also`.

    `also` has names in lower case; one that ends in `*` stands for all that begin so. Malformed headers (RFC 9110,
    section 5.5) stay behind.
    """
    headers = list(headers)
    connection = [value for name, value in headers if len(name) == _CONNECTION_LENGTH and name.lower() == "connection"]
    named = _named_by_connection(",".join(connection)) if connection else _NO_NAMES
    # Servers refuse to send malformed ones, after which the whole answer would be lost.
    return [
        (name, value)
        for name, value in headers
        if _is_forwarded(name, also)
        and ((value.isascii() and value.isprintable()) or _FIELD_VALUE.fullmatch(value))
        and not (named and name.lower() in named)
    ]


@lru_cache(maxsize=256)
def _is_forwarded(name: str, also: tuple[str, ...]) -> bool:
    lower = name.lower()
    if lower in TO_CLIENT:
        return True
    kinds = PREFIXES_TO_CLIENT + tuple(each[:-1] for each in also if each.endswith("*"))
    is_allowed = lower in also or lower.startswith(kinds)
    return bool(is_allowed and _may_come_from_engine(lower) and _TOKEN.fullmatch(name))


def parse_response_headers(value: str) -> tuple[str, ...]:
    """Return the headers of a comma-separated list as `for_client` takes them. Raises ValueError: what is expected."""
    names = tuple(dict.fromkeys(item.strip().lower() for item in value.split(",") if item.strip()))
    if not all(_PATTERN.fullmatch(name) for name in names):
        raise ValueError("names of headers, or beginnings of names as x-name-*")
    ours = [name for name in names if not _may_come_from_engine(name)]
    if ours:
        raise ValueError(f"headers that an engine may decide on; {ours[0]} is the router's, or of one connection")
    return names


def _may_come_from_engine(name: str) -> bool:
    """Tell whether a response header, by its name in lower case, may come from an engine at all."""
    return name not in NEVER_TO_CLIENT and not name.startswith(OWN_PREFIX)


def request_id(environ: Mapping[str, str]) -> str:
    """Return the client's X-Request-Id if it is a plain token, else a new one."""
    given = environ.get("HTTP_X_REQUEST_ID", "")
    if given and _REQUEST_ID.fullmatch(given):
        return given
    return new_request_id()


def new_request_id() -> str:
    """Return a request id of 24 hexadecimal digits.

    vLLM makes the id of its answer from it (`chatcmpl-` before the value of X-Request-Id), which then has the form that
    Moonshot's streaming specification demands.
    """
    # Unlike anyone else's, which is all that it has to be; Python begins anew with this chance in each process.
    return f"{random.getrandbits(96):024x}"


def _named_by_connection(value: str) -> frozenset[str]:
    return frozenset(token.strip().lower() for token in value.split(","))
