"""Contracts of fields, checks and cases on the wire: several served models, usage of streams, log and metrics."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from router.contract.schema.model import Case, Contract, Sections, When
from router.contract.schema.named_checks import Roles
from router.contract.schema.sections import Alias, Field, Mode, Models, ModeMatch, Response, Stream, UnknownFields
from router.mock_engine import MockEngine, MockResponse
from tests.router.conftest import PATIENT, RouterOf
from tests.router.rawclient import RawAnswer, RawClient
from tests.router.serving import RunningRouter, artifact_file, running_router
from tests.router.wire.chat import CHAT, MESSAGES, chat

pytestmark = pytest.mark.any_server

END_FRAME, TAIL_FRAME = Response(Stream("end_frame")), Response(Stream("tail_frame"))
FIELDS = {"a.b": Field(max=1), "user": Field(type=("string",))}
CONTRACT = Contract(
    models=Models(aliases={"chat": Alias(model="large", implies={"thinking.type": "disabled"})}, default="chat"),
    mode=Mode("thinking", (ModeMatch("plain", when={"thinking.type": ("disabled",)}),)),
    fields=FIELDS,
    checks={"roles": Roles(allowed=("user",))},
    unknown_fields=UnknownFields(policy="reject", known=("a", "thinking", "n")),
    cases=(
        Case("large-plain", When(model=("large",), mode=("plain",)), Sections(fields={"n": Field(force=2)})),
        Case(
            "large",
            When(model=("large",)),
            Sections(fields={"n": Field(force=1)}, response=END_FRAME),
        ),
        Case(
            "small",
            When(model=("sm*",)),
            Sections(fields={"thinking": Field(drop=True)}, response=TAIL_FRAME),
        ),
    ),
)


@pytest.fixture(scope="module")
def many() -> Iterator[MockEngine]:
    """An engine that serves three models."""
    with MockEngine(models=("served", "large", "small")) as mock_engine:
        yield mock_engine


@pytest.fixture(scope="module")
def router(many: MockEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRouter]:
    """A router in front of three models, of which two have contracts of their own, one of them by mode."""
    artifact = artifact_file(tmp_path_factory.mktemp("artifact"), CONTRACT)
    settings = PATIENT | {"WEB_CONCURRENCY": "1", "ROUTER_METRICS": "on"}
    with running_router(artifact, [many.url], settings) as running:
        yield running


def _post(router: RunningRouter, request_id: str = "x", **fields: Any) -> RawAnswer:
    with RawClient(router.port) as client:
        return client.post(CHAT, chat(**fields), {"X-Request-Id": request_id})


@pytest.mark.parametrize(
    ("fields", "forwarded"),
    [
        ({"model": "large"}, {"n": 1}),
        ({"model": "large", "thinking": {"type": "disabled"}}, {"n": 2, "thinking": {"type": "disabled"}}),
        ({"model": "chat"}, {"model": "large", "n": 2, "thinking": {"type": "disabled"}}),
        (
            {"model": "chat", "thinking": {"type": "enabled"}},
            {"model": "large", "n": 1, "thinking": {"type": "enabled"}},
        ),
        ({"model": "small", "thinking": {}}, {"thinking": None}),
        ({"model": "small", "anything": 1}, {"anything": 1}),
        ({"model": "served", "a": {"b": 1}}, {"a": {"b": 1}}),
        ({"model": None}, {"model": "large", "n": 2, "thinking": {"type": "disabled"}}),
    ],
)
def test_every_served_model_has_its_own_contract(
    router: RunningRouter, many: MockEngine, fields: dict[str, Any], forwarded: dict[str, Any]
) -> None:
    """What the engine gets is what the contract of the model and of the mode says, under the served model's name."""
    many.clear()
    answer = _post(router, **fields)
    assert answer.status == 200, answer
    got = json.loads(many.wait_for(1)[0].body)
    expected = {"messages": MESSAGES, **fields, **forwarded}
    assert got == {name: value for name, value in expected.items() if value is not None}


@pytest.mark.parametrize(
    ("fields", "case", "rule"),
    [
        ({"model": "large"}, "large", None),
        ({"model": "chat"}, "large-plain", None),
        ({"model": None}, "large-plain", None),
        ({"model": "served"}, None, None),
        ({"model": "served", "zz": 1}, None, "unknown_fields"),
        ({"model": "served", "a": {"b": 2}}, None, "fields.a.b"),
        ({"model": "served", "messages": [{"role": "x"}]}, None, "checks.roles"),
    ],
)
def test_the_access_log_tells_the_case_and_the_rule(
    router: RunningRouter, fields: dict[str, Any], case: str | None, rule: str | None
) -> None:
    """A line says which case was for the request and which rule refused it, and neither where there is none."""
    request_id = f"log-{json.dumps(fields).encode().hex()}"[:100]
    assert _post(router, request_id, **fields).status == (200 if rule is None else 400)
    (line,) = map(json.loads, router.access_lines_with(request_id))
    assert (line.get("case"), line.get("rule")) == (case, rule)
    assert line.get("model_default") == (True if fields["model"] is None else None)


def test_metrics_count_violated_fields_by_their_paths(router: RunningRouter) -> None:
    """Fields and checks are counted by what the contract calls them: no client chooses a label."""
    before = _counters(router)
    _post(router, a={"b": 2}, user=7, zz=1, yy=2)
    _post(router, a={"b": 2})
    _post(router, messages=[{"role": "x"}])
    after = _counters(router)
    counted = {name: count - before.get(name, 0) for name, count in after.items() if count != before.get(name, 0)}
    of_violations = {name[1]: count for name, count in counted.items() if name[0] == "router_violations_total"}
    assert of_violations == {"a.b": 2, "user": 1, "unknown_fields": 1, "messages": 1}
    of_rules = {name[1]: count for name, count in counted.items() if name[0] == "router_decisions_total"}
    assert of_rules == {"unknown_fields": 1, "fields.a.b": 1, "checks.roles": 1}


def _counters(router: RunningRouter) -> dict[tuple[str, str], float]:
    with RawClient(router.port) as client:
        text = client.get("/metrics").body.decode()
    return {
        (sample.name, "|".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


HOSTILE = [
    '"a":{"b":0,"b":2}',
    '"a":{"b":0},"a":{"\\u0062":2}',
    '"a":' + "[" * 5000,
    '"a":' + '{"b":' * 900 + "1" + "}" * 900,
    '"a":{"b":"\\ud800"}',
    '"a":{"b":1e999}',
    '"a":{"b":"' + "1" * 100_000 + '"}',
    '"user":' + "[" * 900 + "]" * 900,
    '"' + "z" * 100_000 + '":1',
    '"\\u0000":1',
    '"messages":[{"role":["user"]}]',
    '"messages":[{"role":{"user":1}}]',
    '"messages":[' + '{"role":"user"},' * 20_000 + '{"role":[]}]',
    ",".join(f'"x{count}":{count}' for count in range(20_000)),
]


@pytest.mark.parametrize("members", HOSTILE, ids=lambda members: members[:30])
def test_nothing_that_a_client_sends_is_an_error_of_the_server(
    router: RunningRouter, many: MockEngine, members: str
) -> None:
    """Nesting, repetition, long names, other types: a 400 with a short text, and no engine is reached."""
    many.clear()
    with RawClient(router.port) as client:
        answer = client.post(CHAT, f'{{"model":"served",{members}}}'.encode())
    assert answer.status == 400, answer
    assert len(answer.body) < 1000
    assert many.received == []


CHUNK = 'data: {"id":"1","model":"m","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
END = 'data: {"id":"1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
TAIL = 'data: {"id":"1","model":"m","choices":[],"usage":{"total_tokens":7}}\n\n'
MOVED = END.replace('"stop"}', '"stop","usage":{"total_tokens":7}}')
DONE = "data: [DONE]\n\n"
ASKING = {"include_usage": True}


@pytest.mark.parametrize(
    ("model", "options", "asked", "read"),
    [
        pytest.param("large", None, ASKING, CHUNK + MOVED + DONE, id="moved"),
        pytest.param("large", {}, ASKING, CHUNK + MOVED + DONE, id="moved beside nothing"),
        pytest.param("large", ASKING, ASKING, CHUNK + MOVED + TAIL + DONE, id="copied"),
        pytest.param(
            "large", {"include_usage": False}, {"include_usage": False}, CHUNK + END + TAIL + DONE, id="declined"
        ),
        pytest.param("small", None, ASKING, CHUNK + END + TAIL + DONE, id="tail kept"),
        pytest.param("served", None, None, CHUNK + END + TAIL + DONE, id="as asked"),
    ],
)
def test_usage_stands_where_the_vendor_reports_it(  # noqa: PLR0913, PLR0917 - two fixtures and a table of four
    router: RunningRouter, many: MockEngine, model: str, options: Any, asked: Any, read: str
) -> None:
    """The engine is asked for usage, and the client reads it in the end frame, in a tail frame or as it asked."""
    many.clear()
    many.answer_next(MockResponse.sse(*(piece.encode() for piece in (CHUNK, END, TAIL, DONE))))
    fields = {} if options is None else {"stream_options": options}
    answer = _post(router, model=model, stream=True, **fields)
    assert json.loads(many.wait_for(1)[0].body).get("stream_options") == asked
    assert answer.body.decode() == read


@pytest.mark.parametrize(
    ("model", "options", "has_tail", "in_end_frame"),
    [
        ("large", {}, False, True),
        ("large", ASKING, True, True),
        ("small", {}, True, False),
        ("served", {}, False, False),
    ],
)
def test_usage_of_an_engine_that_reports_it_when_asked(
    router: RunningRouter, model: str, options: dict[str, bool], *, has_tail: bool, in_end_frame: bool
) -> None:
    """The same with an engine that itself decides whether to report: only what was asked of it comes."""
    answer = _post(router, model=model, stream=True, stream_options=options)
    lines = answer.body.decode().split("\n\n")
    frames = [json.loads(line.removeprefix("data: ")) for line in lines if line and line != "data: [DONE]"]
    assert any(frame["choices"] == [] for frame in frames) is has_tail
    (end,) = [frame["choices"][0] for frame in frames if frame["choices"] and frame["choices"][0]["finish_reason"]]
    assert ("usage" in end) is in_end_frame


def test_a_pattern_that_is_slow_is_not_fed_long_texts(router_of: RouterOf) -> None:
    """A pattern of the operator's that needs quadratic time costs a client's megabyte nothing."""
    running = router_of(Contract(fields={"user": Field(pattern="(?:a*b?)*?c?a*")}), WEB_CONCURRENCY="1")
    with RawClient(running.port) as client:
        answer = client.post(CHAT, chat(user="a" * 1_000_000 + "!"))
    assert answer.status == 400
