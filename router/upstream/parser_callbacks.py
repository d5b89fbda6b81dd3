"""What the HTTP parser of an engine's response calls: headers, interim responses, parts of the body, chunks."""

from http import HTTPStatus
from typing import Any, Final

import httptools

MAX_HEADER_BYTES: Final = 64 * 1024
MAX_HEADERS: Final = 100
MAX_INTERIM_RESPONSES: Final = 32
"""Most interim responses (1xx, RFC 9110, section 15.2) before the response."""


class _MalformedResponseError(Exception):
    """The response violates HTTP, or one of our limits."""


class ParserCallbacks:
    """The callbacks of the parser: collect headers, skip interim responses, keep the body until it is read."""

    status = 0
    has_headers = False
    is_complete = False
    is_in_chunk = False
    """Whether the size of a chunk was read, and not yet its end."""
    has_surplus = False
    """Whether more than one response arrived; the connection cannot be reused then."""
    has_surplus_bytes = False
    """Whether the surplus is bytes of the engine, and not an end of the connection or another protocol."""
    keep_alive = False
    """Whether the response allows the connection to be reused."""
    interim_responses = 0
    parser: Any
    """Refers back to this object: the reference has to be cleared in the end."""
    _header_bytes = 0

    def __init__(self) -> None:
        self.headers: list[tuple[str, str]] = []
        self.chunks: list[bytes] = []
        self.parser = httptools.HttpResponseParser(self)
        # A length beside chunks is overridden by them (RFC 9112, section 6.3).
        self.parser.set_dangerous_leniencies(lenient_chunked_length=True, lenient_headers=True)

    def on_message_begin(self) -> None:
        """Take the beginning of a response; a second one is a surplus."""
        self.has_surplus = self.has_surplus_bytes = self.is_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. Raises an error where there are too many."""
        if self.has_headers:  # a trailer
            return
        self._header_bytes += len(name) + len(value)
        if len(self.headers) >= MAX_HEADERS or self._header_bytes > MAX_HEADER_BYTES:
            raise _MalformedResponseError("too many headers")
        # White space before the colon is removed before a header is forwarded (RFC 9112, section 5.1).
        self.headers.append((name.rstrip(b" \t").decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Take the end of the headers, of an interim response too. Raises an error for too many of these."""
        status = self.status = self.parser.get_status_code()
        if status < HTTPStatus.CONTINUE:
            raise _MalformedResponseError("no status")
        if status < HTTPStatus.OK and status != HTTPStatus.SWITCHING_PROTOCOLS:
            self.interim_responses += 1
            if self.interim_responses > MAX_INTERIM_RESPONSES:
                raise _MalformedResponseError("too many interim responses")
            return
        self.has_headers = True

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if self.has_headers and not self.is_complete:
            self.chunks.append(body)

    def on_chunk_header(self) -> None:
        """Take the beginning of a chunk."""
        self.is_in_chunk = True

    def on_chunk_complete(self) -> None:
        """Take the end of a chunk."""
        self.is_in_chunk = False

    def on_message_complete(self) -> None:
        """Take the end of a response, or of an interim one."""
        if self.has_headers:
            self.is_complete = True
            self.keep_alive = self.parser.should_keep_alive()
        else:
            self.headers = []
