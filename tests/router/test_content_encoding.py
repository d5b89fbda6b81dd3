"""Bodies without their content codings."""

import contextlib
import gzip
import sys
import zlib
from collections.abc import Callable

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.content_encoding import MAX_CODINGS, MAX_MEMBERS, DecodingError, TruncatedError, decode

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MOST = 1_000_000
PLAIN = b'{"model":"served"}' * 10


def _without_format(body: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(body) + compressor.flush()


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "deflate without the zlib format": ("deflate", _without_format),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstd.compress),
    "two": ("gzip , zstd", lambda body: zstd.compress(gzip.compress(body))),
}
IN_PARTS = [("gzip", gzip.compress), ("zstd", zstd.compress)]


@pytest.mark.parametrize(("name", "encode"), CODINGS.values(), ids=CODINGS)
def test_a_body_is_decoded_up_to_the_bound(name: str, encode: Callable[[bytes], bytes]) -> None:
    """What unfolds to the bound is decoded, a byte more is not, be it ever so short before."""
    for plain in (b"", PLAIN, bytes(MOST)):
        assert decode(encode(plain), name, MOST) == plain
    for plain in (bytes(MOST + 1), bytes(100 * MOST)):
        with pytest.raises(DecodingError):
            decode(encode(plain), name, MOST)


@pytest.mark.parametrize(("name", "encode"), CODINGS.values(), ids=CODINGS)
def test_a_body_that_ends_early_says_so(name: str, encode: Callable[[bytes], bytes]) -> None:
    """Wherever it is cut."""
    whole = encode(PLAIN)
    for length in range(len(whole)):
        with pytest.raises(TruncatedError):
            decode(whole[:length], name, MOST)


@pytest.mark.parametrize("name", sorted({name for name, _ in CODINGS.values()}))
@given(body=st.binary(min_size=1, max_size=50))
def test_what_is_in_no_such_coding_is_undecodable_or_decoded(name: str, body: bytes) -> None:
    """Nothing else is raised, whatever an engine sends."""
    with contextlib.suppress(DecodingError):
        decode(body, name, MOST)


@pytest.mark.parametrize(("name", "encode"), IN_PARTS)
@given(pieces=st.lists(st.binary(max_size=20) | st.just(bytes(100_000)), min_size=1, max_size=5))
def test_parts_are_one_body(name: str, encode: Callable[[bytes], bytes], pieces: list[bytes]) -> None:
    """Members of gzip and frames of zstd follow each other, wherever one ends within a step."""
    assert decode(b"".join(map(encode, pieces)), name, MOST) == b"".join(pieces)


@pytest.mark.parametrize(("name", "encode"), IN_PARTS)
def test_only_so_many_parts_are_decoded(name: str, encode: Callable[[bytes], bytes]) -> None:
    """A body of more is undecodable: each costs as much as a short body, and may hold nothing."""
    assert decode(encode(b"") * (MAX_MEMBERS - 1) + encode(PLAIN), name, MOST) == PLAIN
    with pytest.raises(DecodingError):
        decode(encode(b"") * MAX_MEMBERS + encode(PLAIN), name, MOST)


def test_what_stands_behind_gzip_and_is_none_is_passed_over() -> None:
    """As other clients do."""
    assert decode(gzip.compress(PLAIN) + b"garbage", "gzip", MOST) == PLAIN
    with pytest.raises(DecodingError):
        decode(gzip.compress(PLAIN) + gzip.compress(PLAIN)[:12] + b"\xff" * 20, "gzip", MOST)


@pytest.mark.parametrize(
    "codings", ["", "identity", "compress", "gzip, unknown", ",".join(["gzip"] * (MAX_CODINGS + 1))]
)
def test_other_codings_are_undecodable(codings: str) -> None:
    """What is not known, and more codings than anybody applies."""
    body = PLAIN
    for _ in range(MAX_CODINGS + 1):
        body = gzip.compress(body)
    with pytest.raises(DecodingError):
        decode(body, codings, MOST)
