"""Tables of cases: one a line, columns between bars that stand free, `#` before comments."""

import re
from pathlib import Path

import pytest

CASES = Path(__file__).resolve().parents[1] / "cases"

_BAR = re.compile(r"\s\|(?=\s|$)")


def rows(name: str) -> list[object]:
    """Return the rows of a table as parameters, each named by its line."""
    parameters = []
    for number, line in enumerate((CASES / name).read_text(encoding="utf-8").splitlines(), start=1):
        if line and not line.startswith("#"):
            columns = [column.strip() for column in _BAR.split(line)]
            parameters.append(pytest.param(*columns, id=f"{number}: {line}"))
    return parameters


def request_with(members: str) -> bytes:
    """Return a request body that carries the members of a table's column."""
    return ('{"model":"served"%s}' % (f",{members}" if members else "")).encode()
