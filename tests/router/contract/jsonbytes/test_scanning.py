"""Long JSON is looked at in steps, each short and none of them costly in memory."""

import contextlib
import gc
import json
import re
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.errors import ApiError
from router.contract.jsonbytes import scanning
from router.contract.jsonbytes.members import find_members
from router.contract.jsonbytes.parsing import parse
from router.contract.jsonbytes.scanning import JsonScanner, end_of_string, holds_digits, holds_more_values

PIECES = st.lists(st.sampled_from(['"', "\\", '\\"', ",", "[", "a", "\n", "1", "11", "111", "é"]), max_size=12).map(
    "".join
)
VALUES = st.recursive(
    PIECES | st.integers(0, 10**6) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PIECES, inner, max_size=3),
    max_leaves=12,
)
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[0-9]+|[,\[{]', re.DOTALL)
SIZE = 2 * 1024 * 1024


def filled(unit, before=b"", behind=b"", size=SIZE):
    return before + unit * (size // len(unit)) + behind


HEAD = b'{"model":"m","messages":'
HOSTILE = {
    "empty strings behind a million commas": filled(b'""', b"," * 1_000_001),
    "empty strings": filled(b'"",'),
    "open brackets": filled(b"["),
    "an open string of escapes": filled(b'\\",', HEAD + b'"'),
    "escaped quotes": filled(b'\\"', HEAD + b'"', b'"}'),
    "escaped quotes and commas": filled(b'\\",', HEAD + b'"', b'"}'),
    "strings of commas": filled(b'",,,,,,,,",', HEAD + b"[", b'""]}'),
    "fractions of nearly too many digits": filled(b"0." + b"1" * 999 + b",", HEAD + b"[", b"0]}"),
    "strings of too many digits": filled(b'"' + b"1" * 1001 + b'",', HEAD + b"[", b"0]}"),
    "a key of escapes": filled(b'\\"', HEAD + b'[],"', b'":1}'),
    "a repeated field of escapes": filled(b'\\"', HEAD + b'[],"x":["', b'"],"x":1}'),
    "a repeated field of strings": filled(b'"abcdefgh",', HEAD + b'[],"x":[', b'0],"x":1}'),
    "a repeated field of long strings": filled(b'"' + b"y" * 2000 + b'",', HEAD + b'[],"x":[', b'0],"x":1}'),
    "a repeated field of containers": filled(b'[[["abcdefgh"]]],', HEAD + b'[],"x":[', b'0],"x":1}'),
    "space": filled(b" ", HEAD + b"[]", b"}"),
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_no_body_takes_much_more_memory_than_it_has(body):
    """What is looked at before a body is parsed, and where its members stand, costs no memory for each of its bytes."""
    tracemalloc.start()
    try:
        holds_more_values(body, 1_000_000)
        if body.endswith(b"}"):
            holds_digits(body, 1000)
            find_members(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # orjson reserves 13 times what it reads, a key here, and hardly touches it.
    assert peak < (15 if b'\\"":1}' in body else 3) * len(body)


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_no_body_is_looked_at_in_one_long_step(body, monkeypatch):
    """The bytes that one step looks at are bounded, whatever they are."""
    steps = []
    unescaped = scanning._unescaped
    monkeypatch.setattr(
        scanning, "_unescaped", lambda *part: (steps.append(len(piece)) or piece for piece in unescaped(*part))
    )
    with contextlib.suppress(ApiError):
        parse(body)
    assert max(steps, default=0) <= scanning.STEP_BYTES + 1


def test_a_large_body_leaves_the_search_for_cycles_on():
    """While a large body is read, valid or not, nobody searches for cycles; afterwards somebody does."""
    for body in (filled(b" ", b"{", b"}"), filled(b" ", b"{")):
        with contextlib.suppress(ApiError):
            parse(body)
        assert gc.isenabled()


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64 * 1024])
@given(value=VALUES, most=st.integers(0, 12))
def test_values_and_digits_are_counted_outside_of_strings_alone(step, value, most):
    """Wherever a step ends, amid escapes and strings too, what strings hold counts for nothing."""
    body = json.dumps(value, ensure_ascii=False).encode()
    tokens = TOKEN.findall(body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "STEP_BYTES", step)
        found = sum(token in {b",", b"[", b"{"} for token in tokens)
        assert holds_more_values(body, most) == (found > most)
        assert holds_digits(body, most + 8) == any(token.isdigit() and len(token) > most + 8 for token in tokens)


@given(value=VALUES, cuts=st.lists(st.integers(0, 200), max_size=5))
def test_json_that_is_cut_is_out_of_balance(value, cuts):
    """However it comes in pieces, only whole JSON closes all that it opened, as far as it opens anything."""
    body = json.dumps([value], ensure_ascii=False).encode()
    places = sorted({0, len(body), *(min(cut, len(body)) for cut in cuts)})
    balance = JsonScanner()
    for start, end in pairwise(places):
        balance.feed(body[start:end])
        assert balance.is_kept() == (end == len(body))


ESCAPED = {
    "letters": lambda number: "".join(f"\\u{ord(letter):04x}" for letter in f"k{number:04}" + "y" * 70),
    "digits": lambda number: f"k{number}" + "\\u0041" * 80,
    "line ends": lambda number: f"k{number}" + "\\n" * 200,
}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("key_of", ESCAPED.values(), ids=ESCAPED)
def test_escaped_keys_are_looked_at_like_plain_ones(key_of, nested, monkeypatch):
    """Where no quote is among the escapes no key is walked, and the search for digits looks at each byte but twice."""
    members = b",".join(b'"%s":"%s"' % (key_of(number).encode(), b"x" * 60) for number in range(1990))
    body = b'{"a":{%s}}' % members if nested else b"{%s}" % members
    looked_at = []

    class Counted:
        def __init__(self, pattern):
            self.pattern = pattern

        def finditer(self, text, start=0, end=None):
            looked_at.append((len(text) if end is None else end) - start)
            return self.pattern.finditer(text, *(() if end is None else (start, end)))

        def search(self, text):
            looked_at.append(len(text))
            return self.pattern.search(text)

    patterns = scanning._patterns_of_digits
    monkeypatch.setattr(scanning, "_patterns_of_digits", lambda *what: tuple(map(Counted, patterns(*what))))
    monkeypatch.setattr(scanning, "_STRING_STEP", None)
    request = parse(body)
    found = request.members_of(request.members["a"][0]) if nested else request.members
    assert len(found) == 1990
    assert sum(looked_at) <= 2 * len(body)


@given(st.binary(max_size=9), st.text(max_size=40) | st.text('"\\a\n', max_size=200), st.binary(max_size=9))
def test_a_string_ends_at_its_own_quote(before, text, behind):
    """A string ends at the first quote that is not escaped."""
    string = json.dumps(text, ensure_ascii=False).encode()
    assert end_of_string(before + string + behind, len(before)) == len(before + string)


@pytest.mark.parametrize("text", [b'"', b'"a', b'"\\"', b'"\\', b'"' + b'\\"' * 100_000])
def test_a_string_that_does_not_end_is_an_error(text):
    """A string without its closing quote is no JSON."""
    with pytest.raises(ValueError, match="not valid JSON"):
        end_of_string(text, 0)
