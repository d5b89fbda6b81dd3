"""Request bodies read strictly, so that what is judged is what an engine reads."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.errors import ApiError
from router.contract.jsonbytes import parsing, scanning
from router.contract.jsonbytes.members import grouped
from router.contract.jsonbytes.parsing import MAX_MEMBERS, MAX_NUMBER_DIGITS, MAX_VALUES, parse
from tests.batches import batched
from tests.router.contract.jsonbytes.test_members import written_objects

REFUSED = {
    "empty": b"",
    "space only": b" \n",
    "cut off": b'{"model":"served"',
    "array": b"[]",
    "number": b"7",
    "string": b'"model"',
    "null": b"null",
    "behind it an object": b"{}{}",
    "behind it a letter": b"{} x",
    "behind it a NUL": b"{}\x00",
    "before it a NUL": b"\x00{}",
    "BOM": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "UTF-16 without BOM": '{"a":1}'.encode("utf-16-le"),
    "UTF-32": '{"a":1}'.encode("utf-32"),
    "invalid UTF-8 in a value": b'{"a":"\xff"}',
    "invalid UTF-8 in a key": b'{"\xff":1}',
    "overlong UTF-8": b'{"a":"\xc0\xaf"}',
    "a surrogate in UTF-8": b'{"a":"\xed\xa0\x80"}',
    "a lone surrogate escaped": b'{"a":"\\ud800"}',
    "a lone surrogate in a key": b'{"\\udc00":1}',
    "surrogates in the wrong order": b'{"a":"\\udc00\\ud800"}',
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":Infinity}',
    "-Infinity": b'{"a":-Infinity}',
    "beyond float64": b'{"a":1e400}',
    "beyond float64, negative": b'{"a":-1e400}',
    "beyond float64, deep inside": b'{"a":[{"b":[1e309]}]}',
    "an integer beyond float64": b'{"a":1' + b"0" * 309 + b"}",
    "an integer of 5,000 digits": b'{"a":' + b"9" * 5000 + b"}",
    "trailing comma": b'{"a":1,}',
    "comment": b'{"a":1/**/}',
    "single quotes": b"{'a':1}",
    "bare key": b"{a:1}",
    "leading zero": b'{"a":01}',
    "leading plus": b'{"a":+1}',
    "bare fraction": b'{"a":.5}',
    "fraction without digits": b'{"a":1.}',
    "hexadecimal": b'{"a":0x10}',
    "True": b'{"a":True}',
    "a raw control character": b'{"a":"\n"}',
    "an unknown escape": b'{"a":"\\x41"}',
    "a form feed between": b'{"a":\f1}',
    "a no-break space between": '{"a":\xa01}'.encode(),
    "deep arrays": b'{"a":' + b"[" * 20000 + b"]" * 20000 + b"}",
    "deep objects": b'{"a":' * 20000 + b"1" + b"}" * 20000,
    "brackets only": b"[" * 1_000_000,
}

TAKEN = {
    "nothing in it": b"{}",
    "space around": b" \t\r\n{} \t\r\n",
    "largest float64": b'{"a":1.7976931348623157e308}',
    "underflow": b'{"a":1e-400}',
    "an integer of 308 digits": b'{"a":' + b"9" * 308 + b"}",
    "a pair of surrogates": b'{"a":"\\ud83d\\ude00"}',
    "an escaped NUL": b'{"a":"\\u0000"}',
    "digits in a string": b'{"a":"' + b"1" * 5000 + b'"}',
    "digits in a key": b'{"' + b"1" * 5000 + b'":1}',
    "digits behind an escaped quote": b'{"a":"\\"' + b"1" * 5000 + b'"}',
}


@batched("body", REFUSED.values(), ids=REFUSED)
def test_what_is_not_strictly_one_json_object_is_refused(body):
    """Anything but one JSON object in strict UTF-8 with finite numbers is a 400 of one line and no parameter."""
    with pytest.raises(ApiError) as refused:
        parse(body)
    assert (refused.value.code, refused.value.param) == ("bad_request", None)
    assert len(refused.value.message) < 200
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("body", TAKEN.values(), ids=TAKEN)
def test_what_is_strictly_one_json_object_is_taken(body):
    """Unusual but valid JSON is taken and read as Python's json reads it, up to float64."""
    assert parse(body).fields == json.loads(body, parse_int=float)


@pytest.mark.parametrize("member", [b',"k%d":1', b',"a":1'], ids=["all different", "all the same"])
def test_the_number_of_members_is_bounded(member):
    """So many members are taken, repeated or not, and one more is a 400."""
    members = b"".join(member.replace(b"%d", b"%d" % number) for number in range(MAX_MEMBERS - 1))
    assert parse(b'{"a":1' + members + b"}").value("a") == 1
    with pytest.raises(ApiError, match=f"more than {MAX_MEMBERS} members") as refused:
        parse(b'{"a":1' + members + b',"b":1}')
    assert (refused.value.code, refused.value.param) == ("bad_request", None)


def test_depth_up_to_a_thousand_is_taken():
    """Nesting that some engines still read is taken."""
    assert "a" in parse(b'{"a":' + b"[" * 1000 + b"]" * 1000 + b"}").fields


@batched("before", [b"{", b'{"x":"' + b"y" * 321 + b'",', b'{"x":[1,2,3],' * 1])
@batched("start", range(0, 130, 13))
@batched(("digits", "refused"), [(MAX_NUMBER_DIGITS, False), (MAX_NUMBER_DIGITS + 1, True)])
@batched("number", [b"0.%s", b"-1.%se5", b"0e%s"])
def test_a_number_of_too_many_digits_is_refused(before, start, digits, refused, number):
    """A run of over a thousand digits in a number is a 400, wherever it stands in the body."""
    body = before + b" " * start + b'"a":' + number % (b"0" * digits) + b"}"
    if refused:
        with pytest.raises(ApiError, match="more than 1000 digits"):
            parse(body)
    else:
        assert "a" in parse(body).fields


@pytest.mark.parametrize("field", ["model", "max_tokens", "n_predict", "temperature"])
@pytest.mark.parametrize("again", ["%s", "\\u%04x"])
def test_repeated_fields_are_seen_through_escapes(field, again):
    """A field that occurs twice is refused under its standard name, also when one key is spelled with escapes."""
    escaped = again % (ord(field[0]) if "x" in again else field[0]) + field[1:]
    request = parse(f'{{"{field}":1,"{escaped}":2}}'.encode())
    with pytest.raises(ApiError, match=f"{field} occurs more than once") as refused:
        request.reject_repeated(field)
    assert refused.value.param == {"n_predict": "max_tokens"}.get(field, field)


def test_of_repeated_fields_the_last_value_counts():
    """The value of a repeated field is its last, null included."""
    request = parse(b'{"a":1,"b":1,"b":null,"\\u0061":3}')
    assert (request.value("a"), request.value("b"), request.value("c")) == (3, None, None)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("1", "1"),
        ("1.0", "1"),
        ("1e2", "100"),
        ("0.70", "0.7"),
        ("-0.0", "0"),
        ("9007199254740993", "9007199254740993"),
        ("18446744073709551616", "18446744073709551616"),
        ("-18446744073709551616", "-18446744073709551616"),
        ('"1.0"', '"1.0"'),
        ('"é\\n"', '"é\\n"'),
        ("[1.0]", "[1.0]"),
        ('"' + "é" * 79, '"' + "é" * 79 + "…"),
        ('"' + "\U0001f600" * 200, '"' + "\U0001f600" * 79 + "…"),
    ],
)
def test_messages_show_what_the_client_wrote(written, shown):
    """A message shows a value as written, numbers without a needless fraction, long ones cut."""
    closed = written + '"' * (written.startswith('"') and not written.endswith('"'))
    assert parse(f'{{"a":{closed}}}'.encode()).display("a") == shown


@given(written_objects(), st.integers(1, 40))
def test_members_are_the_same_whether_or_not_long_strings_are_skipped(written_object, bytes_per_step):
    """A large body is searched without the long strings in it, as far as few steps find them: same members, places."""
    body, _ = written_object
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parsing, "_LARGE_BYTES", 0)
        patch.setattr(scanning, "_LONG_STRING_BYTES", 2)
        patch.setattr(scanning, "_BYTES_PER_STEP", bytes_per_step)
        found = parse(body).members
    assert found == grouped(body, 0, None, MAX_MEMBERS)


@pytest.mark.parametrize("digits", [MAX_NUMBER_DIGITS, MAX_NUMBER_DIGITS + 1])
def test_digits_are_counted_around_long_strings(digits):
    """A large body with a picture is rejected for a number of too many digits before it and behind it alone."""
    picture = b'"' + b"1" * (300 << 10) + b'"'
    number = b"0." + b"0" * (digits - 1) + b"1"
    for body in (b'{"n":%b,"p":%b}' % (number, picture), b'{"p":[%b],"n":%b}' % (picture, number)):
        if digits > MAX_NUMBER_DIGITS:
            with pytest.raises(ApiError, match="more than 1000 digits"):
                parse(body)
        else:
            assert parse(body).members["n"][0].raw(body) == number


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_no_bytes_crash_the_parser(body):
    """Whatever bytes come, they are a request or a 400."""
    with contextlib.suppress(ApiError):
        parse(body)


@pytest.mark.parametrize("piece", [b"[],", b"{},", b"1,", b'{"a":[[1]]},'], ids=str)
def test_more_values_than_a_million_are_refused(piece):
    """However they are nested, more than MAX_VALUES values are a 400 before anything is made of them."""
    body = b'{"model":"m","messages":[' + piece * MAX_VALUES + b"1]}"
    with pytest.raises(ApiError, match="more than 1,000,000 JSON values"):
        parse(body)


def test_brackets_and_commas_in_strings_are_no_values():
    """A text of millions of brackets, commas and quotes is one value."""
    text = '[{,\\"' * MAX_VALUES
    body = b'{"model":"m","messages":"' + text.encode() + b'"}'
    assert parse(body).value("model") == "m"


def test_an_open_string_of_quotes_is_refused_at_once():
    """Millions of escaped quotes and commas behind a string that never ends are a 400."""
    with pytest.raises(ApiError, match="not valid JSON"):
        parse(b'{"model":"' + b'\\",' * (3 * MAX_VALUES))
