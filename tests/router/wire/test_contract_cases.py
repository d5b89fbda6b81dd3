"""Every shared case: a profile, compiled; a request through gunicorn; what the engine got and the client read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compiler.pipeline import compile_profile
from compiler.resolve.selection import SourceOptions, select
from router.contract.schema.model import Contract
from router.mock_engine import MockEngine, MockResponse
from router.mock_engine.response import JSON
from tests.router.conftest import RouterOf
from tests.router.rawclient import RawAnswer, RawClient
from tests.router.wire.chat import CHAT

pytestmark = pytest.mark.any_server

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "cases" / "contract.jsonl").read_text().splitlines()
    if line.strip()
]
ContractOf = Callable[[dict[str, Any]], Contract]


@pytest.fixture(scope="module")
def contract_of(tmp_path_factory: pytest.TempPathFactory) -> ContractOf:
    """Return what compiles a profile, given as its values, to a contract."""

    def compile_to_contract(profile: dict[str, Any]) -> Contract:
        path = tmp_path_factory.mktemp("profile") / "case.yaml"
        path.write_text(json.dumps(profile))
        return compile_profile(select(SourceOptions(file=str(path)), {})).artifact.contract

    return compile_to_contract


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_case_holds(case: dict[str, Any], contract_of: ContractOf, router_of: RouterOf, engine: MockEngine) -> None:
    """The contract of the case decides about its request as the case says."""
    router = router_of(contract_of(case["profile"]))
    if "engine" in case:
        engine.answer_next(MockResponse(case["engine"]["status"], JSON, case["engine"]["body"].encode()))
    request = case["request"].encode()
    with RawClient(router.port) as client:
        answer = client.post(CHAT, request)
    reached_engine = [received.body for received in engine.received]
    assert len(reached_engine) == (answer.status == 200 or "engine" in case), answer
    for expected, value in case["expect"].items():
        CHECKS[expected](value, answer, request, reached_engine)


def _budget(body: bytes) -> int:
    fields = json.loads(body)
    budgets = [fields.get(name) for name in ("n_predict", "max_completion_tokens", "max_tokens")]
    return next(int(budget) for budget in budgets if budget is not None)


def _check(holds: Callable[[Any, RawAnswer, bytes, list[bytes]], object]) -> Callable[..., None]:
    def check(value: Any, answer: RawAnswer, request: bytes, forwarded: list[bytes]) -> None:
        assert holds(value, answer, request, forwarded), (value, answer, forwarded)

    return check


CHECKS = {
    "status": _check(lambda value, answer, request, forwarded: answer.status == value),
    "same_bytes": _check(lambda value, answer, request, forwarded: (forwarded == [request]) is value),
    "forwarded": _check(lambda value, answer, request, forwarded: json.loads(forwarded[0]) == value),
    "forwarded_has": _check(
        lambda value, answer, request, forwarded: value.items() <= json.loads(forwarded[0]).items()
    ),
    "untouched": _check(lambda value, answer, request, forwarded: all(part.encode() in forwarded[0] for part in value)),
    "effective_max": _check(
        lambda value, answer, request, forwarded: answer.status == 400 or _budget(forwarded[0]) <= value
    ),
    "code": _check(lambda value, answer, request, forwarded: answer.json()["error"]["code"] == value),
    "type": _check(lambda value, answer, request, forwarded: answer.json()["error"]["type"] == value),
    "param": _check(lambda value, answer, request, forwarded: answer.json()["error"]["param"] == value),
    "answer": _check(lambda value, answer, request, forwarded: answer.json() == value),
    "answer_model": _check(lambda value, answer, request, forwarded: answer.json()["model"] == value),
}
