"""Compare a response, and the request that the engine received, with the contract; the result is a verdict."""

import json
from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple

import msgspec

from compiler.verify.check import (
    Check,
    ExpectedAcceptance,
    ExpectedEngineError,
    ExpectedRejection,
    TextPattern,
    Wildcard,
    filled,
    written,
)
from compiler.verify.oracle.forwarded_request import is_same

Result = Literal["pass", "fail", "not observable"]

EVENT_STREAM: Final = "text/event-stream"
UNWELL: Final = frozenset({429, 502, 503, 504})
"""Statuses that describe the endpoint's state and not the request."""

_OK: Final = 200
_BAD_REQUEST: Final = 400
_MOST_SHOWN: Final = 160
_raw_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class EndpointResponse(NamedTuple):
    """The response, and the request that the engine received; None: it received none, or it was not captured.

    failure: why there is no response; all other members are empty then.
    """

    status: int
    content_type: str
    body: bytes
    engine: bytes | None = None
    is_captured: bool = False
    failure: str | None = None


class CheckVerdict(NamedTuple):
    """Whether a check passed, and why not."""

    result: Result
    reason: str = ""


PASS: Final = CheckVerdict("pass")


def evaluate(check: Check, response: EndpointResponse) -> CheckVerdict:
    """Return the verdict on the response to a check's request."""
    if response.failure is not None:
        return CheckVerdict("not observable", response.failure)
    expected = check.expected
    if isinstance(expected, ExpectedEngineError):
        return _assert_engine_error(expected, response)
    if isinstance(expected, ExpectedRejection):
        return _assert_rejection(expected, response)
    return _assert_acceptance(check, expected, response)


def _assert_rejection(expected: ExpectedRejection, response: EndpointResponse) -> CheckVerdict:
    if response.status != expected.status:
        return _unwell(response) or _fail(
            f"answered {response.status}, and {expected.rule} rejects it with {expected.status}"
        )
    difference = _difference(_json(response.body), expected.body, "the body", exact=expected.exact)
    if difference is not None:
        return _fail(difference)
    if response.is_captured and response.engine is not None:
        return _fail("the request was rejected, and yet an engine got it")
    return PASS


def _assert_engine_error(expected: ExpectedEngineError, response: EndpointResponse) -> CheckVerdict:
    if expected.if_rejected and response.status != expected.status:
        return CheckVerdict(
            "not observable", f"the engine does not reject it with {expected.status}, but {response.status}"
        )
    if response.status != expected.status:
        return _unwell(response) or _fail(f"the engine's 400 came back as {response.status} and not {expected.status}")
    difference = _difference(_json(response.body), expected.body, "the body", exact=expected.exact)
    return PASS if difference is None else _fail(difference)


def _assert_acceptance(check: Check, expected: ExpectedAcceptance, response: EndpointResponse) -> CheckVerdict:
    if response.status != _OK:
        if expected.doubt is not None and response.status >= _BAD_REQUEST:
            return CheckVerdict("not observable", expected.doubt)
        return _unwell(response) or _fail(
            f"answered {response.status}, and the contract lets it pass{_error_in(response)}"
        )
    problem = _wrong_stream(expected, response) if expected.streamed else _wrong_answer(expected, response)
    if problem is not None:
        return _fail(problem)
    if response.is_captured:
        problem = _wrong_request(check, expected, response)
        return PASS if problem is None else _fail(problem)
    if check.wants_engine:
        return CheckVerdict(
            "not observable", "the response is as it should be; what the engine got cannot be seen from outside"
        )
    return PASS


def _fail(reason: str) -> CheckVerdict:
    return CheckVerdict("fail", reason)


def _unwell(response: EndpointResponse) -> CheckVerdict | None:
    if response.status not in UNWELL:
        return None
    return CheckVerdict("not observable", f"the endpoint answered {response.status}, which is about its own state")


def _wrong_answer(expected: ExpectedAcceptance, response: EndpointResponse) -> str | None:
    value = _json(response.body)
    if not isinstance(value, dict) or not isinstance(value.get("choices"), list):
        return f"the response is no chat completion: {_cut(response.body.decode(errors='replace'))}"
    if expected.model is not None and value.get("model") != expected.model:
        return f"the response says model {written(value.get('model'))} and not {written(expected.model)}"
    return None


def _wrong_stream(expected: ExpectedAcceptance, response: EndpointResponse) -> str | None:
    if not response.content_type.startswith(EVENT_STREAM):
        return f"the response is no stream of events, but {response.content_type or 'of no type'}"
    lines = [
        line[5:].strip() for line in response.body.decode(errors="replace").splitlines() if line.startswith("data:")
    ]
    if not lines or lines[-1] != "[DONE]":
        return "the stream does not end with [DONE]"
    events = [value for line in lines[:-1] if isinstance(value := _json(line.encode()), dict)]
    names = {event.get("model") for event in events}
    if expected.model is not None and names != {expected.model}:
        return f"the events say model {', '.join(map(written, names))} and not {written(expected.model)}"
    return None if expected.usage is None else _wrong_usage(expected.usage, events)


def _wrong_usage(wanted: str, events: list[dict[str, Any]]) -> str | None:
    """Return what is wrong with the place at which a stream reports its usage."""
    ends = [choice for event in events for choice in _choices(event) if choice.get("finish_reason")]
    in_end = any(choice.get("usage") for choice in ends)
    in_tail = any(event.get("usage") and not _choices(event) for event in events)
    is_in_end, is_in_tail = wanted in {"end_frame", "both"}, wanted in {"tail_frame", "both"}
    if in_end != is_in_end:
        return f"the event that ends the response {'carries' if in_end else 'lacks'} usage"
    if in_tail != is_in_tail:
        return f"an event of usage alone {'comes' if in_tail else 'does not come'}"
    return None


def _choices(event: dict[str, Any]) -> list[dict[str, Any]]:
    choices = event.get("choices")
    return [each for each in choices if isinstance(each, dict)] if isinstance(choices, list) else []


def _wrong_request(check: Check, expected: ExpectedAcceptance, response: EndpointResponse) -> str | None:
    """Return what is wrong with the request that the engine received."""
    if response.engine is None:
        return "the request was answered, and yet no engine got it"
    if expected.untouched:
        same = response.engine == check.request.body()
        return None if same else f"the engine did not get the bytes that were sent: {_cut(response.engine.decode())}"
    got = _json(response.engine)
    wanted = json.loads(filled(written(expected.engine)))
    if not isinstance(got, dict):
        return f"the engine got {_cut(response.engine.decode(errors='replace'))}"
    for name in {**wanted, **got}:
        if name not in got:
            return f"the engine did not get {name}: {_cut(written(wanted[name]))}"
        if name not in wanted:
            return f"the engine got {name}: {_cut(written(got[name]))}, and should get none"
        if not is_same(got[name], wanted[name]):
            return f"the engine got {name}: {_cut(written(got[name]))} and not {_cut(written(wanted[name]))}"
    return _changed_bytes(check, expected, response.engine)


def _changed_bytes(check: Check, expected: ExpectedAcceptance, engine: bytes) -> str | None:
    """Return the member that reached the engine with other bytes than sent, or more than once."""
    got = _raw_members(engine)
    for name, value in dict(check.request.members).items():
        if name not in expected.changed and bytes(got[name]) != filled(value).encode():
            return f"the engine got {name} in other bytes: {_cut(bytes(got[name]).decode(errors='replace'))}"
    names = [name for name, _ in json.loads(engine, object_pairs_hook=list)] if expected.once else []
    twice = [name for name in expected.once if names.count(name) > 1]
    return f"the engine got {twice[0]} more than once" if twice else None


def _difference(value: Any, wanted: Any, at: str, *, exact: bool) -> str | None:  # noqa: ANN401 - any JSON value
    """Return the place at which a value differs from the expected one; None if it does not."""
    if isinstance(wanted, Wildcard):
        return None
    if isinstance(wanted, TextPattern):
        return None if wanted.holds(value) else f"{at} is {_cut(written(value))} and not {_cut(f'{wanted}')}"
    if isinstance(wanted, dict) and isinstance(value, dict):
        return next(_differences(value, wanted, at, exact=exact), None)
    if isinstance(wanted, list) and isinstance(value, list) and len(wanted) == len(value):
        found = (
            _difference(*pair, f"{at}[{index}]", exact=exact)
            for index, pair in enumerate(zip(value, wanted, strict=True))
        )
        return next((each for each in found if each is not None), None)
    return None if is_same(value, wanted) else f"{at} is {_cut(written(value))} and not {_cut(shown_wanted(wanted))}"


def _differences(value: dict[str, Any], wanted: dict[str, Any], at: str, *, exact: bool) -> Iterator[str]:
    for name, inner in wanted.items():
        case_match = name if at == "the body" else f"{at}.{name}"
        if name not in value:
            yield f"{case_match} is missing"
        elif (found := _difference(value[name], inner, case_match, exact=exact)) is not None:
            yield found
    yield from (f"{name} is there, and should not be" for name in value if exact and name not in wanted)


def shown_wanted(wanted: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return an expected value as JSON, with dots where any value matches."""
    return written(_without_gaps(wanted))


def _without_gaps(wanted: Any) -> Any:  # noqa: ANN401
    if isinstance(wanted, Wildcard | TextPattern):
        return "…" if isinstance(wanted, Wildcard) else str(wanted)
    if isinstance(wanted, dict):
        return {name: _without_gaps(value) for name, value in wanted.items()}
    return [_without_gaps(value) for value in wanted] if isinstance(wanted, list) else wanted


def _json(body: bytes) -> Any:  # noqa: ANN401
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _error_in(response: EndpointResponse) -> str:
    text = response.body.decode(errors="replace").strip()
    return f": {_cut(text)}" if text else ""


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
