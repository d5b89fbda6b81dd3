"""Tables of contracts and requests: one case a line, read by the test of the module that a table is named after.

A line is an object of these members:

    id         names the case within its table
    profile    the contract, as the values of a profile
    request    the request; it asks for the model `served` where it does not say; or
    body       its exact text
    served     the ids that engines serve (default: served, other)
    forwarded  what the engine gets, as a value, the model `served` left out; or
    bytes      its exact text; or `same`: true where it is the client's own object
    refused    what is known of the refusal: rule, code, param, part, message, status; contains: a part of the message
    answer     the body of the refusal, exactly
    violations, mode, case, edits (rules), usage   of the decision
"""

import json
from pathlib import Path
from typing import Any

import pytest

from compiler.artifact.from_profile import contract_of
from router.contract.decide import Forward, Rejection, ServedIds, decide
from router.contract.errors import build_error_response

CASES = Path(__file__).parent / "cases"
REQUEST_ID = "of-this-request"


def cases(name: str) -> list[Any]:
    """Return the cases of a table as parameters."""
    lines = (CASES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines if line.strip()]
    assert len({case["id"] for case in found}) == len(found)
    return [pytest.param(case, id=case["id"]) for case in found]


def body_of(case: dict[str, Any]) -> bytes:
    """Return the body of a case's request."""
    if "body" in case:
        return case["body"].encode()
    return json.dumps({"model": "served", **case["request"]}, ensure_ascii=False).encode()


def check(case: dict[str, Any]) -> None:
    """Hold the decision about a case's request against what the case expects of it."""
    body = body_of(case)
    contract = contract_of(case["profile"])
    decision = decide(body, contract, ServedIds(tuple(case.get("served", ("served", "other")))))
    if "refused" in case or "answer" in case:
        assert isinstance(decision, Rejection), decision
        _check_refusal(case, decision)
    else:
        assert isinstance(decision, Forward), decision
        _check_forwarded(case, body, decision)
    for name in ("violations", "edits"):
        if name in case:
            got = decision.violations if name == "violations" else [edit.rule for edit in decision.edits]
            assert list(got) == case[name], decision
    assert decision.case_selection.mode == case.get("mode", decision.case_selection.mode)
    if "case" in case:
        assert (decision.case_selection.case and decision.case_selection.case.name) == case["case"]


def _check_refusal(case: dict[str, Any], refusal: Rejection) -> None:
    error = refusal.error
    told = build_error_response(error, refusal.errors, REQUEST_ID)
    known = {
        "rule": refusal.rule,
        "code": error.code,
        "param": error.param,
        "part": error.part,
        "message": error.message,
        "status": told.status,
    }
    wanted = dict(case.get("refused", {}))
    assert wanted.pop("contains", "") in error.message
    assert {name: known[name] for name in wanted} == wanted, refusal
    assert json.loads(told.body) == case.get("answer", json.loads(told.body))


def _check_forwarded(case: dict[str, Any], body: bytes, forward: Forward) -> None:
    if "bytes" in case:
        assert forward.body.decode() == case["bytes"]
    left = json.loads(forward.body)
    if "forwarded" in case:
        assert list(left.items()) == list({"model": "served", **case["forwarded"]}.items())
    assert forward.usage == case.get("usage", forward.usage)
    assert (forward.body is body) >= case.get("same", False)
    assert not set(case) - _EXPECTED, case


_EXPECTED = frozenset(
    "id profile request body served forwarded bytes same violations mode case edits usage".split()  # noqa: SIM905
)
