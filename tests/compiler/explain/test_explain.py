"""`profilec explain` on standard input, on artifacts, and held against the router's own decisions."""

import io
import json
import os
import subprocess
import sys

import pytest
from hypothesis import given

from compiler.cli import main
from compiler.explain.explanation import explain
from router.artifact.format import Source, freeze, serialise
from router.contract.decide import Forward, ServedIds, decide
from router.contract.schema.model import Contract
from router.contract.schema.sections import Interval, Limits, MaxTokens, Models, Output, Sampling, plain_aliases
from tests.checkout import CHECKOUT
from tests.compiler.diff import grown

CONTRACT = Contract(
    limits=Limits(max_body_bytes=2000, max_images=1),
    models=Models(aliases=plain_aliases("alias")),
    output=Output(MaxTokens(cap=100, default=40)),
    sampling=Sampling(params={"temperature": Interval(0, 1), "top_p": 0.95, "n": 1}),
)
SERVED = ServedIds(("served",))
BODIES = list(grown.requests())[::7]
MESSAGES = '"messages":[{"role":"user","content":"hi"}]'


def _stdin(monkeypatch, data: bytes):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_request_may_come_on_standard_input(monkeypatch, capsys):
    """With - for its name the request is read from standard input."""
    _stdin(monkeypatch, b'{"model":"m","top_p":0.5}')
    assert main.main(["explain", "-", "moonshot-kimi"]) == 0
    assert "top_p is 0.5: expected 0.95" in capsys.readouterr().out


def test_many_requests_may_come_on_standard_input(monkeypatch, capsys):
    """JSON Lines on standard input are summed up."""
    _stdin(monkeypatch, b'{"model":"m","top_p":0.5}\n{"model":"m"}\n')
    assert main.main(["explain", "-", "moonshot-kimi", "--format", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["requests"], summary["refused"], summary["forwarded"]) == (2, 1, 1)


def test_an_artifact_explains_as_its_profile_does(tmp_path, capsys):
    """From an artifact the steps are the same; the place of each rule is the artifact."""
    artifact = tmp_path / "profile.json"
    artifact.write_bytes(serialise(freeze("mine", CONTRACT, (Source("file", "mine.yaml", "0" * 64),))))
    request = tmp_path / "request.json"
    request.write_text('{"model":"served","top_p":0.5}')
    assert main.main(["explain", str(request), str(artifact), "--format", "json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert {step["declared"] for step in steps} == {"artifact mine", "always"}
    assert [step["rule"] for step in steps if step["verdict"] == "refused"] == ["sampling.params.top_p"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"served",%s}',
        b'{"model":"alias",%s,"n_cmpl":1,"n_predict":7}',
        b'{"model":"served",%s,"temperature":2,"n":4}',
        b'{"model":"served",%s,"max_tokens":0}',
        b'{"model":"nope",%s}',
        b'{"model":"served",%s,"top_p":0.9,"top_p":0.95}',
        b"[%s]",
    ],
)
def test_the_explanation_is_the_routers_decision(body):
    """The decision is the one that the router takes, each edit belongs to an edited step, one step at most refuses."""
    body = body.replace(b"%s", MESSAGES.encode())
    explanation = explain(body, CONTRACT, SERVED)
    decision = decide(body, CONTRACT, SERVED)
    verdicts = {step.rule: step.verdict for step in explanation.steps}
    assert explanation.steps[1].rule == "request"
    if isinstance(decision, Forward):
        assert explanation.decision == decision
        assert "refused" not in verdicts.values()
        injecting = {edit.rule.replace("models.aliases", "models") for edit in decision.edits if edit.value}
        assert {rule for rule, verdict in verdicts.items() if verdict == "edited"} == injecting
    else:
        assert str(explanation.decision.error) == str(decision.error)
        assert [rule for rule, verdict in verdicts.items() if verdict == "refused"] == [decision.rule]


@given(grown.contracts)
def test_whatever_the_contract_one_step_refuses_and_edits_belong_to_edited_steps(contract):
    """For each request of contracts with fields, checks and cases, the steps tell what the router decides."""
    for body in BODIES:
        explanation = explain(body, contract, SERVED)
        decision = explanation.decision
        verdicts = [(step.rule, step.verdict) for step in explanation.steps]
        rejected = [rule for rule, verdict in verdicts if verdict == "refused"]
        if isinstance(decision, Forward):
            assert not {"refused", "also violated", "not reached"} & {verdict for _, verdict in verdicts}
            editing = {
                edit.rule.replace("models.aliases", "models") for edit in decision.edits if edit.kind != "remove"
            }
            assert {rule for rule, verdict in verdicts if verdict == "edited"} == editing
        else:
            assert rejected == [decision.rule]
            part = next(step.part for step in explanation.steps if step.verdict == "refused")
            assert part == decision.error.part


def test_no_progress_bar_stands_in_a_pipe(tmp_path):
    """Where standard error is no terminal, nothing but errors is written to it."""
    requests = tmp_path / "requests.jsonl"
    requests.write_text('{"model":"m"}\n' * 1000)
    command = [sys.executable, "-m", "compiler", "explain", str(requests), "moonshot-kimi"]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == ""
    assert done.stdout.startswith("1,000 requests: 0 rejected (0.0 %), 1,000 forwarded")


def test_a_request_without_end_is_read_no_further_than_the_contract_goes(tmp_path, capsys):
    """From an endless file no more is read than it takes to refuse it for its size."""
    profile = tmp_path / "profile.yaml"
    profile.write_text("limits: {max_body_bytes: 1KiB}\n")
    assert main.main(["explain", "/dev/zero", str(profile)]) == 0
    assert "HTTP/1.1 413" in capsys.readouterr().out
