"""What completes a stream of each protocol, and the frames that a failure in it ends with."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from router.contract.errors import ApiError
from router.contract.protocols import CHAT, COMPLETIONS, MESSAGES, OTHER, RESPONSES, Protocol
from router.contract.responses.stream_progress import StreamProgress
from router.contract.schema.sections import Errors
from router.contract.schema.types import ErrorText

ERROR = ApiError("upstream_incomplete", "cut")
CHUNK = b'data: {"choices":[]}\n\n'
START = b'event: message_start\ndata: {"type":"message_start","message":{"model":"m"}}\n\n'


def _ended(protocol: Protocol, *leaving: bytes, left: bytes = b"", is_framed: bool = True) -> StreamProgress:
    progress = StreamProgress(protocol)
    for piece in leaving:
        progress.observe(piece)
    assert b"".join(progress.finish(left)) == left
    return progress


def _event(name: str, **data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()


CREATED = _event("response.created", sequence_number=0, response={"id": "r", "model": "m", "error": None})
DELTA = _event("response.output_text.delta", sequence_number=7)
LAST = [
    *((protocol, b"data: [DONE]\n\n") for protocol in (CHAT, COMPLETIONS, OTHER)),
    (MESSAGES, _event("message_stop")),
    (MESSAGES, b'data: {"type":"message_stop"}\n\n'),
    *(
        (RESPONSES, _event(f"response.{end}", response={"x": "y" * 100}))
        for end in ("completed", "incomplete", "failed")
    ),
    (RESPONSES, b'data: {"type":"response.completed","response":{}}\n\n'),
]


@pytest.mark.parametrize(("protocol", "last"), LAST, ids=lambda value: getattr(value, "name", ""))
def test_its_last_event_completes_a_stream(protocol: Protocol, last: bytes) -> None:
    """Whatever the connection does behind it, also without its blank line, or behind others in one piece."""
    for end in (b"\n", b"\r\n", b"\r"):
        written = last.replace(b"\n", end)
        assert _ended(protocol, CHUNK, written).is_complete(is_framed=False)
        assert _ended(protocol, b"\xef\xbb\xbf" + written + b": bye\n\n").is_complete(is_framed=False)
        assert _ended(protocol, CHUNK.replace(b"\n", end) + written).is_complete(is_framed=False)
        assert _ended(protocol, CHUNK, left=written.removesuffix(end)).is_complete(is_framed=False)
        assert _ended(protocol, CHUNK, left=written.removesuffix(end * 2)).is_complete(is_framed=False)
    # Words of it in a text complete nothing.
    text = b"data: " + json.dumps({"text": f"\n{last.decode()}"}).encode() + b"\n\n"
    assert not _ended(protocol, text).is_complete(is_framed=False)


@pytest.mark.parametrize("protocol", [CHAT, COMPLETIONS, OTHER, RESPONSES, MESSAGES], ids=lambda each: each.name)
def test_a_proper_end_stands_for_the_last_event_where_that_is_optional(protocol: Protocol) -> None:
    """Chat may end without DONE; Messages and Responses must end with their last event, or with the engine's error."""
    proper = not protocol.needs_last_event
    assert proper == (protocol not in (RESPONSES, MESSAGES))
    assert _ended(protocol, CHUNK).is_complete(is_framed=True) == proper
    assert _ended(protocol, b": ping\n\n", CHUNK).is_complete(is_framed=True) == proper
    assert not _ended(protocol, CHUNK).is_complete(is_framed=False)
    failed = b'data: {"error":{}}\n\n' if protocol not in (RESPONSES, MESSAGES) else _event("error", error={})
    assert _ended(protocol, failed).has_failed
    assert _ended(protocol, CHUNK, failed).is_complete(is_framed=True)


@pytest.mark.parametrize("protocol", [CHAT, RESPONSES, MESSAGES], ids=lambda each: each.name)
@pytest.mark.parametrize(
    "left",
    [
        b"",
        b"\n\n",
        b": ping\n\n",
        b"event: x\n\n",
        b"\xef\xbb\xbf",
        b'data: {"a":',
        b"data: [DO",
        b"event: message_stop\n",
        b"da",
    ],
)
def test_no_event_or_half_of_one_is_no_stream(protocol: Protocol, left: bytes) -> None:
    """A proper end behind nothing but comments, or within an event, completes nothing."""
    assert not _ended(protocol, left=left).is_complete(is_framed=True)
    is_half = left.startswith((b"d", b"event: m"))
    assert _ended(CHAT, CHUNK, left=left).is_complete(is_framed=True) != is_half


def _frames(stream: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events as clients read them: the name that stands in the event line, and the data."""
    assert stream.startswith(b"\n\n")
    assert stream.endswith(b"\n\n")
    for event in stream.strip().split(b"\n\n"):
        *names, data = event.split(b"\n")
        yield b"".join(names).removeprefix(b"event: ").decode(), json.loads(data.removeprefix(b"data: "))


def test_a_failure_is_data_alone_in_chat_and_completions() -> None:
    """The frame has the error as it would be answered, in the words of the contract, and no DONE behind it."""
    errors = Errors(body={"e": "{message}", "c": "{code}"}, codes={"upstream_incomplete": ErrorText(code=7)})
    assert list(_frames(_ended(CHAT, CHUNK).failure(ERROR, errors, "id", "m"))) == [("", {"e": "cut", "c": 7})]
    ((name, data),) = _frames(_ended(COMPLETIONS, CHUNK).failure(ERROR, Errors(), "id", "m"))
    assert (name, data["error"]["code"], data["error"]["type"]) == ("", "upstream_incomplete", "server_error")


def test_a_failure_is_an_error_event_in_messages() -> None:
    """Whatever the contract's words are, the event is Anthropic's."""
    errors = Errors(body={"e": "{message}"}, codes={"upstream_incomplete": ErrorText(code=7)})
    body = {"type": "error", "error": {"type": "api_error", "message": "cut"}, "request_id": "id"}
    assert list(_frames(_ended(MESSAGES, START).failure(ERROR, errors, "id", "m"))) == [("error", body)]
    late = ApiError("upstream_timeout", "late")
    assert (
        next(_frames(_ended(MESSAGES, START).failure(late, errors, "id", "m")))[1]["error"]["type"] == "timeout_error"
    )


@pytest.mark.parametrize(
    ("leaving", "numbers", "response"),
    [
        ([CREATED + DELTA, b": ping\n\n"], (8, 9), {"id": "r", "model": "m"}),
        ([b": ping\n\n", CREATED, DELTA], (8, 9), {"id": "r", "model": "m"}),
        ([b": ping\n\n"], (0, 1), {"id": "resp_id", "model": "asked"}),
        ([_event("response.created", response={"id": "r"})], (None, None), {"id": "r", "model": "asked"}),
        (
            [_event("x", response=7), _event("y", sequence_number="3")],
            (None, None),
            {"id": "resp_id", "model": "asked"},
        ),
    ],
)
def test_a_failure_is_an_error_and_a_failed_response_in_responses(
    leaving: list[bytes], numbers: tuple[int | None, int | None], response: dict[str, str]
) -> None:
    """The response is the one that was created, failed; numbers go on where the engine gives any."""
    error, failed = _frames(_ended(RESPONSES, *leaving).failure(ERROR, Errors(), "id", "asked"))
    assert (error[0], failed[0]) == ("error", "response.failed") == (error[1]["type"], failed[1]["type"])
    assert (error[1].get("sequence_number"), failed[1].get("sequence_number")) == numbers
    members = {"message": "cut", "type": "server_error", "param": None, "code": "upstream_incomplete"}
    assert error[1]["error"] == members
    assert {name: error[1][name] for name in ("message", "param", "code")} == {
        name: members[name] for name in ("message", "param", "code")
    }
    made = {"object": "response", "output": [], "status": "failed", "error": {"code": "server_error", "message": "cut"}}
    assert failed[1]["response"] == made | response
