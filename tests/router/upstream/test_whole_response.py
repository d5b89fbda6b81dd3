"""Responses that are read without a parser: only those that httptools reads in the same way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.upstream.parser_callbacks import ParserCallbacks
from router.upstream.whole_response import parse_whole

BODY = b'{"id":"%b"}' % (b"x" * 61)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%sContent-Length: 70\r\n\r\n" + BODY
PLAIN = {
    "short": HEAD % b"",
    "of uvicorn": b"HTTP/1.1 200 OK\r\ndate: Tue, 01 Dec 2026\r\nserver: uvicorn\r\ncontent-length: 70\r\n\r\n" + BODY,
    "kept alive": HEAD % b"Connection: Keep-Alive\r\n",
    "with spaces before a value": HEAD % b"X-A:   b  c\r\n",
    "without a reason phrase": (HEAD % b"").replace(b" OK", b" "),
}
OTHER = {
    "another status": (HEAD % b"").replace(b"200 OK", b"201 Created"),
    "an older version": (HEAD % b"").replace(b"1.1", b"1.0"),
    "an interim response first": b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD % b"",
    "one byte missing": (HEAD % b"")[:-1],
    "one byte more": HEAD % b"" + b"x",
    "a body so short that it may be an empty one": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "no length": (HEAD % b"").replace(b"Content-Length: 70\r\n", b""),
    "two lengths": HEAD % b"Content-Length: 70\r\n",
    "a signed length": (HEAD % b"").replace(b": 70", b": +70"),
    "chunks": HEAD % b"Transfer-Encoding: chunked\r\n",
    "the last response": HEAD % b"Connection: close\r\n",
    "an upgrade": HEAD % b"Upgrade: h2c\r\n",
    "a stream": (HEAD % b"").replace(b"application/json", b"text/event-stream; charset=utf-8"),
    "a header twice": HEAD % b"X-A: 1\r\nx-a: 2\r\n",
    "a folded line": HEAD % b"X-A: 1\r\n 2\r\n",
    "a space behind a value": HEAD % b"X-A: 1 \r\n",
    "a space before the colon": HEAD % b"X-A : 1\r\n",
    "a control character": HEAD % b"X-A: \x01\r\n",
    "a bare line feed": HEAD % b"X-A: 1\nX-B: 2\r\n",
    "a byte beyond ASCII": HEAD % b"X-A: \xe9\r\n",
    "a long line": HEAD % (b"X-A: %s\r\n" % (b"x" * 300)),
    "many headers": HEAD % b"".join(b"X-%d: 1\r\n" % number for number in range(100)),
}


@pytest.mark.parametrize("data", PLAIN.values(), ids=PLAIN)
def test_a_plain_response_is_read_as_httptools_reads_it(data: bytes) -> None:
    """Headers and body of a plain response are found, and are those that httptools finds."""
    assert parse_whole(data) is not None
    _compare(data)


@pytest.mark.parametrize("data", OTHER.values(), ids=OTHER)
def test_any_other_response_is_left_to_httptools(data: bytes) -> None:
    """Whatever is not whole, not a 200, or has more than one meaning is not read here."""
    assert parse_whole(data) is None


@given(
    st.sampled_from([*PLAIN.values(), *OTHER.values()]),
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 2), st.binary(max_size=3)), max_size=3),
)
def test_changed_responses_are_read_as_httptools_reads_them(data: bytes, changes: list[tuple[int, int, bytes]]) -> None:
    """However a response is changed: what is read here is read by httptools in the same way."""
    for at, removed, added in changes:
        data = data[:at] + added + data[at + removed :]
    if parse_whole(data) is not None:
        _compare(data)


def _compare(data: bytes) -> None:
    whole, parsed = parse_whole(data), ParserCallbacks()
    assert whole is not None
    parsed.parser.feed_data(data)
    parsed.parser = None
    assert (parsed.status, parsed.is_complete, parsed.keep_alive, parsed.has_surplus) == (200, True, True, False)
    assert (whole.headers, whole.body) == (parsed.headers, b"".join(parsed.chunks))
    assert whole.by_name == {name.lower(): value for name, value in parsed.headers}
