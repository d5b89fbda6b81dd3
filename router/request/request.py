"""The request and the response writer: what the pipeline knows of HTTP. Servers implement them, WSGI among others.

A server makes a `Request` as soon as it has read the headers, and calls `serve(request, writer)` of the application.
When that returns, the response was sent whole. When it raises, the response was cut off or never began: the server then
closes the connection without the end of the response.
"""

from collections.abc import Callable
from typing import Final, Protocol

from router.contract.errors import request_too_large

Address = tuple[str, int]
"""A host as the socket names it, and a port."""
Headers = list[tuple[str, str]]
"""Header fields in their order; values are decoded as latin-1, without white space around them."""

_LAST_WINS: Final = "content-type"


class ClientConnection(Protocol):
    """The connection of a client, as far as one request needs it while an engine works."""

    fd: int
    """The descriptor of its socket; -1 when there is none to watch."""
    mask: int
    """The events to poll for; hang-up and error are always included."""
    response_started: bool
    """Whether the response has started: then only its own bytes may be written."""

    @property
    def peer(self) -> Address | None:
        """The client's address; None over a Unix socket."""

    @property
    def local(self) -> Address | None:
        """The address that the client connected to; None for a Unix socket."""

    @property
    def scheme(self) -> str:
        """`http` or `https`."""

    def set_send_timeout(self, seconds: float) -> None:
        """Set how long the client may take to read each piece of the response."""

    def on_event(self, events: int) -> bool:
        """Handle the events of the socket; return whether a few bytes of the response should be written.

        Raises ClientDisconnectedError.
        """


class RequestBody(Protocol):
    """The body of a request, read on demand."""

    def read(self, limit: int, timeout_seconds: float) -> bytes:
        """Return the whole body.

        Raises ApiError: `request_too_large` above `limit` bytes, `bad_request` for a body that ends early, is malformed
        or takes longer than `timeout_seconds`.
        """

    def drain(self, timeout_seconds: float) -> None:
        """Read and drop the unread rest for at most so long, after the response; else stop receiving."""


class WholeBody:
    """A body that was received whole; an empty one for a request without a body."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes = b"") -> None:
        self._data = data

    def read(self, limit: int, timeout_seconds: float) -> bytes:  # noqa: ARG002 - as RequestBody has it
        """Return it. Raises ApiError `request_too_large` above `limit` bytes."""
        if len(self._data) > limit:
            raise request_too_large(limit)
        return self._data

    def drain(self, timeout_seconds: float) -> None:
        """Do nothing: nothing is left to be read."""


class Request:
    """One request, after its headers were read."""

    __slots__ = ("_by_name", "body", "client", "headers", "keep_alive", "method", "path", "query", "target", "version")

    def __init__(  # noqa: PLR0913, PLR0917 - on the hot path
        self,
        method: str,
        target: str,
        headers: Headers,
        body: RequestBody,
        client: ClientConnection,
        version: tuple[int, int] = (1, 1),
        keep_alive: bool = True,
        by_name: dict[str, str] | None = None,
    ) -> None:
        """Make a request; `by_name` is what the method of this name returns, if the server knows it already."""
        self.method = method
        self.target = target
        """The request target as it was sent, decoded as latin-1."""
        self.path, _, self.query = target.partition("?")
        self.headers = headers
        """The header fields in the order in which they were sent, with names in lower case."""
        self.body = body
        self.client = client
        self.version = version
        self.keep_alive = keep_alive
        """Whether client and protocol allow the connection to carry another request."""
        self._by_name = by_name

    @property
    def peer(self) -> Address | None:
        """The client's address; None over a Unix socket."""
        return self.client.peer

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        return self.client.scheme

    def header(self, name: str) -> str | None:
        """Return the value of a header, None if it is missing; `name` is in lower case."""
        by_name = self._by_name
        if by_name is None:
            by_name = self.by_name()
        return by_name.get(name)

    def by_name(self) -> dict[str, str]:
        """Return the headers by name. Repeated ones are joined by a comma, as WSGI servers do.

        The last Content-Type wins: it has no list form.
        """
        if self._by_name is None:
            by_name = dict(self.headers)
            if len(by_name) != len(self.headers):
                by_name = _joined(self.headers)
            self._by_name = by_name
        return self._by_name

    def remove_header(self, name: str) -> None:
        """Remove a header, so that no later step sees it; `name` is in lower case."""
        if name in self.by_name():
            self.headers = [(key, value) for key, value in self.headers if key != name]
            self._by_name = None


class ResponseWriter(Protocol):
    """Writes one response to the client, with the framing and the headers that a server adds itself.

    Those are Server, Date, Connection, Content-Length and Transfer-Encoding: `headers` contain none of them, but
    `start` takes a Content-Length if the length of a stream is known. To HEAD no body is sent.
    All methods raise OSError when the client has left or takes nothing.
    """

    def send(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole response."""

    def start(self, status: int, headers: Headers) -> None:
        """Start a response whose body comes in pieces. Its headers may be held back until the first piece."""

    def write(self, piece: bytes) -> None:
        """Send the next piece of the body."""

    def chunk_sender(self) -> Callable[[bytes], object] | None:
        """Return what sends whole chunks with the framing of an engine, once the headers were sent.

        None where this response is not chunked, or its framing is another's: then `write` sends the content.
        """

    def end(self) -> None:
        """Send the end of the body. A response that never gets here was cut off, and the client sees that."""


def _joined(headers: Headers) -> dict[str, str]:
    by_name: dict[str, str] = {}
    for name, value in headers:
        by_name[name] = f"{by_name[name]},{value}" if name in by_name and name != _LAST_WINS else value
    return by_name
