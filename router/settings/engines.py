"""The items of ROUTER_ENGINES: where engines are, and the model ids that are given to them."""

import re
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from router.settings.numbers import is_port

DNS: Final = "dns://"
"""How an item of ROUTER_ENGINES begins that is a name, whose every address is an engine."""

_MODELS: Final = " models="
"""What stands in an item between an engine and the ids given to it, of which _OR stands between two."""

_OR: Final = "|"

_HOST_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?", re.ASCII)
_DNS_ITEM = re.compile(r"dns://([^:/]+):([0-9]{1,5})", re.ASCII)
_LONGEST_NAME: Final = 253

_NOT_IN_A_BASE_URL: Final = frozenset(" ?#")


class EngineItem(NamedTuple):
    """An item of ROUTER_ENGINES: a base URL or a name, and the model ids given to what is there, if any."""

    place: str
    models: tuple[str, ...] = ()


def split_item(item: str) -> EngineItem:
    """Return the parts of an item of ROUTER_ENGINES."""
    place, _, models = item.partition(_MODELS)
    return EngineItem(place, tuple(models.split(_OR)) if models else ())


def parse_engines(value: str) -> tuple[str, ...]:
    """Return the items of a list with commas between them, each in its plainest form.

    Raises ValueError, saying what is expected.
    """
    items = dict.fromkeys(item.strip() for item in value.split(",") if item.strip())
    engines = tuple(map(_engine, items))
    if not engines:
        raise ValueError("at least one base URL such as http://127.0.0.1:30000, or dns://NAME:PORT")
    if len({split_item(item).place for item in engines}) != len(engines):
        raise ValueError("each engine only once")
    return engines


def _engine(item: str) -> str:
    if "://" not in item:
        raise ValueError(f"base URLs such as http://127.0.0.1:30000, and `{_OR}` between the ids of one engine")
    place, *rest = item.split()
    place = _name(place) if place.startswith(DNS) else _engine_root(place)
    if not rest:
        return place
    models = rest[0].removeprefix(_MODELS.strip())
    if len(rest) > 1 or models == rest[0] or not all(models.split(_OR)):
        raise ValueError("nothing behind an engine but the ids that it serves, as http://127.0.0.1:30000 models=ID|ID")
    return f"{place}{_MODELS}{models}"


def _name(item: str) -> str:
    named = _DNS_ITEM.fullmatch(item)
    name, port = named.groups() if named else ("", "")
    if len(name) > _LONGEST_NAME or not _HOST_NAME.fullmatch(name) or is_address(name) or not is_port(port):
        raise ValueError("names as dns://NAME:PORT, such as dns://engines.default.svc.cluster.local:30000")
    return item


def is_address(text: str) -> bool:
    """Return whether a text is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _engine_root(url: str) -> str:
    if "@" in url:
        raise ValueError("URLs without credentials; give the engines' key in ROUTER_ENGINE_API_KEY")
    if not _is_base_url(url):
        raise ValueError("base URLs such as http://127.0.0.1:30000 or http://127.0.0.1:30000/v1")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def _is_base_url(url: str) -> bool:
    if not (url.isascii() and url.isprintable() and _NOT_IN_A_BASE_URL.isdisjoint(url)):
        return False
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # a port or an address that is none
        return False
    named = bool(_HOST_NAME.fullmatch(parts.hostname or "")) or parts.netloc.startswith("[")
    return parts.scheme in ("http", "https") and named and port != 0
