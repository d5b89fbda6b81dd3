"""Which routes a router opens, on which addresses and for whom: the log line and the warning at start. Pure."""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

from router.request import routes
from router.settings.declarations import Settings

Address = tuple[str, int] | str | int
"""An address that gunicorn listens on: host and port, the path of a Unix socket, or a descriptor number."""

_ALL: Final = ("", "0.0.0.0", "::")  # noqa: S104 - only compared with


def describe_exposure(own: Settings, addresses: Sequence[Address]) -> str:
    """Return a line with the open routes, their addresses and whether clients need an API key."""
    open_routes = [*own.routes, *([routes.METRICS] if own.metrics and own.metrics_port is None else [])]
    where = ", ".join(map(_with_scope, addresses))
    return f"open on {where}, {_audience(own)}: {', '.join(open_routes)}"


def exposure_warning(own: Settings, addresses: Sequence[Address]) -> str | None:
    """Return a warning when anyone in the network is served; None with API keys or a specific address."""
    exposed = [address for address in addresses if isinstance(address, tuple) and address[0] in _ALL]
    if not exposed or _requires_api_key(own):
        return None
    return (
        f"clients need no API key, and {_display(exposed[0])} listens on all addresses of this machine: anyone who "
        f"reaches it is served; set ROUTER_API_KEYS_FILE, or listen on one address, for example with "
        f"--bind 127.0.0.1:{exposed[0][1]}"
    )


def _audience(own: Settings) -> str:
    return "for clients with an API key" if _requires_api_key(own) else "without an API key"


def _requires_api_key(own: Settings) -> bool:
    return bool(own.api_keys) or own.api_keys_file is not None


def _with_scope(address: Address) -> str:
    if not isinstance(address, tuple):
        return f"{_display(address)} (this machine only)"
    if address[0] in _ALL:
        return f"{_display(address)} (all addresses of this machine)"
    return f"{_display(address)} (this machine only)" if _is_loopback(address[0]) else _display(address)


def _display(address: Address) -> str:
    if isinstance(address, tuple):
        return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"
    return f"unix:{address}" if isinstance(address, str) else f"descriptor {address}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a host name
        return host == "localhost"
