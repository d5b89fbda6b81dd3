"""The least that a server in Python can do with a request: what connecting and TLS cost by themselves.

`python -m tests.bench.peers.bare PORT [CERTIFICATE KEY]` answers every POST with one fixed completion, from one thread.
It reads no body, keeps connections unless the request says otherwise, and has no engine.
"""

import selectors
import socket
import ssl
import sys
from typing import Final

_BODY: Final = b'{"choices": [{"message": {"role": "assistant", "content": "Hello from no engine of the bench."}}]}'
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % len(_BODY)
KEPT: Final = _HEAD + b"\r\n" + _BODY
CLOSED: Final = _HEAD + b"Connection: close\r\n\r\n" + _BODY
_ROOM: Final = 1 << 16


def is_whole(request: bytes) -> bool:
    """Return whether a request has come whole, with a length or in chunks."""
    head, blank, body = request.partition(b"\r\n\r\n")
    _, named, length = head.partition(b"Content-Length: ")
    if not named:
        return bool(blank) and body.endswith(b"0\r\n\r\n")
    return bool(blank) and len(body) >= int(length.split(b"\r\n", 1)[0])


def serve(port: int, context: ssl.SSLContext | None) -> None:
    """Serve until the process is ended."""
    listener = socket.create_server(("127.0.0.1", port), backlog=1024)
    listener.setblocking(False)
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        received: dict[socket.socket, bytes] = {}
        while True:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    client = _accepted(listener, context)
                    received[client] = b""
                    selector.register(client, selectors.EVENT_READ)
                elif not _is_kept(key.fileobj, received):
                    selector.unregister(key.fileobj)
                    del received[key.fileobj]
                    key.fileobj.close()


def _accepted(listener: socket.socket, context: ssl.SSLContext | None) -> socket.socket:
    client, _ = listener.accept()
    client.setblocking(False)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(client, server_side=True, do_handshake_on_connect=False) if context else client


def _is_kept(client: socket.socket, received: dict[socket.socket, bytes]) -> bool:
    """Read what has come, and answer once it is a whole request; return whether the connection stays open."""
    try:
        piece = client.recv(_ROOM)  # with TLS, its handshake comes first
    except (ssl.SSLWantReadError, BlockingIOError):
        return True
    except OSError:
        return False
    if not piece:
        return False
    received[client] += piece
    if not is_whole(received[client]):
        return True
    closes = b"\r\nConnection: close" in received[client]
    received[client] = b""
    client.sendall(CLOSED if closes else KEPT)
    return not closes


def _context(files: list[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    return context


if __name__ == "__main__":
    serve(int(sys.argv[1]), _context(sys.argv[2:]) if sys.argv[2:] else None)
