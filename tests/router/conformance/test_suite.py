"""The JSONTestSuite through gunicorn: each file as a body and in the places of a request, and what the engine gets."""

import json
from collections.abc import Callable
from typing import Final

import pytest

from router.contract.decide import Forward, ServedIds, decide
from router.contract.schema.model import Contract
from router.mock_engine import MockEngine, MockResponse
from tests.router.conformance.bodies import bodies
from tests.router.conformance.contracts import KIMI, OPEN
from tests.router.conformance.fetched import UnavailableError, json_test_suite
from tests.router.conformance.promises import broken_promises
from tests.router.conformance.readers import missing, nlohmann
from tests.router.conftest import RouterOf
from tests.router.rawclient import RawClient
from tests.router.serving import RunningRouter
from tests.router.wire.chat import CHAT, assert_error

CONTRACTS = {"open": OPEN, "governing": KIMI}
OK: Final = 200
INTERNAL: Final = 500
SAMPLE: Final = 7


def _in_place_of(field: str) -> Callable[[bytes], bytes]:
    members = {"model": b'"served"', field: b"%b", "messages": b"[]"}
    members[field] = b"%b"
    template = b"{" + b",".join(b'"%b":%b' % (key.encode(), value) for key, value in members.items()) + b"}"
    return lambda text: template % text


def _merged(text: bytes) -> bytes:
    """Return a request with the members of the object that a file holds; where it holds none, the file."""
    opened = text.lstrip(b" \t\r\n")
    if not opened.startswith(b"{"):
        return text
    rest = opened[1:].lstrip(b" \t\r\n")
    return b'{"model":"served","messages":[]' + (b"" if rest.startswith(b"}") else b",") + rest


PLACES: dict[str, Callable[[bytes], bytes]] = {
    "the whole body": lambda text: text,
    "members": _merged,
    **{field: _in_place_of(field) for field in ("unknown", "messages", "temperature", "max_tokens", "model", "stream")},
}


@pytest.fixture(scope="module")
def suite() -> dict[str, bytes]:
    """The files of the suite by name."""
    try:
        return json_test_suite()
    except UnavailableError as error:
        pytest.skip(f"the JSONTestSuite cannot be had here: {error}")


@pytest.fixture
def willing(engine: MockEngine) -> MockEngine:
    """An engine that answers every chat, whatever stands in it."""
    engine.script(lambda received: MockResponse.json({}) if received.method == "POST" else None)
    return engine


def _misjudged(body: bytes, contract: Contract, router: RunningRouter, willing: MockEngine) -> list[str]:
    """Send a body and return what is read otherwise than judged; fails where its answer is not what was decided."""
    verdict = decide(body, contract, ServedIds(("served",)))
    with RawClient(router.port) as client:
        answer = client.post(CHAT, body)
    reached = [received.body for received in willing.received]
    willing.clear()
    if isinstance(verdict, Forward):
        assert (answer.status, reached) == (OK, [verdict.body]), (body, answer)
        return broken_promises(body, verdict, contract)
    assert verdict.error.status < INTERNAL, (body, answer)
    assert_error(answer, verdict.error.status, verdict.error.code, verdict.error.param)
    assert reached == [], body
    return []


@pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_every_file_is_judged_as_it_is_read(
    place: Callable[[bytes], bytes],
    contract: Contract,
    suite: dict[str, bytes],
    willing: MockEngine,
    router_of: RouterOf,
) -> None:
    """A file is refused with a 400 of the router's own, or reaches the engine and is read there as it was judged."""
    router = router_of(contract)
    found = {name: _misjudged(place(text), contract, router, willing) for name, text in suite.items()}
    assert {name: complaints for name, complaints in found.items() if complaints} == {}


def test_the_table_is_answered_on_the_wire_as_it_is_judged(willing: MockEngine, router_of: RouterOf) -> None:
    """A sample of the table's bodies gets through gunicorn the answer that was decided, never a 5xx."""
    router = router_of(KIMI)
    found = {body: _misjudged(body, KIMI, router, willing) for body in bodies()[::SAMPLE]}
    assert {body: complaints for body, complaints in found.items() if complaints} == {}


def test_files_are_taken_as_their_names_say(suite: dict[str, bytes]) -> None:
    """In a field that nobody governs every file that must be accepted is, and every one that must not be is not."""
    place = PLACES["unknown"]
    taken = {
        name for name, text in suite.items() if isinstance(decide(place(text), KIMI, ServedIds(("served",))), Forward)
    }
    assert {name for name in suite if name.startswith("y_")} - taken == set()
    assert {name for name in taken if name.startswith("n_")} == set()


def test_nlohmann_takes_part() -> None:
    """The reader of llama.cpp is among those that are asked, or it is said why not."""
    if reason := missing():
        pytest.skip(f"nlohmann cannot be had here: {reason}")
    assert nlohmann(b'{"n":4294967297}') == {"value": {"n": 4294967297}, "whole": {"n": 1}, "real": {"n": 4294967297.0}}
    assert json.dumps(nlohmann(b'{"a":true}')["whole"]) == '{"a": 1}'
