"""What engines answer, whole or broken, plain or compressed, and what the client reads of it."""

import gzip
import json
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from threading import Event
from typing import Any

import brotli
import pytest

from router.content_encoding import MAX_MEMBERS
from router.contract.schema.model import Contract
from router.contract.schema.sections import Errors, Models, plain_aliases
from router.mock_engine import MockEngine, MockResponse, RawResponse
from router.mock_engine.response import JSON, ScriptedResponse
from router.response import MAX_BUFFERED_BYTES
from tests.router.conftest import RouterOf
from tests.router.rawclient import RawAnswer, RawClient, post_head
from tests.router.serving import RunningRouter
from tests.router.wire.chat import CHAT, assert_error, chat

pytestmark = pytest.mark.any_server

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

OK = b"HTTP/1.1 200 OK\r\n"
WHOLE = OK + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
REFUSED = {"error": {"message": "m", "type": "BadRequestError", "param": None, "code": 400}}
REFUSAL = json.dumps(REFUSED).encode()
RETYPED = {"error": {**REFUSED["error"], "type": "vendor_error"}}
COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
    "gzip, br": lambda body: brotli.compress(gzip.compress(body)),
    "GZip": gzip.compress,
}


@pytest.fixture(scope="module")
def router(router_of: RouterOf) -> RunningRouter:
    """A router that enforces nothing and soon loses patience with a silent engine."""
    return router_of(ROUTER_UPSTREAM_RESPONSE_TIMEOUT_SECONDS="0.5", ROUTER_UPSTREAM_IDLE_TIMEOUT_SECONDS="0.5")


@pytest.fixture(scope="module")
def retyping(router_of: RouterOf) -> RunningRouter:
    """A router that writes the contract's type into 400s, and an alias into answers."""
    return router_of(
        Contract(errors=Errors(bad_request_type="vendor_error"), models=Models(aliases=plain_aliases("latest"))),
        ROUTER_RESPONSE_HEADERS="etag, digest, x-kept",
    )


def _ask(router: RunningRouter, body: bytes = chat()) -> RawAnswer:
    with RawClient(router.port) as client:
        answer = client.post(CHAT, body)
        # Whatever happened, the connection has to be in step.
        assert client.get("/healthz").status == 200
    return answer


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        pytest.param(RawResponse(then="reset"), 502, "upstream_unreachable", id="reset"),
        pytest.param(RawResponse(), 502, "upstream_unreachable", id="closed"),
        pytest.param(RawResponse(b"what?\r\n\r\n"), 502, "upstream_incomplete", id="no status line"),
        pytest.param(RawResponse(b"HTTP/1.1 OK 200\r\n\r\n"), 502, "upstream_incomplete", id="no status"),
        pytest.param(RawResponse(b"HTTP/1.1 99 Low\r\n\r\n"), 502, "upstream_incomplete", id="status out of range"),
        pytest.param(
            RawResponse(b"HTTP/1.1 000 Low\r\nContent-Length: 2\r\n\r\n{}" + WHOLE),
            502,
            "upstream_incomplete",
            id="status 0",
        ),
        pytest.param(
            RawResponse(
                b"HTTP/1.1 099 Low\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + WHOLE, then="keep"
            ),
            502,
            "upstream_incomplete",
            id="status 99",
        ),
        pytest.param(
            RawResponse(b"HTTP/1.1 050 Low\r\n\r\n" + bytes(1_000_000)),
            502,
            "upstream_incomplete",
            id="status 50 without end",
        ),
        pytest.param(
            RawResponse(OK + b"Content-Length : 10\r\n\r\n{}"),
            502,
            "upstream_incomplete",
            id="short of a length before space",
        ),
        pytest.param(
            RawResponse(OK + b"Transfer-Encoding\t : chunked\r\n\r\n2\r\nab\r\n5\r\nab"),
            502,
            "upstream_incomplete",
            id="cut chunk of a coding before space",
        ),
        pytest.param(RawResponse(b"HTTP/3.0 200 OK\r\n\r\n"), 502, "upstream_incomplete", id="unknown version"),
        pytest.param(RawResponse(b"\x16\x03\x01\x02\x00"), 502, "upstream_incomplete", id="TLS"),
        pytest.param(RawResponse(OK + b"Content-Type: appli"), 502, "upstream_incomplete", id="cut in a header"),
        pytest.param(RawResponse(OK + b"Content-Length: 2, 3\r\n\r\n{}"), 502, "upstream_incomplete", id="two lengths"),
        pytest.param(RawResponse(OK + b"Content-Length: abc\r\n\r\n{}"), 502, "upstream_incomplete", id="no length"),
        pytest.param(
            RawResponse(OK + b"Content-Length: -5\r\n\r\n{}"), 502, "upstream_incomplete", id="negative length"
        ),
        pytest.param(
            RawResponse(OK + b"nocolon\r\nContent-Length: 2\r\n\r\n{}", then="keep"),
            502,
            "upstream_incomplete",
            id="a header without a colon",
        ),
        pytest.param(
            RawResponse(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
            502,
            "upstream_incomplete",
            id="unknown transfer coding",
        ),
        pytest.param(RawResponse(OK + b"X: 1\r\n" * 101 + b"\r\n"), 502, "upstream_incomplete", id="too many headers"),
        pytest.param(
            RawResponse(OK + b"X: " + b"x" * 70_000 + b"\r\n\r\n"), 502, "upstream_incomplete", id="huge header"
        ),
        pytest.param(MockResponse(headers=JSON, body=b'{"a":1}', cut_after=3), 502, "upstream_incomplete", id="short"),
        pytest.param(
            MockResponse(headers=JSON, body=[b'{"a":1}'], framing="chunked", cut_after=6),
            502,
            "upstream_incomplete",
            id="cut chunk",
        ),
        pytest.param(
            MockResponse(headers=JSON, body=[b"{}"], framing="chunked", last_chunk=False, then="close"),
            502,
            "upstream_incomplete",
            id="no last chunk",
        ),
        pytest.param(
            MockResponse(headers=JSON, body=b'{"a":', framing="close"),
            502,
            "upstream_incomplete",
            id="JSON cut by bare end",
        ),
        pytest.param(MockResponse(headers=JSON, framing="close"), 502, "upstream_incomplete", id="nothing by bare end"),
        *(
            pytest.param(
                MockResponse(status, JSON, b'{"a":', "close"), 502, "upstream_incomplete", id=f"{status} by bare end"
            )
            for status in (201, 400, 404, 500)
        ),
        *(
            pytest.param(
                MockResponse(400, [("Content-Type", kind) for kind in kinds], b'{"a":', "close"),
                502,
                "upstream_incomplete",
                id=f"{' and '.join(kinds)} by bare end",
            )
            for kinds in (
                ["application/json", "application/json; charset=utf-8"],
                ["application/problem+json"],
                ["Application/JSON "],
            )
        ),
        pytest.param(
            MockResponse(
                headers=[*JSON, ("Content-Encoding", "gzip")], body=gzip.compress(b"{}")[:-1], framing="close"
            ),
            502,
            "upstream_incomplete",
            id="gzip cut by bare end",
        ),
        pytest.param(MockResponse(hold=Event()), 504, "upstream_timeout", id="silence"),
        pytest.param(
            MockResponse(headers=[*JSON, ("Content-Length", "4")], body=[b"{}", Event()]),
            504,
            "upstream_timeout",
            id="silence within",
        ),
    ],
)
def test_a_broken_answer_is_an_error_that_is_not_to_be_repeated(
    router: RunningRouter, engine: MockEngine, reply: ScriptedResponse, status: int, code: str
) -> None:
    """An engine that broke off may have worked: the client is told not to ask again, and the router does not either."""
    engine.answer_next(reply)
    answer = _ask(router)
    assert assert_error(answer, status, code)["type"] == "server_error"
    assert answer.header("x-should-retry") == "false"
    assert len(engine.received) == 1


def test_an_engine_stays_in_use_after_a_broken_answer(router: RunningRouter, engine: MockEngine) -> None:
    """One connection that broke proves nothing against an engine that answers its probes."""
    engine.answer_next(RawResponse(then="reset"))
    assert [_ask(router).status for _ in range(2)] == [502, 200]


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308, 101])
def test_a_redirect_is_neither_followed_nor_passed_on(router: RunningRouter, engine: MockEngine, status: int) -> None:
    """A 3xx would lead the client past the router: it becomes a 502, and is logged."""
    engine.answer_next(MockResponse(status, [("Location", f"{engine.url}/elsewhere")], framing="none", then="close"))
    assert_error(_ask(router), 502, "upstream_incomplete")
    router.wait_for_line(f"an engine returned status {status}")
    assert len(engine.received) == 1


@pytest.mark.any_server
@pytest.mark.parametrize("status", [400, 403, 404, 409, 422, 429, 451, 500, 501, 503, 529, 599])
def test_an_engines_error_is_passed_on_as_it_is(router: RunningRouter, engine: MockEngine, status: int) -> None:
    """An engine's own refusal keeps status, body and Retry-After, and does not pose as the router's."""
    body = b'{ "error" : "full" }\n'
    engine.answer_next(MockResponse(status, [*JSON, ("Retry-After", "7"), ("x-router-error-code", "overloaded")], body))
    answer = _ask(router)
    assert (answer.status, answer.body) == (status, body)
    assert (answer.header("Retry-After"), answer.header("x-router-error-code")) == ("7", None)
    assert answer.header("x-request-id")


def test_an_answer_without_a_body_is_passed_on(router: RunningRouter, engine: MockEngine) -> None:
    """A 204 stays one, without a length, and the connection stays in step."""
    engine.answer_next(MockResponse(204, framing="none"))
    answer = _ask(router)
    assert (answer.status, answer.body, answer.header("Content-Length")) == (204, b"", None)


@pytest.mark.parametrize(
    "answer",
    [
        MockResponse(headers=JSON, body=b'{"a":1}'),
        MockResponse(headers=JSON, body=[b'{"a"', b":1}"], framing="chunked"),
        MockResponse(headers=JSON, body=b'{"a":1}', framing="close"),
        MockResponse(500, headers=[("Content-Type", "application/problem+json")], body=b'{"a":1}', framing="close"),
        MockResponse(404, headers=[("Content-Type", "text/plain")], body=b'{"a":', framing="close"),
        MockResponse(404, headers=JSON, body=b"", framing="close"),
        MockResponse(headers=[*JSON, ("Content-Encoding", "gzip")], body=gzip.compress(b"{}"), framing="close"),
        MockResponse(201, body=b"no type"),
        MockResponse(headers=[("Content-Type", "text/plain")], body=b"\xff\x00"),
    ],
)
def test_a_whole_answer_is_passed_on_with_its_length(
    router: RunningRouter, engine: MockEngine, answer: MockResponse
) -> None:
    """However an engine frames its answer, the client gets the same bytes, counted, and no type that was not there."""
    engine.answer_next(answer)
    got = _ask(router)
    whole = answer.body if isinstance(answer.body, bytes) else b"".join(p for p in answer.body if isinstance(p, bytes))
    assert (got.status, got.body, got.header("Content-Length")) == (answer.status, whole, str(len(whole)))
    assert got.header("Content-Type") == dict(answer.headers).get("Content-Type")


@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\n" * 5 + b"HTTP/1.1 100 Continue\r\nX: 1\r\n\r\n",
    ],
)
def test_interim_answers_are_passed_over(router: RunningRouter, engine: MockEngine, interim: bytes) -> None:
    """The answer is the one after any 1xx, in the same connection or the next (RFC 9110, section 15.2)."""
    engine.answer_next(RawResponse(interim + WHOLE, then="keep"))
    answers = [_ask(router), _ask(router)]
    assert [answer.status for answer in answers] == [200, 200]
    assert answers[0].body == b"{}"
    assert answers[0].header("Link") is None


def test_interim_answers_without_end_are_given_up(router: RunningRouter, engine: MockEngine) -> None:
    """An engine that only ever announces an answer has none."""
    engine.answer_next(RawResponse(b"HTTP/1.1 102 Processing\r\n\r\n" * 100))
    assert_error(_ask(router), 502, "upstream_incomplete")


@pytest.mark.parametrize("encoding", COMPRESSED)
def test_a_compressed_400_is_retyped(retyping: RunningRouter, engine: MockEngine, encoding: str) -> None:
    """A 400 in any known coding is decoded and retyped, and no longer says that it is compressed."""
    headers = [*JSON, ("Content-Encoding", encoding), ("ETag", '"1"'), ("Digest", "x"), ("X-Kept", "1")]
    engine.answer_next(MockResponse(400, headers, COMPRESSED[encoding](REFUSAL)))
    answer = _ask(retyping)
    assert (answer.status, answer.json()) == (400, RETYPED)
    assert answer.header("Content-Length") == str(len(answer.body))
    assert [answer.header(name) for name in ("Content-Encoding", "ETag", "Digest", "X-Kept")] == [None, None, None, "1"]


@pytest.mark.parametrize("encoding", COMPRESSED)
@pytest.mark.parametrize("status", [200, 422, 500])
def test_compressed_answers_that_need_no_edit_pass(
    retyping: RunningRouter, engine: MockEngine, status: int, encoding: str
) -> None:
    """Where nothing is edited, the compressed bytes and their label pass together."""
    body = COMPRESSED[encoding](REFUSAL)
    engine.answer_next(MockResponse(status, [*JSON, ("Content-Encoding", encoding), ("ETag", '"1"')], body))
    answer = _ask(retyping)
    assert (answer.status, answer.body) == (status, body)
    assert (answer.header("Content-Encoding"), answer.header("ETag")) == (encoding, '"1"')


def test_a_compressed_answer_to_an_alias_is_renamed(retyping: RunningRouter, engine: MockEngine) -> None:
    """An engine that compresses although it was asked not to does not keep the alias from the client."""
    engine.answer_next(MockResponse(200, [*JSON, ("Content-Encoding", "gzip")], gzip.compress(b'{"model":"served"}')))
    answer = _ask(retyping, chat(model="latest"))
    assert (answer.body, answer.header("Content-Encoding")) == (b'{"model":"latest"}', None)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        pytest.param("gzip", b"", id="empty"),
        pytest.param("gzip", REFUSAL, id="not compressed at all"),
        pytest.param("gzip", gzip.compress(REFUSAL)[:-12], id="cut"),
        pytest.param("gzip", gzip.compress(b"") * MAX_MEMBERS + gzip.compress(REFUSAL), id="many members"),
        pytest.param("zstd", zstd.compress(b"") * MAX_MEMBERS + zstd.compress(REFUSAL), id="many frames"),
        pytest.param("gzip", gzip.compress(bytes(MAX_BUFFERED_BYTES + 1)), id="unfolds to too much"),
        pytest.param("aws-chunked", REFUSAL, id="unknown"),
        pytest.param("gzip, unknown", gzip.compress(REFUSAL), id="half known"),
    ],
)
def test_a_400_that_cannot_be_decoded_passes(
    retyping: RunningRouter, engine: MockEngine, encoding: str, body: bytes
) -> None:
    """A 400 whose coding is unknown or broken passes with its bytes and its label as they are."""
    engine.answer_next(MockResponse(400, [*JSON, ("Content-Encoding", encoding)], body))
    answer = _ask(retyping)
    assert (answer.status, answer.body, answer.header("Content-Encoding")) == (400, body, encoding)


@pytest.mark.any_server
@pytest.mark.parametrize(
    ("body", "retyped"),
    [
        (b'{ "error": {"type" : "X", "a":1e2} }', b'{ "error": {"type" : "vendor_error", "a":1e2} }'),
        (b'{"object":"error","message":"m"}', b'{"object":"error","message":"m","type":"vendor_error"}'),
        (b'{"error":{}}', b'{"error":{"type":"vendor_error"}}'),
        (b'{"error":"Unauthorized"}', b'{"error":"Unauthorized"}'),
        (b'{"detail":"m"}', b'{"detail":"m"}'),
        (b'[{"error":{"type":"X"}}]', b'[{"error":{"type":"X"}}]'),
        (b"Bad Request", b"Bad Request"),
        (b"", b""),
    ],
)
def test_a_400_of_the_engine_gets_the_contracts_type(
    retyping: RunningRouter, engine: MockEngine, body: bytes, retyped: bytes
) -> None:
    """Only the type of a known error shape is replaced or added; every other byte stays."""
    engine.answer_next(MockResponse(400, JSON, body))
    answer = _ask(retyping)
    assert (answer.status, answer.body, answer.header("Content-Length")) == (400, retyped, str(len(retyped)))


def test_a_400_of_another_route_keeps_its_type(retyping: RunningRouter, engine: MockEngine) -> None:
    """The contract's error type is for the chat route alone."""
    engine.answer_next(MockResponse(400, JSON, REFUSAL))
    with RawClient(retyping.port) as client:
        assert client.post("/v1/completions", b"{}").body == REFUSAL


def _large(length: int) -> bytes:
    return b'{"model":"served","x":"' + b"x" * length + b'"}'


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_very_long_answer_is_passed_on_whole(router: RunningRouter, engine: MockEngine, framing: Any) -> None:
    """An answer too long to be held back reaches the client whole."""
    body = _large(MAX_BUFFERED_BYTES + 100_000)
    engine.answer_next(MockResponse(headers=JSON, body=body, framing=framing))
    answer = _ask(router)
    assert answer.body == body
    assert answer.header("Content-Length") == (str(len(body)) if framing == "length" else None)


def test_the_longest_answer_that_is_held_back_is_edited(retyping: RunningRouter, engine: MockEngine) -> None:
    """An answer of just the length that is held back is still renamed."""
    body = _large(MAX_BUFFERED_BYTES - len(_large(0)))
    engine.answer_next(MockResponse(headers=JSON, body=body))
    assert _ask(retyping, chat(model="latest")).body == body.replace(b"served", b"latest")


@pytest.mark.any_server
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_very_long_answer_that_is_cut_is_cut_for_the_client(
    router: RunningRouter, engine: MockEngine, framing: Any
) -> None:
    """Once a long answer is on its way, a cut one ends the client's connection before its end."""
    answer = MockResponse(headers=JSON, body=_large(2 * MAX_BUFFERED_BYTES), framing=framing)
    engine.answer_next(replace(answer, cut_after=MAX_BUFFERED_BYTES + 1_000_000))
    with RawClient(router.port) as client:
        client.send(post_head(CHAT, {"Content-Length": str(len(chat()))}) + chat())
        with pytest.raises(EOFError):
            client.answer()


def test_a_length_beside_chunks_is_not_believed(router: RunningRouter, engine: MockEngine) -> None:
    """Of an answer that is counted and chunked, the chunks hold (RFC 9112, section 6.3), however long it is."""
    for body in (b"{}", _large(MAX_BUFFERED_BYTES)):
        head = OK + b"Content-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n"
        engine.answer_next(RawResponse(head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)))
        assert _ask(router).body == body


def test_a_connection_that_the_engine_closed_meanwhile_is_not_used(router: RunningRouter, engine: MockEngine) -> None:
    """Between two requests the engine may close the kept connection; the second request takes a new one."""
    for _ in range(3):
        assert _ask(router).status == 200
        engine.drop_connections()
    assert len({received.connection for received in engine.received}) == 3


def test_whole_answers_give_their_connection_back(router: RunningRouter, engine: MockEngine) -> None:
    """Requests one after the other use one connection to the engine."""
    assert [_ask(router).status for _ in range(5)] == [200] * 5
    assert len({received.connection for received in engine.received}) == 1


def test_an_engine_that_answers_before_it_has_read_is_heard(router: RunningRouter, engine: MockEngine) -> None:
    """An engine that refuses a body without reading it is passed on where its answer can be had."""
    engine.answer_next(replace(MockResponse.json({"error": "busy"}, 429), before_body=True))
    assert _ask(router).status == 429
