"""Requests to an endpoint: how they are sent, and what is made of what goes wrong."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.resolve.selection import UsageError
from compiler.verify.cassette import RecordError, RecordHeader, open_record, read_record, record_header
from compiler.verify.check import ChatRequest
from compiler.verify.client import EndpointClient, EndpointError, Target, api_key, chat_url
from router.mock_engine import MockEngine, MockResponse, RawResponse, ReceivedRequest


@pytest.fixture(name="engine")
def _engine() -> Iterator[MockEngine]:
    with MockEngine(models=("m",)) as mock_engine:
        yield mock_engine


def ask_of(text: str) -> ChatRequest:
    return ChatRequest.of({"model": "m", "messages": [{"role": "user", "content": text}]})


def exchange_with(engine: MockEngine, key: str | None = None) -> EndpointClient:
    return EndpointClient(Target(chat_url(engine.url), key, timeout=5.0))


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://h:1", "http://h:1/v1/chat/completions"),
        ("http://h:1/", "http://h:1/v1/chat/completions"),
        ("https://h/v1", "https://h/v1/chat/completions"),
        ("https://h/api/paas/v4/", "https://h/api/paas/v4/chat/completions"),
        ("https://h/base", "https://h/base/v1/chat/completions"),
        ("https://h/v1/chat/completions", "https://h/v1/chat/completions"),
    ],
)
def test_the_address_of_chats_is_found(url: str, address: str) -> None:
    """An endpoint may be named with its version, without it, or by its whole address."""
    assert chat_url(url) == address


@pytest.mark.parametrize("url", ["h:1", "ftp://h", "http://", "http://user:key@h/"])
def test_what_is_no_address_is_misuse(url: str) -> None:
    """What is no http address, or holds credentials, is rejected before anything is sent."""
    with pytest.raises(UsageError):
        chat_url(url)


def test_a_key_comes_out_of_the_environment() -> None:
    """The usual variable may be missing, one that was named may not."""
    assert api_key(None, {}) is None
    assert api_key(None, {"PROFILEC_API_KEY": "k"}) == "k"
    assert api_key("MINE", {"MINE": "k", "PROFILEC_API_KEY": "other"}) == "k"
    with pytest.raises(UsageError):
        api_key("MINE", {})


def test_every_request_is_answered(engine: MockEngine) -> None:
    """Each request gets its own response, and the key travels with all of them."""
    chat_requests = [ask_of(str(number)) for number in range(20)]
    responses = dict(exchange_with(engine, "secret").responses((request, 200) for request in chat_requests))
    assert {response.status for response in responses.values()} == {200}
    assert {*responses} == {*chat_requests}
    assert {tuple(received.values("Authorization")) for received in engine.received} == {("Bearer secret",)}


def test_an_endpoint_that_is_busy_is_asked_again(engine: MockEngine) -> None:
    """A 429 is followed by another request after the time that it names, unless it is what is expected."""
    engine.answer_next(MockResponse.json({}, 429, [("Retry-After", "0")]))
    client = exchange_with(engine)
    [(_, response)] = client.responses([(ask_of("hi"), 200)])
    assert (response.status, client.requests_sent) == (200, 2)
    engine.answer_next(MockResponse.json({}, 429))
    [(_, response)] = client.responses([(ask_of("hi"), 429)])
    assert response.status == 429


def test_an_endpoint_that_lets_nobody_in_is_told_at_once(engine: MockEngine) -> None:
    """A 401 to the first request ends the run, with a hint at the key."""
    engine.script(lambda _: MockResponse.json({}, 401))
    with pytest.raises(EndpointError, match="PROFILEC_API_KEY"):
        list(exchange_with(engine).responses((ask_of(str(number)), 200) for number in range(20)))
    assert len(engine.received) == 1


def test_a_broken_connection_is_no_verdict(engine: MockEngine) -> None:
    """A response that never comes is a failure of the exchange, and others go on."""

    def script(received: ReceivedRequest) -> RawResponse | None:
        return RawResponse(then="reset") if b"broken" in received.body else None

    engine.script(script)
    client = EndpointClient(Target(chat_url(engine.url), timeout=5.0))
    responses = dict(client.responses([(ask_of("hi"), 200), (ask_of("broken"), 200)]))
    assert responses[ask_of("hi")].status == 200
    assert responses[ask_of("broken")].failure is not None


def test_a_key_that_is_echoed_is_hidden(engine: MockEngine) -> None:
    """The key never stands in a response that may be written down."""
    engine.answer_next(MockResponse.json({"echo": "secret"}))
    [(_, response)] = exchange_with(engine, "secret").responses([(ask_of("hi"), 200)])
    assert b"secret" not in response.body


def test_a_record_is_read_again(tmp_path, engine: MockEngine) -> None:
    """What was written down is read as it was, and a run goes on behind a line that broke off."""
    path = str(tmp_path / "record.jsonl")
    record, known = open_record(path)
    assert known == {}
    client = EndpointClient(Target(chat_url(engine.url)), lambda _: ask_of("hi").body())
    [(request, response)] = client.responses([(ask_of("hi"), 200)])
    record.add(request, response)
    assert read_record(path) == {request.key(): response}
    record.close()
    with Path(path).open("a") as file:
        file.write('{"key": "x", "sta')
    record, known = open_record(path)
    record.add(request, response)
    record.close()
    assert read_record(path) == {request.key(): response}
    assert known == {request.key(): response}


ABOUT = RecordHeader("http://127.0.0.1:1/v1/chat/completions", "2026-11-30T16:56:46Z")


def test_a_record_says_what_was_asked_and_when(tmp_path, engine: MockEngine) -> None:
    """A record keeps the endpoint and the moment of its beginning, and none of another endpoint is gone on with."""
    path = str(tmp_path / "record.jsonl")
    record, _ = open_record(path, ABOUT)
    assert record_header(path) == ABOUT
    [(request, response)] = EndpointClient(Target(chat_url(engine.url))).responses([(ask_of("hi"), 200)])
    record.add(request, response)
    record.close()
    record, _ = open_record(path, ABOUT._replace(begun="2027-01-01T00:00:00Z"))
    record.close()
    assert record_header(path) == ABOUT
    with pytest.raises(RecordError, match=r"holds the responses of http://127\.0\.0\.1:1/.*: name another file"):
        open_record(path, RecordHeader("http://127.0.0.1:2/v1/chat/completions"))


def test_a_record_without_answers_is_begun_anew(tmp_path) -> None:
    """Where nothing was answered yet, another endpoint may be asked."""
    path = str(tmp_path / "record.jsonl")
    for header in (ABOUT, ABOUT._replace(target="http://127.0.0.1:2/v1/chat/completions")):
        record, _ = open_record(path, header)
        record.close()
        assert record_header(path) == header


def test_a_record_that_says_nothing_of_itself_is_read(tmp_path) -> None:
    """Those that tell only what came back are read like others."""
    path = str(tmp_path / "record.jsonl")
    record, _ = open_record(path)
    record.close()
    assert record_header(path) == RecordHeader()


def test_what_is_no_record_is_told(tmp_path) -> None:
    """A file of something else is rejected with its place, and so is one that is not there."""
    path = tmp_path / "record.jsonl"
    path.write_text("no\nrecord\n")
    with pytest.raises(RecordError, match=r"record\.jsonl\"?:1: is no JSON"):
        read_record(str(path))
    with pytest.raises(RecordError):
        read_record(str(tmp_path / "missing"))
