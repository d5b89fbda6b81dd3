"""`profilec probe` against a real llama.cpp server."""

from pathlib import Path

import pytest

from compiler.cli import main
from compiler.pipeline import compile_profile
from compiler.resolve.selection import Selection
from tests.compiler.probe.endpoints import SMALL
from tests.llama.server import MODEL, running_llama


@pytest.mark.exhaustive  # a thousand requests to a real engine
def test_a_real_engine_gives_a_draft_that_compiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What llama.cpp is seen to hold requests to is learned, and what makes it fail is told and is no rule."""
    output = tmp_path / "draft.yaml"
    with running_llama(tmp_path) as llama:
        assert main.main(["probe", llama.url, "--model", MODEL, "--max-body", str(SMALL), "-o", str(output)]) == 0
    values = compile_profile(Selection("file", str(output), "SOURCE")).values()
    # It runs four requests at a time, and so takes no more responses to one.
    assert {"min": 1, "max": 4}.items() <= values["fields"]["n"].items()
    assert values["fields"]["top_logprobs"]["requires"] == {"logprobs": True}
    assert values["fields"]["temperature"]["type"] == ["number", "boolean"]
    assert "models: any model name is accepted" in output.read_text()
    assert "failed (500)" in output.read_text()
    assert "at most 2,000 requests" in capsys.readouterr().err
