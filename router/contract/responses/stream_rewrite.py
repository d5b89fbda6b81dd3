"""Edits of streamed responses: the requested alias as model name, and the frame that reports the usage."""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Literal

import msgspec

from router.contract.jsonbytes.members import Member, TooManyMembersError, end_of_value, find_members
from router.contract.jsonbytes.splice import to_json
from router.contract.responses.raw_levels import (
    MAX_MEMBERS,
    Level,
    NotCompactError,
    ObjectEdit,
    RawObject,
    edit_object,
    raw_members,
)
from router.contract.responses.rewrite import model_level, model_strings, read_object
from router.contract.responses.sse import (
    MAX_EVENT_BYTES,
    EventData,
    PlainEvent,
    Splice,
    SseParser,
    SsePart,
    ends_event,
    plain_events,
)

_MAY_FINISH = re.compile(rb'"finish_reason"(?![ \t]*+:[ \t]*+null)')
_END_OF_STREAM: Final = b"[DONE]"


class StreamRewriter:
    """Edits the events of a byte stream that arrives in pieces of any size. All other bytes stay unchanged.

    `model` replaces the model name of events: in the object that is their member `model_holder`, or in the event itself
    if that is None. `usage` writes the usage of the tail frame into `choices[0]` of the end frame; the tail frame is
    then dropped ("move") or kept ("copy"). An event is passed on when it is complete. The end frame and all events
    after it are held until it is known whether usage follows. Comments are passed on at once.
    """

    def __init__(
        self, model: str | None, usage: Literal["move", "copy"] | None, model_holder: str | None = None
    ) -> None:
        self._name = None if model is None else _ModelName(to_json(model), model_holder)
        self._splitter = SseParser()
        self._mover = None if usage is None else _UsageMover(keeps_tail=usage == "copy")

    def passes(self, piece: bytes) -> bool:
        """Return whether the next bytes are complete events without an edit, which pass on as they are."""
        return (
            self._name is None
            and ends_event(piece)
            and self._splitter.is_at_start()
            and not self._may_move_usage(piece)
        )

    def passing(self) -> Callable[[bytes], bool] | None:
        """Return what does the same as `passes` until other bytes are fed; None where nothing passes."""
        return self.passes if self._name is None and self._splitter.is_at_start() else None

    def feed(self, piece: bytes) -> bytes:
        """Add the next bytes of the stream. Return the bytes to pass on."""
        if self.passes(piece):
            return piece
        if self._name is not None and self._splitter.is_between_events() and not self._may_move_usage(piece):
            events = plain_events(piece)
            if events is not None:
                return self._name.write(events)
        return b"".join([self._edited(part) for part in self._splitter.feed(piece)])

    def _may_move_usage(self, piece: bytes) -> bool:
        """Return whether an end frame is held, or may be in a piece, as in few pieces."""
        mover = self._mover
        return mover is not None and (mover.end_frame is not None or _MAY_FINISH.search(piece) is not None)

    def held_bytes(self) -> int:
        """Return the number of bytes of the incomplete event that is held."""
        return self._splitter.held_bytes()

    def release(self) -> bytes:
        """Return the complete events that were held because usage could follow. An incomplete event stays held."""
        return b"" if self._mover is None else self._mover.end()

    def flush(self) -> bytes:
        """Return the held bytes at the end of the stream. A last event without its blank line is edited too."""
        left = self._splitter.flush()
        return self.release() if left is None else self._edited(left) + self.release()

    def _edited(self, part: SsePart) -> bytes:
        """Edit the next part of the stream. Return the bytes to pass on, held ones included."""
        mover = self._mover
        if part.kind == "event":
            event = part.data if self._name is None else self._name.write_into(part.data)
            return event if mover is None else mover.take(event)
        if part.kind == "fragment" and mover is not None:
            return mover.give_up() + part.data
        return part.data


class _ModelName:
    """The model name, in JSON, that events get: themselves, or the object in their member `holder`."""

    def __init__(self, name: bytes, holder: str | None) -> None:
        self._name = name
        self._holder = holder
        self._level = model_level(name, holder)

    def write(self, events: list[PlainEvent]) -> bytes:
        """Return events with the name, where they have one."""
        level = self._level
        written = []
        for event in events:
            beginning, payload = event
            try:
                written.append(b"%b%b\n\n" % (beginning, edit_object(payload, level)))
            except NotCompactError:
                written.append(self.write_into(event.whole()))
        return written[0] if len(written) == 1 else b"".join(written)

    def write_into(self, event: bytes) -> bytes:
        """Return an event of any form with the name."""
        data = EventData(event)
        strings = model_strings(data.payload, self._holder)
        return data.spliced(Splice(string.start, string.end, self._name) for string in strings) if strings else event


class _UsageMover:
    """Holds the end frame until its usage is known: the tail frame's, else its own."""

    def __init__(self, *, keeps_tail: bool) -> None:
        self._keeps_tail = keeps_tail
        self.end_frame: bytes | None = None
        """The event that is held."""
        self._behind: list[bytes] = []
        self._length = 0

    def take(self, event: bytes) -> bytes:
        """Add the next event. Return the bytes to pass on."""
        if self.end_frame is None:
            return self._begin(event)
        data = EventData(event)
        frame = read_object(data.payload)
        if data.payload.strip() == _END_OF_STREAM or _is_error(frame):
            return self.end() + event
        if not _is_without_content(frame):
            return self.give_up() + self._begin(event)
        if isinstance(frame.get("usage"), dict):
            tail = event if self._keeps_tail else b""
            return self._let_go(_with_usage(self.end_frame, data.payload)) + tail
        self._behind.append(event)
        self._length += len(event)
        return b"" if self._length <= MAX_EVENT_BYTES else self.give_up()

    def end(self) -> bytes:
        """Return the held bytes when no tail frame follows. Usage in the end frame itself goes into its choice."""
        if self.end_frame is None:
            return b""
        payload = EventData(self.end_frame).payload
        if not isinstance(read_object(payload).get("usage"), dict):
            return self.give_up()
        return self._let_go(_with_usage(self.end_frame, payload))

    def give_up(self) -> bytes:
        """Return the held bytes unchanged: it was not the end frame, or this cannot be determined."""
        return b"" if self.end_frame is None else self._let_go(self.end_frame)

    def _begin(self, event: bytes) -> bytes:
        if not _MAY_FINISH.search(event) or not _finishes(read_object(EventData(event).payload)):
            return event
        self.end_frame = event
        self._length = len(event)
        return b""

    def _let_go(self, end_frame: bytes) -> bytes:
        leaving = b"".join([end_frame, *self._behind])
        self.end_frame = None
        self._behind = []
        return leaving


def _finishes(frame: dict[str, Any]) -> bool:
    choices = frame.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict) or _is_error(frame):
        return False
    return any(isinstance(choice, dict) and choice.get("finish_reason") for choice in choices)


def _is_without_content(frame: dict[str, Any]) -> bool:
    """Return whether a frame has no choice or only empty ones: engines report usage in any of these."""
    choices = frame.get("choices")
    return not choices or (isinstance(choices, list) and all(map(_is_empty_choice, choices)))


def _is_empty_choice(choice: object) -> bool:
    if not isinstance(choice, dict):
        return False
    delta = choice.get("delta") or {}
    if not isinstance(delta, dict) or any(value for name, value in delta.items() if name != "role"):
        return False
    return not any(value for name, value in choice.items() if name not in {"index", "delta"})


def _is_error(frame: dict[str, Any]) -> bool:
    return bool(frame.get("error")) or frame.get("object") == "error"


def _usage_of(payload: bytes) -> bytes:
    # Line ends in JSON are space between tokens; in an event's data they would end the line.
    return _last(find_members(payload, most=MAX_MEMBERS), "usage").raw(payload).replace(b"\n", b" ")


def _with_usage(end_frame: bytes, payload: bytes) -> bytes:
    """Return the end frame with the usage of a payload in its first choice; unchanged beyond MAX_MEMBERS."""
    events = plain_events(end_frame)
    if events is not None and len(events) == 1:
        with suppress(NotCompactError):
            level = Level(arrays={"choices": Level(_set_usage(raw_members(payload)["usage"]), first_item_only=True)})
            return events[0]._replace(payload=edit_object(events[0].payload, level)).whole()
    try:
        return _with_value(EventData(end_frame), _usage_of(payload))
    except TooManyMembersError:
        return end_frame


def _set_usage(usage: msgspec.Raw) -> ObjectEdit:
    def set_usage(choice: RawObject) -> bool:
        choice["usage"] = usage
        return True

    return set_usage


def _with_value(data: EventData, usage: bytes) -> bytes:
    payload = data.payload
    start = payload.index(b"{", _last(find_members(payload, most=MAX_MEMBERS), "choices").start)
    end = end_of_value(payload, start)
    members = find_members(payload, start, end, MAX_MEMBERS)
    standing = [Splice(member.start, member.end, usage) for member in members if member.key == "usage"]
    closing = end - 1
    separator = b"," if members else b""
    return data.spliced(standing or [Splice(closing, closing, separator + b'"usage":' + usage)])


def _last(members: list[Member], key: str) -> Member:
    return [member for member in members if member.key == key][-1]
