"""What a router opens, and who can reach it: said at start. Pure."""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

from router.request import routes
from router.settings import Settings

Address = tuple[str, int] | str | int
"""What gunicorn listens on: a host and a port, the path of a Unix socket, or the number of a descriptor."""

_ALL: Final = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not listened on


def exposure(own: Settings, addresses: Sequence[Address]) -> str:
    """Return which routes are open, on which addresses, and whether clients have to show an API key."""
    opened = [*own.routes, *([routes.METRICS] if own.metrics and own.metrics_port is None else [])]
    where = ", ".join(map(_reach, addresses))
    return f"open on {where}, {_to_whom(own)}: {', '.join(opened)}"


def exposure_warning(own: Settings, addresses: Sequence[Address]) -> str | None:
    """Return a warning where everybody in the network is served; None where not all addresses are listened on."""
    exposed = [address for address in addresses if isinstance(address, tuple) and address[0] in _ALL]
    if not exposed or _asks_for_keys(own):
        return None
    return (
        f"clients need no API key, and {_shown(exposed[0])} is all addresses of this machine: whoever reaches it is "
        f"served; set ROUTER_API_KEYS_FILE, or listen on one address, for example with --bind 127.0.0.1:{exposed[0][1]}"
    )


def _to_whom(own: Settings) -> str:
    return "for clients that show an API key" if _asks_for_keys(own) else "without an API key"


def _asks_for_keys(own: Settings) -> bool:
    return bool(own.api_keys) or own.api_keys_file is not None


def _reach(address: Address) -> str:
    if not isinstance(address, tuple):
        return f"{_shown(address)} (this machine alone)"
    if address[0] in _ALL:
        return f"{_shown(address)} (all addresses of this machine)"
    return f"{_shown(address)} (this machine alone)" if _is_loopback(address[0]) else _shown(address)


def _shown(address: Address) -> str:
    if isinstance(address, tuple):
        return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"
    return f"unix:{address}" if isinstance(address, str) else f"descriptor {address}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"
