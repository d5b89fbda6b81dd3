"""The progress of a stream: whether it has content, whether it is complete, and the ids that a failure repeats."""

import re
from collections.abc import Callable
from typing import Any, Final

from router.contract.errors import ApiError, render
from router.contract.protocols import Protocol
from router.contract.responses.failure_frames import Failure
from router.contract.responses.rewrite import is_json, read_object
from router.contract.responses.sse import EventData, SseParser
from router.contract.schema.sections import Errors

_DATA: Final = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|[\r\n])data:")
_END_OF_STREAM: Final = b"[DONE]"


class StreamProgress:
    """Tracks one stream by the bytes that are sent to the client: complete events and the bytes between them."""

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._mark = protocol.mark
        self.has_event = False
        self.is_whole = False
        """Whether the event that completes a stream of this protocol was sent."""
        self.has_failed = False
        """Whether the engine itself reported a failure in the stream."""
        self.is_cut = False
        """Whether the stream ended within an event."""
        self._first = b""
        self._latest = b""

    def observe(self, leaving: bytes) -> None:
        """Take what leaves next."""
        if not self.has_event:
            self.has_event = _DATA.search(leaving) is not None
            self._first = leaving
        if b"data:" in leaving:
            self._latest = leaving
        if self._mark in leaving and self._protocol.last_event.search(leaving):
            self.is_whole = True
        if b'"error"' in leaving and self._protocol.error_event.search(leaving):
            self.has_failed = True

    def acceptor(self, passes: Callable[[bytes], bool]) -> Callable[[bytes], bool] | None:
        """Return a function that observes what `passes` and returns True; False for what may be the end or an error.

        None before the first event.
        """
        if not self.has_event:
            return None
        mark = self._mark

        def accepts(leaving: bytes) -> bool:
            if b"data:" not in leaving or mark in leaving or b'"error"' in leaving or not passes(leaving):
                return False
            self._latest = leaving
            return True

        return accepts

    def finish(self, left: bytes) -> tuple[bytes, bytes]:
        """Add the bytes held at the end. Return their complete events, and the bytes of an event without blank line.

        No bytes may follow an incomplete event unless the stream is complete: they would end the event.
        """
        splitter = SseParser()
        whole = b"".join([part.data for part in splitter.feed(left)])
        rest = left[len(whole) :]
        self.is_cut = not (_is_complete(rest) or rest.startswith(b":"))
        for part in (whole, rest):
            if part and not (part is rest and self.is_cut):
                self.observe(part)
        return whole, rest

    def is_complete(self, *, is_framed: bool) -> bool:
        """Return whether an ended stream is complete. `is_framed`: HTTP framing marked its end."""
        if self.is_whole:
            return True
        needs_more = self._protocol.needs_last_event and not self.has_failed
        return is_framed and self.has_event and not self.is_cut and not needs_more

    def failure(self, error: ApiError, errors: Errors, request_id: str, model: str | None) -> bytes:
        """Return the frames that report a failure to the client; `model` is the name that it asked for."""
        rendered = render(error, errors, request_id, self._protocol)
        members = {name: rendered.details[name] for name in ("message", "type", "param", "code")}
        response = {"id": f"resp_{request_id}", "model": model, **self._response()}
        frames = self._protocol.failure(Failure(rendered.body, members, response, self._next_sequence_number()))
        # An event or a comment may be open.
        return b"\n\n" + frames

    def _response(self) -> dict[str, Any]:
        """Return the response as the first events of a stream of Responses give it."""
        responses = [data.get("response") for data in _payloads(self._first)]
        return next((response for response in responses if isinstance(response, dict)), {})

    def _next_sequence_number(self) -> int | None:
        if not self.has_event:
            return 0
        numbers = [data.get("sequence_number") for data in _payloads(self._latest)]
        found = [number for number in numbers if isinstance(number, int)]
        return found[-1] + 1 if found else None


def _is_complete(rest: bytes) -> bool:
    """Return whether an event lacks nothing but its blank line."""
    if rest.endswith((b"\r\r", b"\n\r")) or not rest.strip():
        # A line feed might have followed.
        return True
    payload = EventData(rest).payload.strip()
    return payload == _END_OF_STREAM or is_json(payload)


def _payloads(events: bytes) -> list[dict[str, Any]]:
    splitter = SseParser()
    parts = splitter.feed(events)
    return [read_object(EventData(part.data).payload) for part in parts if part.kind == "event"]
