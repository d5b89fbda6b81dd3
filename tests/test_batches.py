"""Batches of cases and the report of failures: nothing that fails is hidden."""

import os
import subprocess
import sys
from pathlib import Path

from tests.checkout import CHECKOUT

BATCH = """
from tests.batches import batched

@batched("number", [1, 2, 3])
@batched("text", ["a", "b"], ids=["first", "second"])
def test_it(number, text, tmp_path):
    assert not list(tmp_path.iterdir())
    (tmp_path / "written").touch()
    assert number != 2 or text != "b"
"""


def _run(folder: Path, *arguments: str) -> tuple[int, str]:
    (folder / "test_batch.py").write_text(BATCH)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", os.devnull, "--rootdir", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        [*command, *arguments, str(folder)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def test_a_case_that_fails_is_named_at_once_and_hides_no_other(tmp_path: Path) -> None:
    """Only the failing case of a batch fails, by its name, and it is shown before the report at the end."""
    code, output = _run(tmp_path)
    assert code == 1
    assert output.count("SUBFAILED") == 1
    assert "SUBFAILED[second-2]" in output
    at_once, _, _ = output.partition("= FAILURES =")
    assert "test_it [second-2] (call)" in at_once
    assert "assert (2 != 2 or 'b' != 'b')" in at_once


def test_cases_of_a_batch_can_be_chosen(tmp_path: Path) -> None:
    """With --case only the cases with such a name are run."""
    assert _run(tmp_path, "--case", "second-3")[0] == 0
    assert _run(tmp_path, "--case", "second")[0] == 1
