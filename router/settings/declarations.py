"""Every setting of the router, declared once: its environment variable, type, default and help text."""

import importlib.util
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from router.auth import ApiKey, KeysFile, parse_keys, read_keys
from router.balancing.policies import POLICIES
from router.request.headers import parse_response_headers
from router.request.routes import CONFIGURABLE
from router.settings.engines import is_address, parse_engines
from router.settings.numbers import byte_size, count, count_or_zero, is_port, port, seconds, seconds_or_zero
from router.settings.problems import (
    did_you_mean,
    gunicorn_problems,
    invalid_setting,
    one_of,
    quoted,
    quoted_path,
    quoted_urls,
    redacted,
)

PREFIX: Final = "ROUTER_"

ACCESS_LOGS: Final = ("auto", "json", "text", "off")
"""What the access log may be: lines of JSON, lines for people, none, or what suits where it goes."""

OPENTELEMETRY: Final = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter")
"""What traces are made with; no part of a plain installation."""

_HEADER = re.compile(r"[A-Za-z0-9-]{1,100}", re.ASCII)


class DnsServer(NamedTuple):
    """Where a name server listens."""

    address: str
    port: int = 53


class SettingError(Exception):
    """Settings cannot be used; each line of the message names one and says what was found and what is expected."""


def _key(value: str) -> str:
    if not (value.isascii() and value.isprintable()):
        raise ValueError("a key of printable ASCII characters")
    return value


def _path(value: str) -> Path:
    return Path(value)


def _ca_file(value: str) -> Path:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(value)
    except OSError:  # also SSLError: there is no certificate in it
        raise ValueError("a readable PEM file of certificates") from None
    return Path(value)


def _keys_file(value: str) -> KeysFile:
    return read_keys(Path(value))


def _list(value: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.strip() for item in value.split(",") if item.strip()))


def _access_log(value: str) -> str:
    return one_of(value, ACCESS_LOGS)


def _policy(value: str) -> str:
    return one_of(value, tuple(POLICIES))


def _header(value: str) -> str:
    if not _HEADER.fullmatch(value):
        raise ValueError("the name of a header, of letters, digits and hyphens")
    return value


def _switch(value: str) -> bool:
    if value not in ("on", "off"):
        raise ValueError("on or off")
    return value == "on"


def _traces(value: str) -> bool:
    is_on = _switch(value)
    if is_on and not _has_opentelemetry():
        raise ValueError("off, or the packages of the extra otel: pip install 'profilec[otel]'")
    return is_on


def _has_opentelemetry() -> bool:
    try:
        return all(importlib.util.find_spec(name) for name in OPENTELEMETRY)
    except ModuleNotFoundError:
        return False


def _routes(value: str) -> tuple[str, ...]:
    chosen = _list(value)
    if not chosen:
        raise ValueError("at least one path")
    unknown = [route for route in chosen if route not in CONFIGURABLE]
    if unknown:
        raise ValueError(f"paths out of {', '.join(CONFIGURABLE)}{did_you_mean(unknown[0], CONFIGURABLE)}")
    return tuple(route for route in CONFIGURABLE if route in chosen)


def _dns_server(value: str) -> DnsServer:
    if is_address(value):
        return DnsServer(value)
    address, _, port = value.rpartition(":")
    if address.startswith("[") and address.endswith("]"):
        address = address[1:-1]
    elif ":" in address:
        address = ""
    if not (is_address(address) and is_port(port)):
        raise ValueError("an address, or ADDRESS:PORT, such as 10.96.0.10:53 or [fd00::10]:53")
    return DnsServer(address, int(port))


def _setting(parse: Callable[[str], Any], default: Any, text: str, display: Callable[[str], str] = quoted) -> Any:  # noqa: ANN401 - like dataclasses.field
    """Declare a setting; `display` returns its value for a message, redacted if it may hold a secret."""
    return field(default=default, metadata={"parse": parse, "help": text, "display": display})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one router, read from the environment: `ROUTER_` and the field's name in capitals."""

    engines: tuple[str, ...] = _setting(
        parse_engines,
        MISSING,
        "Base URLs of the engines, comma-separated, with or without `/v1`, or `dns://NAME:PORT` for all addresses of a "
        "name. `models=ID|ID` after a space replaces the engine's own model list.",
        quoted_urls,
    )
    profile: Path | None = _setting(
        _path,
        None,
        "The artifact to enforce. Default: `/etc/sgl-router/profile.json`, else `./profile.json`, else "
        "`openai-compatible`.",
    )
    require_profile: bool = _setting(
        _switch, False, "`on`: do not start if none of the first three exists; `off`: start without one."
    )
    model_id: tuple[str, ...] = _setting(
        _list,
        (),
        "Served model ids, comma-separated; aliases are routed to the first. Default: the ids that the engines list.",
    )
    routes: tuple[str, ...] = _setting(
        _routes,
        CONFIGURABLE,
        "Paths to serve, comma-separated, out of those in [Routes and models](#routes-and-models).",
    )
    policy: str = _setting(
        _policy, "round_robin", f"Load balancing policy: {', '.join(f'`{name}`' for name in POLICIES)}."
    )
    session_header: str = _setting(
        _header,
        "X-Session-Id",
        "Request header for `prefix_affinity`: requests with the same value go to the same engine.",
    )
    engine_api_key: str | None = _setting(
        _key, None, "Key sent to the engines instead of the client's `Authorization`.", redacted
    )
    engine_ca: Path | None = _setting(
        _ca_file, None, "PEM file of the certificate authorities that engines' certificates are verified against."
    )
    response_headers: tuple[str, ...] = _setting(
        parse_response_headers,
        (),
        "Further response headers of engines to forward to clients, comma-separated: names, or `x-name-*`.",
    )
    show_max_model_len: bool = _setting(
        _switch, False, "`on`: model cards contain the engine's `max_model_len`; `off`: they do not."
    )
    api_keys: tuple[ApiKey, ...] = _setting(
        parse_keys,
        (),
        "API keys of clients, comma-separated: `NAME=KEY` or `NAME=sha256:HEX`. Default: no key is required.",
        redacted,
    )
    api_keys_file: KeysFile | None = _setting(
        _keys_file, None, "File with one such key a line; it is reloaded when it changes.", quoted_path
    )
    upstream_connect_timeout_seconds: float = _setting(seconds, 5.0, "Timeout for connecting to an engine.")
    upstream_response_timeout_seconds: float = _setting(
        seconds,
        600.0,
        "Timeout for the first byte of an engine's response. An unstreamed response starts when it is complete.",
    )
    upstream_idle_timeout_seconds: float = _setting(
        seconds, 120.0, "Timeout between two reads of an engine's response, and two writes of a request to it."
    )
    upstream_total_timeout_seconds: float = _setting(
        seconds, 3600.0, "Timeout for a whole request to an engine, response included."
    )
    upstream_keepalive_timeout_seconds: float = _setting(
        seconds, 3.0, "How long an idle connection to an engine stays open; SGLang and vLLM close theirs after 5 s."
    )
    sse_keepalive_interval_seconds: float = _setting(
        seconds_or_zero, 0.0, "Interval of SSE comments to the client while a stream is silent; 0: none."
    )
    retries: int = _setting(
        count_or_zero, 2, "Retries on another engine if the first cannot have processed the request; 0: none."
    )
    breaker_failures: int = _setting(count, 5, "Consecutive failures of an engine that open its circuit breaker.")
    breaker_reset_timeout_seconds: float = _setting(
        seconds,
        2.0,
        "How long a circuit breaker stays open before a trial; doubled after each failed trial, up to a minute.",
    )
    health_check_interval_seconds: float = _setting(
        seconds, 10.0, "Interval of the health checks and model lists of a healthy engine."
    )
    dns_refresh_interval_seconds: float = _setting(
        seconds, 5.0, "Interval of the DNS queries for names in `ROUTER_ENGINES`."
    )
    dns_server: DnsServer | None = _setting(
        _dns_server,
        None,
        "DNS server for these queries, `ADDRESS` or `ADDRESS:PORT`; names are sent without search domains. "
        "Default: as in `/etc/resolv.conf`.",
    )
    client_header_timeout_seconds: float = _setting(
        seconds, 10.0, "Timeout for reading the request line and headers of a request."
    )
    client_body_timeout_seconds: float = _setting(seconds, 60.0, "Timeout for reading the whole body of a request.")
    client_send_timeout_seconds: float = _setting(
        seconds, 30.0, "Timeout for sending a piece of a response (64 KiB) to a client."
    )
    drain_seconds: float = _setting(
        seconds_or_zero, 5.0, "Delay after SIGTERM in which `/readyz` returns 503 while requests are still served."
    )
    graceful_timeout_seconds: float = _setting(
        seconds_or_zero, 300.0, "Timeout for running requests to finish after that delay."
    )
    max_in_flight: int = _setting(
        count, 512, "Concurrent inference requests over all worker processes; more are rejected as `overloaded`."
    )
    max_buffered_bytes: int = _setting(
        byte_size,
        256 * 1024 * 1024,
        "Size of all long request bodies (over 64 KiB) that a worker process holds. A request waits for room for its "
        "whole body, up to the body timeout, then is `overloaded`.",
    )
    access_log: str = _setting(
        _access_log,
        "auto",
        "Access log on stdout: `json`, `text`, `off`, or `auto`: text on a terminal, else JSON.",
    )
    metrics: bool = _setting(_switch, False, "Prometheus metrics at `GET /metrics`: `on` or `off`.")
    metrics_port: int | None = _setting(
        port, None, "Separate port for the metrics, without API key. Default: the main port."
    )
    metrics_by_engine: bool = _setting(
        _switch, False, "`on`: further metrics by engine (requests, errors, in flight), with its address as a label."
    )
    traces: bool = _setting(
        _traces,
        False,
        "OpenTelemetry traces, `on` or `off`; `OTEL_EXPORTER_OTLP_ENDPOINT` is their destination.",
    )


def load(environ: Mapping[str, str]) -> Settings:
    """Read the settings from an environment. Raises SettingError for all that cannot be used."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for item in fields(Settings):
        try:
            value = _read(item, environ)
        except SettingError as error:
            problems.append(str(error))
            continue
        if value is not None:
            values[item.name] = value
    problems += [*_contradictions(environ), *gunicorn_problems(environ)]
    if problems:
        # A name that is not known is often why another setting is missing.
        raise SettingError("\n".join([*problems, *unknown_names(environ)]))
    return Settings(**values)


def _contradictions(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with settings that can be used, but not beside each other."""
    given = {item.name for item in fields(Settings) if _text(item, environ)}
    if {"api_keys", "api_keys_file"} <= given:
        yield "ROUTER_API_KEYS cannot be used: found ROUTER_API_KEYS_FILE beside it, expected either of them"
    has_metrics = environ.get("ROUTER_METRICS", "").strip() == "on"
    if "metrics_port" in given and not has_metrics:
        yield "ROUTER_METRICS_PORT needs ROUTER_METRICS=on"
    if environ.get("ROUTER_METRICS_BY_ENGINE", "").strip() == "on" and not has_metrics:
        yield "ROUTER_METRICS_BY_ENGINE needs ROUTER_METRICS=on"


def unknown_names(environ: Mapping[str, str]) -> list[str]:
    """Return a warning for each `ROUTER_*` name that is no setting, with the nearest that is."""
    known = [name_of(item) for item in fields(Settings)]
    unknown = sorted(name for name in environ if name.startswith(PREFIX) and name not in known)
    return [f"{name} is not a setting and has no effect{did_you_mean(name, known)}" for name in unknown]


def name_of(item: Field[Any]) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + item.name.upper()


def _read(item: Field[Any], environ: Mapping[str, str]) -> Any:  # noqa: ANN401 - the settings have many types
    text = _text(item, environ)
    if not text:
        if item.default is MISSING:
            raise SettingError(f"{name_of(item)} is not set: {item.metadata['help']}")
        return None
    try:
        return item.metadata["parse"](text)
    except ValueError as error:
        raise SettingError(invalid_setting(name_of(item), item.metadata["display"](text), error)) from None


def _text(item: Field[Any], environ: Mapping[str, str]) -> str:
    return environ.get(name_of(item), "").strip()
