"""Reading requests off a connection, and the record of them."""

import json
import re
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any, Final

LINE_LIMIT: Final = 64 * 1024
"""Longest request or header line in bytes."""

SECRET_HEADERS: Final = frozenset({"authorization", "x-api-key", "api-key", "cookie"})
REQUEST_LINE: Final = re.compile(r"(?P<method>[^ ]+) (?P<target>[^ ]+) (?P<version>HTTP/1\.[0-9])\r?\n")
CHUNK_SIZE: Final = re.compile(rb"([0-9a-fA-F]{1,16})[ \t]*(?:;[^\r\n]*)?\r?\n")


class MalformedRequestError(Exception):
    """The bytes on the connection are not an HTTP/1 request."""


class IncompleteBodyError(Exception):
    """The connection ended inside a body; `read` is what came of it."""

    def __init__(self, read: bytes) -> None:
        super().__init__("the connection ended inside a body")
        self.read = read


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """A request's line and header fields: pairs in wire order and spelling, left out of `repr` as they carry keys."""

    method: str
    target: str
    version: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)

    @property
    def path(self) -> str:
        """The target without its query string."""
        return self.target.partition("?")[0]

    def values(self, name: str) -> list[str]:
        """Return the values of every field of that name, in any letter case."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def has_token(self, name: str, token: str) -> bool:
        """Say whether a comma-separated field holds a token, in any letter case."""
        return any(token == part.strip().lower() for value in self.values(name) for part in value.split(","))

    @property
    def keeps_connection(self) -> bool:
        """Whether the client means to send another request on the same connection."""
        if self.version == "HTTP/1.0":
            return self.has_token("Connection", "keep-alive")
        return not self.has_token("Connection", "close")


@dataclass(frozen=True, slots=True)
class ReceivedRequest(RequestHeaders):
    """One request as it came over the wire.

    body: decoded from chunks, if it came so, and nothing else.
    connection: the number of the connection it came on, counted from 1 for the life of the engine.
    peer_port: the TCP port of the client's end.
    complete: False if the connection ended inside the body, or if the engine answered before reading it.
    """

    body: bytes
    connection: int
    peer_port: int
    complete: bool = True

    def json(self) -> Any:  # noqa: ANN401  # a JSON document has no narrower type
        """Return the body read as JSON, the last of equal keys winning, as engines read it."""
        return json.loads(self.body)

    def shown(self) -> dict[str, Any]:
        """Return it as plain JSON values that may be printed: text for bytes, the values of secret fields hidden."""
        headers = [(name, "(hidden)" if name.lower() in SECRET_HEADERS else value) for name, value in self.headers]
        body = self.body.decode("utf-8", "backslashreplace")
        return {"method": self.method, "target": self.target, "headers": headers, "body": body}


def read_headers(reader: BufferedReader) -> RequestHeaders | None:
    """Read a request's head; None if the connection ended instead."""
    line = reader.readline(LINE_LIMIT)
    if not line.endswith(b"\n"):
        return None
    match = REQUEST_LINE.fullmatch(line.decode("latin-1"))
    if match is None:
        raise MalformedRequestError("not a request line")
    headers: list[tuple[str, str]] = []
    while (line := reader.readline(LINE_LIMIT)) not in (b"\r\n", b"\n"):
        if not line.endswith(b"\n"):
            return None
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon:
            raise MalformedRequestError("a header line without a colon")
        headers.append((name, value.strip(" \t\r\n")))
    return RequestHeaders(match["method"], match["target"], match["version"], tuple(headers))


def read_body(reader: BufferedReader, request: RequestHeaders) -> bytes:
    """Read a request's body, decoded from chunks if it comes in chunks."""
    if request.has_token("Transfer-Encoding", "chunked"):
        return _read_chunks(reader)
    lengths = request.values("Content-Length")
    if not lengths:
        return b""
    if not (lengths[0].isascii() and lengths[0].isdigit()):
        raise MalformedRequestError("not a content length")
    return _read_exactly(reader, int(lengths[0]))


def _read_exactly(reader: BufferedReader, size: int) -> bytes:
    data = reader.read(size)
    if len(data) < size:
        raise IncompleteBodyError(data)
    return data


def _read_chunks(reader: BufferedReader) -> bytes:
    chunks: list[bytes] = []
    try:
        while size := _chunk_size(reader):
            chunks.append(_read_exactly(reader, size))
            if _read_exactly(reader, 2) != b"\r\n":
                raise MalformedRequestError("a chunk longer than its size")
        _skip_trailers(reader)
    except IncompleteBodyError as cut:
        raise IncompleteBodyError(b"".join([*chunks, cut.read])) from None
    return b"".join(chunks)


def _chunk_size(reader: BufferedReader) -> int:
    line = reader.readline(LINE_LIMIT)
    if not line.endswith(b"\n"):
        raise IncompleteBodyError(b"")
    match = CHUNK_SIZE.fullmatch(line)
    if match is None:
        raise MalformedRequestError("not a chunk size")
    return int(match[1], 16)


def _skip_trailers(reader: BufferedReader) -> None:
    while (line := reader.readline(LINE_LIMIT)) not in (b"\r\n", b"\n"):
        if not line.endswith(b"\n"):
            raise IncompleteBodyError(b"")
