"""What is guessed of a request that is coming in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.arrival import HELD_BYTES, Arrival, Stage

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
    TE + b"x": Stage.HERE,
    TE + b"-1": Stage.HERE,
    TE + b"3\n": Stage.HERE,
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
