"""Metrics as values: what a request adds to each, and labels that nobody can stretch."""

import pytest

from router.contract.decide import Forward, decide
from router.contract.rules.budget import Tokens
from router.contract.schema.model import Contract
from router.contract.schema.rule_list import Const
from router.contract.schema.sections import MaxTokens, Output, Sampling
from router.request.context import RequestContext
from router.request.outcome import Outcome
from router.telemetry import metrics
from router.telemetry.metrics import METRICS, samples_of
from tests.router.wire.chat import CHAT, chat


def _told(**facts: object) -> dict[str, float]:
    context = RequestContext(request_id="1", **facts)  # type: ignore[arg-type]
    told: dict[str, float] = {}
    for metric, labels, value in samples_of(context):
        key = "|".join((metric.name, *labels))
        told[key] = round(told.get(key, 0) + value, 6)
    return told


def test_each_metric_is_declared_by_the_conventions() -> None:
    """Names are of one family, counters end in _total, times are in seconds, and each list of values is closed."""
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert metric.name.startswith("router_")
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.name.endswith("_seconds") == (metric.kind == "histogram") == bool(metric.buckets)
        assert metric.help.endswith((".", "0."))
        is_open = metric in {metrics.PROFILE, *metrics.BY_ENGINE, metrics.ENGINE_IN_FLIGHT}
        assert is_open or all(values for values in metric.labels.values())
        for values in metric.labels.values():
            assert len(set(values or ())) == len(values or ())


def test_the_rules_of_every_contract_are_on_the_list() -> None:
    """Whatever the contract, a rule of it is a value of the label."""
    everything = Contract(
        sampling=Sampling(params=dict.fromkeys(metrics.SAMPLING_FIELDS, 1)),
        output=Output(max_tokens=MaxTokens(cap=1, default=1)),
    )
    assert {rule.rule for rule in everything.rules} < set(metrics.RULES)
    assert {rule.field for rule in everything.rules if isinstance(rule, Const)} < set(metrics.PARAMETERS)


def test_a_request_that_an_engine_answered() -> None:
    """Times are counted from arrival; the router's own leaves out the client's body and the engine."""
    times = {
        "started_at": 10.0,
        "body_read_seconds": 0.5,
        "first_attempt_at": 10.75,
        "sent_at": 11.0,
        "first_byte_at": 12.0,
    }
    told = _told(
        route=CHAT, status=200, model_served="m", buffered_at=13.0, response_started_at=13.25, ended_at=15.0, **times
    )
    assert told == {
        f"router_requests_total|{CHAT}|200": 1,
        "router_decisions_total|none": 1,
        f"router_first_byte_seconds|{CHAT}": 2,
        f"router_overhead_seconds|{CHAT}": 0.5,
        f"router_request_seconds|{CHAT}": 5,
    }


def test_what_nobody_foresaw_is_other() -> None:
    """A status or a code beyond the lists makes no new series."""
    told = _told(status=299, code="a code of the future")
    assert told == {"router_requests_total|none|other": 1, "router_errors_total|other": 1}


def test_all_that_went_wrong_at_engines_is_told() -> None:
    """Each retry and each failure counts; an answer that turned out cut after its end counts as broken."""
    told = _told(
        route=CHAT,
        status=502,
        first_attempt_at=1.0,
        retries=("unreachable", "unreachable"),
        upstream_errors=(("a", Outcome.UNREACHABLE), ("b", Outcome.UNREACHABLE), ("c", Outcome.TIMED_OUT)),
    )
    assert told["router_retries_total|unreachable"] == 2
    assert told["router_upstream_errors_total|unreachable"] == 2
    assert told["router_upstream_errors_total|timed_out"] == 1
    cut = _told(route=CHAT, status=502, first_attempt_at=1.0, code="upstream_incomplete")
    assert cut["router_upstream_errors_total|broken"] == 1


@pytest.mark.parametrize(
    ("facts", "phase"),
    [
        ({"status": 499}, "sending"),
        ({"status": 499, "first_attempt_at": 1.0, "response_started_at": 2.0}, "waiting"),
        ({"status": 200, "first_attempt_at": 1.0, "response_started_at": 2.0}, "answer"),
    ],
)
def test_a_client_that_left(facts: dict[str, float], phase: str) -> None:
    """It is told when a client left."""
    assert _told(client_gone=True, **facts)[f"router_aborted_total|{phase}"] == 1


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({}, Tokens("default", None, 50)),
        ({"max_tokens": 30}, Tokens("client", 30, 30)),
        ({"max_tokens": 5000}, Tokens("clamp", 5000, 100)),
        ({"max_tokens": 10**40}, Tokens("clamp", 101, 100)),
        ({"max_tokens": 20, "max_completion_tokens": 40}, Tokens("client", 40, 40)),
        ({"n_predict": 300}, Tokens("clamp", 300, 100)),
    ],
)
def test_tokens_asked_and_granted(fields: dict[str, int], tokens: Tokens) -> None:
    """A decision says who set the budget, what was asked, unless absurd, and what was granted."""
    contract = Contract(output=Output(max_tokens=MaxTokens(cap=100, default=50, on_exceed="clamp")))
    decision = decide(chat(**fields), contract, None)
    assert isinstance(decision, Forward)
    assert decision.tokens == tokens
