"""`profilec verify` as people run it, against the real router and against an engine that enforces nothing."""

import json
from pathlib import Path

import pytest

from compiler.artifact.from_profile import contract_of
from compiler.cli import main
from compiler.resolve.presets import preset_names
from compiler.verify.generation import Options, derive
from compiler.verify.generation.names import Deployment
from router.mock_engine import MockEngine, MockResponse, ReceivedRequest
from tests.exhaustive import PRESETS, exhaustive_but

PROFILE = """\
name: small
fields:
  temperature: {min: 0, max: 1, default: 0.5, source: "docs"}
  reasoning_effort: {allowed: [low, high]}
output: {max_tokens: {cap: 100, default: 10}}
limits: {max_images: 1, max_body_bytes: 64KiB}
errors: {bad_request_type: vendor_error}
"""


@pytest.fixture(name="profile")
def _profile(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(PROFILE)
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name the URL"),
        (["http://127.0.0.1:1", "openai"], "--model"),
        (["no-url", "openai", "--model", "m"], "no http or https URL"),
        (["http://127.0.0.1:1", "openai", "--through-engine"], "name no URL"),
        (["http://127.0.0.1:1", "openai", "--model", "m", "--only", "fields.x"], "no such rule"),
        (["http://127.0.0.1:1", "openai", "--model", "m", "--replay", "missing"], "there is no file"),
        (["http://127.0.0.1:1", "openai", "--model", "m", "--api-key-env", "NO_SUCH_NAME"], "NO_SUCH_NAME"),
        (["http://127.0.0.1:1", "openai", "--model", "m", "--rps", "0"], "--rps"),
        (["http://127.0.0.1:1", "openai", "--model", "m", "--concurrency", "0"], "--concurrency"),
    ],
)
def test_misuse_is_told(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A command line that makes no sense is told in a line, with exit code 2."""
    assert main.main(["verify", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_an_endpoint_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Where nobody answers the run ends at once, with exit code 1."""
    assert main.main(["verify", "http://127.0.0.1:9", "openai", "--model", "m", "--timeout", "1"]) == 1
    assert "the connection was refused" in capsys.readouterr().err


def test_an_engine_that_enforces_nothing_is_found_out(
    profile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against a bare engine what the contract rejects fails, and a record can be judged again without asking."""
    record, report = str(tmp_path / "record.jsonl"), tmp_path / "report.json"
    with MockEngine(models=("m",)) as engine:
        arguments = ["verify", engine.url, profile, "--model", "m", "--record", record]
        assert main.main([*arguments, "--format", "json", "-o", str(report)]) == 1
        asked = len(engine.received)
        assert main.main([*arguments, "--format", "json", "-o", str(report)]) == 1
        assert len(engine.received) == asked
    value = json.loads(report.read_text())
    broken = {check["rule"] for check in value["checks"] if check["result"] == "fail"}
    assert {"fields.temperature", "fields.reasoning_effort", "output.max_tokens", "limits.max_images"} <= broken
    assert all(check["declared"] != "" for check in value["checks"])
    assert (value["requests"], value["remembered"], value["record"]) == (0, len(value["checks"]), record)
    assert main.main(["verify", "http://127.0.0.1:9", profile, "--model", "m", "--replay", record]) == 1
    with_url = capsys.readouterr().out
    assert main.main(["verify", profile, "--model", "m", "--replay", record]) == 1
    recorded_responses = capsys.readouterr().out
    assert recorded_responses == with_url
    assert f"{value['failed']} of" in recorded_responses
    assert f"held against {engine.url}/v1/chat/completions" in recorded_responses
    assert value["begun"].replace("T", " ").removesuffix("Z") in recorded_responses


def test_an_endpoint_that_only_tells_of_its_own_state_is_given_up(
    profile: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An engine that still loads its model is told as that, in place of a report that says nothing."""
    monkeypatch.setattr("compiler.verify.client.ATTEMPTS", 1)
    with MockEngine(models=("m",)) as engine:
        engine.script(lambda _request: MockResponse.json({"error": "Loading model"}, 503))
        assert main.main(["verify", engine.url, profile, "--model", "m"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "answered 503 to each of the first 5 requests: it is not ready" in said.err


def test_words_that_nothing_provokes_are_told(tmp_path: Path) -> None:
    """What a contract says of a wrong key or of overload is told as not tried, with the reason."""
    path, report = tmp_path / "words.yaml", tmp_path / "report.json"
    path.write_text(
        "errors: {codes: {overloaded: {status: 429}, invalid_api_key: {code: E1}, bad_request: {code: E2}}}"
    )
    with MockEngine(models=("m",)) as engine:
        arguments = ["verify", engine.url, str(path), "--model", "m", "--only", "errors", "--format", "json"]
        main.main([*arguments, "-o", str(report)])
    skipped = {each["shows"]: each["reason"] for each in json.loads(report.read_text())["untried"]}
    assert list(skipped) == ["the words of overloaded (429)", "the words of invalid_api_key (401)"]
    assert "too much load" in skipped["the words of overloaded (429)"]


def test_the_cost_can_be_bounded(profile: str, tmp_path: Path) -> None:
    """With --max-requests no more are sent, the same ones for a seed, and the others are told as not tried."""
    report = tmp_path / "report.json"
    ids = []
    for seed in ("1", "1", "2"):
        with MockEngine(models=("m",)) as engine:
            arguments = ["verify", engine.url, profile, "--model", "m", "--max-requests", "5", "--seed", seed]
            main.main([*arguments, "--format", "json", "-o", str(report)])
            assert len(engine.received) == 5
        value = json.loads(report.read_text())
        ids.append([check["id"] for check in value["checks"]])
        assert value["not_tried"] > 100
    assert ids[0] == ids[1] != ids[2]


def test_only_some_rules_are_tried(profile: str, tmp_path: Path) -> None:
    """With --only no other rule is tried."""
    report = tmp_path / "report.json"
    with MockEngine(models=("m",)) as engine:
        arguments = ["verify", engine.url, profile, "--model", "m", "--only", "fields.temperature", "--format", "json"]
        main.main([*arguments, "-o", str(report)])
    assert {check["rule"] for check in json.loads(report.read_text())["checks"]} == {"fields.temperature"}


@pytest.mark.parametrize("preset", exhaustive_but(PRESETS, preset_names()))
def test_the_router_keeps_every_preset(preset: str, tmp_path: Path) -> None:
    """Through the real router every check of a preset passes, and none is unobservable."""
    report = tmp_path / "report.json"
    arguments = ["verify", "--through-engine", preset, "--max-body", "1048576", "--format", "json", "-o", str(report)]
    code = main.main(arguments)
    value = json.loads(report.read_text())
    assert [check["id"] for check in value["checks"] if check["result"] != "pass"] == []
    assert (code, value["not_observable"]) == (0, 0)
    assert value["seconds"] < 60


def test_the_router_keeps_a_profile_with_every_limit(profile: str) -> None:
    """The largest body and one a byte larger are tried, through the real router."""
    assert main.main(["verify", "--through-engine", profile, "-o", "/dev/null"]) == 0


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "holds no responses"),
        (['{"profilec": "verify", "format_version": 1}'], "holds no responses"),
        (["what is this?"], ":1: is no JSON: this is no record"),
        (['{"level": "info"}'], ":1: is no exchange"),
        (["[1]", "[2]"], ":1: is no exchange"),
        (
            ['{"key": "of another contract", "status": 200, "content_type": "", "answer": "{}"}'],
            "holds 1 response of some endpoint, and none to a check of this contract",
        ),
    ],
    ids=["empty", "only begun", "a text", "other lines", "lists", "foreign"],
)
def test_a_record_that_tells_nothing_is_an_error(
    lines: list[str], said: str, profile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is no record, or has no response to any check, is exit code 1 and one line, without a report."""
    record = tmp_path / "record.jsonl"
    record.write_text("".join(f"{line}\n" for line in lines))
    assert main.main(["verify", profile, "--model", "m", "--replay", str(record)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err


def test_a_record_of_another_model_is_an_error(
    profile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Requests that are alike for all models, as those without one, do not make a record one of this model."""
    record = str(tmp_path / "record.jsonl")
    with MockEngine(models=("m",)) as engine:
        assert main.main(["verify", engine.url, profile, "--model", "m", "--record", record, "-o", "/dev/null"]) == 1
    assert main.main(["verify", profile, "--model", "other", "--replay", record]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "none to a check of this contract" in told.err


def test_nothing_tried_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where no check passed or failed the exit code is 1, and the first line of the report says why."""
    path = tmp_path / "words.yaml"
    path.write_text("errors: {codes: {overloaded: {status: 429}}}")
    with MockEngine(models=("m",)) as engine:
        assert main.main(["verify", engine.url, str(path), "--model", "m", "--only", "errors"]) == 1
        assert engine.received == []
    lines = capsys.readouterr().out.splitlines()
    assert next(number for number, line in enumerate(lines) if "Nothing was verified" in line) < 4


@pytest.mark.parametrize("status", [404, 400])
def test_a_wrong_model_is_the_reason_and_not_a_screen_of_failures(
    status: int, profile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where each of the first requests is rejected with words about the model, the run ends with those words."""

    def hear(request: ReceivedRequest) -> MockResponse | None:
        told = MockResponse.json({"error": {"message": "model `typo` not found"}}, status)
        return told if request.method == "POST" else None

    with MockEngine(models=("m",)) as engine:
        engine.script(hear)
        assert main.main(["verify", engine.url, profile, "--model", "typo"]) == 1
        assert len(engine.received) < 60
    told = capsys.readouterr()
    assert told.out == ""
    assert f"answered {status} to each of the first 20 requests" in told.err
    assert "model `typo` not found" in told.err
    assert told.err.endswith("See that it serves --model typo\n")


def test_the_json_report_has_every_request_whole(tmp_path: Path) -> None:
    """What was sent can be sent again out of the report: byte for byte, long bodies and control characters too."""
    path, report = tmp_path / "long.yaml", tmp_path / "report.json"
    path.write_text('limits: {max_body_bytes: 64KiB}\nfields: {user: {pattern: "[\\\\s\\\\S]{0,64}"}}\n')
    with MockEngine(models=("m",)) as engine:
        arguments = ["verify", engine.url, str(path), "--model", "m", "--format", "json", "-o", str(report)]
        main.main(arguments)
        sent = {request.body for request in engine.received if request.method == "POST"}
    checks = json.loads(report.read_text())["checks"]
    assert {check["sent"].encode() for check in checks} == sent
    assert {check["sent_bytes"] for check in checks} == set(map(len, sent))
    assert max(map(len, sent)) > 65536


TOOLS_IN_MESSAGES = {"message_tools": {"unique": True}, "tool_choice": {"allowed": ["auto", "required", "named"]}}


def test_messages_with_tools_have_a_content() -> None:
    """No request that tries tools in messages lacks what engines reject for that reason alone."""
    contract = contract_of({"checks": TOOLS_IN_MESSAGES})
    messages = [
        message
        for check in derive(contract, Deployment.of(("m",)), Options()).checks
        if check.request.text is None
        for message in check.request.fields()["messages"]
        if "tools" in message
    ]
    assert len(messages) > 30
    assert all("content" in message for message in messages)
