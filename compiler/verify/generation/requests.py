"""Requests that try what holds for every request: how it is read, which names are answered, streams, 400s."""

import json
from collections.abc import Iterator
from typing import Any, Final

from compiler.verify.check import Ask, written
from compiler.verify.generation.boundary_values import shown
from compiler.verify.generation.fixture import Situation
from compiler.verify.generation.trial import Probe

UNKNOWN_MODEL: Final = "verify-unknown-model"

ENGINE_SAYS: Final = "The engine says no."

ENGINE_ANSWERS: Final[dict[str, Any]] = {
    "nested": {"error": {"message": ENGINE_SAYS, "type": "BadRequestError", "param": None, "code": 400}},
    "flat": {"object": "error", "message": ENGINE_SAYS, "type": "BadRequestError", "code": 400},
    "detail": {"detail": ENGINE_SAYS},
}
"""What the engine is told to say in a 400, by name."""

UNTOLD: Final = "untold"
"""The name for an engine that nobody told anything."""

MARK: Final = "verify-engine-answers:"
"""Stands before such a name in the messages of a request, where the engine that is told so finds it."""


def probes_of_reading(situation: Situation, *, is_own: bool) -> Iterator[Probe]:
    """Yield requests that are no strict JSON object, or lack what every request has.

    `is_own`: also what only this project's router is known to refuse.
    """
    whole = situation.ask()
    yield Probe("a body that is no JSON", whole._replace(text="{"))
    yield Probe("an empty body", whole._replace(text=""))
    yield Probe("an array", whole._replace(text="[]"))
    yield Probe("no model", whole.replaced("model"))
    yield Probe("model null", whole.replaced("model", "null"))
    yield Probe("model 1", whole.replaced("model", "1"))
    for value in ("true", 1, "yes"):
        yield Probe(f"stream {shown(value)}", whole.replaced("stream", written(value)))
    if not is_own:
        return
    text = whole.body().decode()
    yield Probe("a number that is NaN", whole._replace(text=f'{text[:-1]}, "seed": NaN}}'))
    yield Probe("something behind the object", whole._replace(text=f"{text} x"))
    yield Probe("a byte order mark", whole._replace(text=f"\ufeff{text}"))
    yield Probe("a number beyond float64", whole._replace(text=f'{text[:-1]}, "seed": 1e999}}'))
    for name in ("model", "messages"):
        value = dict(whole.members)[name]
        yield Probe(f"{name} twice", whole.replaced(name, value, value))
    yield Probe("stream twice", whole.replaced("stream", "false", "false"))


def probes_of_bytes(situation: Situation) -> Iterator[Probe]:
    """Yield requests whose values must reach the engine in the very bytes in which they were sent."""
    text = json.dumps(situation.fields["messages"]).replace("OK", "O\\u004b")
    yield Probe("messages with an escape", situation.ask().replaced("messages", text))
    odd = '{"exponent": 1e2, "minus": -0, "large": 123456789012345678, "point": 1.0}'
    for name in ("metadata", "verify_bytes"):
        ask = situation.ask().replaced(name, odd)
        if situation.accepts(ask):
            yield Probe(f"numbers in {name} as nobody writes them", ask)
            return


def probes_of_models(situation: Situation) -> Iterator[Probe]:
    """Yield requests for names that are not answered, and for one that nearly is."""
    yield Probe("a model that nobody serves", situation.ask({"model": UNKNOWN_MODEL}))
    yield Probe("an empty name", situation.ask({"model": ""}), is_edge=False)
    streamed = situation.ask({"model": UNKNOWN_MODEL, "stream": True})
    yield Probe("a model that nobody serves, streamed", streamed, is_edge=False)


def probes_of_streams(situation: Situation) -> Iterator[Probe]:
    """Yield streamed requests, that ask for usage and that do not."""
    yield Probe("streamed", situation.ask({"stream": True}))
    for asked in (True, False):
        fields = {"stream": True, "stream_options": {"include_usage": asked}}
        yield Probe(f"streamed, with include_usage {shown(asked)}", situation.ask(fields))
    yield Probe("not streamed, stream: false", situation.ask({"stream": False}), is_edge=False)


def probes_of_engine_errors(situation: Situation) -> Iterator[Probe]:
    """Yield requests that the engine is told to refuse."""
    for name in ENGINE_ANSWERS:
        told = [{**message, "content": f"{situation.text} {MARK}{name}"} for message in situation.fields["messages"]]
        ask = situation.ask({"messages": told})._replace(engine=name)
        if situation.accepts(ask):
            yield Probe(f"the engine answers 400, {name}", ask)


def streamed(probe: Probe) -> Probe:
    """Return a probe as a streamed request."""
    ask = probe.ask.replaced("stream", "true")
    return Probe(f"{probe.shows}, streamed", ask, is_edge=False)


def together(one: Ask, other: Ask, plain: Ask) -> Ask | None:
    """Return a request that has what two others have beyond a plain one; None where they are at odds."""
    ours, theirs = _beyond(one, plain), _beyond(other, plain)
    if ours.keys() & theirs.keys() or None in {*ours.values(), *theirs.values()}:
        return None
    changed = {**ours, **theirs}
    kept = [(name, value) for name, value in plain.members if name not in changed]
    return plain._replace(members=(*kept, *((name, value) for name, value in changed.items() if value)))


def _beyond(ask: Ask, plain: Ask) -> dict[str, str | None]:
    names = [name for name, _ in ask.members]
    there = dict(plain.members)
    beyond: dict[str, str | None] = {name: value for name, value in ask.members if there.get(name) != value}
    # What is repeated, and what is left out, cannot be put together with anything.
    beyond |= {name: None for name in names if names.count(name) > 1}
    return beyond | {name: None for name in there if name not in names}
