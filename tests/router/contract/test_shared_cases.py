"""The shared cases, straight through the decision; gunicorn and an engine see them in the wire tests."""

import json

from compiler.artifact.from_profile import contract_of
from router.artifact.format import load
from router.artifact.release import shipped_folder
from router.contract.decide import Rejection, ServedIds, decide
from router.contract.errors import build_error_response
from tests.batches import batched
from tests.router.contract.tables import CASES

SHARED = [json.loads(line) for line in (CASES / "contract.jsonl").read_text(encoding="utf-8").splitlines()]


def _contract(profile):
    if "extends" in profile:
        path = shipped_folder("build") / f"{profile['extends']}.json"
        return load(path.read_bytes(), path.name).contract
    return contract_of(profile)


@batched("case", [case for case in SHARED if "engine" not in case], ids=lambda case: case["id"])
def test_the_decision_is_the_expected_one(case):
    """A request is refused with the expected error or forwarded as the expected bytes."""
    contract = _contract(case["profile"])
    expected = case["expect"]
    body = case["request"].encode()
    decision = decide(body, contract, ServedIds(("served",)))
    if isinstance(decision, Rejection):
        refusal = build_error_response(decision.error, contract.errors)
        error = json.loads(refusal.body)["error"]
        assert refusal.status == expected.get("status", 400)
        for key in ("code", "type", "param"):
            assert error[key] == expected.get(key, error[key])
        return
    assert expected["status"] == 200
    forwarded = json.loads(decision.body)
    assert (decision.body is body) >= expected.get("same_bytes", False)
    assert forwarded == expected.get("forwarded", forwarded)
    assert forwarded.items() >= expected.get("forwarded_has", {}).items()
    assert all(kept.encode() in decision.body for kept in expected.get("untouched", ()))
    assert decision.respond_as == expected.get("answer_model")
