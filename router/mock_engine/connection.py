"""One client connection of the mock engine: its socket, sending answers piece by piece, and its end."""

import socket
import struct
from threading import Event, Thread
from typing import Final

from router.mock_engine.response import ScriptedResponse

POLL_SECONDS: Final = 0.005
"""Seconds between looks at the peer while an answer pauses; a leaving client ends the pause."""

RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER, zero seconds: closing sends RST instead of FIN


class PeerGoneError(OSError):
    """The client left while an answer was pausing."""


class MockConnection:
    """A client's connection; only its own thread reads, sends and closes, any thread may end it."""

    def __init__(self, sock: socket.socket, number: int, peer_port: int) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = number
        self.peer_port = peer_port
        self.reader = sock.makefile("rb")
        self.thread: Thread | None = None
        self._socket = sock
        self._ended = False

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they stand."""
        self._socket.sendall(data)

    def send(self, reply: ScriptedResponse, *, headers_only: bool = False) -> bool:
        """Send an answer with its pauses; say whether the connection is kept after it."""
        for piece in reply.wire(headers_only=headers_only):
            if isinstance(piece, Event):
                self._pause(piece)
            else:
                self._socket.sendall(piece)
        if reply.ending == "reset":
            self.reset_on_close()
        return reply.ending == "keep"

    def _pause(self, gate: Event) -> None:
        while not gate.wait(POLL_SECONDS):
            if self._peer_left():
                raise PeerGoneError("the client left during a pause")

    def _peer_left(self) -> bool:
        if self._ended:
            return True
        try:
            return self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def reset_on_close(self) -> None:
        """Let closing send a reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    def end(self, *, reset: bool = False) -> None:
        """Wake the connection's thread out of whatever it reads or pauses for, so that it closes."""
        self._ended = True
        if reset:
            self.reset_on_close()
        try:
            # Shutting down only the reading half says nothing to the peer yet: the reset is all it will see.
            self._socket.shutdown(socket.SHUT_RD if reset else socket.SHUT_RDWR)
        except OSError:  # the peer was faster
            return

    def lingering_close(self) -> None:
        """Say goodbye and read on until the client leaves: closing over unread bytes would reset what was answered."""
        self._socket.shutdown(socket.SHUT_WR)
        while self.reader.read1():
            continue

    def close(self) -> None:
        """Close the socket."""
        self.reader.close()
        self._socket.close()
