"""A small engine in a process of its own: says the nonce of each request, and keeps a record that outlives a kill.

`python -m tests.bench.soak.engine PORT RECORD SEED`. Each request that was read whole is a line of RECORD, written
before anything else happens with it: `NONCE TAKEN|REFUSED|UNPINNED NANOSECONDS`.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, NoReturn

SERVED: Final = "echo"
TAKEN: Final = "TAKEN"
REFUSED: Final = "REFUSED"
UNPINNED: Final = "UNPINNED"
PINS: Final = {"top_p": 0.95, "top_k": 1000, "frequency_penalty": 0, "presence_penalty": 0, "n": 1}
REFUSES: Final = 0.02
"""Share of requests that are refused as too much, with 429 or 503."""
IDLE_SECONDS: Final = 5.0
"""As SGLang and vLLM close theirs."""
DRAIN_SECONDS: Final = 1.5
SILENT_SECONDS: Final = 3.0


class Ask(NamedTuple):
    """What a request asks of the engine: its nonce, so many pieces of so many bytes, with pauses."""

    nonce: str
    delay: float = 0.0
    """Seconds before the answer's head."""
    pieces: int = 1
    gap: float = 0.0
    """Seconds between two pieces of a stream."""
    size: int = 0

    def texts(self) -> Iterator[str]:
        """Return the pieces of the answer's text: each can only be this request's, at this place."""
        return (f"{self.nonce}.{number} ".ljust(self.size, "x") for number in range(self.pieces))


class Engine:
    """Serves until a signal ends it, in a way that is drawn."""

    def __init__(self, record: str, seed: int) -> None:
        self._record = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._chance = random.Random(seed)
        self._speaks = asyncio.Event()
        self._speaks.set()
        self._running = 0
        self._closes_behind_streams = self._chance.random() < 0.5
        """As llama.cpp does, without saying so."""

    async def run(self, port: int) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", port, backlog=512)
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
        await told.wait()
        server.close()
        manner = self._chance.choice(("at once", "drains", "silent"))
        if manner == "drains":
            end = time.monotonic() + DRAIN_SECONDS
            while self._running and time.monotonic() < end:
                await asyncio.sleep(0.02)
        elif manner == "silent":
            # llama.cpp does so for 30 s.
            self._speaks.clear()
            await asyncio.sleep(SILENT_SECONDS)
        _exit()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), IDLE_SECONDS)
                self._running += 1
                try:
                    was_stream = await self._answer(head, reader, writer)
                finally:
                    self._running -= 1
                if was_stream and self._closes_behind_streams:
                    break
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer a request and tell whether that was a stream."""
        target = head.split(b" ", 2)[1]
        if target != b"/v1/chat/completions":
            await self._say(writer, 200, {"data": [{"id": SERVED}]})
            return False
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        request = json.loads(await reader.readexactly(length))
        if "ask" not in request:  # a trial of the router's own
            await self._say(writer, 200, {"object": "chat.completion"})
            return False
        ask = Ask(*request["ask"])
        is_pinned = all(request.get(name) == value for name, value in PINS.items())
        is_refused = self._chance.random() < REFUSES
        self._note(ask.nonce, UNPINNED if not is_pinned else REFUSED if is_refused else TAKEN)
        if is_refused:
            status = self._chance.choice((429, 503))
            await self._say(writer, status, {"error": {"message": "busy", "nonce": ask.nonce}})
            return False
        await asyncio.sleep(ask.delay)
        if request.get("stream"):
            await self._stream(ask, writer)
            return True
        await self._say(writer, 200, completion(ask))
        return False

    def _note(self, nonce: str, what: str) -> None:
        os.write(self._record, f"{nonce} {what} {time.monotonic_ns()}\n".encode())

    async def _stream(self, ask: Ask, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        await self._write(writer, head)
        for event in events(ask):
            await self._write(writer, _chunk(b"data: " + json.dumps(event).encode() + b"\n\n"))
            if ask.gap:
                await asyncio.sleep(ask.gap)
        await self._write(writer, _chunk(b"data: [DONE]\n\n") + _chunk(b""))

    async def _say(self, writer: asyncio.StreamWriter, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        head = b"HTTP/1.1 %d Said\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        await self._write(writer, head + body)

    async def _write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        await self._speaks.wait()
        writer.write(data)
        await writer.drain()


def completion(ask: Ask, model: str = SERVED) -> dict[str, Any]:
    """Return a whole answer."""
    message = {"role": "assistant", "content": "".join(ask.texts())}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return {"id": ask.nonce, "object": "chat.completion", "model": model, "choices": choices}


def events(ask: Ask, model: str = SERVED) -> Iterator[dict[str, Any]]:
    """Return the events of a streamed answer."""
    finish: str | None = None
    for text in (*ask.texts(), ""):
        finish = None if text else "stop"
        choices = [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]
        yield {"id": ask.nonce, "object": "chat.completion.chunk", "model": model, "choices": choices}


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _exit() -> NoReturn:
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(Engine(sys.argv[2], int(sys.argv[3])).run(int(sys.argv[1])))
