from pathlib import Path

import pytest

from compiler.cli import loading
from compiler.resolve.selection import ENVIRONMENT_NAME


def pytest_addoption(parser):
    parser.addoption("--update", action="store_true", help="write what comes out into the golden files")


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch, tmp_path):
    """Hide what the machine that runs the tests may have: a profile of its own, and a current folder."""
    monkeypatch.delenv(ENVIRONMENT_NAME, raising=False)
    monkeypatch.setattr(loading, "SYSTEM_PROFILE", Path("/nonexistent/profile.yaml"))
    monkeypatch.chdir(tmp_path)
