"""Metrics: /metrics tells exactly what was sent, over all workers, whatever becomes of them."""

import json
import os
import re
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest
from prometheus_client.parser import text_string_to_metric_families

from router.contract.schema.model import Contract
from router.contract.schema.sections import Interval, Limits, MaxTokens, Models, Output, Sampling, plain_aliases
from router.mock_engine import MockEngine, MockResponse
from router.telemetry import metrics, shared_metrics
from tests.exhaustive import exhaustive_but
from tests.router.dnsserver import DnsServer
from tests.router.process import worker_of
from tests.router.rawclient import RawClient, post_head
from tests.router.rawengine import RawEngine, ok, read_request, reset
from tests.router.serving import RunningRouter, artifact_file, free_port, running_router, status_of, wait_until
from tests.router.wire.chat import CHAT, chat

CONTRACT = Contract(
    models=Models(aliases=plain_aliases("latest")),
    sampling=Sampling(params={"top_p": 0.95, "temperature": Interval(0, 1)}),
    limits=Limits(max_body_bytes=4096, max_images=1),
    output=Output(max_tokens=MaxTokens(cap=100, default=50, on_exceed="clamp")),
)
IMAGES = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}] * 2}]
EVENT = b'data: {"id":"1","model":"served","choices":[]}\n\n'
TIMES = ("router_request_seconds", "router_first_byte_seconds", "router_overhead_seconds")
Numbers = dict[str, float]


def _numbers(port: int) -> Numbers:
    """Return what /metrics says, by name and labels as they stand there."""
    with RawClient(port) as client:
        answer = client.get("/metrics")
    assert answer.status == 200, answer
    return {
        sample.name + "".join(f"|{value}" for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


def _counted(port: int) -> Numbers:
    """Return the counters and the counts of the histograms, without those of the scrapes and probes themselves."""
    own = ("|/metrics", "|/readyz", "|/healthz")
    return {
        name: value
        for name, value in _numbers(port).items()
        if value and re.search(r"_(total|count)(\||$)", name) and not any(each in name for each in own)
    }


def _expect(port: int, expected: Numbers) -> None:
    """Wait until exactly that is counted: workers that are not asked lag a moment behind."""
    seen: list[Numbers] = [{}]

    def is_so() -> bool:
        seen[0] = _counted(port)
        return seen[0] == expected

    wait_until(is_so, lambda: str({k: (seen[0].get(k), expected.get(k)) for k in {*seen[0], *expected}}), 20)


@contextmanager
def _measured(folder: Path, engines: list[str], **settings: str) -> Iterator[RunningRouter]:
    """Run a router of two workers with metrics, whose files lie in a folder of the test's."""
    both = {"ROUTER_METRICS": "on", "WEB_CONCURRENCY": "2", "TMPDIR": str(folder), **settings}
    with running_router(artifact_file(folder, CONTRACT), engines, both) as router:
        yield router


def _post(router: RunningRouter, body: bytes, route: str = CHAT) -> int:
    """Send a request over a connection of its own, so that any worker may take it, and return its status."""
    with RawClient(router.port) as client:
        return client.post(route, body).status


def _get(port: int, path: str, key: str = "") -> int:
    """Ask over a connection of its own, with a key if there is one, and return the status."""
    with RawClient(port) as client:
        return client.get(path, {"Authorization": f"Bearer {key}"} if key else {}).status


def _workers(router: RunningRouter) -> list[int]:
    """Return the process ids of all workers so far, in the order of their start: the system's numbers begin again."""
    return [int(pid) for line in router.lines for pid in re.findall(r"Booting worker with pid: (\d+)", line)]


MIXED: list[tuple[int, int, bytes, str]] = [
    (40, 200, chat(), CHAT),
    (20, 200, chat(model="latest", max_tokens=30), CHAT),
    (10, 200, chat(max_completion_tokens=5000), CHAT),
    (30, 400, chat(top_p=0.5, temperature=3), CHAT),
    (10, 400, chat(top_p=0.5), CHAT),
    (10, 400, chat(messages=IMAGES), CHAT),
    (10, 400, chat(max_tokens=0), CHAT),
    (10, 400, b"{", CHAT),
    (10, 404, chat(model="nope"), CHAT),
    (10, 413, chat().ljust(5000), CHAT),
    (20, 200, chat(), "/v1/embeddings"),
    (10, 404, chat(), "/nowhere"),
    (20, 200, chat(stream=True), CHAT),
]
ENGINES = ("router_engines|healthy", "router_engines_available")
MIXED_NUMBERS = {
    f"router_requests_total|{CHAT}|200": 90,
    f"router_requests_total|{CHAT}|400": 70,
    f"router_requests_total|{CHAT}|404": 10,
    f"router_requests_total|{CHAT}|413": 10,
    "router_requests_total|/v1/embeddings|200": 20,
    "router_requests_total|none|404": 10,
    "router_errors_total|sampling_contract_violation": 40,
    "router_errors_total|too_many_images": 10,
    "router_errors_total|bad_request": 20,
    "router_errors_total|model_not_found": 10,
    "router_errors_total|request_too_large": 10,
    "router_errors_total|not_found": 10,
    "router_decisions_total|none": 110,
    "router_decisions_total|sampling.params.temperature": 30,
    "router_decisions_total|sampling.params.top_p": 10,
    "router_decisions_total|limits.max_images": 10,
    "router_decisions_total|output.max_tokens": 10,
    "router_decisions_total|request": 10,
    "router_decisions_total|models": 10,
    "router_decisions_total|limits.max_body_bytes": 10,
    "router_violations_total|temperature": 30,
    "router_violations_total|top_p": 40,
    "router_violations_total|messages": 10,
    "router_violations_total|max_tokens": 10,
    "router_tokens_asked_total|client": 600,
    "router_tokens_asked_total|clamp": 50_000,
    "router_tokens_granted_total|client": 600,
    "router_tokens_granted_total|default": 60 * 50,
    "router_tokens_granted_total|clamp": 1000,
    "router_streams_total|done": 20,
    **{f"{name}_count|{CHAT}": 90 for name in TIMES},
    **{f"{name}_count|/v1/embeddings": 20 for name in TIMES},
}


@pytest.mark.parametrize("rounds", exhaustive_but([4], [4, 20]))
def test_what_was_sent_is_told_whatever_becomes_of_the_workers(engine: MockEngine, tmp_path: Path, rounds: int) -> None:
    """Counts equal a mixed load to the last request, over two workers, many reloads and killed workers."""
    with _measured(tmp_path, [engine.url]) as router:
        for count, status, body, route in MIXED:
            assert [_post(router, body, route) for _ in range(count)] == [status] * count
        _expect(router.port, MIXED_NUMBERS)
        (folder,) = tmp_path.glob(f"{shared_metrics.PREFIX}*")
        for round_ in range(rounds):
            known = _workers(router)
            if round_ % 4 == 3:
                os.kill(known[-1], signal.SIGKILL)
                wait_until(lambda known=known: len(_workers(router)) > len(known), router.log)
            else:
                router.signal(signal.SIGHUP)
                wait_until(lambda known=known: len(_workers(router)) >= len(known) + 2, router.log)
        wait_until(lambda: len({path.name for path in folder.glob("counter_[0-9]*.db")}) == 2, router.log)
        _expect(router.port, MIXED_NUMBERS)
        # A counter, a histogram and two or three gauges of each worker, two of the dead, and the lock.
        wait_until(lambda: len(list(folder.iterdir())) <= 2 * 5 + 3, lambda: str(sorted(folder.iterdir())))
        # A worker that has just begun may not have looked at its engine yet.
        wait_until(lambda: [_numbers(router.port)[name] for name in ENGINES] == [1, 1], router.log)
        assert _numbers(router.port)["router_requests_in_flight"] == 0
        router.signal(signal.SIGTERM)
        router.signal(signal.SIGTERM)
        router.process.wait(30)
        assert not folder.exists()


def test_what_engines_and_clients_do_is_told(tmp_path: Path) -> None:
    """Streams by their end, clients that leave by when, engines' failures by cause, and retries by reason."""
    gate = Event()
    with MockEngine(models=("served",)) as engine, _measured(tmp_path, [engine.url]) as router:
        engine.answer_next(MockResponse.json({"error": {"message": "busy"}}, status=429))
        assert _post(router, chat()) == 429
        engine.answer_next(MockResponse.json({"error": {"message": "sick"}}, status=500))
        assert _post(router, chat()) == 500
        engine.answer_next(MockResponse.sse(EVENT))
        assert _post(router, chat(stream=True)) == 200
        engine.answer_next(MockResponse.sse(EVENT, gate, EVENT))
        with RawClient(router.port) as client:
            body = chat(stream=True)
            client.send(post_head(CHAT, {"Content-Length": str(len(body))}) + body)
            assert client.head()[0] == 200
            client.chunk()
            wait_until(lambda: _numbers(router.port)["router_requests_in_flight"] == 1)
            client.socket.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: _numbers(router.port)["router_requests_in_flight"] == 0)
        gate.set()
        _expect(
            router.port,
            {
                f"router_requests_total|{CHAT}|200": 2,
                f"router_requests_total|{CHAT}|429": 1,
                f"router_requests_total|{CHAT}|500": 1,
                "router_decisions_total|none": 4,
                "router_tokens_granted_total|default": 200,
                "router_upstream_errors_total|failed": 1,
                "router_streams_total|without_done": 1,
                "router_streams_total|client_gone": 1,
                "router_aborted_total|answer": 1,
                **{f"{name}_count|{CHAT}": 4 for name in TIMES},
            },
        )


def test_broken_engines_are_told_by_cause(tmp_path: Path) -> None:
    """An answer that is cut, a connection that is reset and an engine that is gone are told apart."""

    def serve(connection: socket.socket) -> None:
        read = read_request(connection)
        if read and b"cut" in read[1]:
            connection.sendall(ok(b"{}").replace(b"Length: 2", b"Length: 9"))
            connection.shutdown(socket.SHUT_RDWR)
        else:
            reset(connection)

    with RawEngine(serve) as broken, _measured(tmp_path, [broken.url], ROUTER_BREAKER_FAILURES="1000") as router:
        statuses = [_post(router, chat(user="cut")), _post(router, chat())]
        assert statuses == [502, 502]
        expected = {
            f"router_requests_total|{CHAT}|502": 2,
            "router_errors_total|upstream_incomplete": 1,
            "router_errors_total|upstream_unreachable": 1,
            "router_decisions_total|none": 2,
            "router_tokens_granted_total|default": 100,
            "router_upstream_errors_total|broken": 2,
            f"router_first_byte_seconds_count|{CHAT}": 1,
        }
        _expect(router.port, expected)


def test_a_retry_is_told(tmp_path: Path) -> None:
    """A request that a second engine takes counts once, with its retry and what was wrong with the first engine."""
    with (
        MockEngine(models=("served",)) as first,
        MockEngine(models=("served",)) as second,
        _measured(tmp_path, [first.url, second.url], WEB_CONCURRENCY="1", ROUTER_METRICS_BY_ENGINE="on") as router,
    ):
        for engine in (first, second):
            engine.answer_next(MockResponse.json({"error": {"message": "busy"}}, status=503))
        assert _post(router, chat()) == 503
        assert _post(router, chat()) == 200
        wait_until(lambda: _counted(router.port).get(f"router_requests_total|{CHAT}|200") == 1)
        numbers = _counted(router.port)
    assert numbers["router_retries_total|refused"] == 1
    assert numbers["router_upstream_errors_total|unavailable"] == 2
    assert numbers[f"router_requests_total|{CHAT}|200"] == 1
    by_engine = [numbers[f"router_engine_requests_total|{engine.url}"] for engine in (first, second)]
    assert sorted(by_engine) == [1, 2]
    assert [numbers[f"router_engine_errors_total|unavailable|{engine.url}"] for engine in (first, second)] == [1, 1]


def test_overload_is_told(engine: MockEngine, tmp_path: Path) -> None:
    """A request beyond those in flight is counted, and what the server itself refuses too."""
    gate = Event()
    with _measured(tmp_path, [engine.url], ROUTER_MAX_IN_FLIGHT="1", WEB_CONCURRENCY="1") as router:
        engine.answer_next(MockResponse.sse(EVENT, gate, b"data: [DONE]\n\n"))
        with RawClient(router.port) as client, RawClient(router.port) as other:
            body = chat(stream=True)
            client.send(post_head(CHAT, {"Content-Length": str(len(body))}) + body)
            assert client.head()[0] == 200
            assert other.post(CHAT, chat()).status == 503
            gate.set()
            assert b"".join(iter(client.chunk, b"")).endswith(b"[DONE]\n\n")
        with RawClient(router.port) as rude:
            assert rude.send(b"GET / HTTP/9\r\n\r\n").answer().status == 400
        wait_until(lambda: _counted(router.port).get("router_requests_total|none|400") == 1)
        numbers = _counted(router.port)
    assert numbers["router_errors_total|overloaded"] == 1
    assert numbers[f"router_requests_total|{CHAT}|503"] == 1


def test_a_broken_reload_is_told(engine: MockEngine, tmp_path: Path) -> None:
    """Reloads that fail are counted, and shown while the newest artifact is broken; the profile in force is named."""
    with _measured(tmp_path, [engine.url]) as router:
        artifact = tmp_path / "under-test.json"
        good = artifact.read_bytes()
        digest = json.loads(good)["digest"]
        artifact.write_bytes(b"{")
        for failures in (1, 2):
            router.signal(signal.SIGHUP)
            wait_until(lambda failures=failures: _numbers(router.port)["router_reload_errors_total"] == failures)
        wait_until(lambda: _numbers(router.port)["router_reload_failed"] == 1)
        assert _numbers(router.port)[f"router_profile_info|{digest}|under-test"] == 1
        artifact.write_bytes(good)
        router.signal(signal.SIGHUP)
        wait_until(lambda: _numbers(router.port)["router_reload_failed"] == 0)
        assert _numbers(router.port)["router_reload_errors_total"] == 2


def test_failing_dns_and_a_broken_file_of_keys_are_counted(engine: MockEngine, tmp_path: Path) -> None:
    """A name that is not resolved and keys that cannot be read are counted, and shown until all is well again."""
    keys, port = tmp_path / "api_keys", free_port()
    keys.write_text("a=0123456789abcdef\n")
    with DnsServer() as dns_server:
        dns_server.set("e.example", "127.0.0.1")
        settings = {
            "ROUTER_DNS_SERVER": dns_server.address,
            "ROUTER_DNS_REFRESH_INTERVAL_SECONDS": "0.05",
            "ROUTER_API_KEYS_FILE": str(keys),
            "ROUTER_METRICS_PORT": str(port),
        }
        with _measured(tmp_path, [engine.url, "dns://e.example:1"], **settings):
            assert _troubles(port) == (False, 0, False, 0)
            dns_server.unset("e.example")
            keys.write_text("a=short\n")
            wait_until(lambda: _troubles(port) == (True, 1, True, 2), lambda: str(_troubles(port)))
            dns_server.set("e.example", "127.0.0.1")
            keys.write_text("a=0123456789abcdef\n")
            wait_until(lambda: _troubles(port) == (True, 0, False, 2), lambda: str(_troubles(port)))


def _troubles(port: int) -> tuple[bool, float, bool, float]:
    """Return whether a resolution failed so far, how many fail now, whether keys are broken, and how many saw that."""
    numbers = _numbers(port)
    names = ("dns_errors_total", "dns_failing", "api_keys_failed", "api_keys_errors_total")
    dns_errors, dns_failing, keys_failed, keys_errors = (numbers[f"router_{name}"] for name in names)
    return dns_errors > 0, dns_failing, keys_failed == 1, keys_errors


def test_requests_in_flight_are_counted_by_engine(engine: MockEngine, tmp_path: Path) -> None:
    """With ROUTER_METRICS_BY_ENGINE each engine has its requests in flight, whichever worker is asked."""
    gate, stream = Event(), chat(stream=True)
    in_flight = f"router_engine_requests_in_flight|{engine.url}"
    with _measured(tmp_path, [engine.url], ROUTER_METRICS_BY_ENGINE="on") as router, RawClient(router.port) as client:
        engine.answer_next(MockResponse.sse(EVENT, gate, b"data: [DONE]\n\n"))
        client.send(post_head(CHAT, {"Content-Length": str(len(stream))}) + stream)
        client.head()
        assert [_numbers(router.port)[in_flight] for _ in range(4)] == [1] * 4
        gate.set()
        while client.chunk():
            pass
        wait_until(lambda: _numbers(router.port)[in_flight] == 0)


def test_a_port_of_their_own_has_the_metrics_alone(engine: MockEngine, tmp_path: Path) -> None:
    """Metrics on their own port need no key, stand beside the probes only, and are nowhere else, after a reload too."""
    key, port = "a-key-of-16-characters", free_port()
    with _measured(tmp_path, [engine.url], ROUTER_METRICS_PORT=str(port), ROUTER_API_KEYS=f"a={key}") as router:
        for _ in range(2):
            assert [_get(port, path) for path in ("/metrics", "/healthz", "/v1/models", CHAT)] == [200, 200, 404, 404]
            assert [_get(router.port, path, key) for path in ("/metrics", "/v1/models")] == [404, 200]
            known = _workers(router)
            router.signal(signal.SIGHUP)
            wait_until(lambda known=known: len(_workers(router)) >= len(known) + 2, router.log)


def test_on_the_main_port_metrics_ask_for_a_key_where_one_is_asked_for(engine: MockEngine, tmp_path: Path) -> None:
    """Where clients have to show a key, so has who asks for the metrics on their port."""
    key = "a-key-of-16-characters"
    with _measured(tmp_path, [engine.url], ROUTER_API_KEYS=f"a={key}") as router, RawClient(router.port) as client:
        assert client.get("/metrics").status == 401
        assert client.get("/metrics", {"Authorization": f"Bearer {key}"}).status == 200


def test_without_the_switch_there_are_none(engine: MockEngine, tmp_path: Path) -> None:
    """Metrics that nobody asked for are no route, and leave no files."""
    with _measured(tmp_path, [engine.url], ROUTER_METRICS="off") as router, RawClient(router.port) as client:
        assert client.get("/metrics").status == 404
        assert not list(tmp_path.glob(f"{shared_metrics.PREFIX}*"))


@pytest.mark.parametrize(
    "arguments", [(), ("-c", "python:router.gunicorn_conf", "--preload")], ids=["plain", "preload"]
)
def test_other_ways_to_run_have_metrics_too(engine: MockEngine, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Metrics are told without our conf, by the process that is asked, and with an app that the master loaded."""
    settings = {"ROUTER_METRICS": "on", "TMPDIR": str(tmp_path)}
    with running_router(artifact_file(tmp_path, CONTRACT), [engine.url], settings, arguments) as router:
        assert _post(router, chat()) == 200
        wait_until(lambda: _counted(router.port).get(f"router_requests_total|{CHAT}|200") == 1, router.log)
        assert _numbers(router.port)["router_engines_available"] == 1


def test_what_is_told_is_what_is_declared(engine: MockEngine, tmp_path: Path) -> None:
    """Each sample has a declared name and only values out of the closed lists; each declared metric is told."""
    with _measured(tmp_path, [engine.url], ROUTER_METRICS_BY_ENGINE="on") as router:
        engine.answer_next(MockResponse.json({"error": {"message": "busy"}}, status=503))
        assert [_post(router, chat()) for _ in range(2)] == [503, 200]
        expected = {f"router_requests_total|{CHAT}|200", f"router_engine_errors_total|unavailable|{engine.url}"}
        wait_until(lambda: expected <= _numbers(router.port).keys())
        with RawClient(router.port) as client:
            answer = client.get("/metrics")
    assert answer.header("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(answer.body.decode()))
    declared = {metric.name.removesuffix("_total"): metric for metric in metrics.METRICS}
    assert {family.name for family in families} == set(declared)
    for family in families:
        metric = declared[family.name]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name != "le"}
            assert set(labels) == set(metric.labels)
            assert all(value in (metric.labels[name] or (value,)) for name, value in labels.items())


def test_what_a_killed_master_left_is_removed_at_the_next_start(engine: MockEngine, tmp_path: Path) -> None:
    """A folder that nobody uses any more goes; one of a router that runs beside stays."""
    with _measured(tmp_path, [engine.url]):
        pass  # leaving it kills the master
    (left,) = tmp_path.glob(f"{shared_metrics.PREFIX}*")
    with _measured(tmp_path, [engine.url]) as first, _measured(tmp_path, [engine.url]):
        assert not left.exists()
        assert len(list(tmp_path.glob(f"{shared_metrics.PREFIX}*"))) == 2
        assert _numbers(first.port)["router_engines_available"] == 1


def test_a_port_that_is_taken_stops_the_start(engine: MockEngine, tmp_path: Path) -> None:
    """A router that cannot listen for the metrics says so in one line and ends."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        settings = {"ROUTER_METRICS": "on", "ROUTER_METRICS_PORT": port, "TMPDIR": str(tmp_path)}
        with running_router(None, [engine.url], settings, until_ready=False) as router:
            router.wait_for_line("router: ROUTER_METRICS_PORT cannot be listened on: Address already in use")
            assert router.process.wait(20) == 1


def test_a_folder_that_is_gone_costs_the_metrics_alone(engine: MockEngine, tmp_path: Path) -> None:
    """When the shared folder was removed and a worker dies, its successor serves, without metrics of its own."""
    with _measured(tmp_path, [engine.url]) as router:
        (folder,) = tmp_path.glob(f"{shared_metrics.PREFIX}*")
        shutil.rmtree(folder)
        worker = worker_of(router)
        os.kill(worker, signal.SIGKILL)
        router.wait_for_line("metrics or traces cannot start")
        wait_until(lambda: status_of(f"{router.url}/readyz") == 200, router.log)
        with RawClient(router.port) as client:
            assert [client.post(CHAT, chat()).status for _ in range(5)] == [200] * 5
        assert router.process.poll() is None
