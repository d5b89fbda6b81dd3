"""The requests that the bench sends, the same to every subject, as bytes on the wire."""

import json
from collections.abc import Mapping

MODEL = "served"
ROUTE = "/v1/chat/completions"
SIZES = {"1 KB": 1 << 10, "32 KB": 32 << 10, "1 MB": 1 << 20}
"""Bodies, by the names that the table has for them."""

IMAGE = "1 MB"
"""The body that is one picture in base64; the others are conversations."""

ONE_TEXT = ", one text"
"""Ends the name of a body of a size that is one message with one text."""
CPU_BODIES = (*SIZES, f"32 KB{ONE_TEXT}", f"1 MB{ONE_TEXT}")

TURNS = {"1 KB": 3, "32 KB": 64}
"""How many messages the conversation of a size has."""
MEMBERS = 40
"""Bytes of a message, its content apart, about."""

QUERY, DOUBLED, CHUNKED, CLOSING = "query string", "doubled header", "chunked", "HTTP/1.0 with close"
KEPT, TLS = "plain", "TLS"
FORMS = (KEPT, QUERY, DOUBLED, CHUNKED, CLOSING)
"""The forms in which a plain request can come, but for TLS, which is a matter of the connection."""


def chat_body(size: str) -> bytes:
    """Return a chat request of about that size: a conversation, or a question about one large picture."""
    if size.endswith(ONE_TEXT):
        return _json([{"role": "user", "content": "What is it? " * (SIZES[size.removesuffix(ONE_TEXT)] // 12)}])
    if size == IMAGE:
        picture = {
            "type": "image_url",
            "image_url": {"url": "data:image/png;base64," + "iVBORw0K" * (SIZES[size] // 8)},
        }
        return _json([{"role": "user", "content": [{"type": "text", "text": "What is this?"}, picture]}])
    turns = TURNS[size]
    roles = ["user" if number % 2 == 0 else "assistant" for number in range(turns)]
    roles[-1] = "user"
    text = "What is it? " * ((SIZES[size] // turns - MEMBERS) // 12)
    return _json([{"role": role, "content": text} for role in roles])


def directed_body(number: int, *, chunks: int, gap_us: int = 0, wait_ms: int = 0) -> bytes:
    """Return a chat request that tells the engine how to answer (see engine.c): a stream, or whole with no chunks."""
    content = f"@bench {number} {chunks} {gap_us} {wait_ms}@"
    return _json([{"role": "user", "content": content}], **({"stream": True} if chunks else {}))


def on_the_wire(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return the whole HTTP request."""
    fields = {"Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {ROUTE} HTTP/1.1\r\n{lines}\r\n".encode() + body


def in_form(request: bytes, form: str) -> bytes:
    """Return a request in one of the forms: the same body in other framing."""
    head, _, body = request.partition(b"\r\n\r\n")
    line, *fields = head.split(b"\r\n")
    if form == QUERY:
        line = line.replace(ROUTE.encode(), f"{ROUTE}?api-version=2026-11-01".encode())
    elif form == DOUBLED:
        fields += [b"X-Forwarded-For: 192.0.2.1", b"X-Forwarded-For: 192.0.2.2"]
    elif form == CHUNKED:
        fields = [field for field in fields if not field.startswith(b"Content-Length")] + [
            b"Transfer-Encoding: chunked"
        ]
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    elif form == CLOSING:
        line, fields = line.replace(b"HTTP/1.1", b"HTTP/1.0"), [*fields, b"Connection: close"]
    return b"\r\n".join([line, *fields]) + b"\r\n\r\n" + body


def for_model(body: bytes, model: str) -> bytes:
    """Return a body that names another model."""
    return body.replace(f'"model": "{MODEL}"'.encode(), f'"model": "{model}"'.encode(), 1)


def _json(messages: list[dict[str, object]], **fields: object) -> bytes:
    return json.dumps({"model": MODEL, "messages": messages, **fields}).encode()
