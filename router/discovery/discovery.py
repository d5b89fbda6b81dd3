"""DNS discovery: the addresses of names in ROUTER_ENGINES, resolved repeatedly while the router runs."""

import contextlib
import importlib
import ipaddress
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from router.runtime.pid import cached_pid
from router.settings.declarations import DnsServer, Settings
from router.settings.engines import DNS, split_item
from router.upstream import shared_cache
from router.upstream.circuit_breaker import add_jitter
from router.upstream.client import HttpClient
from router.upstream.engine_state import ConfiguredIds
from router.upstream.errors import DnsError
from router.upstream.health_checks import HealthChecker
from router.upstream.registry import EngineRegistry

FIRST_RESOLUTION_TIMEOUT_SECONDS: Final = 3.0
"""How long a new process waits until all names are resolved before it serves."""

QUERY_TIMEOUT_SECONDS: Final = 5.0
"""Timeout of one query, over all name servers."""

Addresses = Mapping[str, tuple[str, ...]]
"""The addresses of one name by the type of their records."""

_RECORD_TYPES: Final = ("A", "AAAA")
_IPV6: Final = 6
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
# Unlike a seeded generator it differs between forked processes.
_RNG: Final = random.SystemRandom()
_LOG = logging.getLogger("router")


class ResolvedSet(NamedTuple):
    """The result of resolving a name: its addresses and the problem, "" if there is none."""

    addresses: Addresses
    problem: str = ""


DnsQuery = Callable[[str, str], tuple[str, ...]]
"""Return the addresses of a name in records of one type, an empty tuple if there are none. Raises DnsError."""


# --- pure: from DNS responses to engines ---


def names_in(items: Iterable[str]) -> tuple[str, ...]:
    """Return the names among the items of ROUTER_ENGINES."""
    return tuple(split_item(item).place for item in items if item.startswith(DNS))


def merge_responses(known: Addresses, responses: Mapping[str, tuple[str, ...] | DnsError]) -> ResolvedSet:
    """Return the addresses of a name after its queries.

    The known addresses stay after a failed query, and if no response has an address: a broken name server or a service
    without a ready pod is no reason to remove engines that may be healthy.
    """
    failures = [str(each) for each in responses.values() if isinstance(each, DnsError)]
    new = {kind: known.get(kind, ()) if isinstance(each, DnsError) else each for kind, each in responses.items()}
    problem = "; ".join(dict.fromkeys(failures))
    if not any(new.values()):
        return ResolvedSet(known, problem or "it has no address")
    return ResolvedSet(new, problem)


def engines_of(
    items: Iterable[str], known: Mapping[str, Addresses] = MappingProxyType({})
) -> dict[str, tuple[str, ...]]:
    """Return the base URLs of all items with the configured ids of each, none where the engine's own list is used.

    They are in the order of the items, each engine once.
    """
    engines: dict[tuple[object, ...], tuple[str, tuple[str, ...]]] = {}
    for item in items:
        place, models = split_item(item)
        for engine in _engine_urls(place, known.get(place, {})) if place.startswith(DNS) else (place,):
            engines.setdefault(_normalize(engine), (engine, models))
    return dict(engines.values())


def _engine_urls(name: str, addresses: Addresses) -> list[str]:
    port = urlsplit(name).port
    found = {ipaddress.ip_address(address) for each in addresses.values() for address in each}
    # Name servers shuffle the addresses; engines keep their order.
    in_order = sorted(found, key=lambda address: (address.version, int(address)))
    return [f"http://[{each}]:{port}" if each.version == _IPV6 else f"http://{each}:{port}" for each in in_order]


def _normalize(engine: str) -> tuple[object, ...]:
    parts = urlsplit(engine)
    host: object = parts.hostname
    with contextlib.suppress(ValueError):
        host = ipaddress.ip_address(parts.hostname or "")
    return parts.scheme, host, parts.port or _DEFAULT_PORTS[parts.scheme], parts.path


# --- shell: queries, and updates of the registry ---


class Discovery:
    """Background threads, one for each name, that keep the registry equal to settings and DNS."""

    def __init__(
        self,
        settings: Settings,
        registry: EngineRegistry,
        health_checker: HealthChecker,
        http_client: HttpClient,
        query: DnsQuery | None = None,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._health_checker = health_checker
        self._http_client = http_client
        self._query = query or _make_query(settings.dns_server)
        self._names = names_in(settings.engines)
        self._resolved = {name: ResolvedSet({}) for name in self._names}
        self._first_resolutions = {name: threading.Event() for name in self._names}
        self._process = 0
        self._waited_in = 0
        self._lock = threading.Lock()
        self.failures = 0
        """Resolutions that failed or gave no address, in this process."""

    def failing_count(self) -> int:
        """Return how many names failed to resolve, or had no address, the last time."""
        return sum(bool(resolved.problem) for resolved in self._resolved.values())

    def start(self) -> None:
        """Start discovery and health checks in this process, once."""
        if self._process == cached_pid():
            return
        self._health_checker.start()
        with self._lock:
            if self._process == cached_pid():
                return
            self._restore()
            for name in self._names:
                threading.Thread(target=self._run, args=(name,), name="engine-discovery", daemon=True).start()
            self._process = cached_pid()

    def _restore(self) -> None:
        """Restore the shared cache, so that a worker that starts while DNS is down has its engines."""
        known = shared_cache.load_addresses()
        for name in self._names:
            if known.get(name):
                self._resolved[name] = ResolvedSet(known[name])
                self._first_resolutions[name].set()
        engines = self._engines()
        self._set_engines(engines, engines)
        self._registry.restore_model_lists(shared_cache.load_model_lists())

    def _engines(self) -> dict[str, tuple[str, ...]]:
        return engines_of(self._settings.engines, {name: it.addresses for name, it in self._resolved.items()})

    def start_and_wait(self) -> None:
        """Start, and return once all names are resolved and all engines checked, or after a timeout.

        A process that accepted requests earlier would reject them, although its siblings serve. It waits only once.
        """
        self.start()
        if self._waited_in == cached_pid():
            return
        self._waited_in = cached_pid()
        deadline = time.monotonic() + FIRST_RESOLUTION_TIMEOUT_SECONDS
        for answered in self._first_resolutions.values():
            answered.wait(max(0.0, deadline - time.monotonic()))
        self._health_checker.wait_for_first_checks()

    def resolve(self, name: str) -> None:
        """Resolve a name now and update the registry."""
        responses = {kind: self._query_type(name, kind) for kind in _RECORD_TYPES}
        with self._lock:
            before = self._resolved[name]
            after = merge_responses(before.addresses, responses)
            self._resolved[name] = after
            self.failures += bool(after.problem)
            self._update_engines(self._engines())
            shared_cache.store_addresses({each: it.addresses for each, it in self._resolved.items()})
        _log_change(name, before, after)

    def _update_engines(self, engines: dict[str, tuple[str, ...]]) -> None:
        known = self._registry.engines
        if tuple(engines) == known:
            return
        leaving = [engine for engine in known if engine not in engines]
        if leaving and not set(engines) <= set(known):
            # New engines are checked before old ones are removed: there may be no others to serve meanwhile.
            self._set_engines((*engines, *leaving), engines)
            self._health_checker.wait_for_first_checks()
        self._set_engines(engines, engines)

    def _set_engines(self, engines: Iterable[str], given: ConfiguredIds) -> None:
        joined, left = self._registry.set_engines(engines, given)
        self._health_checker.update_engines(joined, left)
        for engine in left:
            self._http_client.forget(engine)
            shared_cache.delete_model_list(engine)

    def _run(self, name: str) -> None:
        pause = threading.Event()
        while True:
            try:
                self.resolve(name)
            except Exception:  # noqa: BLE001 - an unexpected error must not end discovery
                _LOG.exception("resolving %s failed", name)
            self._first_resolutions[name].set()
            pause.wait(add_jitter(self._settings.dns_refresh_interval_seconds, _RNG.random()))

    def _query_type(self, name: str, kind: str) -> tuple[str, ...] | DnsError:
        try:
            return self._query(urlsplit(name).hostname or "", kind)
        except DnsError as error:
            return error


def load_resolver() -> Any:  # noqa: ANN401 - a module
    """Import the resolver lazily: it takes 3 MiB, which only a router with names needs.

    Loaded in the master, it costs the workers neither memory nor time.
    """
    return importlib.import_module("router.discovery.resolver")


def _make_query(server: DnsServer | None) -> DnsQuery:
    def ask(name: str, kind: str) -> tuple[str, ...]:
        found: tuple[str, ...] = load_resolver().query_addresses(name, kind, server, QUERY_TIMEOUT_SECONDS)
        return found

    return ask


def _log_change(name: str, before: ResolvedSet, after: ResolvedSet) -> None:
    if after.problem and not before.problem:
        _LOG.warning("%s: %s; its last known addresses stay in use", name, after.problem)
    if before.problem and not after.problem:
        _LOG.info("%s: resolved again", name)
