"""What is guessed of a request that is coming in."""

import pytest
from gunicorn.config import Config
from gunicorn.http.errors import ParseException
from gunicorn.http.parser import RequestParser
from hypothesis import example, given
from hypothesis import strategies as st

from router.server.request_framing import HELD_BYTES, MOST_CHUNKS, Arrival, Stage

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n%s\r\n"
TE = HEAD % b"Transfer-Encoding: chunked\r\n"
WHOLE = {
    "no body": GET,
    "no headers": b"GET / HTTP/1.0\r\n\r\n",
    "empty line before": b"\r\n" + GET,
    "counted": HEAD % b"content-LENGTH: 3\r\n" + b"abc",
    "counted as nothing": HEAD % b"Content-Length: 0\r\n",
    "chunks": TE + b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n",
    "data like the last chunk": TE + b"7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n",
    "trailers": TE + b"1\r\na\r\n0\r\nX: 1\r\nY: 2\r\n\r\n",
}


def _stages(pieces):
    arrival = Arrival(HELD_BYTES)
    for piece in pieces:
        arrival.data += piece
        yield arrival.stage()


@pytest.mark.parametrize("request_bytes", WHOLE.values(), ids=WHOLE)
def test_a_request_is_here_with_its_last_byte(request_bytes):
    """Byte by byte, a plain request is here when its last byte is, and not one earlier."""
    stages = list(_stages(bytes([byte]) for byte in request_bytes))
    assert stages.index(Stage.HERE) == len(request_bytes) - 1
    assert stages == sorted(stages, key=lambda stage: stage.value)


@given(st.sampled_from(sorted(WHOLE.values())), st.lists(st.integers(1, 40), min_size=1), st.binary(max_size=50))
def test_the_pieces_make_no_difference(request_bytes, sizes, behind):
    """However a request is cut into pieces, and whatever comes behind it, it is here as soon as it is all there."""
    pieces, rest = [], request_bytes
    while rest:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(rest[:size])
        rest = rest[size:]
    *before, last = _stages([*pieces[:-1], pieces[-1] + behind])
    assert Stage.HERE not in before
    assert last is Stage.HERE


ODD = {
    b"GET / HTTP/1.1\nHost": Stage.HERE,
    b"GET / HTTP/1.1\r\nHost: x\nY": Stage.HERE,
    b"GET /\r\n": Stage.HERE,
    b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n": Stage.HERE,
    HEAD % b"Content-Length: 5\r\nExpect: 100-continue\r\n": Stage.LONG,
    HEAD % b"Content-Length: +5\r\n": Stage.LONG,
    HEAD % b"Content-Length: 0000000000000000000000005\r\n": Stage.LONG,
    HEAD % b"Content-Length: 5\r\nContent-Length: 5\r\n": Stage.LONG,
    HEAD % b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n": Stage.LONG,
    HEAD % b"Content-Length: 99999999999\r\n": Stage.LONG,
    HEAD % (b"Content-Length: %d\r\n" % (HELD_BYTES + 1)): Stage.LONG,
    HEAD % b"Transfer-Encoding: gzip, chunked\r\n": Stage.LONG,
    HEAD % b"X: transfer-encoding\r\n": Stage.LONG,
    HEAD % b"X: content-length\r\n": Stage.LONG,
    TE + b"fffffff\r\n": Stage.LONG,
    TE + b"1\r\na\r\n" * (HELD_BYTES // 6 + 1): Stage.LONG,
    TE + b"1\r\na\r\n" * MOST_CHUNKS: Stage.BODY,
    TE + b"1\r\na\r\n" * MOST_CHUNKS + b"0\r\n\r\n": Stage.HERE,
    TE + b"1\r\na\r\n" * (MOST_CHUNKS + 1): Stage.LONG,
    TE + b"1\r\na\r\n" * (MOST_CHUNKS + 1) + b"0\r\n\r\n": Stage.LONG,
    TE + b"x": Stage.BODY,
    TE + b"123456789": Stage.BODY,
    TE + b"5\rx": Stage.BODY,
    TE + b"3\n": Stage.BODY,
    TE + b"x" * 8191: Stage.LONG,
    TE + b"x\r\n": Stage.HERE,
    TE + b"-1\r\n": Stage.HERE,
    TE + b" 5\r\n": Stage.HERE,
    TE + b"000000005\r\n": Stage.BODY,
    TE + b"3\r\nabcde": Stage.HERE,
    TE + b"\r\n": Stage.HERE,
    TE + b"0\r\nX: 1\n": Stage.HERE,
    b"GET / HTTP/1.1\r\nX: " + b"x" * HELD_BYTES: Stage.LONG,
}


@pytest.mark.parametrize(("odd", "stage"), ODD.items())
def test_doubts_are_left_to_the_parser(odd, stage):
    """What is not plain, or too long to be held, is handed over at once."""
    assert Arrival(HELD_BYTES, odd).stage() is stage


def test_a_body_that_will_be_refused_is_not_waited_for():
    """A body over the limit of the app is handed over with the head, that its client may hear of it."""
    head = HEAD % b"Content-Length: 11\r\n"
    assert Arrival(10, head).stage() is Stage.LONG
    assert Arrival(11, head).stage() is Stage.BODY
    assert Arrival(10, TE + b"6\r\nabcdef\r\n").stage() is Stage.LONG


@given(st.binary(max_size=300))
def test_no_bytes_break_it(data):
    """Whatever comes, it is some stage."""
    assert Arrival(100, data).stage() in Stage
    assert Arrival(100, TE + data).stage() in Stage


CONFIG = Config()
CONFIG.set("header_map", "refuse")


class _WaitsError(Exception):
    """The parser asks for more than has come."""


class _WhatHasCome:
    def __init__(self, data):
        self._data = data

    def recv(self, length, *_):
        if not self._data:
            raise _WaitsError
        piece, self._data = self._data[:length], self._data[length:]
        return piece


def _read_whole(data):
    """Read a request and its body as a thread does; what is malformed ends it too."""
    try:
        body = next(RequestParser(CONFIG, _WhatHasCome(data), ("127.0.0.1", 1))).body
        while body.read(1024):
            continue
    except ParseException:
        return


FRAGMENTS = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b" ",
        b"\t",
        b";",
        b":",
        b",",
        b'"',
        b"0",
        b"5",
        b"zz",
        b"000000005",
        b"\x00",
    ),
    *(b"GET", b"HTTP/1.0", b"PRI * HTTP/2.0\r\n", b"Content-Length: 5\r\n", b"Content-Length : 5\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip\r\n", b"Expect: 100-continue\r\n"),
)
MUTATIONS = st.tuples(st.integers(0, 99), st.integers(0, 3), st.sampled_from(FRAGMENTS) | st.just(b""))


def _mutated(data, mutations):
    for place, dropped, put in mutations:
        at = len(data) * place // 100
        data = data[:at] + put + data[at + dropped :]
    return data


@given(st.sampled_from(sorted(WHOLE.values())), st.lists(MUTATIONS, max_size=3), st.integers(1, 40))
@example(TE + b"z", [], 1)
@example(TE + b"123456789", [], 1)
@example(TE + b"5\rx", [], 1)
@example(TE + b"0000000005\r\n", [], 1)
def test_nothing_that_is_here_is_waited_for(request_bytes, mutations, size):
    """Of what is called here, however odd, the parser reads all or refuses it, without asking for more."""
    data = _mutated(request_bytes, mutations)
    arrival = Arrival(HELD_BYTES)
    for start in range(0, len(data), size):
        arrival.data += data[start : start + size]
        stage = arrival.stage()
        if stage is Stage.HERE:
            _read_whole(bytes(arrival.data))
        if stage in {Stage.HERE, Stage.LONG}:
            return


class _CountedBytes(bytearray):
    """Bytes that count how many are looked for or copied."""

    looked_at = 0

    def find(self, sought, start=0):
        self.looked_at += len(self) - start
        return super().find(sought, start)

    def __getitem__(self, index):
        found = super().__getitem__(index)
        self.looked_at += len(found)
        return found


@pytest.mark.parametrize("begun", [b"", b"5;", b"0\r\n", b"7fff\r\n"], ids=["size", "extension", "trailers", "chunk"])
def test_each_byte_is_looked_at_a_few_times(begun):
    """A body that comes byte by byte is not read anew with each of them."""
    arrival = Arrival(HELD_BYTES)
    arrival.data = _CountedBytes(TE + begun)
    for _ in range(5_000):
        arrival.data += b"x"
        assert arrival.stage() is Stage.BODY
    assert arrival.data.looked_at < 10 * len(arrival.data)
