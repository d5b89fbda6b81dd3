"""Numbers as engines read them, checked against the pydantic that is installed."""

import math
import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from router.contract.jsonbytes.numbers import MAX_STRING_BYTES, read_float, read_whole, show
from tests.batches import batched

FLOAT = TypeAdapter(float).validator
WHOLE = TypeAdapter(int).validator
SIGN_BEHIND_LEADING_ZEROS = re.compile(r"\s*[+-]?0[0_]*-")
"""What pydantic takes for a whole number and we refuse: `"0-1"`."""

ALPHABETS = [
    pytest.param("01_.e-+ ", 5, id="digits, underscores, signs and spaces"),
    pytest.param("infatyINFTY+_ ", 4, id="letters of NaN and infinity"),
    pytest.param("1_.-\t\v\x1c\x85\xa0\u200b\u3000\ufeff\uff11\u0661\x00x", 3, id="spaces and digits of other scripts"),
]
SPECIMENS = [
    *("infinity", "-Infinity", "+nan", "-nan", "in_f", "1e400", "-1e400", "1e-400", "0x10", "1_0", "1._5", " 1 "),
    *("_1", "1_", "1__0", " 1_0 ", "1_0 ", "", " ", ".", "+", "1e", "e1", "--1", "1 0", "true", "null", "1,0", "1f"),
    *("10.0", "10.00", "10.", ".0", "10.0_0", "1_0.0", "1e3", "00010", "0_0", "-0", "+0", "0" * 64, "9" * 64),
]


def _by_pydantic(validator, value):
    try:
        return validator.validate_python(value)
    except ValidationError:
        return None


def _equal(one, other):
    if one is None or other is None:
        return one is other
    return one == other or (math.isnan(one) and math.isnan(other))


def _differing(texts):
    for text in texts:
        if not _equal(read_float(text), _by_pydantic(FLOAT, text)):
            yield "float", text
        if not SIGN_BEHIND_LEADING_ZEROS.match(text) and not _equal(read_whole(text), _by_pydantic(WHOLE, text)):
            yield "int", text


@pytest.mark.parametrize(("alphabet", "longest"), ALPHABETS)
def test_every_short_string_reads_as_pydantic_reads_it(alphabet, longest):
    """Every string over the characters that matter is the number, or none, that pydantic's lax mode makes of it."""
    texts = ("".join(characters) for length in range(longest + 1) for characters in product(alphabet, repeat=length))
    assert list(_differing(texts)) == []


@batched("text", SPECIMENS)
def test_telling_strings_read_as_pydantic_reads_them(text):
    """Longer strings that other readers disagree about are what pydantic makes of them."""
    assert list(_differing([text])) == []


@given(
    st.text(max_size=MAX_STRING_BYTES // 4)
    | st.from_regex(r"\s?[+-]?[0-9_]{1,9}(\.[0-9_]{0,9})?(e[+-]?[0-9]{1,3})?\s?")
)
def test_any_string_reads_as_pydantic_reads_it(text):
    """Any string is the number, or none, that pydantic's lax mode makes of it."""
    assert list(_differing([text] if len(text.encode()) <= MAX_STRING_BYTES else [])) == []


@given(st.booleans() | st.integers(-(2**63), 2**64) | st.floats(allow_nan=False, allow_infinity=False))
def test_json_numbers_and_booleans_read_as_pydantic_reads_them(value):
    """JSON numbers and booleans are what pydantic makes of them, in a float field and in an int field."""
    assert _equal(read_float(value), _by_pydantic(FLOAT, value))
    if not (isinstance(value, float) and abs(value) >= 2**63):
        assert _equal(read_whole(value), _by_pydantic(WHOLE, value))


@pytest.mark.parametrize("value", [2.0**63, 2.0**64, -1e300])
def test_what_may_have_been_a_huge_integer_is_a_whole_number(value):
    """A float beyond int64 is taken for the integer that the JSON reader may have made it of."""
    assert read_whole(value) == int(value)


@pytest.mark.parametrize("value", [None, [], [1], {}, {"a": 1}, math.nan, math.inf, -math.inf, 1.5])
def test_what_is_not_whole_is_no_whole_number(value):
    """Null, containers, NaN, infinities and fractions are no whole numbers."""
    assert read_whole(value) is None


@pytest.mark.parametrize("value", [None, [], [1], {}, {"a": 1}])
def test_containers_are_no_numbers(value):
    """Null and containers are no numbers."""
    assert read_float(value) is None


@pytest.mark.parametrize("text", ["1".rjust(MAX_STRING_BYTES + 1), "0" * (MAX_STRING_BYTES + 1), "1" + "\u3000" * 22])
def test_a_string_over_the_limit_is_no_number(text):
    """A string of more than 64 bytes is no number, whatever it says."""
    assert (read_float(text), read_whole(text)) == (None, None)


@pytest.mark.parametrize("text", ["1".rjust(MAX_STRING_BYTES), "1" + "\u3000" * 21])
def test_a_string_at_the_limit_is_read(text):
    """A string of exactly 64 bytes is read."""
    assert (read_float(text), read_whole(text)) == (1, 1)


@pytest.mark.parametrize("text", ["0-1", "00-0", "0_-1", " 0-1"])
def test_a_sign_behind_leading_zeros_is_refused(text):
    """What pydantic alone takes for a whole number, a sign behind zeros, is refused."""
    assert read_whole(text) is None
    assert _by_pydantic(WHOLE, text) is not None


@pytest.mark.parametrize(
    ("number", "shown"),
    [(1, "1"), (1.0, "1"), (-0.0, "0"), (0.95, "0.95"), (1000.0, "1000"), (1e16, "1e+16"), (10**20, "1" + "0" * 20)],
)
def test_messages_show_whole_values_without_a_fraction(number, shown):
    """A message prints whole values without `.0` and others in their shortest form."""
    assert show(number) == shown
