"""How soon an engine is let go of when its client leaves: `python -m tests.bench.leaving`.

A client closes its connection at a moment of its request, and the time is taken until the engine sees its own
connection close. Client and engine are threads of this process, so a busy machine shows in the figures.
"""

import argparse
import random
import select
import socket
import statistics
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from tests.router.rawclient import RawClient, post_head
from tests.router.rawengine import RawEngine, read_request
from tests.router.serving import running_router
from tests.router.wire.chat import CHAT, chat

STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"n":1}\n\n'
EVENT_MILLISECONDS = 5
PATIENCE_MILLISECONDS = 30_000


def flows(connection: socket.socket) -> None:
    """Stream an event every few milliseconds."""
    connection.sendall(STREAM_HEAD)
    while not _is_closed(connection, EVENT_MILLISECONDS):
        connection.sendall(b"%x\r\n%s\r\n" % (len(EVENT), EVENT))


def silent(connection: socket.socket) -> None:
    """Take the request and say nothing."""
    _is_closed(connection)


def silent_behind_head(connection: socket.socket) -> None:
    """Say the head of a stream and nothing more."""
    connection.sendall(STREAM_HEAD)
    _is_closed(connection)


def silent_behind_event(connection: socket.socket) -> None:
    """Say the first event of a stream and nothing more."""
    connection.sendall(STREAM_HEAD + b"%x\r\n%s\r\n" % (len(EVENT), EVENT))
    _is_closed(connection)


CASES: dict[str, tuple[Callable[[socket.socket], None], bool, int]] = {
    "in a stream that flows": (flows, True, 3),
    "in a stream that is silent behind its first event": (silent_behind_event, True, 1),
    "in the silence before a stream's head": (silent, True, 0),
    "in the silence behind a stream's head": (silent_behind_head, True, 0),
    "while a whole answer is waited for": (silent, False, 0),
}
"""What the engine does, whether a stream was asked for, and how many events the client reads before it leaves."""


def _is_closed(connection: socket.socket, milliseconds: float = PATIENCE_MILLISECONDS) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(milliseconds))


def measure(case: str, count: int) -> list[float]:
    """Return how many milliseconds it took, each time."""
    act, is_stream, events = CASES[case]
    begun: SimpleQueue[None] = SimpleQueue()
    closed: SimpleQueue[float] = SimpleQueue()

    def serve(connection: socket.socket) -> None:
        while read_request(connection) is not None:
            begun.put(None)
            try:
                act(connection)
            finally:
                closed.put(time.monotonic())

    chance = random.Random(1)
    found = []
    with RawEngine(serve) as engine, running_router(None, [engine.url]) as router:
        for _ in range(count):
            body = chat(stream=is_stream)
            client = RawClient(router.port)
            client.send(post_head(CHAT, {"Content-Length": str(len(body))}) + body)
            begun.get()
            if events:
                client.head()
            for _ in range(events):
                client.chunk()
            time.sleep(chance.uniform(0.005, 0.02))
            left = time.monotonic()
            client.close()
            found.append((closed.get() - left) * 1000)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="clients that leave at each moment")
    options = parser.parse_args(arguments)
    print("| the client leaves | median (ms) | p99 (ms) | max (ms) |\n|---|---|---|---|")
    for case in CASES:
        found = sorted(measure(case, options.count))
        p99 = found[int(len(found) * 0.99) - 1]
        print(f"| {case} | {statistics.median(found):.2f} | {p99:.2f} | {found[-1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
