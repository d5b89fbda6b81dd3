import re

import pytest

from compiler.docs import reference
from compiler.language.fields import FIELD
from compiler.language.schema import SCHEMA
from router.contract.schema.named_checks import CHECK_TYPES


def keys_of(table):
    return re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)


def test_every_key_stands_in_a_table():
    """Each key of the language is in one of the tables, a section by the keys within it."""
    told = keys_of(reference.keys())
    sections = {key.partition(".")[0] for key in told}
    assert sections | {"fields", "checks"} == set(SCHEMA)
    assert keys_of(reference.fields()) == list(FIELD)
    assert {"models.aliases.<name>.implies", "mode.match[].when", "errors.codes.<code>"} <= set(told)
    assert "cases.<name>.when.fields" in told


def test_every_check_stands_in_the_table():
    """Each named check has its line, in the order in which checks are made, and its settings below it."""
    told = keys_of(reference.checks())
    assert [key for key in told if "." not in key] == list(CHECK_TYPES)
    assert "tools.unique" in told


@pytest.mark.parametrize("table", ["keys", "sampling", "fields", "checks", "presets", "vendors"], ids=str)
def test_no_cell_breaks_its_table(table):
    """Every line of a table has as many cells as its head, whatever a pattern or a text holds."""
    for part in getattr(reference, table)().split("\n\n"):
        lines = [line for line in part.splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) <= 1
