"""A body without its content codings (RFC 9110, section 8.4), in work and memory that its length does not decide."""

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

MAX_PARTS: Final = 1_000
"""Most members of a gzip body, or frames of a zstd one: each costs some 10 µs and may be empty."""
MAX_CODINGS: Final = 5
_STEP_BYTES: Final = 64 * 1024
"""How much is given to a decoder at once: what stands behind a part in it is copied for the next one."""
_GZIP: Final = 16 + zlib.MAX_WBITS


UNENCODED: Final = ("", "identity")
"""What `Content-Encoding` is of a body without a coding."""


class UndecodableError(Exception):
    """A body is in no coding that is known, is not what its coding says, or unfolds to too much."""


class CutError(UndecodableError):
    """A body ends before its coding does."""


def decoded(body: bytes, codings: str, most_bytes: int) -> bytes:
    """Return a body without its codings, given as in `Content-Encoding`. Raises UndecodableError.

    Neither it nor what it is between two codings may be longer than `most_bytes`.
    """
    names = [name.strip().lower() for name in codings.split(",")]
    if len(names) > MAX_CODINGS or not all(name in _DECODERS for name in names):
        raise UndecodableError
    for name in reversed(names):
        try:
            body = _DECODERS[name](body, most_bytes)
        except (zlib.error, zstd.ZstdError, brotli.error):
            raise UndecodableError from None
    return body


def _in_parts(begin: Callable[[], Any], magic: bytes, body: bytes, most_bytes: int) -> bytes:
    """Decode parts that stand one behind the other, each by a decoder of its own as zlib and zstd have them.

    What follows and does not begin as a part does is passed over.
    """
    pieces: list[bytes] = []
    room, at = most_bytes, 0
    for _ in range(MAX_PARTS):
        decoder = begin()
        while not decoder.eof:
            if at == len(body):
                raise CutError
            step = body[at : at + _STEP_BYTES]
            # One byte more than there is room for, as some decoders take 0 for no bound.
            piece = decoder.decompress(step, room + 1)
            room -= len(piece)
            if room < 0:
                raise UndecodableError
            at += len(step) - len(decoder.unused_data)
            pieces.append(piece)
        if at == len(body) or not body.startswith(magic, at):
            return b"".join(pieces)
    raise UndecodableError


def _deflate(body: bytes, most_bytes: int) -> bytes:
    # Some send it without the zlib format around it.
    try:
        return _first_part(zlib.decompressobj(), body, most_bytes)
    except zlib.error:
        return _first_part(zlib.decompressobj(-zlib.MAX_WBITS), body, most_bytes)


def _first_part(decoder: Any, body: bytes, most_bytes: int) -> bytes:  # noqa: ANN401 - zlib's has no name
    plain: bytes = decoder.decompress(body, most_bytes + 1)
    if len(plain) > most_bytes:
        raise UndecodableError
    if not decoder.eof:
        raise CutError
    return plain


def _brotli(body: bytes, most_bytes: int) -> bytes:
    decoder = brotli.Decompressor()
    plain: bytes = decoder.process(body, output_buffer_limit=most_bytes + 1)
    if len(plain) > most_bytes:
        raise UndecodableError
    if not decoder.is_finished():
        raise CutError
    return plain


_gzip: Final = partial(_in_parts, partial(zlib.decompressobj, _GZIP), b"\x1f\x8b")
_DECODERS: Final[dict[str, Callable[[bytes, int], bytes]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": partial(_in_parts, zstd.ZstdDecompressor, b""),
}
