"""Plain requests, read at a glance: held against what gunicorn's own parser reads."""

import socket
import time
import tracemalloc

import pytest
from gunicorn.config import Config
from gunicorn.http import wsgi
from gunicorn.http.errors import ParseException
from gunicorn.http.parser import RequestParser
from hypothesis import example, given
from hypothesis import strategies as st

from router.server import sockets
from router.server.connection import Connection
from router.server.request_body import HELD
from router.server.request_framing import HELD_BYTES, Stage
from router.server.request_parser import LONGEST_BYTES, PlainReader, Rest
from router.settings.declarations import Settings

ROUTE = "/v1/chat/completions"
CLIENT, SERVER = ("127.0.0.1", 4321), ("127.0.0.1", 8000)
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n%s\r\n"
FULL = (
    b"Accept: */*\r\nAccept-Encoding: gzip,deflate\r\nauthorization:Bearer  a  \r\nContent-Type: application/json\r\n"
    b"Content-Length: 2\r\nX-Request-Id: 1\r\nConnection: keep-alive\r\n"
)


def _config(**options):
    config = Config()
    for name, value in {"header_map": "refuse", "forwarded_allow_ips": "", **options}.items():
        config.set(name, value)
    return config


CONFIG = _config()
READER = PlainReader(CONFIG, [ROUTE])


def _read(data, reader=READER, client=CLIENT):
    """Return what is read of a request at a glance; None when that does not make a plain one of it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Connection(CONFIG, ours, (client, SERVER), Settings(engines=()), HELD_BYTES)
    connection.arrival.data += data
    return reader.read(connection) if connection.arrival.stage() in {Stage.HERE, Stage.LONG} else None


class _WhatHasCome:
    """What gunicorn reads from; more than has come is never asked for."""

    def __init__(self, data):
        self._data = data

    def recv(self, length, *_):
        assert self._data
        piece, self._data = self._data[:length], self._data[length:]
        return piece

    def send(self, _):
        raise AssertionError


def _read_by_gunicorn(data):
    """Return what gunicorn makes of a request: its environ, its body, whether it ends the connection, and the rest."""
    source = _WhatHasCome(data)
    parser = RequestParser(CONFIG, source, CLIENT)
    request = next(parser)
    _, environ = wsgi.create(request, source, CLIENT, SERVER, CONFIG)
    body = request.body.read()
    return environ, body, request.should_close(), parser.unreader.take_buffered() + source._data


def _compared(data, plain):
    environ, body, should_close, rest = _read_by_gunicorn(data)
    others = {"wsgi.input", "wsgi.errors", "wsgi.early_hints", "wsgi.multithread", "gunicorn.socket"}
    own = {name: value for name, value in plain.environ.items() if name not in {*others, HELD}}
    assert own == {name: value for name, value in environ.items() if name not in others}
    assert plain.environ["wsgi.input"].read() == plain.environ[HELD] == body
    assert plain.keeps is not should_close
    assert plain.left == rest


PLAIN = {
    "short": HEAD % b"",
    "with all": HEAD % FULL + b"{}",
    "the next one behind it": HEAD % FULL + b"{}" + HEAD % b"",
    "the last": HEAD % b"Connection: Close\r\nContent-Length: 0\r\n",
    "an empty value": HEAD % b"X:\r\nY: \r\n",
}


@pytest.mark.parametrize("data", PLAIN.values(), ids=PLAIN)
def test_a_plain_request_is_read_as_gunicorn_reads_it(data):
    """The environ, the body, the fate of the connection and what is behind are gunicorn's."""
    plain = _read(data)
    assert plain is not None
    _compared(data, plain)


NOT_PLAIN = {
    "another method": HEAD.replace(b"POST", b"GET") % b"",
    "another version": HEAD.replace(b"1.1", b"1.0") % b"",
    "another route": HEAD.replace(b"chat", b"chap") % b"",
    "a query": HEAD.replace(b"completions", b"completions?a=b") % b"",
    "another spelling": HEAD.replace(b"/v1", b"//v1") % b"",
    "an empty line before": b"\r\n" + HEAD % b"",
    "chunks": HEAD % b"Transfer-Encoding: chunked\r\n" + b"0\r\n\r\n",
    "a header twice": HEAD % b"X: 1\r\nx: 2\r\n",
    "a second Host": HEAD % b"host: y\r\n",
    "no colon": HEAD % b"Accept\r\n",
    "a space in a name": HEAD % b"Accept : x\r\n",
    "a folded line": HEAD % b"Accept: x\r\n y\r\n",
    "an underscore": HEAD % b"Content_Length: 1\r\n",
    "a control character": HEAD % b"X: \x01\r\n",
    "a tab": HEAD % b"X:\ty\r\n",
    "a byte beyond ASCII": HEAD % b"X: \xe9\r\n",
    "a scheme": HEAD % b"X-Forwarded-Proto: https\r\n",
    "an upgrade": HEAD % b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
    "two wishes for the connection": HEAD % b"Connection: keep-alive, close\r\n",
    "many headers": HEAD % b"".join(b"X-%d: 1\r\n" % number for number in range(100)),
    "a long head": HEAD % (b"X: %s\r\n" % (b"x" * 4100)),
}


@pytest.mark.parametrize("data", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_what_is_not_plain_is_left_to_gunicorn(data):
    """Whatever gunicorn may refuse, or read in a way of its own, is not read at a glance."""
    assert _read(data) is None


def test_a_request_over_a_unix_socket_is_left_to_gunicorn():
    """Where the system gives no address of the client nothing is plain: gunicorn trusts such clients."""
    assert _read(HEAD % b"", client="") is None


@pytest.mark.parametrize(
    "options",
    [
        {"keepalive": 0},
        {"proxy_protocol": "auto"},
        {"pre_request": lambda worker, request: None},
        {"post_request": lambda worker, request, environ, response: None},
        {"statsd_host": "localhost:8125"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_that_ask_for_more_leave_all_to_gunicorn(options):
    """Under options of gunicorn that do something with each request none is plain."""
    assert _read(HEAD % b"", PlainReader(_config(**options), [ROUTE])) is None


@pytest.fixture
def rest():
    """A body of ten bytes of which three have come, and the end of the client who sends the rest."""
    ours, client = socket.socketpair()
    with sockets.of_accepted(ours) as accepted, client:
        accepted.setblocking(False)
        yield Rest(accepted, b"abc", 10), client, accepted


@pytest.mark.parametrize("sizes", [[-1], [10, 1], [2, 2, 2, 2, 2], [4, 100]], ids=str)
def test_the_rest_of_a_body_is_received_when_it_is_asked_for(rest, sizes):
    """However it is asked for, and however it comes, all of it is read and nothing of what is behind."""
    body, client, accepted = rest
    client.send(b"defghijBEHIND")
    pieces = [body.read(size) for size in sizes]
    assert b"".join(pieces) == b"abcdefghij"
    assert body.is_read()
    assert body.read() == b""
    assert accepted.recv(100) == b"BEHIND"


def test_a_body_that_ends_early_is_short(rest):
    """What came before its client left is read, and then no more."""
    body, client, _ = rest
    client.send(b"de")
    client.close()
    assert body.read() == b"abcde"
    assert not body.is_read()
    assert body.read() == b""


@pytest.mark.parametrize("is_late", [False, True])
def test_a_body_that_does_not_come_is_not_waited_for_long(rest, is_late):
    """At the deadline of its client's socket, or once the client has had its time, reading ends."""
    body, client, accepted = rest
    if is_late:
        client.send(b"defghij")
    accepted.deadline = time.monotonic() + (100 if is_late else 0.01)
    accepted.is_late = is_late
    with pytest.raises(TimeoutError):
        body.read()


def test_a_body_of_which_some_has_come_is_left_to_be_read():
    """A long request is read as far as its head, unless it is too long to be judged between others."""
    plain = _read(HEAD % b"Content-Length: 70000\r\n" + b"abc")
    assert HELD not in plain.environ
    assert not plain.rest.is_read()
    assert plain.environ["wsgi.input"] is plain.rest
    assert _read(HEAD % (b"Content-Length: %d\r\n" % (LONGEST_BYTES + 1))) is None


FRAGMENTS = (
    *(b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b",", b"_", b"\x00", b"\xa0", b"0", b"?", b"/", b"\x7f"),
    *(b"Host: y\r\n", b"Content-Length: 2\r\n", b"Content-Length: 02\r\n", b"Connection: close\r\n", b"X\r\n"),
    *(b"Connection: te\r\n", b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"Accept: \xc2\xa0\r\n"),
)
MUTATIONS = st.tuples(st.integers(0, 99), st.integers(0, 3), st.sampled_from(FRAGMENTS) | st.just(b""))


@given(st.sampled_from(sorted(PLAIN.values())), st.lists(MUTATIONS, min_size=1, max_size=3))
@example(HEAD % b"Content-Length: 0\r\n", [(99, 0, b"x")])
def test_nothing_is_read_otherwise_than_gunicorn_reads_it(data, mutations):
    """However odd a request is, what is read of it at a glance is what gunicorn reads, which refuses none of these."""
    for place, dropped, put in mutations:
        at = len(data) * place // 100
        data = data[:at] + put + data[at + dropped :]
    plain = _read(data)
    if plain is None:
        return
    try:
        _compared(data, plain)
    except ParseException as error:
        raise AssertionError(data) from error


class _Promising:
    """A client's socket over which only the beginning of a body comes."""

    def __init__(self, *pieces):
        self._pieces = [*pieces, b""]

    def receive(self, most_bytes):
        return self._pieces.pop(0)[:most_bytes]


def test_a_promise_takes_no_memory():
    """A body costs what has come of it, however long its client says that it is."""
    tracemalloc.start()
    try:
        assert Rest(_Promising(b"b", b"c"), b"a", LONGEST_BYTES).read() == b"abc"
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < LONGEST_BYTES / 16
