"""Which engine's answer a request gets, and what becomes of the others."""

import socket
import threading
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from router.balancing.in_flight import InFlightTable
from router.balancing.policies import RoundRobin
from router.contract.errors import ApiError
from router.request.context import RequestContext
from router.request.outcome import Outcome
from router.server.disconnect import ClientDisconnectedError, DownstreamClient
from router.settings.declarations import Settings
from router.upstream import forward
from router.upstream.balancer import LoadBalancer
from router.upstream.context_length import ContextLimits
from router.upstream.errors import EngineError, connect_error
from router.upstream.forward import Forwarder, UpstreamRequest

REQUEST = UpstreamRequest("/v1/chat/completions", {}, b"{}", None)
LONG = 20.0


class _Answer:
    """The head of an engine's answer."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.is_closed = False
        self.on_outcome: Any = None
        self.on_close: Any = None

    def close(self) -> None:
        self.is_closed = True
        on_close, self.on_close = self.on_close, None
        if on_close is not None:
            on_close()


class _Registry:
    """Engines that are asked in their order."""

    def __init__(self, engines: Collection[str]) -> None:
        self.engines = engines
        self.noted: list[tuple[str, Outcome]] = []

    def candidates(self, model: str, excluding: Collection[str] = ()) -> tuple[str, ...]:
        return tuple(engine for engine in self.engines if engine not in excluding)[:1]

    def has_candidates(self, model: str, excluding: Collection[str]) -> bool:
        return bool(self.candidates(model, excluding))

    def record_outcome(self, engine: str, outcome: Outcome) -> None:
        self.noted.append((engine, outcome))


class _HttpClient:
    """Responds to the requests one after the other, whichever engine each goes to."""

    def __init__(self, replies: Collection[_Answer | Exception]) -> None:
        self._replies = iter(replies)
        self.sent: list[tuple[str, bool]] = []

    def post(self, url: str, headers: object, body: object, client: object, *, reuse: bool) -> _Answer:
        self.sent.append((url.removesuffix(REQUEST.route), reuse))
        reply = next(self._replies)
        if isinstance(reply, Exception):
            raise reply
        return reply


def _refused() -> EngineError:
    return connect_error(ConnectionRefusedError())


def _lost() -> EngineError:
    return EngineError(Outcome.BROKEN, "upstream_unreachable")


def _unread() -> EngineError:
    return EngineError(Outcome.BROKEN, "upstream_unreachable", may_have_run=False, is_stale_connection=True)


REPLIES = {"refused": _refused, "lost": _lost, "unread": _unread, "late": lambda: EngineError(Outcome.TIMED_OUT)}


class _Sent:
    """One request sent by a dispatcher in front of so many engines."""

    def __init__(self, script: str, engines: int = 3, **settings: Any) -> None:
        words = script.split()
        self.replies = [REPLIES[word]() if word in REPLIES else _Answer(int(word)) for word in words]
        self.registry: Any = _Registry("abcdefgh"[:engines])
        self.http_client: Any = _HttpClient(self.replies)
        self.context = RequestContext(request_id="1")
        own = Settings(engines=("http://unused",), **settings)
        self.in_flight_table = InFlightTable()
        load_balancer = LoadBalancer(self.registry, RoundRobin(), self.in_flight_table)
        self.forwarder = Forwarder(
            own,
            self.registry,
            self.http_client,
            load_balancer,
            self.in_flight_table,
            context_limits=ContextLimits(self.registry, ""),
        )

    def send(self, client: DownstreamClient | None = None) -> Any:
        return self.forwarder.send(REQUEST, client or DownstreamClient(), self.context)

    def result(self) -> object:
        """Return the status of the answer, or the code of the error and whether the request may have run."""
        try:
            return self.send().status
        except ApiError as error:
            return error.code, error.may_have_run

    def in_flight(self) -> list[str]:
        """Return the engines that requests are in flight at, once for each."""
        return [engine for engine in self.registry.engines for _ in range(self.in_flight_table.load(engine))]

    def open_answers(self) -> list[int]:
        """Return the statuses of the answers whose connections are not closed."""
        return [reply.status for reply in self.replies if isinstance(reply, _Answer) and not reply.is_closed]


@pytest.fixture
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "backoff_seconds", lambda _: 0.0)


@pytest.mark.usefixtures("_no_pauses")
@pytest.mark.parametrize(
    ("script", "engines", "sent", "result"),
    [
        ("200", 3, "a", 200),
        ("500", 3, "a", 500),
        ("refused 200", 3, "ab", 200),
        ("refused refused 200", 3, "abc", 200),
        ("refused refused refused", 4, "abc", ("upstream_unreachable", False)),
        ("refused", 1, "a", ("upstream_unreachable", False)),
        ("refused refused", 2, "ab", ("upstream_unreachable", False)),
        ("429 200", 3, "ab", 200),
        ("503 429 200", 3, "abc", 200),
        ("429 503 429", 4, "abc", 429),
        ("429 503", 2, "ab", 503),
        ("503", 1, "a", 503),
        ("429 refused 200", 3, "abc", 200),
        ("429 refused refused", 3, "abc", 429),
        ("429 503 refused", 3, "abc", 503),
        ("refused 429 refused", 3, "abc", 429),
        ("429 lost", 3, "ab", ("upstream_unreachable", True)),
        ("429 late", 3, "ab", ("upstream_timeout", True)),
        ("429 500", 3, "ab", 500),
        ("lost", 3, "a", ("upstream_unreachable", True)),
        ("late", 3, "a", ("upstream_timeout", True)),
        ("unread 200", 3, "aa", 200),
        ("unread lost", 3, "aa", ("upstream_unreachable", True)),
        ("unread refused 200", 3, "aab", 200),
        ("unread 429 200", 3, "aab", 200),
        ("429 unread 200", 3, "abb", 200),
    ],
)
def test_a_request_goes_on_only_where_nothing_can_have_run(
    script: str, engines: int, sent: str, result: object
) -> None:
    """Each row: what comes of the attempts, which engines they went to, and what the client gets."""
    request = _Sent(script, engines)
    assert request.result() == result
    assert "".join(engine for engine, _ in request.http_client.sent) == sent
    assert request.context.attempts == len(sent)
    assert request.open_answers() == ([result] if isinstance(result, int) else [])
    assert request.in_flight() == [
        engine
        for engine, reply in zip(sent, request.replies, strict=True)
        if isinstance(reply, _Answer) and not reply.is_closed
    ]
    for reply in request.replies:
        if isinstance(reply, _Answer):
            reply.close()
    assert request.in_flight() == []


@pytest.mark.usefixtures("_no_pauses")
def test_an_unread_request_goes_out_on_a_new_connection_and_blames_nobody() -> None:
    """The engine closed an idle connection, which is its right: the second attempt takes no kept one."""
    request = _Sent("unread 200")
    request.send().on_outcome(Outcome.SUCCEEDED)
    assert request.http_client.sent == [("a", True), ("a", False)]
    assert request.registry.noted == [("a", Outcome.SUCCEEDED)]


@pytest.mark.usefixtures("_no_pauses")
@pytest.mark.parametrize(
    ("script", "noted"),
    [
        ("refused 200", [("a", Outcome.UNREACHABLE)]),
        ("503 429 500", [("a", Outcome.UNAVAILABLE), ("c", Outcome.FAILED)]),
        ("late", [("a", Outcome.TIMED_OUT)]),
        ("lost", [("a", Outcome.BROKEN)]),
    ],
)
def test_failures_are_noted_of_the_engines_that_failed(script: str, noted: list[tuple[str, Outcome]]) -> None:
    """What each attempt shows is noted at once; of an answer that may still break, its end tells."""
    request = _Sent(script)
    request.result()
    assert request.registry.noted == noted


@pytest.mark.usefixtures("_no_pauses")
@pytest.mark.parametrize(("retries", "sent"), [(0, 1), (1, 2), (5, 6)])
def test_retries_are_bounded_by_their_setting(retries: int, sent: int) -> None:
    """ROUTER_RETRIES says how many engines are asked besides the first."""
    request = _Sent("503 " * 8, 8, retries=retries)
    assert request.result() == 503
    assert len(request.http_client.sent) == sent


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.usefixtures("_no_pauses")
def test_a_refused_key_of_the_routers_own_is_not_the_clients_affair(status: int) -> None:
    """An engine that refuses the router's key counts as out of reach; the client's own key is between those two."""
    request = _Sent(str(status), engine_api_key="k")
    assert request.result() == ("upstream_unreachable", False)
    assert request.in_flight() == []
    assert _Sent(str(status)).result() == status


@pytest.fixture
def client() -> Iterator[tuple[DownstreamClient, socket.socket]]:
    """A client as the router sees it, and its own end of the connection."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield DownstreamClient(ours), theirs


@pytest.mark.parametrize("script", ["refused 200", "429 200"])
def test_a_client_that_leaves_before_another_try_ends_it(
    monkeypatch: pytest.MonkeyPatch, client: tuple[DownstreamClient, socket.socket], script: str
) -> None:
    """In the pause before a retry a client's leave is noticed: nothing more is sent, and the refusal is let go of."""
    pausing = threading.Event()

    def pause(_: int) -> float:
        pausing.set()
        return LONG

    monkeypatch.setattr(forward, "backoff_seconds", pause)
    request = _Sent(script)
    leaving = threading.Thread(target=lambda: pausing.wait(LONG) and client[1].close())
    leaving.start()
    with pytest.raises(ClientDisconnectedError):
        request.send(client[0])
    leaving.join()
    assert len(request.http_client.sent) == 1
    assert 429 not in request.open_answers()
    assert request.in_flight() == []


@pytest.mark.parametrize("error", [ClientDisconnectedError(), MemoryError()], ids=["client gone", "anything"])
def test_whatever_ends_an_attempt_ends_its_count(error: Exception) -> None:
    """A request that its client leaves while the engine is waited for, or that fails, is not in flight any more."""
    request = _Sent("")
    seen: list[list[str]] = []

    def post(*_: object, **__: object) -> None:
        seen.append(request.in_flight())
        raise error

    request.http_client.post = post
    with pytest.raises(type(error)):
        request.send()
    assert seen == [["a"]]
    assert request.in_flight() == []
