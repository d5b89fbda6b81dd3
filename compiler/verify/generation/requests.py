"""Requests that test the rules for every request: parsing, model names, streams, engine errors."""

import json
from collections.abc import Iterator
from typing import Any, Final

from compiler.language.samples import shown
from compiler.verify.check import ChatRequest, written
from compiler.verify.generation.fixture import Fixture
from compiler.verify.generation.request_variant import RequestVariant

UNKNOWN_MODEL: Final = "verify-unknown-model"

ENGINE_SAYS: Final = "The engine says no."

ENGINE_ANSWERS: Final[dict[str, Any]] = {
    "nested": {"error": {"message": ENGINE_SAYS, "type": "BadRequestError", "param": None, "code": 400}},
    "flat": {"object": "error", "message": ENGINE_SAYS, "type": "BadRequestError", "code": 400},
    "detail": {"detail": ENGINE_SAYS},
}
"""The bodies of the engine's 400 responses, by name."""

UNTOLD: Final = "untold"
"""The name for an engine without instructions."""

MARK: Final = "verify-engine-answers:"
"""Precedes such a name in the messages of a request; an engine with instructions looks for it."""


def variants_of_reading(fixture: Fixture, *, is_own: bool) -> Iterator[RequestVariant]:
    """Yield requests that are no strict JSON object, or lack what every request has.

    `is_own`: also what only this project's router is known to reject.
    """
    whole = fixture.request()
    yield RequestVariant("a body that is no JSON", whole._replace(text="{"))
    yield RequestVariant("an empty body", whole._replace(text=""))
    yield RequestVariant("an array", whole._replace(text="[]"))
    yield RequestVariant("no model", whole.replaced("model"))
    yield RequestVariant("model null", whole.replaced("model", "null"))
    yield RequestVariant("model 1", whole.replaced("model", "1"))
    for value in ("true", 1, "yes"):
        yield RequestVariant(f"stream {shown(value)}", whole.replaced("stream", written(value)))
    if not is_own:
        return
    text = whole.body().decode()
    yield RequestVariant("a number that is NaN", whole._replace(text=f'{text[:-1]}, "seed": NaN}}'))
    yield RequestVariant("something behind the object", whole._replace(text=f"{text} x"))
    yield RequestVariant("a byte order mark", whole._replace(text=f"\ufeff{text}"))
    yield RequestVariant("a number beyond float64", whole._replace(text=f'{text[:-1]}, "seed": 1e999}}'))
    for name in ("model", "messages"):
        value = dict(whole.members)[name]
        yield RequestVariant(f"{name} twice", whole.replaced(name, value, value))
    yield RequestVariant("stream twice", whole.replaced("stream", "false", "false"))


def variants_of_bytes(fixture: Fixture) -> Iterator[RequestVariant]:
    """Yield requests whose values must reach the engine byte for byte."""
    text = json.dumps(fixture.fields["messages"]).replace("OK", "O\\u004b")
    yield RequestVariant("messages with an escape", fixture.request().replaced("messages", text))
    odd = '{"exponent": 1e2, "minus": -0, "large": 123456789012345678, "point": 1.0}'
    for name in ("metadata", "verify_bytes"):
        request = fixture.request().replaced(name, odd)
        if fixture.accepts(request):
            yield RequestVariant(f"numbers in {name} in unusual notation", request)
            return


def variants_of_models(fixture: Fixture) -> Iterator[RequestVariant]:
    """Yield requests for unknown model names, and for one that is nearly known."""
    yield RequestVariant("a model that is not served", fixture.request({"model": UNKNOWN_MODEL}))
    yield RequestVariant("an empty name", fixture.request({"model": ""}), is_edge=False)
    streamed = fixture.request({"model": UNKNOWN_MODEL, "stream": True})
    yield RequestVariant("a model that is not served, streamed", streamed, is_edge=False)


def variants_of_streams(fixture: Fixture) -> Iterator[RequestVariant]:
    """Yield streamed requests with and without a request for usage."""
    yield RequestVariant("streamed", fixture.request({"stream": True}))
    for asked in (True, False):
        fields = {"stream": True, "stream_options": {"include_usage": asked}}
        yield RequestVariant(f"streamed, with include_usage {shown(asked)}", fixture.request(fields))
    yield RequestVariant("not streamed, stream: false", fixture.request({"stream": False}), is_edge=False)


def variants_of_engine_errors(fixture: Fixture) -> Iterator[RequestVariant]:
    """Yield requests that the engine is instructed to reject."""
    for name in ENGINE_ANSWERS:
        marked = [{**message, "content": f"{fixture.text} {MARK}{name}"} for message in fixture.fields["messages"]]
        request = fixture.request({"messages": marked})._replace(engine=name)
        if fixture.accepts(request):
            yield RequestVariant(f"the engine answers 400, {name}", request)


def streamed(variant: RequestVariant) -> RequestVariant:
    """Return a probe as a streamed request."""
    request = variant.request.replaced("stream", "true")
    return RequestVariant(f"{variant.description}, streamed", request, is_edge=False)


def combined_request(one: ChatRequest, other: ChatRequest, plain: ChatRequest) -> ChatRequest | None:
    """Return a request with the additions of two others; None if they conflict."""
    ours, theirs = _beyond(one, plain), _beyond(other, plain)
    if ours.keys() & theirs.keys() or None in {*ours.values(), *theirs.values()}:
        return None
    changed = {**ours, **theirs}
    kept = [(name, value) for name, value in plain.members if name not in changed]
    return plain._replace(members=(*kept, *((name, value) for name, value in changed.items() if value)))


def _beyond(request: ChatRequest, plain: ChatRequest) -> dict[str, str | None]:
    names = [name for name, _ in request.members]
    there = dict(plain.members)
    beyond: dict[str, str | None] = {name: value for name, value in request.members if there.get(name) != value}
    # Repeated and missing members cannot be combined with other changes.
    beyond |= {name: None for name in names if names.count(name) > 1}
    return beyond | {name: None for name in there if name not in names}
