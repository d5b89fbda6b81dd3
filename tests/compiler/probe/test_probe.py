"""`profilec probe` as people run it: against the real router, an engine that enforces nothing, and nobody at all."""

import json
from pathlib import Path

import pytest

from compiler import probe
from compiler.cli import main
from compiler.pipeline import compile_profile
from compiler.resolve.selection import Selection
from compiler.verify.harness import router_under_test
from router.mock_engine import MockEngine, MockResponse, ReceivedRequest
from tests.compiler.probe.endpoints import DAY, SMALL, preset_contract
from tests.compiler.probe.test_learner import without_evidence
from tests.compiler.probe.test_round_trip import failing
from tests.exhaustive import exhaustive_but


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "--model"),
        (["--model", "m", "--only", "fields.x"], "nothing is asked about it"),
        (["--model", "m", "--replay", "missing"], "there is no file"),
        (["--model", "m", "--record", "a", "--replay", "b"], "exclude each other"),
        (["--model", "m", "--api-key-env", "NO_SUCH_NAME"], "NO_SUCH_NAME"),
        (["--model", "m", "--max-requests", "0"], "--max-requests"),
    ],
)
def test_misuse_is_told(more: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A command line that makes no sense is told in a line, with exit code 2."""
    assert main.main(["probe", "http://127.0.0.1:1", *more]) == 2
    assert said in capsys.readouterr().err


def test_an_address_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """What is no URL is a mistake in the command line."""
    assert main.main(["probe", "no-url", "--model", "m"]) == 2
    assert "no http or https URL" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "reason"),
    [("name: precious\n", "is not a draft"), ("# yaml-language-server\n# A draft of m\n", "refused")],
)
def test_a_probe_replaces_only_a_draft(
    text: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is no draft is kept, and the probe ends before it sends anything; a draft may be replaced."""
    output = tmp_path / "profile.yaml"
    output.write_text(text)
    command = ["probe", "http://127.0.0.1:9", "--model", "m", "--timeout", "1", "-o", str(output)]
    assert main.main(command) == 1
    assert reason in capsys.readouterr().err
    assert main.main([*command, "--force"]) == 1
    assert "refused" in capsys.readouterr().err
    assert output.read_text() == text


def test_an_endpoint_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nobody answers the probe ends at once with exit code 1, and nothing is written."""
    output = tmp_path / "draft.yaml"
    assert main.main(["probe", "http://127.0.0.1:9", "--model", "m", "--timeout", "1", "-o", str(output)]) == 1
    assert "the connection was refused" in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "put its key into"), (400, 'got status 400: {"error"'), (500, "got status 500"), (404, "404")],
)
def test_an_endpoint_that_answers_nothing_is_told(
    status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a key is missing, or all that is tried is rejected, the response is told and nothing is written."""
    output = tmp_path / "draft.yaml"
    with MockEngine(models=("m",)) as engine:
        engine.script(lambda _: MockResponse.json({"error": {"message": "No."}}, status))
        assert main.main(["probe", engine.url, "--model", "m", "-o", str(output)]) == 1
    assert said in capsys.readouterr().err
    assert not output.exists()


@pytest.fixture(name="_today")
def _day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "today", lambda: DAY)


def draft_written(path: Path):
    """Return the bare values, and the contract, of a draft that was written."""
    compiled = compile_profile(Selection("file", str(path), "SOURCE"))
    return compiled.values(), compiled.artifact.contract


def test_an_engine_that_enforces_nothing_gives_hardly_a_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bare engine rejects no more than what is no conversation; what it may cost is said before."""
    output = tmp_path / "draft.yaml"
    with MockEngine(models=("m",)) as engine:
        assert main.main(["probe", engine.url, "--model", "m", "--max-body", str(SMALL), "-o", str(output)]) == 0
    values, _ = draft_written(output)
    assert set(without_evidence(values)) == {"fields", "errors"}
    assert set(values["fields"]) == {"messages"}
    assert "at most 2,000 requests, bodies of at most 1,048,576 bytes" in capsys.readouterr().err


def rejecting_like_pydantic(received: ReceivedRequest) -> MockResponse | None:
    """Reject temperatures above 2 and what is no number, with every violation told over several lines."""
    try:
        value = float(json.loads(received.body).get("temperature", 1))
    except (ValueError, TypeError, AttributeError):
        value = 3
    if received.method != "POST" or value <= 2:
        return None
    detail = {
        "type": "less\nthan",
        "loc": ["body", "temperature"],
        "msg": "two\nlines\t{here}",
        "input": value,
        "ctx": {"le": 2},
    }
    return MockResponse.json({"detail": [detail], "trace": "\x07", "kind": None, "ok": False, "list": []}, 422)


def test_whatever_rejections_look_like_the_draft_compiles(tmp_path: Path) -> None:
    """Texts that no profile can say are left out, and the rule that they tell of is learned all the same."""
    output = tmp_path / "draft.yaml"
    with MockEngine(models=("m",)) as engine:
        engine.script(rejecting_like_pydantic)
        command = ["probe", engine.url, "--model", "m", "--only", "fields.temperature", "errors", "-o", str(output)]
        assert main.main(command) == 0
    values, _ = draft_written(output)
    assert values["fields"]["temperature"]["max"] == 2


@pytest.mark.parametrize("preset", exhaustive_but(["moonshot-kimi-k3"], ["moonshot-kimi-k3", "zai-glm"]))
def test_a_router_gives_its_own_preset(preset: str, tmp_path: Path) -> None:
    """Over real sockets a router's contract is learned so that nothing tells it from the preset."""
    output = tmp_path / "draft.yaml"
    artifact = compile_profile(Selection("preset", preset, "SOURCE")).artifact
    with router_under_test(artifact, ("m",)) as router:
        assert main.main(["probe", router.url, "--model", "m", "--max-body", str(SMALL), "-o", str(output)]) == 0
    _, contract = draft_written(output)
    assert not failing(preset_contract(preset), contract, "m", SMALL)
    assert not failing(contract, preset_contract(preset), "m", SMALL)


def test_the_draft_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a file to write the draft, and nothing else, is standard output."""
    with MockEngine(models=("m",)) as engine:
        assert main.main(["probe", engine.url, "--model", "m", "--only", "fields.temperature"]) == 0
    assert capsys.readouterr().out.startswith(
        "# yaml-language-server: $schema=./profile.schema.json\n# A draft of what m"
    )


def test_a_draft_that_would_not_compile_is_a_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No file is written that does not compile: that is told as a bug, with exit code 3."""
    monkeypatch.setattr("compiler.probe.draft.yaml_of", lambda _: b"fields: 1\n")
    output = tmp_path / "draft.yaml"
    with MockEngine(models=("m",)) as engine:
        assert main.main(["probe", engine.url, "--model", "m", "--only", "models", "-o", str(output)]) == 3
    assert "does not compile" in capsys.readouterr().err
    assert not output.exists()
