"""What each step of an inference request costs, as ratios: `python -m tests.bench.steps`.

A step and its yardstick, orjson reading the same body, run in turns in short batches; the CPU time of this thread
counts, so that what else runs on the machine shows little. `python -m tests.bench.check` compares the ratios with those
that are checked in.
"""

import argparse
import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import orjson

from router.app import create_app, open_services
from router.artifact import format as artifact_format
from router.artifact.release import shipped_folder
from router.balancing.in_flight import InFlightTable
from router.balancing.policies import POLICIES
from router.contract.decide import Forward, ServedIds, decide
from router.contract.jsonbytes.parsing import parse
from router.contract.jsonbytes.splice import apply_edits
from router.contract.responses.stream_rewrite import StreamRewriter
from router.middleware import Middleware
from router.request.context import RequestContext
from router.request.headers import for_client, for_engine
from router.request.outcome import Outcome
from router.request.request import Headers, Request, WholeBody
from router.server.disconnect import DownstreamClient
from router.settings.declarations import Settings
from router.telemetry.access_log import as_json
from router.telemetry.meter import GaugeSource, MetricsRegistry
from router.upstream.balancer import LoadBalancer
from router.upstream.circuit_breaker import BreakerConfig, HealthState
from router.upstream.context_length import ContextLimits
from router.upstream.engine_state import HealthCheckResult
from router.upstream.forward import Forwarder, UpstreamRequest
from router.upstream.registry import EngineRegistry
from tests.bench.peers.bodies import MODEL, ROUTE, SIZES, chat_body
from tests.bench.peers.subjects import CONTRACT_OFF, CONTRACT_ON, largest_preset
from tests.checkout import CHECKOUT

SMALL: Final = "1 KB"
BATCH_SECONDS: Final = 0.01
ROUNDS: Final = 9
ENGINE: Final = "http://127.0.0.1:30000"
EVENTS: Final = 100
"""Events of the stream that is edited, so that the editor's beginning does not count."""
EVENT: Final = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"served","choices":'
    b'[{"index":0,"delta":{"content":"Hello"},"logprobs":null,"finish_reason":null}]}\n\n'
)
REQUEST_HEADERS: Final = {
    "content-type": "application/json",
    "accept": "*/*",
    "accept-encoding": "gzip, deflate",
    "authorization": "Bearer key-of-a-client",
    "user-agent": "bench",
    "x-request-id": "request-1",
}
HEADERS: Final = [
    ("content-type", "application/json"),
    ("content-length", "400"),
    ("date", "today"),
    ("server", "bench"),
]


class Step(NamedTuple):
    """A step: what is run, with what it is compared, and how many pieces of work one call is."""

    run: Callable[[], object]
    yardstick: bytes
    pieces: int = 1


class Cost(NamedTuple):
    """What a step costs: the ratio to its yardstick, the range of it over the rounds, and µs of CPU."""

    ratio: float
    least: float
    most: float
    microseconds: float


class _Response:
    """A response of an engine of which nothing is read."""

    status = 200
    on_close = on_outcome = None


class _HttpClient:
    """Takes the place of the HTTP client: nothing is sent."""

    def post(self, *_: object, **__: object) -> _Response:
        return _Response()


def artifacts() -> dict[str, artifact_format.Artifact]:
    """Return the artifacts that are shipped, by the names of their presets."""
    files = sorted(shipped_folder("build").glob("*.json"))
    return {path.stem: artifact_format.read(path) for path in files if ".schema" not in path.name}


def steps() -> Iterator[tuple[str, Step]]:
    """Yield the steps that need nothing beside them, by their names."""
    bodies = {size: chat_body(size) for size in SIZES}
    known = artifacts()
    for size, body in bodies.items():
        yield f"parse, {size}", Step(partial(parse, body), body)
    for preset in known:
        yield _decision(preset, known[preset], SMALL, bodies[SMALL])
    for preset in (CONTRACT_OFF, CONTRACT_ON, largest_preset()):
        for size in (name for name in bodies if name != SMALL):
            yield _decision(preset, known[preset], size, bodies[size])
    for size, body in bodies.items():
        yield f"apply edits, {size}", _edits(known[CONTRACT_ON], body)
    small = bodies[SMALL]
    yield "edit a stream's event: model", Step(lambda: _edit_stream("asked", None), small, EVENTS)
    yield "edit a stream's event: usage moved", Step(lambda: _edit_stream(None, "move"), small, EVENTS)
    yield "headers to the engine", Step(lambda: for_engine(REQUEST_HEADERS, "request-1", "key-of-the-engine"), small)
    yield "headers to the client", Step(lambda: for_client(HEADERS), small)
    yield "dispatch, nothing sent", _dispatch(small)
    over = _exchange()
    yield "access-log line", Step(lambda: as_json(over, time.time(), time.monotonic()), small)
    yield "meter, a request of a batch", _meter(small)


def _decision(preset: str, of: artifact_format.Artifact, size: str, body: bytes) -> tuple[str, Step]:
    served = ServedIds((MODEL,))
    return f"decide, {preset}, {size}", Step(lambda: decide(body, of.contract, served), body)


def _edits(of: artifact_format.Artifact, body: bytes) -> Step:
    decision, request = decide(body, of.contract, ServedIds((MODEL,))), parse(body)
    assert isinstance(decision, Forward)
    assert decision.edits
    return Step(lambda: apply_edits(request, decision.edits), body)


def _edit_stream(model: str | None, usage: Any) -> None:
    editor = StreamRewriter(model, usage)
    for _ in range(EVENTS):
        editor.feed(EVENT)


def _exchange() -> RequestContext:
    now = time.monotonic()
    return RequestContext(
        request_id="request-1",
        method="POST",
        route=ROUTE,
        model_asked=MODEL,
        model_served=MODEL,
        engine=ENGINE,
        attempts=1,
        status=200,
        bytes_in=1024,
        bytes_out=400,
        first_attempt_at=now,
        sent_at=now,
        first_byte_at=now,
        buffered_at=now,
        response_started_at=now,
        ended_at=now,
    )


def _dispatch(yardstick: bytes) -> Step:
    settings = Settings(engines=(ENGINE,))
    registry = EngineRegistry(settings.engines, (), has_aliases=False, breaker=BreakerConfig(5, 2.0))
    registry.record_health_check(ENGINE, HealthCheckResult(HealthState.HEALTHY, ({"id": MODEL},)))
    in_flight_table = InFlightTable()
    http_client: Any = _HttpClient()
    forwarder = Forwarder(
        settings,
        registry,
        http_client,
        LoadBalancer(registry, POLICIES["round_robin"], in_flight_table),
        in_flight_table,
        context_limits=ContextLimits(registry, ""),
    )
    request, client = UpstreamRequest(ROUTE, {}, yardstick, MODEL), DownstreamClient()

    def run() -> None:
        answer: Any = forwarder.send(request, client, RequestContext(request_id="1"))
        answer.on_outcome(Outcome.SUCCEEDED)
        answer.on_close()

    return Step(run, yardstick)


def _meter(yardstick: bytes) -> Step:
    engines = dict.fromkeys(("available", "healthy", "draining", "unhealthy", "open"), 1)
    meter = MetricsRegistry(GaugeSource(lambda: 1, lambda: engines, ("bench", "sha256:0")))
    numbers, batch = meter.start(), [_exchange()] * 10
    return Step(lambda: numbers.add(iter(batch)), yardstick, len(batch))


class _Kept:
    """A response writer that keeps the status."""

    status = 0

    def send(self, status: int, headers: Headers, body: bytes) -> None:
        self.status = status if headers and body else 0


@contextmanager
def whole_requests(artifact_of: artifact_format.Artifact) -> Iterator[tuple[str, Step]]:
    """Give the step of a whole request in the application: all but the server, with an engine in another process."""
    words = [sys.executable, "-m", "router.mock_engine", "--no-record", "--model", MODEL]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as engine:
        try:
            assert engine.stdout is not None
            settings = Settings(engines=(engine.stdout.readline().strip(),), access_log="off", metrics=True)
            services = open_services(settings, artifact_of)
            services.discovery.start_and_wait()
            app: Any = Middleware(create_app(services), services)
            body = chat_body(SMALL)
            headers = [("host", "x"), ("content-type", "application/json"), ("content-length", str(len(body)))]
            writer = _Kept()

            def run() -> None:
                app.serve(Request("POST", ROUTE, headers, WholeBody(body), DownstreamClient()), writer)
                assert writer.status == HTTPStatus.OK

            yield f"whole request, {artifact_of.name}, {SMALL}", Step(run, body)
        finally:
            engine.terminate()


def cost_of(step: Step, rounds: int = ROUNDS) -> Cost:
    """Return what a step costs."""

    def measure() -> object:
        return orjson.loads(step.yardstick)

    run_count, yard_count = _count_for(step.run), _count_for(measure)
    found = []
    for number in range(rounds + 1):
        mine = _seconds(step.run, run_count) / step.pieces
        yard = _seconds(measure, yard_count)
        if number:  # the first warms up
            found.append((mine, yard))
    ratios = sorted(mine / yard for mine, yard in found)
    return Cost(statistics.median(ratios), ratios[0], ratios[-1], statistics.median(mine for mine, _ in found) * 1e6)


def enforcement(rounds: int = 3 * ROUNDS) -> dict[str, float]:
    """Return the µs that a decision on a 1 KB request takes under two contracts, and the difference in each round."""
    known, body, served = artifacts(), chat_body(SMALL), ServedIds((MODEL,))
    runs = {
        preset: lambda contract=known[preset].contract: decide(body, contract, served)
        for preset in (CONTRACT_OFF, CONTRACT_ON, largest_preset())
    }
    counts = {preset: _count_for(run) for preset, run in runs.items()}
    found: dict[str, list[float]] = {preset: [] for preset in runs}
    for _ in range(rounds):
        for preset, run in runs.items():
            found[preset].append(_seconds(run, counts[preset]) * 1e6)
    medians = {preset: statistics.median(values) for preset, values in found.items()}
    differences = [more - less for more, less in zip(found[largest_preset()], found[CONTRACT_ON], strict=True)]
    return {**medians, "difference": statistics.median(differences)}


def _count_for(run: Callable[[], object]) -> int:
    once = min(_seconds(run, 1) for _ in range(3))
    return max(1, int(BATCH_SECONDS / max(once, 1e-7)))


def _seconds(run: Callable[[], object], count: int) -> float:
    """Return the CPU time of this thread that one of so many runs takes, without a search for garbage."""
    gc.disable()
    try:
        begun = time.thread_time_ns()
        for _ in range(count):
            run()
        return (time.thread_time_ns() - begun) / count / 1e9
    finally:
        gc.enable()


@contextmanager
def all_steps() -> Iterator[dict[str, Step]]:
    """Give all steps, the whole request too, by their names."""
    with whole_requests(artifacts()[CONTRACT_ON]) as whole:
        yield {**dict(steps()), whole[0]: whole[1]}


def table(found: Mapping[str, Cost]) -> str:
    """Return the costs as a Markdown table."""
    lines = ["| step | µs of CPU | ratio to orjson reading the same body |", "|---|---|---|"]
    for name, cost in found.items():
        lines.append(f"| {name} | {cost.microseconds:.2f} | {cost.ratio:.2f} ({cost.least:.2f} to {cost.most:.2f}) |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    with all_steps() as measured:
        print(table({name: cost_of(step, options.rounds) for name, step in measured.items()}))
    found = enforcement()
    difference = found.pop("difference")
    print("\ndecide(), 1 KB: " + ", ".join(f"{preset} {value:.1f} µs" for preset, value in found.items()))
    print(
        f"{largest_preset()} costs {difference:.1f} µs more than {CONTRACT_ON} (load average {os.getloadavg()[0]:.1f})"
    )


if __name__ == "__main__":
    main()
