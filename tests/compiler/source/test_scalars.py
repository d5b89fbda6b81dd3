import math

import pytest

from compiler.source.scalars import number_of, resolve
from tests.batches import batched


@batched(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("NULL", None),
        ("nULL", "nULL"),
        ("true", True),
        ("False", False),
        ("tRUE", "tRUE"),
        ("on", "on"),
        ("yes", "yes"),
        ("No", "No"),
        ("0", 0),
        ("010", 10),
        ("-0", 0),
        ("+7", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b11", "0b11"),
        ("-0x1F", "-0x1F"),
        ("0X1F", "0X1F"),
        ("1e3", 1000.0),
        ("1E+3", 1000.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-.5", -0.5),
        ("+1.50", 1.5),
        ("0.0e5", 0.0),
        (".", "."),
        ("e3", "e3"),
        ("1e", "1e"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("190:20:30.15", "190:20:30.15"),
        ("2024-01-01", "2024-01-01"),
        ("0.1.2", "0.1.2"),
        ("1 ", "1 "),
        ("1\n", "1\n"),
        ("\u0661", "\u0661"),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("+.Inf", math.inf),
        ("inf", "inf"),
        ("nan", "nan"),
        ("<<", "<<"),
        ("=", "="),
    ],
)
def test_plain_scalars_mean_what_yaml_1_2_core_says(text, value):
    """A plain scalar has the value and the type that the core schema of YAML 1.2 gives it."""
    resolved = resolve(text)
    assert resolved == value
    assert type(resolved) is type(value)


def test_not_a_number_is_read_as_such():
    """The three spellings of NaN in YAML are floats, for the schema to refuse."""
    assert all(isinstance(resolve(text), float) and math.isnan(resolve(text)) for text in (".nan", ".NaN", ".NAN"))


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1e-400", "9" * 401, "0x" + "f" * 400, "1." + "0" * 400])
def test_numbers_that_would_be_misread_are_refused(text):
    """A number that a float64 cannot come near, or that is absurdly long, is an error and never another number."""
    with pytest.raises(ValueError, match="number"):
        number_of(text)


def test_negative_zero_stays_negative():
    """A float keeps its sign even at zero."""
    assert math.copysign(1, resolve("-0.0")) == -1
