"""An engine on bare sockets, for connections that end at moments which a whole server would not choose."""

import json
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

RESET = struct.pack("ii", 1, 0)  # SO_LINGER, zero seconds: closing sends a reset
MODELS = json.dumps({"data": [{"id": "served"}]}).encode()


def reset(connection: socket.socket) -> None:
    """Close a connection with a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    connection.close()


def ok(body: bytes = b"{}") -> bytes:
    """Return a whole answer that keeps its connection."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def read_request(connection: socket.socket) -> tuple[bytes, bytes] | None:
    """Read one whole request and return its head and body; None when the connection ended instead."""
    data = b""
    with suppress(OSError):
        while piece := connection.recv(1 << 20):
            data += piece
            head, end, body = data.partition(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            if end and len(body) >= int(length or 0):
                return head, body
    return None


class RawEngine:
    """Answers probes, and gives each connection that brings anything else to `serve`, unread."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._begin, args=(connection,), daemon=True).start()

    def _begin(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, suppress(OSError):
            while connection.recv(3, socket.MSG_PEEK) == b"GET" and read_request(connection):
                connection.sendall(ok(MODELS))
            self._serve(connection)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
