"""The request parser, beside gunicorn's: what that rejects is rejected, and what both take they read alike."""

import pytest
from gunicorn.config import Config
from gunicorn.http.errors import ParseException
from gunicorn.http.parser import RequestParser
from hypothesis import example, given, settings
from hypothesis import strategies as st

from router.contract.errors import ApiError
from router.server.body_framing import EXTENSION_BYTES, SIZE_LINE_BYTES, TRAILER_BYTES, ChunkedFraming, framing_of
from router.server.request_parser import CHUNKED, HEADER_BYTES, HeaderLimits, RequestError, RequestReader

CONFIG = Config()
for _name, _value in {"header_map": "refuse", "forwarded_allow_ips": "", "http_parser": "python"}.items():
    CONFIG.set(_name, _value)
LIMITS = HeaderLimits()

LINE = b"POST /v1/chat/completions HTTP/1.1\r\n"
HOST = b"Host: x\r\n"


def head(*fields: bytes, line: bytes = LINE) -> bytes:
    """Return a request line and headers with their end."""
    return line + HOST + b"".join(field + b"\r\n" for field in fields) + b"\r\n"


LENGTH = b"Content-Length: 3"
CHUNKS = b"Transfer-Encoding: chunked"
SECOND = b"GET /second HTTP/1.1\r\nHost: y\r\n\r\n"


class Read:
    """A whole request with its body, and what is left behind it."""

    def __init__(self, request, body, rest):
        self.request = request
        self.body = body
        self.rest = rest


def read(data, size=None):
    """Return the first request in some bytes that come in pieces; None if it is not complete. Raises RequestError."""
    size = size or max(1, len(data))
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    reader, request, framing = RequestReader(LIMITS), None, None
    body = b""
    for number, received in enumerate(pieces):
        piece = received
        if framing is None:
            parsed = reader.feed(piece)
            if parsed is None:
                continue
            request, piece = parsed
            framing = framing_of(request, LIMITS)
        taken, rest = framing.feed(piece)
        body += taken
        if framing.is_complete:
            return Read(request, body, rest + b"".join(pieces[number + 1 :]))
    return None


class _WaitsError(Exception):
    """The parser asks for more than has come."""


class _Received:
    def __init__(self, data):
        self._data = data

    def recv(self, length, *_):
        if not self._data:
            raise _WaitsError
        piece, self._data = self._data[:length], self._data[length:]
        return piece


def read_by_gunicorn(data):
    """Return what gunicorn reads: the request, the body and what is left. Raises ParseException, _WaitsError."""
    source = _Received(data)
    parser = RequestParser(CONFIG, source, ("127.0.0.1", 1))
    try:
        request = next(parser)
    except StopIteration:
        raise _WaitsError from None
    body = request.body.read()
    return Read(request, body, parser.unreader.take_buffered() + source._data)


def assert_alike(data, ours):
    """Both read the same request, the same body, and find its end in the same place."""
    theirs = read_by_gunicorn(data)
    assert (ours.request.method, ours.request.target) == (theirs.request.method, theirs.request.uri)
    assert ours.request.version == theirs.request.version
    assert ours.request.headers == [(name.lower(), value) for name, value in theirs.request.headers]
    assert ours.body == theirs.body
    assert ours.rest == theirs.rest
    options = [value for name, value in theirs.request.headers if name == "CONNECTION"]
    if len(options) < 2 and not any("," in value for value in options):  # gunicorn knows no lists of options
        assert ours.request.keep_alive is not theirs.request.should_close()


WHOLE = {
    "no body": head(line=b"GET / HTTP/1.1\r\n"),
    "no headers": b"GET / HTTP/1.0\r\n\r\n",
    "an empty line before": b"\r\n" + head(),
    "counted": head(b"content-LENGTH: 3") + b"abc",
    "counted as nothing": head(b"Content-Length: 0"),
    "chunks": head(CHUNKS) + b'3\r\nabc\r\nA;x=y ; z="\\";"\r\n0123456789\r\n0\r\n\r\n',
    "data like the last chunk": head(CHUNKS) + b"7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n",
    "trailers": head(CHUNKS) + b"1\r\na\r\n0\r\nX: 1\r\nY: 2\r\n\r\n",
    "a header twice": head(b"X-Forwarded-For: 1.1.1.1", b"x-forwarded-for: 2.2.2.2", b"X:", b"Y: \t a \t"),
    "a query": head(line=b"GET /v1/models?a=b HTTP/1.1\r\n"),
    "an upgrade with a body": head(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", LENGTH) + b"abc",
    "an upgrade with chunks": head(b"Connection: Upgrade", b"Upgrade: h2c", CHUNKS) + b"3\r\nabc\r\n0\r\n\r\n",
    "close": head(b"Connection: close", LENGTH) + b"abc",
    "kept in 1.0": head(b"Connection: keep-alive", line=b"GET / HTTP/1.0\r\n"),
    "absolute form": head(line=b"GET http://x/y HTTP/1.1\r\n"),
    "CONNECT": head(line=b"CONNECT x:80 HTTP/1.1\r\n"),
    "asterisk": head(line=b"OPTIONS * HTTP/1.1\r\n"),
    "an unknown method": head(LENGTH, line=b"BREW / HTTP/1.1\r\n") + b"abc",
    "RTSP's method": head(LENGTH, line=b"DESCRIBE / HTTP/1.1\r\n") + b"abc",
    "ICE's method": head(LENGTH, line=b"SOURCE / HTTP/1.1\r\n") + b"abc",
    "expecting": head(b"Expect: 100-Continue", LENGTH) + b"abc",
    "expecting in 1.0": head(b"Expect: 100-continue", LENGTH, line=b"POST / HTTP/1.0\r\n") + b"abc",
    "obs-text": head(b"X: caf\xe9"),
}


@pytest.mark.parametrize("size", [None, 1, 2, 7])
@pytest.mark.parametrize("data", WHOLE.values(), ids=WHOLE)
def test_a_request_is_read_as_gunicorn_reads_it(data, size):
    """In pieces of any size: the same headers, the same body, the same end, also in front of a second request."""
    ours = read(data + SECOND, size)
    assert ours.rest == SECOND
    assert_alike(data + SECOND, ours)
    assert all(read(data[:end], size) is None for end in range(len(data) - 3, len(data)))


def rejected(code="bad_request", **cases):
    """Return cases of one code."""
    return {name.replace("_", " "): (data, code) for name, data in cases.items()}


REJECTED = {
    **rejected(
        http_0_9=b"GET /\r\n",
        another_protocol=head(line=b"POST / RTSP/1.0\r\n"),
        ICE=head(line=b"SOURCE / ICE/1.0\r\n"),
        lower_case_method=head(line=b"post / HTTP/1.1\r\n"),
        two_spaces=head(line=b"POST  / HTTP/1.1\r\n"),
        a_tab=head(line=b"POST\t/ HTTP/1.1\r\n"),
        no_target=head(line=b"POST  HTTP/1.1\r\n"),
        a_space_in_the_target=head(line=b"POST /a b HTTP/1.1\r\n"),
        a_NUL_in_the_target=head(line=b"POST /\x00 HTTP/1.1\r\n"),
        a_byte_beyond_ASCII=head(line=b"POST /\xe9 HTTP/1.1\r\n"),
        an_asterisk=head(line=b"GET * HTTP/1.1\r\n"),
        authority_form=head(line=b"GET x:80 HTTP/1.1\r\n"),
        a_broken_host=head(line=b"GET http://[x/ HTTP/1.1\r\n"),
        two_empty_lines=b"\r\n\r\n" + head(),
        folded=head(b"X: a\r\n b"),
        folded_at_first=LINE + b" Host: x\r\n\r\n",
        a_bare_LF=head(b"X: a\nY: b"),
        a_bare_LF_at_once=LINE + b"X: a\n",
        a_bare_LF_in_the_line=b"GET / HTTP/1.1\n",
        a_bare_CR=head(b"X: a\rb"),
        NUL=head(b"X: a\x00"),
        a_control_character=head(b"X: \x1b"),
        DEL=head(b"X: \x7f"),
        a_space_before_the_colon=head(b"X : a"),
        no_colon=head(b"X"),
        no_name=head(b": a"),
        an_underscore=head(b"Content_Length: 3"),
        two_hosts=head(b"host: x"),
        two_content_types=head(b"Content-Type: a/b", b"content-type: a/b"),
        two_lengths=head(LENGTH, LENGTH) + b"abc",
        a_list_of_lengths=head(b"Content-Length: 3, 3") + b"abc",
        a_signed_length=head(b"Content-Length: +3") + b"abc",
        a_length_in_hex=head(b"Content-Length: 0x3") + b"abc",
        an_empty_length=head(b"Content-Length:"),
        a_huge_length=head(b"Content-Length: " + b"9" * 40),
        length_and_chunks=head(LENGTH, CHUNKS) + b"0\r\n\r\n",
        chunks_and_length=head(CHUNKS, LENGTH) + b"0\r\n\r\n",
        chunks_in_1_0=head(CHUNKS, line=b"POST / HTTP/1.0\r\n") + b"0\r\n\r\n",
        identity=head(b"Transfer-Encoding: identity"),
        chunked_twice=head(b"Transfer-Encoding: chunked, chunked") + b"0\r\n\r\n",
        chunked_in_two_headers=head(CHUNKS, CHUNKS) + b"0\r\n\r\n",
        chunked_not_last=head(b"Transfer-Encoding: chunked, gzip"),
        an_unknown_coding=head(b"Transfer-Encoding: x, chunked") + b"0\r\n\r\n",
        an_empty_coding=head(b"Transfer-Encoding:"),
        chunk_size_after_a_space=head(CHUNKS) + b" 3\r\nabc\r\n",
        chunk_size_before_a_space=head(CHUNKS) + b"3 \r\nabc\r\n",
        chunk_size_in_0x=head(CHUNKS) + b"0x3\r\nabc\r\n",
        no_chunk_size=head(CHUNKS) + b"\r\n",
        a_huge_chunk=head(CHUNKS) + b"f" * 16 + b"\r\n",
        a_bare_LF_behind_the_size=head(CHUNKS) + b"3\nabc",
        a_bare_LF_behind_the_chunk=head(CHUNKS) + b"3\r\nabc\n0\r\n\r\n",
        more_than_the_chunk=head(CHUNKS) + b"3\r\nabcd\r\n",
        an_extension_without_a_name=head(CHUNKS) + b"3;\r\nabc\r\n",
        an_extension_with_an_empty_name=head(CHUNKS) + b"3;=a\r\nabc\r\n",
        an_extension_with_a_control_character=head(CHUNKS) + b"3;a=\x01\r\nabc\r\n",
        an_open_quote=head(CHUNKS) + b'3;a="\r\nabc\r\n',
        a_long_size_line=head(CHUNKS) + b"0" * (SIZE_LINE_BYTES + 1),
        a_long_extension=head(CHUNKS) + b"3;" + b"a" * SIZE_LINE_BYTES + b"\r\nabc\r\n",
        many_extensions=head(CHUNKS) + (b"1;" + b"a" * 1000 + b"\r\nx\r\n") * (EXTENSION_BYTES // 1000 + 1),
        a_trailer_that_is_none=head(CHUNKS) + b"0\r\nX\r\n\r\n",
        a_trailer_with_a_length=head(CHUNKS) + b"0\r\nContent-Length: 3\r\n\r\n",
        a_trailer_with_a_bare_LF=head(CHUNKS) + b"0\r\nX: 1\n",
        long_trailers=head(CHUNKS) + b"0\r\nX: " + b"x" * TRAILER_BYTES,
    ),
    **rejected(
        "http_version_not_supported",
        http_1_2=head(line=b"GET / HTTP/1.2\r\n"),
        http_2=b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ),
    **rejected(
        "uri_too_long",
        a_long_line=head(line=b"GET /" + b"x" * LIMITS.line_bytes + b" HTTP/1.1\r\n"),
        an_endless_line=b"GET /" + b"x" * LIMITS.line_bytes,
    ),
    **rejected(
        "headers_too_large",
        many=head(*[b"X: a"] * LIMITS.fields),
        too_many_yet=LINE + b"X: a\r\n" * (LIMITS.fields + 1) + b"X: a",
        a_long_one=head(b"X: " + b"x" * LIMITS.field_bytes),
        an_endless_one=LINE + b"X: " + b"x" * LIMITS.field_bytes,
        long_together=LINE + (b"X: " + b"x" * 8000 + b"\r\n") * (HEADER_BYTES // 8000 + 1),
    ),
    **rejected("expectation_failed", another=head(b"Expect: x"), two=head(b"Expect: 100-continue, x")),
    **rejected("unsupported_media_type", gzip=head(b"Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n"),
}


@pytest.mark.parametrize("size", [None, 1])
@pytest.mark.parametrize(("data", "code"), REJECTED.values(), ids=REJECTED)
def test_what_is_no_request_is_rejected(data, code, size):
    """At once or byte by byte, without a wait for more, and before a second request is looked at."""
    if size is None:
        data += SECOND if data.endswith(b"\r\n") else b""
    with pytest.raises(ApiError) as caught:
        assert read(data, size) is None
    assert caught.value.code == code
    assert not any(word in caught.value.reason for word in ("x" * 9, "\x1b", "\x00"))


def test_limits_are_inclusive():
    """The longest line, the longest header and as many headers as are allowed pass."""
    line = b"GET /" + b"x" * (LIMITS.line_bytes - len(b"GET / HTTP/1.1")) + b" HTTP/1.1\r\n"
    long_field = b"X: " + b"x" * (LIMITS.field_bytes - len(b"X: \r\n"))
    for size in (None, 1):
        assert read(head(long_field, *[b"X: a"] * (LIMITS.fields - 2), line=line), size)


@pytest.mark.parametrize(
    ("data", "target"),
    [(head(b"X_Y: 1"), "/v1/chat/completions"), (b"GET /a%20b x HTTP/1.1\r\n", "/a%20b"), (b"nonsense\r\n", None)],
)
def test_an_error_names_the_target_that_it_is_for(data, target):
    """As far as it was read: the response has the form of its protocol."""
    with pytest.raises(RequestError) as caught:
        read(data)
    assert caught.value.target == target


FRAGMENTS = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b" ",
        b"\t",
        b";",
        b":",
        b",",
        b'"',
        b"=",
        b"_",
        b"*",
        b"?",
        b"#",
        b"[",
        b"//",
    ),
    *(b"0", b"5", b"zz", b"000000005", b"\x00", b"\x0b", b"\x7f", b"\x80", b"\xa0", b"\xb2", b"\xff", b"a\\"),
    *(b"GET", b"HTTP/1.0", b"HTTP/1.2", b"HTTP/0.9", b"PRI * HTTP/2.0\r\n", b"X\r\n", b"X-A: \xc2\xa0\r\n"),
    *(b"Content-Length: 5\r\n", b"Content-Length : 5\r\n", b"Content-Length: 03\r\n", b"Host: y\r\n", b"0\r\n\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip\r\n", b"Transfer-Encoding: gzip, chunked\r\n"),
    *(b"Expect: 100-continue\r\n", b"Connection: close\r\n", b"Connection: keep-alive, te\r\n", b"Upgrade: h2c\r\n"),
)
MUTATIONS = st.lists(
    st.tuples(st.integers(0, 99), st.integers(0, 3), st.sampled_from(FRAGMENTS) | st.binary(max_size=2)), max_size=3
)


def _mutated(data, mutations):
    for place, dropped, put in mutations:
        at = len(data) * place // 100
        data = data[:at] + put + data[at + dropped :]
    return data


def _compare(data, size):
    try:
        ours = read(data, size)
    except ApiError:
        return
    if ours is not None:
        try:
            assert_alike(data, ours)
        except (ParseException, _WaitsError) as error:
            raise AssertionError(f"gunicorn rejects it: {error!r}") from error
        return
    try:
        read_by_gunicorn(data)
    except _WaitsError:
        return
    except ParseException as error:
        raise AssertionError(f"gunicorn rejects at once: {error!r}") from error
    raise AssertionError("gunicorn does not wait for more")


@given(st.sampled_from(sorted(WHOLE.values())), MUTATIONS, st.integers(1, 60))
@example(head(CHUNKS), [(99, 0, b"3;=a\r\nabc\r\n0\r\n\r\n")], 60)
def test_nothing_is_read_that_gunicorn_rejects(data, mutations, size):
    """However odd a request is: what gunicorn rejects is rejected, and what is taken is read as gunicorn reads it."""
    _compare(_mutated(data, mutations), size)


@pytest.mark.exhaustive
@settings(max_examples=100_000)
@given(st.sampled_from(sorted(WHOLE.values())), MUTATIONS, st.integers(1, 60))
def test_nothing_is_read_that_gunicorn_rejects_at_length(data, mutations, size):
    """The same, for many more requests."""
    _compare(_mutated(data, mutations), size)


@given(st.sampled_from(sorted(WHOLE.values())), MUTATIONS, st.integers(1, 60))
def test_the_pieces_make_no_difference(data, mutations, size):
    """A request in pieces is the request, and is rejected where the whole is."""
    data = _mutated(data, mutations)

    def outcome(size):
        try:
            found = read(data, size)
        except ApiError:
            return "rejected"
        return found and (found.request.headers, found.request.length, found.body, found.rest)

    assert outcome(size) == outcome(None)


class _CountedBytes(bytearray):
    """Bytes that count how many are looked at or copied."""

    looked_at = 0

    def find(self, sought, start=0, *rest):
        self.looked_at += len(self) - start
        return super().find(sought, start, *rest)

    def __getitem__(self, index):
        found = super().__getitem__(index)
        self.looked_at += len(found)
        return found


def test_each_byte_of_the_headers_is_looked_at_a_few_times():
    """Headers that come byte by byte are not read from the beginning with each of them."""
    reader = RequestReader(LIMITS)
    reader.feed(LINE)
    reader._data = counted = _CountedBytes(reader._data)
    for _ in range(8_000):
        assert reader.feed(b"x") is None
    assert counted.looked_at < 20 * len(counted)


def test_what_waits_for_its_line_end_is_short():
    """However many bytes come, chunked framing holds no more than a line or the trailers."""
    framing = ChunkedFraming(LIMITS)
    for _ in range(50):
        framing.feed(b"1\r\nx\r\n" * 1000 + b"5;a")
        assert len(framing._held) < SIZE_LINE_BYTES
        framing.feed(b"\r\nabcde\r\n")
    assert RequestReader(LIMITS).feed(head(CHUNKS))[0].length == CHUNKED
