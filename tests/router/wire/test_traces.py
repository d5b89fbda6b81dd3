"""Traces: spans at a collector of OpenTelemetry's protocol, in the client's trace, and the engine within them."""

import re
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from router.contract.schema.model import Contract
from router.contract.schema.sections import MaxTokens, Models, Output, Sampling, plain_aliases
from router.mock_engine import MockEngine, MockResponse
from router.settings.declarations import SettingError, load
from tests.exhaustive import exhaustive_but
from tests.router.process import worker_of
from tests.router.rawclient import RawClient
from tests.router.serving import RunningRouter, artifact_file, running_router, wait_until
from tests.router.wire.chat import CHAT, chat

CONTRACT = Contract(
    models=Models(aliases=plain_aliases("latest")),
    sampling=Sampling(params={"top_p": 0.95}),
    output=Output(max_tokens=MaxTokens(cap=100, default=50)),
)
TRACE = "0af7651916cd43dd8448eb211c80319c"
CLIENT_SPAN = "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{CLIENT_SPAN}-01"
SERVER, CLIENT = 2, 3  # opentelemetry.proto.trace.v1.Span.SpanKind


class Span(NamedTuple):
    """A span as it came to the collector; ids in hexadecimal."""

    name: str
    kind: int
    trace: str
    id: str
    parent: str
    seconds: float
    is_error: bool
    attributes: dict[str, Any]
    service: str


class Collector:
    """Takes spans by OTLP over HTTP."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.raw = b""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.take(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, data: bytes) -> None:
        self.raw += data
        for resource in ExportTraceServiceRequest.FromString(data).resource_spans:
            service = {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"]
            for scope in resource.scope_spans:
                self.spans += [_read(span, service) for span in scope.spans]

    def wait_for(self, count: int) -> list[Span]:
        """Wait for so many spans and return all."""
        wait_until(lambda: len(self.spans) >= count, lambda: str(self.spans))
        return sorted(self.spans, key=lambda span: span.kind)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _read(span: Any, service: str) -> Span:
    attributes = {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}
    seconds = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
    ids = (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
    return Span(span.name, span.kind, *ids, seconds, span.status.code == 2, attributes, service)


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector of its own for each test."""
    with Collector() as collector:
        yield collector


@contextmanager
def _traced(
    folder: Path, engines: list[str], collector: Collector, settings: Mapping[str, str] | None = None
) -> Iterator[RunningRouter]:
    environment = {
        "ROUTER_TRACES": "on",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        **(settings or {}),
    }
    with running_router(artifact_file(folder, CONTRACT), engines, environment) as router:
        yield router


def test_a_request_goes_on_with_its_clients_trace(engine: MockEngine, collector: Collector, tmp_path: Path) -> None:
    """The router's span hangs under the client's, the attempt's under it, and the engine is told the attempt's."""
    with _traced(tmp_path, [engine.url], collector) as router, RawClient(router.port) as client:
        headers = {"Traceparent": TRACEPARENT, "Tracestate": "a=b", "X-Request-Id": "mine"}
        assert client.post(CHAT, chat(model="latest", user="hush"), headers).status == 200
        own, attempt = collector.wait_for(2)
    (received,) = engine.wait_for(1)
    assert (own.name, own.kind, own.trace, own.parent) == (f"POST {CHAT}", SERVER, TRACE, CLIENT_SPAN)
    assert (attempt.kind, attempt.trace, attempt.parent) == (CLIENT, TRACE, own.id)
    assert received.values("Traceparent") == [f"00-{TRACE}-{attempt.id}-01"]
    assert received.values("Tracestate") == ["a=b"]
    assert own.service == "profilec-router"
    assert not own.is_error
    assert not attempt.is_error
    assert 0 < attempt.seconds < own.seconds
    expected = {
        "http.request.method": "POST",
        "http.route": CHAT,
        "http.response.status_code": 200,
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "latest",
        "gen_ai.request.max_tokens": 50,
        "router.request_id": "mine",
    }
    assert expected.items() <= own.attributes.items()
    assert attempt.attributes["url.full"] == engine.url + CHAT
    assert attempt.attributes["gen_ai.response.model"] == "served"
    assert b"hush" not in collector.raw


def test_each_attempt_has_its_span(collector: Collector, tmp_path: Path) -> None:
    """A request that a second engine takes has two attempts, the first with its error; each engine knows its own."""
    with MockEngine(models=("served",)) as first, MockEngine(models=("served",)) as second:
        for engine in (first, second):
            engine.answer_next(MockResponse.json({"error": {"message": "busy"}}, status=503))
        with (
            _traced(tmp_path, [first.url, second.url], collector, {"ROUTER_RETRIES": "1"}) as router,
            RawClient(router.port) as client,
        ):
            assert client.post(CHAT, chat()).status == 503
            spans = collector.wait_for(3)
        told = {engine.wait_for(1)[0].values("Traceparent")[0] for engine in (first, second)}
    own, *attempts = spans
    assert own.is_error
    assert own.attributes["error.type"] == "503"
    assert own.parent == ""
    assert [attempt.attributes.get("http.request.resend_count") for attempt in attempts] == [None, 1]
    assert [attempt.attributes["error.type"] for attempt in attempts] == ["unavailable", "unavailable"]
    assert told == {f"00-{own.trace}-{attempt.id}-01" for attempt in attempts}


def test_a_refusal_says_its_rule(engine: MockEngine, collector: Collector, tmp_path: Path) -> None:
    """What the contract refused is a span without attempts, and no error of the router's."""
    with _traced(tmp_path, [engine.url], collector) as router, RawClient(router.port) as client:
        assert client.post(CHAT, chat(top_p=0.5)).status == 400
        (own,) = collector.wait_for(1)
    assert own.attributes["router.rule"] == "sampling.params.top_p"
    assert own.attributes["http.response.status_code"] == 400
    assert not own.is_error


def test_what_the_client_does_not_sample_is_not_sent(engine: MockEngine, collector: Collector, tmp_path: Path) -> None:
    """A trace that its client does not record leaves no spans, as the engine is told; a malformed one is not taken."""
    with _traced(tmp_path, [engine.url], collector) as router, RawClient(router.port) as client:
        assert client.post(CHAT, chat(), {"Traceparent": TRACEPARENT[:-1] + "0"}).status == 200
        malformed = {"Traceparent": f"00-{'0' * 32}-{CLIENT_SPAN}-01", "Tracestate": "a=b"}
        assert client.post(CHAT, chat(), malformed).status == 200
        own, _ = collector.wait_for(2)
    first, second = engine.wait_for(2)
    assert re.fullmatch(f"00-{TRACE}-[0-9a-f]{{16}}-00", first.values("Traceparent")[0])
    assert (own.parent, own.trace) == ("", second.values("Traceparent")[0][3:35])
    assert second.values("Tracestate") == []
    assert len(collector.spans) == 2


def test_the_last_spans_leave_before_a_worker_ends(engine: MockEngine, collector: Collector, tmp_path: Path) -> None:
    """A worker that a reload replaces sends what it has, however long it would have waited."""
    with _traced(tmp_path, [engine.url], collector, {"OTEL_BSP_SCHEDULE_DELAY": "600000"}) as router:
        with RawClient(router.port) as client:
            assert client.post(CHAT, chat()).status == 200
        router.signal(signal.SIGHUP)
        collector.wait_for(2)


def test_a_collector_that_is_gone_holds_nothing_up(engine: MockEngine, tmp_path: Path) -> None:
    """Requests are served while their spans reach nobody, and a worker with such spans ends."""
    with Collector() as gone:
        pass
    with _traced(tmp_path, [engine.url], gone) as router, RawClient(router.port) as client:
        assert [client.post(CHAT, chat()).status for _ in range(5)] == [200] * 5
        router.signal(signal.SIGHUP)
        wait_until(lambda: not Path(f"/proc/{worker_of(router)}").exists(), router.log)


WRONG = {
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4096",
    "OTEL_BSP_MAX_QUEUE_SIZE": "-5",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "-1",
    "OTEL_EXPORTER_OTLP_COMPRESSION": "bogus",
    "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere",
    "OTEL_RESOURCE_ATTRIBUTES": "a=%zz,,=",
}


@pytest.mark.parametrize("name", exhaustive_but(["OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_EXPORTER_OTLP_COMPRESSION"], WRONG))
def test_no_variable_of_opentelemetry_keeps_requests_from_being_served(
    engine: MockEngine, collector: Collector, tmp_path: Path, name: str
) -> None:
    """Where OpenTelemetry cannot start requests are served all the same, and one line says what is missing and why."""
    with _traced(tmp_path, [engine.url], collector, {name: WRONG[name]}) as router, RawClient(router.port) as client:
        assert [client.post(CHAT, chat()).status for _ in range(3)] == [200] * 3
        assert client.get("/healthz").status == 200
        said = [line for line in router.log().splitlines() if "cannot start" in line]
        assert len(said) == (1 if name.startswith(("OTEL_BSP", "OTEL_SPAN")) else len(said[:1]))
        assert all(
            re.search("metrics or traces cannot start and are missing from this process: .", line) for line in said
        )
        assert "Traceback" not in router.log()


def test_without_the_packages_the_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces without OpenTelemetry stop the start, with what to install."""
    monkeypatch.setattr("router.settings.declarations.OPENTELEMETRY", ("opentelemetry.nowhere", "nowhere.at.all"))
    with pytest.raises(SettingError, match=r'ROUTER_TRACES .* found "on", expected off, or .* pip install'):
        load({"ROUTER_ENGINES": "http://127.0.0.1:1", "ROUTER_TRACES": "on"})
