"""A client on a bare socket, for what HTTP libraries would not send or would hide."""

import json
import socket
import ssl
from typing import Any, NamedTuple, Self


class RawAnswer(NamedTuple):
    """An answer as it stood on the wire."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        """Return the only value of a header; fails when there are several."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(values) <= 1, values
        return values[0] if values else None


class RawClient:
    """One connection; sends exactly the bytes it is given."""

    def __init__(self, port: int | str, seconds: float = 20.0) -> None:
        """Connect to a port of this machine, or to a Unix socket by its path."""
        if isinstance(port, str):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(seconds)
            self.socket.connect(port)
        else:
            self.socket = socket.create_connection(("127.0.0.1", port), seconds)
        self._file = self.socket.makefile("rb")
        self.is_kept = False
        """For callers to note: has it carried an answer already, and may it carry another?"""

    def wrap(self, context: ssl.SSLContext) -> None:
        """Go on under TLS."""
        self._file.close()
        self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self._file = self.socket.makefile("rb")

    def send(self, data: bytes) -> Self:
        self.socket.sendall(data)
        return self

    def post(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> RawAnswer:
        """Send a whole POST and return its answer."""
        self.send(post_head(path, {"Content-Length": str(len(body)), **(headers or {})}) + body)
        return self.answer()

    def answer(self) -> RawAnswer:
        """Read one whole answer, which may be chunked, counted, or end with the connection."""
        status, headers = self.head()
        return RawAnswer(status, headers, b"" if status < 200 or status in (204, 304) else self.body_behind(headers))

    def body_behind(self, headers: list[tuple[str, str]]) -> bytes:
        """Read the body that follows these headers of an answer."""
        fields = {name.lower(): value for name, value in headers}
        if fields.get("transfer-encoding") == "chunked":
            return b"".join(iter(self.chunk, b""))
        if "content-length" in fields:
            return self._exactly(int(fields["content-length"]))
        return self._file.read()

    def get(self, path: str, headers: dict[str, str] | None = None) -> RawAnswer:
        """Send a GET and return its answer."""
        self.send(head_of("GET", path, headers or {}))
        return self.answer()

    def head(self) -> tuple[int, list[tuple[str, str]]]:
        """Read a status line and headers."""
        line = self._file.readline()
        if not line:
            raise EOFError("the connection ended before a status line")
        status = int(line.split(b" ", 2)[1])
        headers = []
        while (line := self._file.readline().rstrip(b"\r\n")) != b"":
            name, _, value = line.decode("latin-1").partition(":")
            headers.append((name, value.strip()))
        return status, headers

    def chunk(self) -> bytes:
        """Read one chunk of a chunked body; b"" is the last. Raises EOFError when the body is cut."""
        size = self._file.readline()
        if not size.endswith(b"\r\n"):
            raise EOFError("the chunked body was cut")
        data = self._exactly(int(size, 16))
        self._exactly(2)
        return data

    def at_end(self) -> bool:
        """Wait for the other side to close and tell whether nothing came before."""
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, length: int) -> bytes:
        data = self._file.read(length)
        if len(data) < length:
            raise EOFError(f"{len(data)} of {length} bytes came")
        return data

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def post_head(path: str, headers: dict[str, str]) -> bytes:
    """Return the head of a POST with a Host and a JSON Content-Type."""
    return head_of("POST", path, {"Content-Type": "application/json", **headers})


def head_of(method: str, target: str, headers: dict[str, str]) -> bytes:
    """Return the head of a request with a Host."""
    fields = {"Host": "127.0.0.1", **headers}
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def chunked(*pieces: bytes) -> bytes:
    """Return a whole chunked body, one chunk a piece."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
