"""The demo as people run it: real processes, a real engine behind it or the mock engine."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from router.mock_engine import MockEngine, MockResponse, ReceivedRequest
from tests.checkout import CHECKOUT
from tests.exhaustive import exhaustive_but
from tests.router.serving import wait_until

SECONDS = 120


def _start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ROUTER_", "SGLANG_"))}
    # Shells let what they start in the background ignore Ctrl-C, and so would what that starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with (folder / "out").open("w") as output, (folder / "err").open("w") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "compiler", "demo", *arguments],
                cwd=folder,
                env={**kept, "PYTHONPATH": str(CHECKOUT)},
                stdout=output,
                stderr=errors,
                text=True,
            )
    finally:
        signal.signal(signal.SIGINT, before)


def _demo(folder: Path, *arguments: str) -> tuple[int, str, str]:
    process = _start(folder, *arguments)
    code = process.wait(SECONDS)
    return code, (folder / "out").read_text(), (folder / "err").read_text()


@pytest.fixture
def engine() -> Iterator[MockEngine]:
    """An engine that the demo does not start itself."""
    with MockEngine(models=("their-model",)) as mock_engine:
        yield mock_engine


def test_every_section_is_shown(tmp_path: Path) -> None:
    """With the preset of a vendor each section of the language has its line, and all go as the contract says."""
    code, output, errors = _demo(tmp_path, "moonshot-kimi")
    assert (code, errors) == (0, "")
    for rule in (
        "sampling.params.top_p",
        "sampling.params.temperature",
        "output.max_tokens",
        "limits.max_images",
        "limits.max_body_bytes",
        "models.aliases",
        "errors.bad_request_type",
    ):
        assert rule in output
    assert output.endswith("\nEvery response is what the contract says.\n")


def test_fields_checks_and_cases_are_shown(tmp_path: Path) -> None:
    """What a vendor's profile says of fields, checks, unknown fields and cases has its lines, in the vendor's words."""
    (tmp_path / "mine.yaml").write_text(
        "mode: {default: deep, match: [{mode: plain, when: {thinking.type: disabled}}]}\n"
        "fields: {stop: {max_items: 1}, thinking.type: {allowed: [enabled, disabled]}, max_tokens: {reject: true}}\n"
        "checks: {roles: {allowed: [user, assistant], error: {status: 422, message: no such role}}}\n"
        "unknown_fields: {policy: drop}\n"
        "errors: {body: {fault: '{message}'}}\n"
        "cases: {plain: {when: {mode: plain}, fields: {temperature: {fixed: 0.6}}}}\n"
    )
    code, output, errors = _demo(tmp_path, "./mine.yaml")
    assert (code, errors) == (0, "")
    for said in (
        "fields.stop",
        "fields.thinking.type",
        "checks.roles",
        "unknown_fields",
        "cases.plain",
        "no such role",
    ):
        assert said in output


def test_a_profile_that_enforces_nothing_can_be_shown(tmp_path: Path) -> None:
    """With no sampling contract the demo shows that requests pass as they are."""
    code, output, _ = _demo(tmp_path, "openai-compatible")
    assert code == 0
    assert " nothing is " in output
    assert "the same bytes" in output


def test_a_file_and_its_artifact_can_be_shown(tmp_path: Path) -> None:
    """A deployment file, also one under allow, and the artifact made of it are shown like a preset."""
    (tmp_path / "mine.yaml").write_text("sampling: {conflict: allow, params: {top_k: 40}}\n")
    code, from_file, errors = _demo(tmp_path, "./mine.yaml")
    assert (code, errors) == (0, "")
    assert "a pin allows" in from_file
    build = [sys.executable, "-m", "compiler", "build", "./mine.yaml", "-o", "mine.json"]
    subprocess.run(build, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, check=True)
    code, from_artifact, _ = _demo(tmp_path, "mine.json")
    assert (code, from_artifact) == (0, from_file)


def test_another_engine_can_stand_behind_it(tmp_path: Path, engine: MockEngine) -> None:
    """With --engine the requests go to that engine, under the model that it lists."""
    code, output, errors = _demo(tmp_path, "moonshot-kimi", "--engine", f"{engine.url}/v1")
    assert (code, errors) == (0, "")
    assert f"in front of {engine.url}/v1 (model their-model)" in output
    assert [
        received
        for received in engine.received
        if b'"top_k": 1000' in received.body or b'"top_k":1000' in received.body
    ]


def test_an_engine_that_breaks_the_contract_is_told(tmp_path: Path, engine: MockEngine) -> None:
    """When an answer is not what the contract says, its line is marked and the exit code is 1."""

    def fail_chats(received: ReceivedRequest) -> MockResponse | None:
        return MockResponse.json({"error": {"message": "no"}}, status=500) if received.method == "POST" else None

    engine.script(fail_chats)
    code, output, _ = _demo(tmp_path, "moonshot-kimi", "--engine", engine.url)
    assert code == 1
    assert "differs from the contract" in " ".join(output.split())
    assert "Some responses are not what the contract says." in output


def test_what_the_profile_itself_says_is_shown(tmp_path: Path) -> None:
    """A deployment file with a cap, images and aliases of its own is shown by them, and the overlay fits on top."""
    (tmp_path / "mine.yaml").write_text(
        "models: {aliases: [mine-latest]}\nlimits: {max_images: 7}\noutput: {max_tokens: {cap: 32768, default: 8192}}\n"
    )
    code, output, errors = _demo(tmp_path, "./mine.yaml")
    assert (code, errors) == (0, "")
    for said in ("32769", "8 images", "mine-latest"):
        assert said in output


def test_an_engine_that_wants_a_key_says_where_to_put_it(tmp_path: Path, engine: MockEngine) -> None:
    """When the engine answers 401 the demo names the variable that holds the key."""
    engine.script(lambda _: MockResponse.json({"error": "Unauthorized"}, status=401))
    code, output, errors = _demo(tmp_path, "moonshot-kimi", "--engine", engine.url)
    assert (code, output) == (1, "")
    assert errors == (
        f"profilec: error: {engine.url}/v1/models responded with 401; put its key into ROUTER_ENGINE_API_KEY\n"
    )


@pytest.mark.parametrize("url", ["localhost:8000", "127.0.0.1:8000", "ftp://127.0.0.1"])
def test_an_engine_url_without_a_scheme_is_told(tmp_path: Path, url: str) -> None:
    """An --engine that is no base URL is refused with one that would be."""
    code, _, errors = _demo(tmp_path, "moonshot-kimi", "--engine", url)
    assert code == 1
    assert "such as http://127.0.0.1:30000" in errors


def test_an_engine_that_does_not_answer_in_json_is_told(tmp_path: Path, engine: MockEngine) -> None:
    """Answers that are not JSON are marked as not what the contract says."""

    def speak_plainly(received: ReceivedRequest) -> MockResponse | None:
        return MockResponse(body=b"hello") if received.method == "POST" else None

    engine.script(speak_plainly)
    code, output, errors = _demo(tmp_path, "openai-compatible", "--engine", engine.url)
    assert (code, errors) == (1, "")
    assert "no chat completion" in output


def test_an_engine_that_is_not_there_is_told(tmp_path: Path) -> None:
    """Without an engine at the URL the demo ends with one clear line and exit code 1."""
    code, output, errors = _demo(tmp_path, "moonshot-kimi", "--engine", "http://127.0.0.1:1")
    assert (code, output) == (1, "")
    assert re.fullmatch(r"profilec: error: no models could be read from http://127\.0\.0\.1:1/v1/models: .*\n", errors)


def test_a_wrong_profile_is_told_before_anything_starts(tmp_path: Path) -> None:
    """A profile that does not compile gives its error, as `build` would."""
    code, output, errors = _demo(tmp_path, "no-such-preset")
    assert (code, output) == (1, "")
    assert 'there is no preset "no-such-preset"' in errors


SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", exhaustive_but([signal.SIGTERM], SIGNALS), ids=lambda number: number.name)
def test_keep_leaves_the_router_up_until_it_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    """With --keep the printed curl line works while the demo waits; Ctrl-C, a kill or a closed terminal ends it all."""
    process = _start(tmp_path, "moonshot-kimi", "--keep")
    output = tmp_path / "out"
    pattern = re.compile(r"^curl (http://\S+) -H 'Content-Type: application/json' -d '(.*)'$", re.MULTILINE)

    def so_far() -> str:
        # The process may be in the middle of a character.
        return output.read_bytes().decode(errors="ignore")

    wait_until(lambda: process.poll() is not None or pattern.search(so_far()), so_far, SECONDS)
    line = pattern.search(output.read_text())
    assert line is not None, (tmp_path / "err").read_text()
    answer = requests.post(line[1], line[2], headers={"Content-Type": "application/json"}, timeout=20)
    assert answer.json()["error"]["code"] == "sampling_contract_violation"
    process.send_signal(number)
    assert process.wait(SECONDS) == 0
    assert (tmp_path / "err").read_text() == ""
    with pytest.raises(requests.ConnectionError):
        requests.get(line[1], timeout=20)
