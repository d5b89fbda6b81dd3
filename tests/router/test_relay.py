"""An answer brought to the client: what its bytes tell of the engine on the way."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.clients.presence import Client
from router.engines.outcome import Outcome
from router.exchange import Exchange
from router.relay import MAX_LINE_BYTES, AnswerEdits, Relay, WholeLines, relay
from tests.router.engines.fakes import answer_of

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize("alias", [None, "latest"], ids=["relayed", "renamed"])
@pytest.mark.parametrize(
    ("pieces", "outcome"),
    [
        pytest.param([b'data: {"error": {"code": 500}}\n\n', DONE], Outcome.FAILED, id="first"),
        pytest.param([b'data: {}\n\ndata: {"error":{}}\n\n', DONE], Outcome.FAILED, id="second"),
        pytest.param([b'data: {}\r\rdata:{"error":{}}\r\r', DONE], Outcome.FAILED, id="old line ends"),
        pytest.param([b'data: {}\n\ndata: {"er', b'ror": {}}\n\n', DONE], Outcome.FAILED, id="in two pieces"),
        pytest.param([b"data", b": {", b'"error"', b":{}}\n\n", DONE], Outcome.FAILED, id="in many pieces"),
        pytest.param([b'data: {"t":"data: {\\"error\\""}\n\n', DONE], Outcome.SUCCEEDED, id="in a text"),
        pytest.param([b'data: {"x":{"error":1}}\n\n', DONE], Outcome.SUCCEEDED, id="further in"),
        pytest.param([b"data: {}\n\n"], Outcome.SUCCEEDED, id="without DONE"),
    ],
)
def test_an_error_in_a_stream_is_noted_of_the_engine(pieces: list[bytes], outcome: Outcome, alias: str | None) -> None:
    """A 200 may tell that its engine died, as of vLLM: the client gets every byte, and the engine counts as failed."""
    chunks = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]
    answer, told, _ = answer_of(HEAD, *chunks, b"0\r\n\r\n")
    answer.read_head()
    body: Any = relay(Relay(answer, AnswerEdits(alias), Client({}), Exchange(request_id="1"))).response
    assert b"".join(body) == b"".join(pieces)
    assert told == [outcome]


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"data: x", b""]), max_size=30))
def test_lines_leave_whole_and_all_of_them(pieces: list[bytes]) -> None:
    """However a stream is cut into pieces, what leaves ends with a line, and at the end nothing is missing."""
    lines = WholeLines()
    left = [lines.feed(piece) for piece in pieces]
    assert all(not out or out.endswith((b"\n", b"\r")) for out in left)
    assert b"".join(left) + lines.flush() == b"".join(pieces)


def test_a_line_without_end_is_not_held_for_ever() -> None:
    """A line longer than the bound leaves as it comes."""
    lines = WholeLines()
    assert lines.feed(bytes(MAX_LINE_BYTES)) == b""
    assert len(lines.feed(b"x")) == MAX_LINE_BYTES + 1
