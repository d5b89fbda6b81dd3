"""Exchanges as JSON Lines, written as they happen. A later run resumes or evaluates them. They hold no API keys.

The first line names the kind of file, the target and the time of the start. Each other line is one exchange, under the
key of its request.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from compiler.diagnostics import CommandError, quoted_path
from compiler.verify.assertion import EndpointResponse
from compiler.verify.check import ChatRequest

FORMAT_VERSION: Final = 1
"""The version of the lines that this module writes."""

_HEAD: Final = '{"profilec": '
"""The start of the first line."""

_LONGEST_REQUEST: Final = 4096
"""Longest request body in bytes that is recorded whole."""


class RecordError(CommandError):
    """A record cannot be read or written; the message is one line."""


class RecordHeader(NamedTuple):
    """The header of a record; a member that is missing is None.

    target: the address or a description of the endpoint. begun: the time of the start, as ISO 8601 in UTC.
    """

    target: str | None = None
    begun: str | None = None


NOTHING_SAID: Final = RecordHeader()
"""The warning about a record that holds only responses and no engine requests."""


class Record:
    """A file of exchanges to which new ones are added."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def add(self, request: ChatRequest, response: EndpointResponse) -> None:
        """Append an exchange immediately, so that an interrupted run can be resumed."""
        self._file.write(f"{json.dumps(_line(request, response))}\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def open_record(path: str, header: RecordHeader = NOTHING_SAID) -> tuple[Record, dict[str, EndpointResponse]]:
    """Open a record for appending and return it with the exchanges in it. Write the header if the record is new.

    Raises RecordError, also if the record holds the responses of another target.
    """
    known = read_record(path) if Path(path).exists() else {}
    before = record_header(path).target if known else None
    if None not in {before, header.target} and before != header.target:
        raise RecordError(
            f"{quoted_path(path)}: holds the responses of {before}: name another file for {header.target}"
        )
    try:
        _cut_broken_line(Path(path))
        file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 - closed by the record
    except OSError as error:
        raise RecordError(f"{quoted_path(path)}: cannot be written: {error.strerror}") from error
    if not known:
        said = {name: value for name, value in header._asdict().items() if value is not None}
        file.write(f"{json.dumps({'profilec': 'verify', 'format_version': FORMAT_VERSION, **said})}\n")
        file.flush()
    return Record(file), known


def _cut_broken_line(path: Path) -> None:
    """Remove the incomplete last line of an interrupted run."""
    data = path.read_bytes() if path.exists() else b""
    if data and not data.endswith(b"\n"):
        os.truncate(path, data.rfind(b"\n") + 1)


def read_record(path: str) -> dict[str, EndpointResponse]:
    """Return the responses of a record by the keys of their requests. Raises RecordError."""
    return dict(_answers(_lines(path), path))


def recorded_responses(path: str) -> dict[str, EndpointResponse]:
    """Return the responses of a record that replaces an endpoint. Raises RecordError, also if there are none."""
    known = read_record(path)
    if not known:
        raise RecordError(
            f"{quoted_path(path)}: holds no responses, so nothing can be checked: name a file that --record wrote"
        )
    return known


def record_header(path: str) -> RecordHeader:
    """Return the header of a record. A record that was started twice has two; the last one counts.

    Raises RecordError.
    """
    heads = [line for line in _lines(path) if line.startswith(_HEAD) and line.endswith("}")]
    said = json.loads(heads[-1]) if heads else {}
    return RecordHeader(said.get("target"), said.get("begun"))


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise RecordError(
            f"{quoted_path(path)}: cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error


def _answers(lines: list[str], path: str) -> Iterator[tuple[str, EndpointResponse]]:
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line)
        except ValueError as error:
            if 1 < number == len(lines):
                return  # The run was broken off within it.
            raise _no_record(path, number, "is no JSON") from error
        if not isinstance(value, dict) or ("profilec" not in value and not _EXCHANGE.items() <= _kinds(value).items()):
            raise _no_record(path, number, "is no exchange, which has a key, a status, a content_type and a response")
        if "key" in value and value.get("failure") is None:
            yield value["key"], _answer(value)


_EXCHANGE: Final = {"key": str, "status": int, "content_type": str, "answer": str}


def _kinds(value: dict[str, Any]) -> dict[str, type]:
    return {name: type(member) for name, member in value.items()}


def _no_record(path: str, number: int, found: str) -> RecordError:
    return RecordError(
        f"{quoted_path(path)}:{number}: {found}: this is no record of profilec verify or probe; "
        "name a file that --record has written"
    )


def _line(request: ChatRequest, response: EndpointResponse) -> dict[str, Any]:
    sent = request.body()
    line: dict[str, Any] = {"key": request.key(), "status": response.status, "content_type": response.content_type}
    line["request"] = _text(sent) if len(sent) <= _LONGEST_REQUEST else None
    line["answer"] = _text(response.body)
    if response.failure is not None:
        line["failure"] = response.failure
    if response.is_captured:
        line["is_captured"] = True
    if response.engine is not None:
        # If the engine received the body as it was sent, the record does not repeat it; it may be large.
        line["engine"] = None if response.engine == sent else _text(response.engine)
        line["is_engine_alike"] = response.engine == sent
        line["members"] = [list(member) for member in request.members] if response.engine == sent else None
        line["length"] = request.length
    return line


def _answer(value: dict[str, Any]) -> EndpointResponse:
    engine = value.get("engine")
    got = None if engine is None else _bytes(engine)
    if value.get("is_engine_alike"):
        members = tuple((name, text) for name, text in value["members"])
        got = ChatRequest(members, value["length"]).body()
    return EndpointResponse(
        value["status"], value["content_type"], _bytes(value["answer"]), got, value.get("is_captured", False)
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
