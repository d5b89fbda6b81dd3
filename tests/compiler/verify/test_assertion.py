"""Verdicts on answers."""

import json
from typing import Any

import pytest

from compiler.verify.assertion import EVENT_STREAM, EndpointResponse, evaluate
from compiler.verify.check import (
    ANY_TEXT,
    WILDCARD,
    ChatRequest,
    Check,
    ExpectedAcceptance,
    ExpectedEngineError,
    ExpectedRejection,
    TextPattern,
)

JSON = "application/json"
ASK = ChatRequest.of({"model": "m", "temperature": 1})
CHAT = {"model": "m", "choices": [{"index": 0, "finish_reason": "stop"}]}


def check_of(expected: Any, *, wants_engine: bool = False) -> Check:
    return Check("id", "rule", None, "m", "shows", ASK, expected, wants_engine)


def answered(status: int, body: Any, **more: Any) -> EndpointResponse:
    return EndpointResponse(status, JSON, json.dumps(body).encode(), **more)


REJECTED = ExpectedRejection(
    "rule", 400, {"error": {"message": TextPattern(("no ", "")), "type": "t", "param": WILDCARD}}, exact=True
)
ERROR = {"error": {"message": "no way", "type": "t", "param": None}}


@pytest.mark.parametrize(
    ("response", "result", "reason"),
    [
        (answered(400, ERROR), "pass", ""),
        (answered(200, CHAT), "fail", "answered 200, and rule rejects it with 400"),
        (answered(400, {"error": {**ERROR["error"], "message": "yes"}}), "fail", "error.message is"),
        (answered(400, {"error": {**ERROR["error"], "code": 1}}), "fail", "code is there, and should not be"),
        (answered(400, {"error": {"message": "no", "type": "t"}}), "fail", "error.message"),
        (answered(400, [1]), "fail", "the body is [1]"),
        (answered(400, ERROR, engine=b"{}", is_captured=True), "fail", "and yet an engine got it"),
        (answered(503, {}), "not observable", "503"),
        (EndpointResponse(0, "", b"", failure="no response in time"), "not observable", "no response in time"),
    ],
)
def test_a_rejection_is_judged(response: EndpointResponse, result: str, reason: str) -> None:
    """A rejection passes with its status and the words that are fixed, where no engine got the request."""
    verdict = evaluate(check_of(REJECTED), response)
    assert verdict.result == result
    assert reason in verdict.reason


ACCEPTED = ExpectedAcceptance({"model": "m", "temperature": 1, "top_p": 0.9}, untouched=False, changed=("top_p",))
GOT = b'{"model": "m", "temperature": 1,"top_p":0.9}'


@pytest.mark.parametrize(
    ("got", "result", "reason"),
    [
        (GOT, "pass", ""),
        (b'{"model": "m", "temperature": 1}', "fail", "the engine did not get top_p: 0.9"),
        (b'{"model": "m", "temperature": 1,"top_p":1}', "fail", "the engine got top_p: 1 and not 0.9"),
        (b'{"model": "m", "temperature": 1.0,"top_p":0.9}', "fail", "the engine got temperature in other bytes"),
        (b'{"model": "m", "temperature": 1,"top_p":0.9,"n":1}', "fail", "the engine got n: 1, and should get none"),
        (None, "fail", "no engine got it"),
    ],
)
def test_what_the_engine_got_is_judged(got: bytes | None, result: str, reason: str) -> None:
    """A request passes that reaches the engine with what the contract changes, all other values in their bytes."""
    verdict = evaluate(check_of(ACCEPTED), answered(200, CHAT, engine=got, is_captured=True))
    assert verdict.result == result
    assert reason in verdict.reason


def test_a_request_without_a_change_keeps_its_bytes() -> None:
    """Where nothing is changed the engine must get the very bytes."""
    check = check_of(ExpectedAcceptance(ASK.fields(), untouched=True))
    assert evaluate(check, answered(200, CHAT, engine=ASK.body(), is_captured=True)).result == "pass"
    assert evaluate(check, answered(200, CHAT, engine=ASK.body() + b" ", is_captured=True)).result == "fail"


def test_what_only_the_engine_shows_is_not_observable_from_outside() -> None:
    """Where nobody looks at the engine, a check of what it gets neither passes nor fails; a rejection still fails."""
    check = check_of(ACCEPTED, wants_engine=True)
    assert evaluate(check, answered(200, CHAT)).result == "not observable"
    assert evaluate(check, answered(400, ERROR)).result == "fail"


def test_an_engine_may_reject_what_is_unusual() -> None:
    """A rejection of something that the contract lets pass says nothing where an engine may reject it by itself."""
    check = check_of(ACCEPTED._replace(doubt="who knows"))
    assert evaluate(check, answered(422, ERROR)) == ("not observable", "who knows")
    assert evaluate(check, answered(200, CHAT)).result == "pass"


@pytest.mark.parametrize(
    ("frames", "usage", "model", "result"),
    [
        ([CHAT], None, None, "pass"),
        ([CHAT], None, "m", "pass"),
        ([CHAT], None, "other", "fail"),
        ([CHAT, {"model": "m", "choices": [], "usage": {"n": 1}}], "tail_frame", None, "pass"),
        ([CHAT, {"model": "m", "choices": [], "usage": {"n": 1}}], "end_frame", None, "fail"),
        ([{"model": "m", "choices": [{"finish_reason": "stop", "usage": {"n": 1}}]}], "end_frame", None, "pass"),
        ([{"model": "m", "choices": [{"finish_reason": "stop", "usage": {"n": 1}}]}], "both", None, "fail"),
    ],
)
def test_a_stream_is_judged(frames: list[Any], usage: str | None, model: str | None, result: str) -> None:
    """A stream passes that names the model and reports its usage where the contract says."""
    body = b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames) + b"data: [DONE]\n\n"
    expected = ExpectedAcceptance({}, untouched=False, model=model, streamed=True, usage=usage)
    assert evaluate(check_of(expected), EndpointResponse(200, EVENT_STREAM, body)).result == result


def test_a_stream_that_does_not_end_fails() -> None:
    """A stream without its last event is no whole answer, and JSON is no stream."""
    expected = ExpectedAcceptance({}, untouched=False, streamed=True)
    assert evaluate(check_of(expected), EndpointResponse(200, EVENT_STREAM, b"data: {}\n\n")).result == "fail"
    assert evaluate(check_of(expected), answered(200, CHAT)).result == "fail"


def test_what_an_engine_rejects_by_itself_is_judged_if_it_does() -> None:
    """Where nobody told the engine to reject, only a rejection can be held against the contract's words."""
    told = ExpectedEngineError(400, {"error": {"message": ANY_TEXT}}, exact=False, if_rejected=True)
    assert evaluate(check_of(told), answered(200, CHAT)).result == "not observable"
    assert evaluate(check_of(told), answered(400, ERROR)).result == "pass"
    assert evaluate(check_of(told), answered(400, {"detail": "no"})).result == "fail"
