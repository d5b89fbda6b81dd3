"""Clients that send large bodies again and again: `python -m tests.bench.peers.uploads PORT CLIENTS BYTES MODEL`.

One thread, at BYTES_A_SECOND together, as a network has a rate: as fast as they can, they would take a core of the two.
It says "sent N" whenever a body has gone out whole, until it is ended; what comes back is read and dropped.
"""

import selectors
import socket
import sys
import time
from typing import Final

from tests.bench.peers.bodies import MODEL, ROUTE, for_model

BYTES_A_SECOND: Final = 200_000_000
_PIECE: Final = 1 << 18
_BURST: Final = 0.01
"""Seconds of the rate that may be made up for."""


def request_of(size: int, model: str) -> bytes:
    """Return a chat request with one text, of about so many bytes."""
    frame = b'{"model": "%b", "messages": [{"role": "user", "content": "%b"}]}'
    body = for_model(frame % (MODEL.encode(), b"What is it? " * (size // 12)), model)
    fields = f"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
    return f"POST {ROUTE} HTTP/1.1\r\n{fields}\r\n\r\n".encode() + body


def send(port: int, clients: int, request: memoryview) -> None:
    """Send a request from so many clients at once; each connects again when it was answered or cut."""
    sent: dict[socket.socket, int] = {}
    whole, is_due = 0, time.monotonic()
    with selectors.DefaultSelector() as selector:
        while True:
            while len(sent) < clients:
                client = socket.create_connection(("127.0.0.1", port))
                client.setblocking(False)
                sent[client] = 0
                selector.register(client, selectors.EVENT_READ | selectors.EVENT_WRITE)
            for key, events in selector.select():
                client = key.fileobj
                is_open = not events & selectors.EVENT_READ or _drained(client)
                if is_open and events & selectors.EVENT_WRITE:
                    time.sleep(max(0.0, is_due - time.monotonic()))
                    before = sent[client]
                    is_open = _sent_more(client, request, sent)
                    is_due = max(is_due, time.monotonic() - _BURST) + (sent[client] - before) / BYTES_A_SECOND
                    if is_open and sent[client] == len(request):
                        selector.modify(client, selectors.EVENT_READ)
                        whole += 1
                        print("sent", whole, flush=True)
                if not is_open:
                    selector.unregister(client)
                    del sent[client]
                    client.close()


def _drained(client: socket.socket) -> bool:
    try:
        return bool(client.recv(_PIECE))
    except BlockingIOError:
        return True
    except OSError:
        return False


def _sent_more(client: socket.socket, request: memoryview, sent: dict[socket.socket, int]) -> bool:
    try:
        sent[client] += client.send(request[sent[client] : sent[client] + _PIECE])
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True


if __name__ == "__main__":
    send(int(sys.argv[1]), int(sys.argv[2]), memoryview(request_of(int(sys.argv[3]), sys.argv[4])))
