"""Content decoding (RFC 9110, section 8.4) in bounded time and memory."""

import sys
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_MEMBERS: Final = 1_000
"""Maximum of members of a gzip body, or frames of a zstd body: each costs about 10 µs and may be empty."""
MAX_CODINGS: Final = 5
_STEP_BYTES: Final = 64 * 1024
"""Input bytes for one call of a decoder: what follows a member in them is copied for the next member."""
_GZIP: Final = 16 + zlib.MAX_WBITS


IDENTITY_CODINGS: Final = ("", "identity")
"""Values of `Content-Encoding` for a body without a coding."""


class DecodingError(Exception):
    """A body has an unknown coding, is invalid, or is too long when decoded."""


class TruncatedError(DecodingError):
    """An encoded body is truncated."""


def decode(body: bytes, codings: str, max_bytes: int) -> bytes:
    """Return the decoded body; `codings` as in `Content-Encoding`. Raises DecodingError.

    Neither the result nor any step between two codings may be longer than `max_bytes`.
    """
    names = [name.strip().lower() for name in codings.split(",")]
    if len(names) > MAX_CODINGS or not all(name in _DECODERS for name in names):
        raise DecodingError
    for name in reversed(names):
        try:
            body = _DECODERS[name](body, max_bytes)
        except (zlib.error, zstd.ZstdError, brotli.error):
            raise DecodingError from None
    return body


def _decode_members(begin: Callable[[], Any], magic: bytes, body: bytes, max_bytes: int) -> bytes:
    """Decode consecutive members (gzip) or frames (zstd), each with a decoder of its own.

    Bytes after the last member are ignored.
    """
    pieces: list[bytes] = []
    room, at = max_bytes, 0
    for _ in range(MAX_MEMBERS):
        decoder = begin()
        while not decoder.eof:
            if at == len(body):
                raise TruncatedError
            step = body[at : at + _STEP_BYTES]
            # One byte more than the limit: some decoders take 0 as unlimited.
            piece = decoder.decompress(step, room + 1)
            room -= len(piece)
            if room < 0:
                raise DecodingError
            at += len(step) - len(decoder.unused_data)
            pieces.append(piece)
        if at == len(body) or not body.startswith(magic, at):
            return b"".join(pieces)
    raise DecodingError


def _deflate(body: bytes, max_bytes: int) -> bytes:
    # Some servers send it without the zlib format.
    try:
        return _decode_one(zlib.decompressobj(), body, max_bytes)
    except zlib.error:
        return _decode_one(zlib.decompressobj(-zlib.MAX_WBITS), body, max_bytes)


def _decode_one(decoder: Any, body: bytes, max_bytes: int) -> bytes:  # noqa: ANN401 - zlib's has no name
    plain: bytes = decoder.decompress(body, max_bytes + 1)
    if len(plain) > max_bytes:
        raise DecodingError
    if not decoder.eof:
        raise TruncatedError
    return plain


def _brotli(body: bytes, max_bytes: int) -> bytes:
    decoder = brotli.Decompressor()
    plain: bytes = decoder.process(body, output_buffer_limit=max_bytes + 1)
    if len(plain) > max_bytes:
        raise DecodingError
    if not decoder.is_finished():
        raise TruncatedError
    return plain


_gzip: Final = partial(_decode_members, partial(zlib.decompressobj, _GZIP), b"\x1f\x8b")
_DECODERS: Final[dict[str, Callable[[bytes, int], bytes]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": partial(_decode_members, zstd.ZstdDecompressor, b""),
}
