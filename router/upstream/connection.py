"""One connection to an engine; all waits end when the client disconnects or a timeout passes."""

import contextlib
import errno
import fcntl
import os
import re
import select
import socket
import ssl
import struct
import termios
import time
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from router.runtime import event_loop
from router.upstream.errors import connect_error
from router.upstream.poller import Poller

READ_BYTES: Final = 64 * 1024
"""Size of one read, and the longest body that is written together with its headers."""

_INTERIM: Final = b"HTTP/1.1 1"
"""The beginning of the status line of an interim response, up to the class of its status."""
_INTERIM_PREFIXES: Final = frozenset(_INTERIM[:length] for length in range(len(_INTERIM) + 1))
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_RESET_TIMEOUT_SECONDS: Final = 1.0
"""How long to wait for the reset that follows when a request arrives at a closed connection."""
_COUNT: Final = struct.Struct("=Q")
_EMPTY_QUEUE: Final = bytes(struct.calcsize("i"))
"""A C int of 0: the system reports no unacknowledged bytes (SIOCOUTQ, tcp(7))."""
_REQUEST_TIMEOUT = re.compile(rb"HTTP/1\.[01] 408")
"""A response that some servers send before they close an idle connection (RFC 9110, section 15.5.9)."""
_BYTES_ACKED_OFFSET: Final = 120
"""The offset of `tcpi_bytes_acked` in Linux's `struct tcp_info`."""


class ReceiveError(Exception):
    """Receiving failed; the cause is the system's error."""


class Endpoint(NamedTuple):
    """Where an engine listens, and its name in a Host header."""

    scheme: str
    host: str
    port: int
    authority: str

    @classmethod
    def of(cls, url: str) -> "Endpoint":
        """Return the endpoint of a base URL that the settings have validated."""
        parts = urlsplit(url)
        return cls(parts.scheme, parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme], parts.netloc)

    def address_family(self) -> int | None:
        """Return the address family of the host; None for a name, which has to be resolved."""
        for family in (socket.AF_INET, socket.AF_INET6):
            with contextlib.suppress(OSError):
                socket.inet_pton(family, self.host)
                return family
        return None


class UpstreamConnection:
    """A socket to an engine, used for one request at a time."""

    __slots__ = (
        "_acked_before",
        "_early_bytes",
        "_idle_poll",
        "_is_tls",
        "_socket",
        "_was_reset",
        "endpoint",
        "fd",
        "idle_since",
        "is_reused",
    )

    def __init__(self, endpoint: Endpoint, connected: socket.socket) -> None:
        connected.setblocking(False)
        self.endpoint = endpoint
        self.fd = connected.fileno()
        self.idle_since = 0.0
        self.is_reused = False
        self._acked_before = 0
        self._idle_poll: select.poll | None = None
        self._was_reset = False
        self._early_bytes = b""
        self._socket = connected
        self._is_tls = isinstance(connected, ssl.SSLSocket)

    @classmethod
    def open(cls, endpoint: Endpoint, seconds: float, context: ssl.SSLContext | None) -> "UpstreamConnection":
        """Connect, with TLS where a context is given, `seconds` for each. Raises EngineError: nothing was sent."""
        try:
            plain = socket.create_connection((endpoint.host, endpoint.port), seconds)
        except OSError as error:
            raise connect_error(error) from error
        event_loop.invalidate_fd(plain.fileno())
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is None:
                return cls(endpoint, plain)
            return cls(endpoint, context.wrap_socket(plain, server_hostname=endpoint.host))
        except OSError as error:
            plain.close()
            raise connect_error(error) from error

    @classmethod
    def open_nonblocking(cls, endpoint: Endpoint, family: int, seconds: float) -> "UpstreamConnection":
        """Connect in the clear to an endpoint whose host is an address, as a task. Raises as `open` does."""
        try:
            connecting = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # no descriptor is left
            raise connect_error(error) from error
        event_loop.invalidate_fd(connecting.fileno())
        try:
            connecting.setblocking(False)
            connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _connect(connecting, endpoint, seconds)
        except OSError as error:
            event_loop.release_fd(connecting.fileno())
            connecting.close()
            raise connect_error(error) from error
        return cls(endpoint, connecting)

    def is_stale(self) -> bool:
        """Return whether the engine closed this idle connection or sent unsolicited bytes."""
        if self._idle_poll is None:
            self._idle_poll = select.poll()
            self._idle_poll.register(self.fd, select.POLLIN)
        return bool(self._idle_poll.poll(0))

    def holds_unsolicited(self) -> bool:
        """Return whether a stale idle connection received more than its end; it cannot be used afterwards."""
        try:
            chunk = self._socket.recv(READ_BYTES)
        except OSError:  # a reset, or a record of TLS itself
            return False
        return bool(chunk) and not _REQUEST_TIMEOUT.match(chunk)

    def has_unacknowledged(self) -> bool:
        """Return whether sent bytes are still unacknowledged by the engine's system; False where that is unknown.

        What an engine sends after it has read a request carries TCP's acknowledgement of the whole request.
        """
        try:
            return fcntl.ioctl(self.fd, termios.TIOCOUTQ, _EMPTY_QUEUE) != _EMPTY_QUEUE
        except OSError:
            return False

    def send(self, head: bytes, body: bytes, poller: Poller, seconds: float) -> bool:
        """Send a request; False when the engine began to respond before it had read all.

        Raises TimeoutError when the engine reads nothing for `seconds`, OSError when the connection breaks,
        ClientDisconnectedError.
        """
        if self.is_reused:
            self._acked_before = _bytes_acked(self._socket)
        if len(body) > READ_BYTES:
            return self._send_all(head, poller, seconds) and self._send_all(body, poller, seconds)
        data = head + body
        try:
            sent = self._socket.send(data)
        except ConnectionResetError:
            self._was_reset = True
            raise
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            sent = 0
        return sent == len(data) or self._send_all(memoryview(data)[sent:], poller, seconds)

    def _send_all(self, data: bytes | memoryview, poller: Poller, seconds: float) -> bool:
        left = memoryview(data)
        # Under TLS there is nearly always something to read that is no response.
        wanted = select.POLLOUT if self._is_tls else select.POLLOUT | select.POLLIN
        end = time.monotonic() + seconds
        while True:
            try:
                left = left[self._socket.send(left) :]
                if not left:
                    return True
                end = time.monotonic() + seconds
                continue
            except ConnectionResetError:
                self._was_reset = True
                raise
            except (BlockingIOError, ssl.SSLWantWriteError):
                happened = self._wait_until(end, wanted, poller)
            except ssl.SSLWantReadError:
                happened = self._wait_until(end, select.POLLIN, poller)
            if happened & select.POLLIN and not self._is_tls and self._is_responding():
                return False

    def _wait_until(self, end: float, wanted: int, poller: Poller) -> int:
        seconds = end - time.monotonic()
        if seconds <= 0:  # poll reports no timeout while there is something to read
            raise TimeoutError
        return poller.wait(self.fd, wanted, seconds)

    def _is_responding(self) -> bool:
        """Receive early bytes; return whether they are more than interim responses, after which an engine reads on."""
        try:
            chunk = self._socket.recv(READ_BYTES)
        except ConnectionResetError:
            self._was_reset = True  # the system reports it once
            return True
        except OSError:
            return True
        self._early_bytes += chunk
        is_too_much = len(self._early_bytes) > READ_BYTES
        return (
            not chunk
            or is_too_much
            or _skip_interim_responses(self._early_bytes)[: len(_INTERIM)] not in _INTERIM_PREFIXES
        )

    def receive(self, poller: Poller, seconds: float) -> bytes | None:
        """Return the next bytes, b"" at the end; None when the client should be written to first.

        Raises TimeoutError after `seconds` of silence, OSError when the connection breaks, ClientDisconnectedError.
        """
        if self._early_bytes:
            early, self._early_bytes = self._early_bytes, b""
            return early
        deadline = time.monotonic() + seconds
        if not (self._is_tls and self._has_decrypted()) and not poller.wait(self.fd, select.POLLIN, seconds):
            return None
        while True:
            try:
                return self._socket.recv(READ_BYTES)
            except ConnectionResetError:
                self._was_reset = True
                raise
            except (BlockingIOError, ssl.SSLWantReadError):
                if not poller.wait(self.fd, select.POLLIN, deadline - time.monotonic()):
                    return None

    def is_plain(self) -> bool:
        """Return whether all that is received comes from the socket as it is: no TLS, and nothing came too early."""
        return not (self._is_tls or self._early_bytes)

    def receive_available(self) -> bytes | None:
        """Return what has arrived on a plain connection, b"" at the end, None if nothing has. Raises ReceiveError."""
        try:
            return self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            self._was_reset = self._was_reset or isinstance(error, ConnectionResetError)
            raise ReceiveError from error

    def _has_decrypted(self) -> bool:
        """Return whether bytes wait inside the TLS layer, where poll does not see them.

        For other bytes the task waits even if they are there: a fast engine must not keep the event loop.
        """
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def was_stale(self) -> bool:
        """Return whether the engine had closed this reused connection before the request arrived.

        That is so when its end came before a reset, and the engine's system never acknowledged a byte of the request.
        An engine that received it and then died acknowledges it with its end, or resets at once (and a reset
        acknowledges nothing). Where the system has no such counts, the engine may have received it.
        """
        if (
            not self.is_reused
            or self._was_reset
            or not self._acked_before
            or _bytes_acked(self._socket) != self._acked_before
        ):
            return False
        is_gone = bool(event_loop.poll_fds({self.fd: 0}, _RESET_TIMEOUT_SECONDS))
        return is_gone and _bytes_acked(self._socket) == self._acked_before

    def close(self) -> None:
        """Close the connection at once."""
        event_loop.release_fd(self.fd)
        with contextlib.suppress(OSError):
            self._socket.close()


def _connect(connecting: socket.socket, endpoint: Endpoint, seconds: float) -> None:
    """Connect a socket that does not block. Raises OSError."""
    failure = connecting.connect_ex((endpoint.host, endpoint.port))
    if failure == errno.EINPROGRESS:
        if not event_loop.poll_fds({connecting.fileno(): select.POLLOUT}, seconds):
            raise TimeoutError("timed out")
        failure = connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if failure:
        raise OSError(failure, os.strerror(failure))


def _skip_interim_responses(data: bytes) -> bytes:
    while data.startswith(_INTERIM):
        _, end, rest = data.partition(b"\r\n\r\n")
        if not end:
            return b""
        data = rest
    return data


def _bytes_acked(connected: socket.socket) -> int:
    """Return how many bytes the peer's system has acknowledged on this connection; 0 where that is unknown."""
    try:
        info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_ACKED_OFFSET + 8)
    except (OSError, AttributeError):
        return 0
    return int(_COUNT.unpack_from(info, _BYTES_ACKED_OFFSET)[0]) if len(info) >= _BYTES_ACKED_OFFSET + 8 else 0
