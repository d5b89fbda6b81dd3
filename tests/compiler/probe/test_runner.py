"""A probe keeps to its bound, outlives a busy endpoint, and takes up what it left."""

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from compiler import probe
from compiler.cli.parser import parser_of_profilec
from compiler.probe.boundary_search import FRACTIONS, WHOLE, numbers
from compiler.probe.experiment import BaseRequest
from compiler.probe.runner import RequestSender, run_learner
from compiler.verify.assertion import EndpointResponse
from compiler.verify.cassette import read_record
from compiler.verify.check import ChatRequest
from compiler.verify.client import ATTEMPTS, EndpointError
from router.contract.jsonbytes.numbers import read_float
from router.contract.rules import field_rules
from router.contract.schema.rule_list import FieldRule
from router.contract.schema.sections import Field
from router.mock_engine import MockEngine, MockResponse, ReceivedRequest
from tests.compiler.probe.endpoints import DAY

BASE = BaseRequest({"model": "m", "messages": []}, "Say OK.")
OK = EndpointResponse(200, "application/json", b"{}")


class Wire:
    """Stands in for an exchange: answers by a function, and counts what is sent."""

    def __init__(self, response: Callable[[ChatRequest], EndpointResponse], costs: int = 1) -> None:
        self.requests_sent = 0
        self._answer, self._costs = response, costs

    def responses(self, chat_requests):
        for request, _ in chat_requests:
            self.requests_sent += self._costs
            yield request, self._answer(request)


def learning(**rule):
    """Learn which temperatures a rule takes."""
    return numbers(
        lambda number: BASE.experiment("fields.temperature", {"temperature": number}), FRACTIONS, is_whole=False
    )


def answer_by(**rule):
    tests = tuple(field_rules.tests_of(FieldRule("temperature", Field(**rule), "fields.temperature")))

    def response(request: ChatRequest) -> EndpointResponse:
        fields = request.fields()
        rejected = any(test(fields["temperature"], fields) for test in tests)
        return EndpointResponse(400, "application/json", b"{}") if rejected else OK

    return response


class Edges(NamedTuple):
    """A rule, and the edges that must be found: the number and whether it is accepted."""

    rule: dict[str, float]
    low: tuple[float, bool] | None
    high: tuple[float, bool] | None


@pytest.mark.parametrize(
    "case",
    [
        Edges({"min": 0, "max": 1}, (0, True), (1, True)),
        Edges({"above": 0, "below": 1}, (0, False), (1, False)),
        Edges({"min": 0.01}, (0.01, True), None),
        Edges({"below": 1.2345}, None, (1.2345, False)),
        Edges({"min": -17, "max": 42.5}, (-17, True), (42.5, True)),
        Edges({"max": 4999}, None, (4999, True)),
    ],
    ids=lambda case: json.dumps(case.rule),
)
def test_edges_are_found_to_the_shortest_decimal(case: Edges) -> None:
    """An edge is found exactly, and whether it is accepted itself, within few questions."""
    wire = Wire(answer_by(**case.rule))
    found = run_learner(learning(), RequestSender(wire, {}, None, 1000, lambda _: None).responses)
    assert found.kind == "band"
    for edge, wanted in ((found.low, case.low), (found.high, case.high)):
        assert (edge and (edge.at, edge.is_inside)) == wanted
    assert wire.requests_sent < 100


@pytest.mark.parametrize(
    ("takes", "kind", "gaps"),
    [
        (lambda number: number == -1 or number >= 1, "band", (0,)),
        (lambda number: number in range(17), "band", ()),
        (lambda number: number in {0, 100} or number > 1000, "band", (1, 2, 3)),
        (lambda number: number in {1, 2, 5}, "set", ()),
        (lambda number: number in {0, 4, 100}, "set", ()),
        (lambda number: number == 8, "set", ()),
        (lambda _: True, "all", ()),
    ],
    ids=["with a gap", "a range", "a range behind others", "neighbours and another", "three", "one", "all"],
)
def test_a_list_of_numbers_is_one_whose_neighbours_are_rejected(takes, kind: str, gaps: tuple[int, ...]) -> None:
    """What is accepted all through between the numbers that were tried is a range, whatever lies outside of it."""
    wire = Wire(
        lambda request: OK if takes(request.fields()["seed"]) else EndpointResponse(400, "application/json", b"{}")
    )
    asking = numbers(lambda number: BASE.experiment("fields.seed", {"seed": number}), WHOLE, is_whole=True)
    found = run_learner(asking, RequestSender(wire, {}, None, 1000, lambda _: None).responses)
    assert found.kind == kind
    assert found.gaps[: len(gaps)] == gaps


@pytest.mark.parametrize("most", [0, 1, ATTEMPTS, 10, 29, 1000])
@pytest.mark.parametrize("costs", [1, ATTEMPTS])
def test_the_bound_on_requests_is_held(most: int, costs: int) -> None:
    """However often requests are repeated, no more are sent than were stated; what is left counts as not asked."""
    wire = Wire(answer_by(min=0, max=1), costs)
    found = run_learner(learning(), RequestSender(wire, {}, None, most, lambda _: None).responses)
    assert wire.requests_sent <= most
    assert most == 1000 or any(result.kind == "unasked" for result in found.results)


@pytest.mark.parametrize(
    "unwell",
    [
        EndpointResponse(429, "", b""),
        EndpointResponse(503, "", b""),
        EndpointResponse(500, "", b""),
        EndpointResponse(0, "", b"", failure="no response in time"),
    ],
    ids=lambda response: response.failure or str(response.status),
)
def test_what_tells_of_the_endpoint_is_no_rejection(unwell: EndpointResponse) -> None:
    """Responses of a busy or failing endpoint are neither accepted nor rejected, and give no rule."""
    wire = Wire(lambda request: unwell if request.fields()["temperature"] > 1 else OK)
    found = run_learner(learning(), RequestSender(wire, {}, None, 1000, lambda _: None).responses)
    assert found.kind == "all"
    assert {result.kind for result in found.results} == {"accepted", "unclear"}


def test_an_endpoint_that_has_gone_ends_the_probe() -> None:
    """Where one request after the other fails, the probe ends instead of waiting for each."""

    class Gone(Wire):
        def responses(self, chat_requests):
            self.requests_sent += 1
            raise EndpointError("http://127.0.0.1: the connection was refused")

    known = {"before": OK}
    with pytest.raises(EndpointError):
        run_learner(learning(), RequestSender(Gone(lambda _: OK), known, None, 1000, lambda _: None).responses)
    assert len(known) < 10


class Flaky:
    """Answers now and then that it is busy, and rejects temperatures above 1."""

    def __init__(self) -> None:
        self.count = 0

    def hear(self, received: ReceivedRequest) -> MockResponse | None:
        if received.method != "POST":
            return None
        self.count += 1
        if self.count % 11 == 0:
            return MockResponse.json({"error": {"message": "busy"}}, 503 if self.count % 2 else 429)
        body = json.loads(received.body) if received.body.startswith(b"{") and received.body != b"{" else {}
        temperature = body.get("temperature", 1) if isinstance(body, dict) else 1
        number = read_float(temperature)
        return None if number is not None and number <= 1 else MockResponse.json({"error": {"message": "no"}}, 400)


def arguments(url: str, output: Path, **more) -> Namespace:
    told = parser_of_profilec().parse_args(
        ["probe", url, "--model", "m", "--only", "fields.temperature", "-o", str(output)]
    )
    return Namespace(**{**vars(told), **more})


@pytest.fixture(name="no_waiting", autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repetitions come at once."""
    monkeypatch.setattr("compiler.verify.client.time.sleep", lambda _: None)


def test_a_busy_endpoint_gives_the_same_draft(tmp_path: Path) -> None:
    """429 and 503 between the responses change nothing of what is learned; a record does without a request."""
    first, again, record = (tmp_path / name for name in ("first.yaml", "again.yaml", "record.jsonl"))
    with MockEngine(models=("m",)) as engine:
        engine.script(Flaky().hear)
        assert probe.run(arguments(engine.url, first, record=str(record)), lambda: DAY) == 0
        url = engine.url
    assert "max: 1" in first.read_text()
    assert probe.run(arguments(url, again, replay=str(record)), lambda: DAY) == 0
    assert again.read_bytes() == first.read_bytes()


def test_a_probe_that_broke_off_is_resumed(tmp_path: Path) -> None:
    """What a record holds is not asked again, and the draft is that of a probe in one go."""
    whole, resumed, record = (tmp_path / name for name in ("whole.yaml", "resumed.yaml", "record.jsonl"))
    with MockEngine(models=("m",)) as engine:
        assert probe.run(arguments(engine.url, whole), lambda: DAY) == 0
        assert probe.run(arguments(engine.url, resumed, record=str(record), max_requests=5), lambda: DAY) == 0
        assert "not asked: --max-requests was reached" in resumed.read_text()
        known = len(read_record(str(record)))
        assert probe.run(arguments(engine.url, resumed, record=str(record)), lambda: DAY) == 0
    assert 0 < known <= 5
    assert resumed.read_bytes() == whole.read_bytes()
