"""What is no request, or is one for somebody else: refused in the one shape of errors, and never passed on."""

import re
import socket
from typing import NamedTuple

import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Errors
from router.mock_engine import MockEngine
from tests.router.conftest import RouterOf
from tests.router.rawclient import RawClient, head_of, post_head
from tests.router.serving import RunningRouter
from tests.router.wire.chat import CHAT, assert_error, chat

BODY = chat()
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
SECOND = b"POST %s HTTP/1.1\r\nHost: x\r\n" % CHAT.encode() + LENGTH + b"\r\n" + BODY


@pytest.fixture(scope="module")
def router(router_of: RouterOf) -> RunningRouter:
    """A router that enforces nothing."""
    return router_of()


def _post(target: bytes = CHAT.encode(), fields: bytes = b"Host: x\r\n", end: bytes = b" HTTP/1.1\r\n") -> bytes:
    return b"POST " + target + end + fields + LENGTH + b"\r\n" + BODY


class Refused(NamedTuple):
    """Bytes and the refusal of them; the connection ends where they were no request at all."""

    wire: bytes
    status: int = 400
    code: str = "bad_request"
    ends: bool = True


NOT_FOUND = (404, "not_found", False)
VERSION = (505, "http_version_not_supported")
LONG = b"x" * 9000

CASES = {
    # Request lines
    "HTTP/0.9": Refused(b"GET /healthz\r\n"),
    "no version": Refused(b"GET /healthz\r\nHost: x\r\n\r\n"),
    "HTTP/1.2": Refused(_post(end=b" HTTP/1.2\r\n"), *VERSION),
    "HTTP/2.0": Refused(_post(end=b" HTTP/2.0\r\n"), *VERSION),
    "HTTP/11.1": Refused(_post(end=b" HTTP/11.1\r\n")),
    "HTTP/1": Refused(_post(end=b" HTTP/1\r\n")),
    "version in lower case": Refused(_post(end=b" http/1.1\r\n")),
    "another protocol": Refused(_post(end=b" RTSP/1.0\r\n")),
    "two spaces before the target": Refused(_post(b" " + CHAT.encode())),
    "two spaces before the version": Refused(_post(end=b"  HTTP/1.1\r\n")),
    "space after the version": Refused(_post(end=b" HTTP/1.1 \r\n")),
    "tabs for spaces": Refused(_post().replace(b" ", b"\t", 2)),
    "space before the method": Refused(b" " + _post()),
    "space in the target": Refused(_post(CHAT.encode() + b" x")),
    "method in lower case": Refused(_post().replace(b"POST", b"post", 1)),
    "method with a bracket": Refused(_post().replace(b"POST", b"PO{ST", 1)),
    "method with a NUL": Refused(_post().replace(b"POST", b"PO\x00ST", 1)),
    "no method": Refused(_post().replace(b"POST ", b"", 1)),
    "empty request line": Refused(b"\r\n\r\n" + _post()),
    "three empty lines before": Refused(b"\r\n\r\n\r\n" + _post()),
    "empty line of a bare LF before": Refused(b"\n" + _post()),
    "long target": Refused(_post(b"/" + LONG), 414, "uri_too_long"),
    "long query": Refused(_post(CHAT.encode() + b"?" + LONG), 414, "uri_too_long"),
    "long method": Refused(_post().replace(b"POST", b"P" * 9000, 1), 414, "uri_too_long"),
    "endless request line": Refused(b"POST /" + b"x" * 70_000, 414, "uri_too_long"),
    # Targets
    "two leading slashes": Refused(_post(b"/" + CHAT.encode()), *NOT_FOUND),
    "encoded slash": Refused(_post(b"/v1/chat%2fcompletions"), *NOT_FOUND),
    "dot segments": Refused(_post(b"/v1/x/../chat/completions"), *NOT_FOUND),
    "encoded dot segments": Refused(_post(b"/v1/x/%2e%2e/chat/completions"), *NOT_FOUND),
    "trailing slash": Refused(_post(CHAT.encode() + b"/"), *NOT_FOUND),
    "backslash": Refused(_post(b"/v1\\chat\\completions"), *NOT_FOUND),
    "fragment": Refused(_post(CHAT.encode() + b"#x"), *NOT_FOUND),
    "absolute form": Refused(_post(b"http://x" + CHAT.encode()), *NOT_FOUND),
    "absolute form of another host": Refused(_post(b"http://evil" + CHAT.encode()), *NOT_FOUND),
    "absolute form with credentials": Refused(_post(b"http://a:b@x" + CHAT.encode()), *NOT_FOUND),
    "absolute form of a broken host": Refused(_post(b"http://[x" + CHAT.encode())),
    "authority form": Refused(b"CONNECT engine:80 HTTP/1.1\r\nHost: engine:80\r\n\r\n", *NOT_FOUND[:2]),
    "asterisk": Refused(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", *NOT_FOUND),
    "no slash": Refused(_post(CHAT.encode()[1:])),
    "encoded line break": Refused(_post(CHAT.encode() + b"%0d%0aX-Evil:%201"), *NOT_FOUND),
    "encoded NUL": Refused(_post(CHAT.encode() + b"%00"), *NOT_FOUND),
    "NUL": Refused(_post(CHAT.encode() + b"\x00")),
    "control character": Refused(_post(CHAT.encode() + b"\x01")),
    "byte beyond ASCII": Refused(_post(CHAT.encode() + b"\xe9")),
    "bare CR in the target": Refused(_post(CHAT.encode() + b"\rx")),
    # Headers
    "no host": Refused(_post(fields=b""), ends=False),
    "two hosts": Refused(_post(fields=b"Host: x\r\nHost: y\r\n")),
    "two equal hosts": Refused(_post(fields=b"Host: x\r\nhost: x\r\n")),
    "host with a path": Refused(_post(fields=b"Host: x/y\r\n"), ends=False),
    "host with credentials": Refused(_post(fields=b"Host: a@x\r\n"), ends=False),
    "host with a space": Refused(_post(fields=b"Host: x y\r\n"), ends=False),
    "list of hosts": Refused(_post(fields=b"Host: x, y\r\n"), ends=False),
    "two content types": Refused(_post(fields=b"Host: x\r\nContent-Type: a/b\r\nContent-Type: c/d\r\n")),
    "NUL in a value": Refused(_post(fields=b"Host: x\r\nX: a\x00b\r\n")),
    "control character in a value": Refused(_post(fields=b"Host: x\r\nX: a\x1bb\r\n")),
    "DEL in a value": Refused(_post(fields=b"Host: x\r\nX: a\x7fb\r\n")),
    "space in a name": Refused(_post(fields=b"Host: x\r\nX Y: a\r\n")),
    "space after a name": Refused(_post(fields=b"Host: x\r\nX : a\r\n")),
    "underscore in a name": Refused(_post(fields=b"Host: x\r\nX_Y: a\r\n")),
    "bracket in a name": Refused(_post(fields=b"Host: x\r\nX(Y): a\r\n")),
    "byte beyond ASCII in a name": Refused(_post(fields=b"Host: x\r\nX\xe9: a\r\n")),
    "empty name": Refused(_post(fields=b"Host: x\r\n: a\r\n")),
    "line without a colon": Refused(_post(fields=b"Host: x\r\nnonsense\r\n")),
    "folded value": Refused(_post(fields=b"Host: x\r\nX: a\r\n b\r\n")),
    "space before the first header": Refused(_post(fields=b" Host: x\r\n")),
    "long header": Refused(_post(fields=b"Host: x\r\nX: " + LONG + b"\r\n"), 431, "headers_too_large"),
    "many headers": Refused(_post(fields=b"Host: x\r\n" + b"X: a\r\n" * 101), 431, "headers_too_large"),
    "endless headers": Refused(b"GET / HTTP/1.1\r\n" + b"X: aaaaaaa\r\n" * 90_000, 431, "headers_too_large"),
    "other expectation": Refused(_post(fields=b"Host: x\r\nExpect: 200-ok\r\n"), 417, "expectation_failed"),
    "two expectations": Refused(_post(fields=b"Host: x\r\nExpect: 100-continue, x\r\n"), 417, "expectation_failed"),
    # Other protocols
    "PROXY line": Refused(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + _post()),
    "PROXY, version 2": Refused(b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes(12) + _post()),
    "HTTP/2 preface": Refused(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), *VERSION),
    "TLS": Refused(b"\x16\x03\x01\x00\x05hello\r\n\r\n"),
    "SSH": Refused(b"SSH-2.0-OpenSSH_9.9\r\n"),
    "Redis": Refused(b"*1\r\n$4\r\nPING\r\n"),
    "SMTP": Refused(b"EHLO x\r\n"),
    "JSON": Refused(b'{"model": "served"}\r\n'),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_no_request_is_refused(router: RunningRouter, engine: MockEngine, case: Refused) -> None:
    """It is answered once, in the one shape; where it was no request the connection ends and nothing more is served."""
    with RawClient(router.port) as client:
        client.send(case.wire)
        if not case.ends:
            client.send(SECOND)
        answer = client.answer()
        assert_error(answer, case.status, case.code)
        assert b"evil" not in answer.body.lower()
        if case.ends:
            assert answer.header("Connection") == "close"
            assert client.at_end()
        else:
            assert client.answer().status == 200
    assert [received.body for received in engine.received] == ([] if case.ends else [BODY])


@pytest.mark.parametrize("wire", [b"", b"\r\n", b"GET", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"])
def test_a_client_that_leaves_early_gets_nothing(router: RunningRouter, wire: bytes) -> None:
    """A client that stops sending before its head is whole asked for nothing, and is answered nothing."""
    with RawClient(router.port) as client:
        client.send(wire)
        client.socket.shutdown(socket.SHUT_WR)
        assert client.at_end()


def test_a_host_other_than_the_targets_goes_nowhere(router: RunningRouter, engine: MockEngine) -> None:
    """The engine's Host is the engine's, whatever the client said, and the path decides alone."""
    with RawClient(router.port) as client:
        assert client.send(_post(fields=b"Host: evil.example\r\n")).answer().status == 200
    (received,) = engine.received
    assert received.values("Host") == [engine.url.removeprefix("http://")]


@pytest.mark.parametrize("keep", [b"", b"Connection: keep-alive\r\n"], ids=["plain", "keep-alive"])
def test_http_1_0_keeps_what_it_asks_to_keep(router: RunningRouter, keep: bytes) -> None:
    """An HTTP/1.0 connection ends with its answer, unless it asked to be kept."""
    request = b"GET /healthz HTTP/1.0\r\n" + keep + b"\r\n"
    with RawClient(router.port) as client:
        assert client.send(request).answer().status == 200
        if keep:
            assert client.send(request).answer().status == 200
        else:
            assert client.at_end()


@pytest.mark.parametrize("protocol", ["h2c", "websocket", "WebSocket", "TLS/1.0, websocket"])
def test_an_upgrade_is_not_taken_up(router: RunningRouter, engine: MockEngine, protocol: str) -> None:
    """Whatever a client would rather speak, its request is a plain one, and the wish stays behind."""
    upgrade = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": protocol, "HTTP2-Settings": "AAMAAABkAAQAAP__"}
    with RawClient(router.port) as client:
        assert client.post(CHAT, BODY, upgrade).status == 200
        assert client.get("/healthz", upgrade).status == 200
        assert_error(client.get("/nowhere", upgrade), 404, "not_found")
    (received,) = engine.received
    assert received.values("Upgrade") == received.values("HTTP2-Settings") == []


@pytest.mark.parametrize("options", ["close", "Close", "close, foo", "foo ,close", "keep-alive, close"])
def test_a_client_that_asks_to_close_gets_one_answer(router: RunningRouter, options: str) -> None:
    """`close` among the options of a connection ends it with the answer, and what follows is not served."""
    with RawClient(router.port) as client:
        client.send(head_of("GET", "/healthz", {"Connection": options}) * 2)
        answer = client.answer()
        assert (answer.status, answer.header("Connection")) == (200, "close")
        assert client.at_end()


@pytest.mark.parametrize("given", ["%0d%0aX-Evil: 1", "a\tb", "caf\u00e9", "a" * 5000])
def test_an_odd_request_id_is_not_echoed(router: RunningRouter, given: str) -> None:
    """What is no plain id never comes back in a header of the answer."""
    with RawClient(router.port) as client:
        answer = client.get("/healthz", {"X-Request-Id": given})
    assert re.fullmatch("[0-9a-f]{24}", answer.header("x-request-id") or "")
    assert answer.header("X-Evil") is None


SECRET = b"sk-secret-0123456789"
SECRETS = {
    "header without a colon": _post(fields=b"Host: x\r\nAuthorization Bearer " + SECRET + b"\r\n"),
    "header with an odd name": _post(fields=b"Host: x\r\n" + SECRET + b"(: x\r\n"),
    "header with a control character": _post(fields=b"Host: x\r\nX: \x1b" + SECRET + b"\r\n"),
    "end of a prompt": SECRET + b'"}]}\r\n' + _post(),
    "query": _post(CHAT.encode() + b"?key=" + SECRET + b"\xff"),
    "version": _post(CHAT.encode() + b"?key=" + SECRET, end=b" HTTP/9.1\r\n"),
    "expectation": _post(fields=b"Host: x\r\nExpect: " + SECRET + b"\r\n"),
    "coding": _post(fields=b"Host: x\r\nTransfer-Encoding: " + SECRET + b"\r\n"),
    "size of a chunk": head_of("POST", CHAT, {"Transfer-Encoding": "chunked"}) + SECRET + b"\r\n",
    "extension of a chunk": head_of("POST", CHAT, {"Transfer-Encoding": "chunked"})
    + b"1;\x01"
    + SECRET
    + b"\r\nx\r\n0\r\n\r\n",
    "escapes": b"GET /\x1b[31m" + SECRET * 200 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
}


def test_a_refusal_is_logged_without_what_the_client_sent(router_of: RouterOf, engine: MockEngine) -> None:
    """The log tells the kind of what was wrong, in one short line, and never a byte of the client's."""
    router = router_of()
    for wire in SECRETS.values():
        with RawClient(router.port) as client:
            assert client.send(wire).answer().status in {400, 414, 417, 505}
    router.wait_for_line(
        r"rejected a request of 127.0.0.1: A header of .* malformed or ambiguous \(Invalid header token\)"
    )
    assert "secret" not in router.log()
    assert "\x1b" not in router.log()
    assert max(len(line) for line in router.lines if "rejected a request" in line) < 300


def test_a_refusal_before_any_route_is_told_as_the_contract_says(router_of: RouterOf) -> None:
    """The type of 400s is the contract's on the chat route, whoever finds the request wrong, and nowhere else."""
    router = router_of(Contract(errors=Errors(bad_request_type="odd_request")))
    wrong = b"Host: x\r\nX_Y: a\r\n"
    for target, expected in ((CHAT, "odd_request"), (f"{CHAT}?a=b", "odd_request"), ("/healthz", None), ("/x y", None)):
        with RawClient(router.port) as client:
            answer = client.send(_post(target.encode(), wrong)).answer()
        assert answer.status == 400
        assert answer.json()["error"]["type"] == (expected or "invalid_request_error")


def test_a_late_head_is_told_as_the_contract_says(router_of: RouterOf) -> None:
    """So is the type of the 400 of a head that comes too late, as far as its route is known."""
    router = router_of(
        Contract(errors=Errors(bad_request_type="odd_request")), ROUTER_CLIENT_HEADER_TIMEOUT_SECONDS="0.2"
    )
    for target, expected in ((CHAT, "odd_request"), ("/healthz", "invalid_request_error")):
        with RawClient(router.port) as client:
            answer = client.send(f"POST {target} HTTP/1.1\r\n".encode()).answer()
        assert (answer.status, answer.json()["error"]["type"]) == (400, expected)


def test_every_refusal_has_an_id_of_its_own(router: RunningRouter) -> None:
    """Two clients that send the same nonsense get two request ids."""
    ids = set()
    for _ in range(2):
        with RawClient(router.port) as client:
            ids.add(client.send(b"nonsense\r\n").answer().header("x-request-id"))
    assert len(ids) == 2


def test_an_unreadable_length_does_not_pass_for_a_body(router: RunningRouter, engine: MockEngine) -> None:
    """A request that promises 9 exabytes is a 413 at once."""
    with RawClient(router.port) as client:
        client.send(post_head(CHAT, {"Content-Length": str(2**63)}))
        assert_error(client.answer(), 413, "request_too_large")
    assert engine.received == []


def test_waiting_to_be_told_to_go_on_is_for_those_who_ask(router: RunningRouter) -> None:
    """A 100 comes only to a client of HTTP/1.1 that expects one for a body that it did not send yet."""
    expecting = {"Expect": "100-Continue"}
    with RawClient(router.port) as client:
        assert client.get("/healthz", expecting).status == 200
        assert client.post(CHAT, BODY, expecting).status == 200
        length = {"Content-Length": str(len(BODY))}
        client.send(post_head(CHAT, length | expecting).replace(b"HTTP/1.1", b"HTTP/1.0") + BODY)
        assert client.answer().status == 200
