"""The requests that the bench sends, the same to every subject, as bytes on the wire."""

import json
from collections.abc import Mapping

MODEL = "served"
ROUTE = "/v1/chat/completions"
SIZES = {"1 KB": 1 << 10, "32 KB": 32 << 10, "1 MB": 1 << 20}
"""Bodies, by the names that the table has for them."""

IMAGE = "1 MB"
"""The body that is one picture in base64; the others are conversations."""

TURN_CHARACTERS = 300


def chat_body(size: str) -> bytes:
    """Return a chat request of about that size: a conversation, or a question about one large picture."""
    if size == IMAGE:
        picture = {
            "type": "image_url",
            "image_url": {"url": "data:image/png;base64," + "iVBORw0K" * (SIZES[size] // 8)},
        }
        return _json([{"role": "user", "content": [{"type": "text", "text": "What is this?"}, picture]}])
    turns = max(1, SIZES[size] // (TURN_CHARACTERS + 40))
    roles = ["user" if number % 2 == 0 else "assistant" for number in range(turns)]
    roles[-1] = "user"
    return _json([{"role": role, "content": "What is it? " * (TURN_CHARACTERS // 12)} for role in roles])


def directed_body(number: int, *, chunks: int, gap_us: int = 0, wait_ms: int = 0) -> bytes:
    """Return a chat request that tells the engine how to answer (see engine.c): a stream, or whole with no chunks."""
    content = f"@bench {number} {chunks} {gap_us} {wait_ms}@"
    return _json([{"role": "user", "content": content}], **({"stream": True} if chunks else {}))


def on_the_wire(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return the whole HTTP request."""
    fields = {"Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {ROUTE} HTTP/1.1\r\n{lines}\r\n".encode() + body


def _json(messages: list[dict[str, object]], **fields: object) -> bytes:
    return json.dumps({"model": MODEL, "messages": messages, **fields}).encode()
