"""Allowlists of the headers that are forwarded, to the engine and to the client."""

import random
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

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
"""Request headers that are forwarded. Others may control an engine, as `x-override-*` does SGLang."""

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
"""Response headers of an engine that are forwarded: what clients of vendors' APIs read. Others may name machines."""

PREFIXES_TO_CLIENT: Final = ("anthropic-ratelimit-", "x-ratelimit-")
"""Prefixes of further response headers that are forwarded."""

NEVER_TO_CLIENT: Final = HOP_BY_HOP | {
    "alt-svc",  # would send clients past the router
    "authorization",  # no response header: an engine that echoes requests would reveal its own key
    "content-length",  # computed from the bytes that are sent
    "date",  # gunicorn's
    "request-id",  # ours
    "server",  # gunicorn's
    "set-cookie",  # an engine's session is not the client's
    "x-accel-buffering",  # ours
    "x-api-key",  # as authorization
    "x-request-id",  # ours
}
"""Response headers of an engine that are never forwarded, as those with the router's own prefix."""

OWN_PREFIX: Final = "x-router-"
"""Prefix of the headers that only the router sets."""

BODY_HEADERS: Final = frozenset({"etag", "content-md5", "content-digest", "digest", "repr-digest"})
"""Response headers that describe the engine's bytes: they are removed when the body is rewritten."""

ATTEMPTS: Final = "x-router-attempts"
"""Response header with the number of attempts at engines, if there was more than one."""

_NO_NAMES: Final[frozenset[str]] = frozenset()
_BODY_DESCRIPTION: Final = frozenset({"content-type"})
"""Headers that a client cannot make hop-by-hop by naming them in Connection: an engine needs them."""
_CONNECTION_LENGTH: Final = len("connection")
_SECOND_CREDENTIALS = re.compile(r",\s*[A-Za-z][A-Za-z0-9-]*\s+\S")
_KEY_CHARACTER: Final = r"[A-Za-z0-9._~+/=-]"
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", re.ASCII)
_PATTERN = re.compile(r"[a-z0-9-]{1,100}\*?", re.ASCII)
_FIELD_VALUE = re.compile(r"[ \t\x21-\x7e\x80-\xff]*")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}", re.ASCII)
_TO_ENGINE: Final = {name.lower(): name for name in TO_ENGINE}


def for_engine(by_name: Mapping[str, str], request_id: str, engine_api_key: str | None) -> dict[str, str]:
    """Return the request headers for an engine, of the client's by lower-case name; the engines' key replaces its own.

    Raises ApiError `bad_request` if the client sent Authorization more than once: servers join them with a comma.
    """
    if "," in by_name.get("authorization", "") and _SECOND_CREDENTIALS.search(by_name["authorization"]):
        raise ApiError("bad_request", "The Authorization header was sent more than once; send it once")
    headers = {_TO_ENGINE[name]: value for name, value in by_name.items() if name in _TO_ENGINE}
    if "connection" in by_name:
        for name in _named_by_connection(by_name["connection"]) - _BODY_DESCRIPTION:
            headers.pop(_TO_ENGINE.get(name, ""), None)
    if not headers.get("Content-Type", "-"):
        del headers["Content-Type"]
    if engine_api_key is not None:
        headers.pop("X-API-Key", None)
        headers["Authorization"] = f"Bearer {engine_api_key}"
    headers["X-Request-Id"] = request_id
    return headers


def without_key(headers: Iterable[tuple[str, str]], engine_api_key: str) -> list[tuple[str, str]]:
    """Return an engine's headers without those that contain the engine's key, under any name."""
    key = re.compile(f"(?<!{_KEY_CHARACTER}){re.escape(engine_api_key)}(?!{_KEY_CHARACTER})")
    return [(name, value) for name, value in headers if not key.search(value)]


def for_client(headers: Iterable[tuple[str, str]], also: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Return the engine's headers that the client gets: TO_CLIENT, PREFIXES_TO_CLIENT and `also`.

    `also` has names in lower case; a name that ends in `*` is a prefix. Malformed headers (RFC 9110, section 5.5) are
    dropped.
    """
    headers = list(headers)
    connection = [value for name, value in headers if len(name) == _CONNECTION_LENGTH and name.lower() == "connection"]
    named = _named_by_connection(",".join(connection)) if connection else _NO_NAMES
    # gunicorn rejects malformed ones, and the whole response would be lost.
    return [
        (name, value)
        for name, value in headers
        if _is_forwarded(name, also)
        and ((value.isascii() and value.isprintable()) or _FIELD_VALUE.fullmatch(value))
        and not (named and name.lower() in named)
    ]


def plain_for_client(headers: Iterable[tuple[str, str]], also: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Return the same where all values are visible ASCII and Connection names no headers."""
    return [field for field in headers if _is_forwarded(field[0], also)]


@lru_cache(maxsize=256)
def _is_forwarded(name: str, also: tuple[str, ...]) -> bool:
    lower = name.lower()
    if lower in TO_CLIENT:
        return True
    kinds = PREFIXES_TO_CLIENT + tuple(each[:-1] for each in also if each.endswith("*"))
    is_allowed = lower in also or lower.startswith(kinds)
    return bool(is_allowed and _may_come_from_engine(lower) and _TOKEN.fullmatch(name))


def parse_response_headers(value: str) -> tuple[str, ...]:
    """Return a comma-separated list of headers as `for_client` takes them. Raises ValueError: what is expected."""
    names = tuple(dict.fromkeys(item.strip().lower() for item in value.split(",") if item.strip()))
    if not all(_PATTERN.fullmatch(name) for name in names):
        raise ValueError("names of headers, or beginnings of names as x-name-*")
    ours = [name for name in names if not _may_come_from_engine(name)]
    if ours:
        raise ValueError(f"headers that an engine may decide on; {ours[0]} is the router's, or of one connection")
    return names


def _may_come_from_engine(name: str) -> bool:
    """Return whether an engine may set a response header; `name` is in lower case."""
    return name not in NEVER_TO_CLIENT and not name.startswith(OWN_PREFIX)


def request_id(given: str | None) -> str:
    """Return the client's X-Request-Id if it is a valid token, else a new id."""
    if given and _REQUEST_ID.fullmatch(given):
        return given
    return new_request_id()


def new_request_id() -> str:
    """Return a request id of 24 hexadecimal digits.

    vLLM uses it in the id of its response (`chatcmpl-` and the value of X-Request-Id), which then has the form that
    Moonshot's streaming specification requires.
    """
    # It only has to be unique, not unpredictable; Python seeds `random` in each process after a fork.
    return f"{random.getrandbits(96):024x}"


def _named_by_connection(value: str) -> frozenset[str]:
    return frozenset(token.strip().lower() for token in value.split(","))
