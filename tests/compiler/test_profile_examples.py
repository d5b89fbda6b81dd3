"""The example profiles in `profiles/examples/`: one vendor's contract and three deployments."""

import json
from pathlib import Path

import pytest

from compiler.cli import main
from router.artifact.format import read
from tests.checkout import CHECKOUT

EXAMPLES = sorted((CHECKOUT / "profiles" / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_compiles_without_a_warning(path: Path, tmp_path: Path) -> None:
    """Each example compiles, and no warning is reported for it."""
    artifact = tmp_path / "profile.json"
    assert main.main(["check", "--strict", str(path)]) == 0
    assert main.main(["build", str(path), "-o", str(artifact)]) == 0
    assert read(artifact).contract.rules


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_router_keeps_an_example(path: Path, tmp_path: Path) -> None:
    """Through a real router every check of an example passes."""
    report = tmp_path / "report.json"
    code = main.main(
        ["verify", "--through-engine", str(path), "--max-body", "1048576", "--format", "json", "-o", str(report)]
    )
    value = json.loads(report.read_text())
    assert [check["id"] for check in value["checks"] if check["result"] != "pass"] == []
    assert (code, value["not_observable"], len(EXAMPLES)) == (0, 0, 4)
