"""Engines behind names: from answers to engines, and how a fleet follows them."""

import logging
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import dns.rcode
import pytest

from router.discovery import discovery
from router.discovery.discovery import Addresses, Discovery, ResolvedSet, engines_of, merge_responses, names_in
from router.settings.declarations import DnsServer, Settings
from router.upstream import shared_cache
from router.upstream.circuit_breaker import BreakerConfig, HealthState
from router.upstream.client import HttpClient
from router.upstream.engine_state import HealthCheckResult
from router.upstream.errors import DnsError
from router.upstream.health_checks import HealthChecker
from router.upstream.registry import EngineRegistry
from tests.router.dnsserver import DnsServer as RunningDnsServer
from tests.router.serving import wait_until

NAME = "dns://engines.test:80"
FAILED = DnsError("the name server does not respond")


@pytest.fixture(autouse=True)
def _forget() -> None:
    shared_cache.store_addresses({})


@pytest.mark.parametrize(
    ("items", "known", "engines"),
    [
        (["http://a"], {}, ["http://a"]),
        ([NAME], {}, []),
        ([NAME], {NAME: {"A": ("10.0.0.10", "10.0.0.9")}}, ["http://10.0.0.9:80", "http://10.0.0.10:80"]),
        ([NAME], {NAME: {"AAAA": ("fd00::1",), "A": ("10.0.0.1",)}}, ["http://10.0.0.1:80", "http://[fd00::1]:80"]),
        (["http://b", NAME, "http://a"], {NAME: {"A": ("10.0.0.1",)}}, ["http://b", "http://10.0.0.1:80", "http://a"]),
        (["http://10.0.0.1", NAME], {NAME: {"A": ("10.0.0.1", "10.0.0.2")}}, ["http://10.0.0.1", "http://10.0.0.2:80"]),
        (["http://[fd00:0::1]:80", NAME], {NAME: {"AAAA": ("fd00::1",)}}, ["http://[fd00:0::1]:80"]),
        (["https://10.0.0.1", NAME], {NAME: {"A": ("10.0.0.1",)}}, ["https://10.0.0.1", "http://10.0.0.1:80"]),
        (["http://10.0.0.1/a", NAME], {NAME: {"A": ("10.0.0.1",)}}, ["http://10.0.0.1/a", "http://10.0.0.1:80"]),
        (
            [NAME, "dns://other.test:80"],
            {NAME: {"A": ("10.0.0.1",)}, "dns://other.test:80": {"A": ("10.0.0.1", "10.0.0.2")}},
            ["http://10.0.0.1:80", "http://10.0.0.2:80"],
        ),
    ],
)
def test_engines_are_what_is_given_and_what_is_behind_names(
    items: list[str], known: Mapping[str, Addresses], engines: list[str]
) -> None:
    """Each engine counts once, in the order of the items, those of a name by their addresses."""
    assert engines_of(items, known) == dict.fromkeys(engines, ())
    assert names_in(items) == tuple(item for item in items if item.startswith("dns:"))


def test_ids_are_given_to_each_engine_of_an_item() -> None:
    """The ids behind a name are those of every address; of an engine that stands in two items the first counts."""
    items = ["http://a models=x|org/y:z", f"{NAME} models=n", "http://10.0.0.2 models=late", "http://b"]
    engines = engines_of(items, {NAME: {"A": ("10.0.0.1", "10.0.0.2")}})
    of_name = {"http://10.0.0.1:80": ("n",), "http://10.0.0.2:80": ("n",)}
    assert engines == {"http://a": ("x", "org/y:z"), **of_name, "http://b": ()}
    assert names_in(items) == (NAME,)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"A": ("b",), "AAAA": ()}, ResolvedSet({"A": ("b",), "AAAA": ()})),
        ({"A": (), "AAAA": ("c",)}, ResolvedSet({"A": (), "AAAA": ("c",)})),
        ({"A": (), "AAAA": ()}, ResolvedSet({"A": ("a",), "AAAA": ()}, "it has no address")),
        ({"A": FAILED, "AAAA": FAILED}, ResolvedSet({"A": ("a",), "AAAA": ()}, str(FAILED))),
        ({"A": FAILED, "AAAA": ()}, ResolvedSet({"A": ("a",), "AAAA": ()}, str(FAILED))),
        ({"A": ("b",), "AAAA": FAILED}, ResolvedSet({"A": ("b",), "AAAA": ()}, str(FAILED))),
        ({"A": (), "AAAA": FAILED}, ResolvedSet({"A": ("a",), "AAAA": ()}, str(FAILED))),
    ],
)
def test_neither_a_failure_nor_an_empty_answer_takes_anything_away(
    answers: Mapping[str, tuple[str, ...] | DnsError], expected: ResolvedSet
) -> None:
    """A question that failed leaves its addresses as they were, and so do answers that leave none at all."""
    assert merge_responses({"A": ("a",), "AAAA": ()}, answers) == expected


class _Answers:
    """What name servers say in a test."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.failure: str | None = None

    def __call__(self, name: str, kind: str) -> tuple[str, ...]:
        assert name == "engines.test"
        if self.failure is not None:
            raise DnsError(self.failure)
        return self.addresses if kind == "A" else ()


def _discovery(answers: Any, **settings: Any) -> tuple[Discovery, EngineRegistry, HealthChecker]:
    own = Settings(
        **(
            {"engines": (NAME,), "health_check_interval_seconds": 600.0, "dns_refresh_interval_seconds": 600.0}
            | settings
        )
    )
    registry = EngineRegistry(tuple(engines_of(own.engines)), (), has_aliases=False, breaker=BreakerConfig(2, 60.0))
    http_client = HttpClient(own)
    health_checker = HealthChecker(own, registry, http_client)
    health_checker.check = lambda *_: HealthCheckResult(HealthState.HEALTHY, ({"id": "m"},))  # type: ignore[method-assign]
    return Discovery(own, registry, health_checker, http_client, answers), registry, health_checker


def test_a_start_waits_for_names_and_looks() -> None:
    """Once the start is over the engines behind a name are known and were looked at, beside those that are given."""
    following, registry, _ = _discovery(_Answers("10.0.0.1"), engines=("http://a", NAME))
    following.start_and_wait()
    assert registry.healthy_engines() == ("http://a", "http://10.0.0.1:80")


def test_a_fleet_follows_its_name() -> None:
    """Addresses that come are engines once they were looked at; those that go are none any more."""
    answers = _Answers("10.0.0.1", "10.0.0.2")
    following, registry, _ = _discovery(answers)
    following.start_and_wait()
    answers.addresses = ("10.0.0.3", "10.0.0.2")
    following.resolve(NAME)
    assert registry.engines == registry.healthy_engines() == ("http://10.0.0.2:80", "http://10.0.0.3:80")


def test_none_is_let_go_before_the_next_was_looked_at() -> None:
    """Where all addresses change at once there is an engine that takes requests at every moment."""
    answers = _Answers("10.0.0.1")
    following, registry, health_checker = _discovery(answers)
    following.start_and_wait()
    served: list[str] = []

    def probe(*_: object) -> HealthCheckResult:
        served.extend(registry.candidates("m"))
        return HealthCheckResult(HealthState.HEALTHY, ({"id": "m"},))

    health_checker.check = probe  # type: ignore[method-assign]
    answers.addresses = ("10.0.0.2",)
    following.resolve(NAME)
    assert served == ["http://10.0.0.1:80"]
    assert registry.candidates("m") == ("http://10.0.0.2:80",)


def test_an_outage_is_said_once_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """While a name does not resolve its engines stay; a line says when that began and one when it ended."""
    answers = _Answers("10.0.0.1")
    following, registry, _ = _discovery(answers)
    following.start_and_wait()
    caplog.set_level(logging.INFO, "router")
    caplog.clear()
    for failure in ("the name server responds SERVFAIL", "the name server does not respond", None):
        answers.failure, answers.addresses = failure, ()
        following.resolve(NAME)
        following.resolve(NAME)
    assert registry.healthy_engines() == ("http://10.0.0.1:80",)
    answers.addresses = ("10.0.0.1",)
    following.resolve(NAME)
    assert caplog.messages == [
        f"{NAME}: the name server responds SERVFAIL; its last known addresses stay in use",
        f"{NAME}: resolved again",
    ]


def test_a_resolution_that_fails_in_an_unknown_way_ends_nothing() -> None:
    """What nobody foresaw is logged, and the name is asked for again."""
    answers = _Answers("10.0.0.1")
    asked = threading.Event()

    def ask(name: str, kind: str) -> tuple[str, ...]:
        if not asked.is_set():
            asked.set()
            raise RuntimeError("unforeseen")
        return answers(name, kind)

    following, registry, _ = _discovery(ask, dns_refresh_interval_seconds=0.5)
    following.start_and_wait()
    wait_until(registry.healthy_engines)


def test_a_thousand_joins_and_leaves_leave_nothing_behind() -> None:
    """However many engines came and went, no thread, no endpoint and nothing known of them stays."""
    answers = _Answers("10.0.0.1")
    following, registry, health_checker = _discovery(answers)
    following.start_and_wait()
    before = threading.active_count()
    for number in range(1000):
        answers.addresses = ("10.0.0.1", f"10.1.{number // 250}.{number % 250}")
        following.resolve(NAME)
    answers.addresses = ("10.0.0.1",)
    following.resolve(NAME)
    wait_until(lambda: threading.active_count() <= before)
    assert registry.engines == registry.healthy_engines() == ("http://10.0.0.1:80",)
    assert list(health_checker._scheduler._engines) == ["http://10.0.0.1:80"]


@pytest.fixture
def server() -> Iterator[RunningDnsServer]:
    """A running name server."""
    with RunningDnsServer() as running:
        yield running


def _found(server: RunningDnsServer) -> tuple[str, ...]:
    following, registry, _ = _discovery(None, dns_server=DnsServer("127.0.0.1", server.port))
    following.resolve(NAME)
    return registry.engines


def test_addresses_of_both_kinds_are_asked_for(server: RunningDnsServer) -> None:
    """A and AAAA records are engines alike."""
    server.set("engines.test", "127.0.0.2", "::1")
    assert _found(server) == ("http://127.0.0.2:80", "http://[::1]:80")


def test_an_answer_that_is_too_long_is_asked_for_over_tcp(server: RunningDnsServer) -> None:
    """None of many addresses is missing: a truncated answer is asked for again over TCP."""
    server.set("engines.test", *(f"127.0.1.{number}" for number in range(1, 201)))
    assert len(_found(server)) == 200
    assert server.asked_over.count("tcp") == 1


@pytest.mark.parametrize(
    ("rcode", "said"),
    [
        (None, "it has no address"),
        (dns.rcode.SERVFAIL, "the name server responds SERVFAIL"),
        (dns.rcode.REFUSED, "the name server responds REFUSED"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(
    server: RunningDnsServer, rcode: dns.rcode.Rcode | None, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says what a name server answered instead of addresses."""
    server.rcode = rcode
    assert _found(server) == ()
    assert caplog.messages == [f"{NAME}: {said}; its last known addresses stay in use"]


def test_a_name_server_that_is_silent_is_said(
    server: RunningDnsServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A question that nobody answers is given up in time, and the log says so."""
    monkeypatch.setattr(discovery, "QUERY_TIMEOUT_SECONDS", 0.1)
    server.silent = True
    assert _found(server) == ()
    assert caplog.messages == [f"{NAME}: the name server does not respond; its last known addresses stay in use"]


def test_a_process_that_starts_knows_what_others_learnt() -> None:
    """While the name server fails, a name means what it meant to the process before."""
    answers = _Answers("10.0.0.1")
    before, _, _ = _discovery(answers)
    before.start_and_wait()
    answers.failure, answers.addresses = "the name server does not respond", ()
    after, registry, _ = _discovery(answers)
    after.start_and_wait()
    assert registry.healthy_engines() == ("http://10.0.0.1:80",)


def test_a_process_waits_for_its_engines_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks again in the same process goes on at once, silent engines or not."""
    following, _, health_checker = _discovery(_Answers("10.0.0.1"))
    waits: list[None] = []
    monkeypatch.setattr(health_checker, "wait_for_first_checks", lambda: waits.append(None))
    following.start_and_wait()
    following.start_and_wait()
    assert len(waits) == 1


def test_what_is_being_written_is_not_taken_for_known() -> None:
    """A memory that two processes wrote at once tells nothing, until it is written again."""
    shared_cache.store_addresses({NAME: {"A": ("10.0.0.1",)}})
    shared_cache._ADDRESSES._memory[20] ^= 1
    assert shared_cache.load_addresses() == {}
    shared_cache.store_addresses({NAME: {"A": ("10.0.0.1",)}})
    assert shared_cache.load_addresses() == {NAME: {"A": ("10.0.0.1",)}}
