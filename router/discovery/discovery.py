"""Engines behind names: which addresses a name has at the moment, asked for again and again while the router runs."""

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

from router.discovery import cache
from router.runtime.pid import cached_pid
from router.settings import DnsServer, Settings
from router.settings.engines import DNS, split_item
from router.upstream.circuit_breaker import jittered
from router.upstream.client import Connections
from router.upstream.errors import NoAnswerError
from router.upstream.health_checks import Prober
from router.upstream.registry import Fleet, GivenIds

FIRST_ANSWER_SECONDS: Final = 3.0
"""How long a new process waits for the first answers to all names before it serves."""

ANSWER_SECONDS: Final = 5.0
"""How long one question may take in all, over all name servers."""

Addresses = Mapping[str, tuple[str, ...]]
"""The addresses of one name by the type of their records."""

_TYPES: Final = ("A", "AAAA")
_IPV6: Final = 6
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
# Unlike a seeded one it tells forked processes apart.
_CHANCE: Final = random.SystemRandom()
_LOG = logging.getLogger("router")


class Learnt(NamedTuple):
    """What was learnt of a name: its addresses, and what is wrong, nothing where all is well."""

    addresses: Addresses
    problem: str = ""


Ask = Callable[[str, str], tuple[str, ...]]
"""Return the addresses of a name in records of one type, none where it has none. Raises NoAnswerError."""


# --- pure: from answers to engines ---


def named(items: Iterable[str]) -> tuple[str, ...]:
    """Return the names among the items of ROUTER_ENGINES."""
    return tuple(split_item(item).place for item in items if item.startswith(DNS))


def learnt(known: Addresses, answers: Mapping[str, tuple[str, ...] | NoAnswerError]) -> Learnt:
    """Return what is known of a name after a resolution.

    A question that failed changes nothing, nor do answers that leave no address at all: a name server that is out of
    order, or a service of which no pod is ready, is no reason to take engines out that may be healthy.
    """
    failures = [str(answer) for answer in answers.values() if isinstance(answer, NoAnswerError)]
    new = {
        kind: known.get(kind, ()) if isinstance(answer, NoAnswerError) else answer for kind, answer in answers.items()
    }
    problem = "; ".join(dict.fromkeys(failures))
    if not any(new.values()):
        return Learnt(known, problem or "it has no address")
    return Learnt(new, problem)


def engines_of(
    items: Iterable[str], known: Mapping[str, Addresses] = MappingProxyType({})
) -> dict[str, tuple[str, ...]]:
    """Return the base URLs of all items with the ids given to each, none where the engine's own list counts.

    They stand in the order of the items and each engine once, by the addresses known of each name.
    """
    engines: dict[tuple[object, ...], tuple[str, tuple[str, ...]]] = {}
    for item in items:
        place, models = split_item(item)
        for engine in _behind(place, known.get(place, {})) if place.startswith(DNS) else (place,):
            engines.setdefault(_identity(engine), (engine, models))
    return dict(engines.values())


def _behind(name: str, addresses: Addresses) -> list[str]:
    port = urlsplit(name).port
    found = {ipaddress.ip_address(address) for each in addresses.values() for address in each}
    # Name servers shuffle their answers; engines keep their order.
    in_order = sorted(found, key=lambda address: (address.version, int(address)))
    return [f"http://[{each}]:{port}" if each.version == _IPV6 else f"http://{each}:{port}" for each in in_order]


def _identity(engine: str) -> tuple[object, ...]:
    parts = urlsplit(engine)
    host: object = parts.hostname
    with contextlib.suppress(ValueError):
        host = ipaddress.ip_address(parts.hostname or "")
    return parts.scheme, host, parts.port or _DEFAULT_PORTS[parts.scheme], parts.path


# --- shell: asking, and telling the fleet ---


class Discovery:
    """Background threads that keep a fleet as the settings and the name servers say: one per name."""

    def __init__(
        self, settings: Settings, fleet: Fleet, prober: Prober, connections: Connections, ask: Ask | None = None
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._prober = prober
        self._connections = connections
        self._ask = ask or _asking(settings.dns_server)
        self._names = named(settings.engines)
        self._learnt = {name: Learnt({}) for name in self._names}
        self._first_answers = {name: threading.Event() for name in self._names}
        self._process = 0
        self._waited_in = 0
        self._lock = threading.Lock()
        self.failures = 0
        """Resolutions that failed or gave no address, in this process."""

    def failing(self) -> int:
        """Return of how many names the newest resolution failed or gave no address."""
        return sum(bool(learnt.problem) for learnt in self._learnt.values())

    def start(self) -> None:
        """Begin to follow the names and to probe in this process, unless that is done already."""
        if self._process == cached_pid():
            return
        self._prober.start()
        with self._lock:
            if self._process == cached_pid():
                return
            self._recall()
            for name in self._names:
                threading.Thread(target=self._run, args=(name,), name="engine-discovery", daemon=True).start()
            self._process = cached_pid()

    def _recall(self) -> None:
        """Begin with what other processes learnt: a worker that starts in an outage of DNS must know the engines."""
        known = cache.addresses()
        for name in self._names:
            if known.get(name):
                self._learnt[name] = Learnt(known[name])
                self._first_answers[name].set()
        engines = self._engines()
        self._set_engines(engines, engines)
        self._fleet.recall(cache.lists())

    def _engines(self) -> dict[str, tuple[str, ...]]:
        return engines_of(self._settings.engines, {name: it.addresses for name, it in self._learnt.items()})

    def start_and_look(self) -> None:
        """Begin, and return once all names were asked for and all engines looked at, or after some seconds.

        A process that took requests before would refuse them, although its siblings serve. It waits once, not again.
        """
        self.start()
        if self._waited_in == cached_pid():
            return
        self._waited_in = cached_pid()
        deadline = time.monotonic() + FIRST_ANSWER_SECONDS
        for answered in self._first_answers.values():
            answered.wait(max(0.0, deadline - time.monotonic()))
        self._prober.wait_for_first_looks()

    def resolve(self, name: str) -> None:
        """Ask for the addresses of a name now and let the fleet follow."""
        answers: dict[str, tuple[str, ...] | NoAnswerError] = {kind: self._answer(name, kind) for kind in _TYPES}
        with self._lock:
            before = self._learnt[name]
            after = learnt(before.addresses, answers)
            self._learnt[name] = after
            self.failures += bool(after.problem)
            self._follow(self._engines())
            cache.remember({each: it.addresses for each, it in self._learnt.items()})
        _say_news(name, before, after)

    def _follow(self, engines: dict[str, tuple[str, ...]]) -> None:
        known = self._fleet.engines
        if tuple(engines) == known:
            return
        leaving = [engine for engine in known if engine not in engines]
        if leaving and not set(engines) <= set(known):
            # Those that come are looked at before those that go are let go: there may be no others to serve meanwhile.
            self._set_engines((*engines, *leaving), engines)
            self._prober.wait_for_first_looks()
        self._set_engines(engines, engines)

    def _set_engines(self, engines: Iterable[str], given: GivenIds) -> None:
        joined, left = self._fleet.set_engines(engines, given)
        self._prober.follow(joined, left)
        for engine in left:
            self._connections.forget(engine)
            cache.forget_list(engine)

    def _run(self, name: str) -> None:
        pause = threading.Event()
        while True:
            try:
                self.resolve(name)
            except Exception:  # noqa: BLE001 - a resolution that fails in an unknown way must not end all others
                _LOG.exception("resolving %s failed", name)
            self._first_answers[name].set()
            pause.wait(jittered(self._settings.dns_refresh_interval_seconds, _CHANCE.random()))

    def _answer(self, name: str, kind: str) -> tuple[str, ...] | NoAnswerError:
        try:
            return self._ask(urlsplit(name).hostname or "", kind)
        except NoAnswerError as error:
            return error


def load_what_asks() -> Any:  # noqa: ANN401 - a module
    """Return the module that asks name servers: it takes 3 MiB, for which only a router with names has a use.

    What the master has loaded costs its workers neither memory nor time.
    """
    return importlib.import_module("router.discovery.resolver")


def _asking(server: DnsServer | None) -> Ask:
    def ask(name: str, kind: str) -> tuple[str, ...]:
        found: tuple[str, ...] = load_what_asks().addresses_of(name, kind, server, ANSWER_SECONDS)
        return found

    return ask


def _say_news(name: str, before: Learnt, after: Learnt) -> None:
    if after.problem and not before.problem:
        _LOG.warning("%s: %s; what it was last stays", name, after.problem)
    if before.problem and not after.problem:
        _LOG.info("%s: resolved again", name)
