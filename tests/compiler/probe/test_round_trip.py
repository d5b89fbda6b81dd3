"""The round trip: what is learned from a router that holds a preset is that preset, as far as a client can see."""

import json
from pathlib import Path

import pytest

from compiler.diff.observe import observe
from compiler.diff.observed_changes import observed_changes
from compiler.resolve.presets import preset_names
from compiler.verify.assertion import evaluate
from compiler.verify.generation import Options, derive
from compiler.verify.generation.names import Deployment
from router.contract.schema.model import Contract
from tests.compiler.probe.endpoints import SMALL, preset_contract, probed
from tests.compiler.verify.endpoint import Endpoint
from tests.exhaustive import PRESETS, exhaustive_but

CASES = json.loads(Path(__file__).with_name("round_trips.json").read_text())
KEPT = [case for case in CASES if case["preset"] in PRESETS]
MOST_REQUESTS = 1600


def failing(one: Contract, other: Contract, model: str, max_body: int) -> dict[str, str]:
    """Return which checks of one contract a router of another fails, and why."""
    endpoint = Endpoint(other, (model,))
    found = {}
    for check in derive(one, Deployment.of((model,)), Options(max_body=max_body)).checks:
        # Other names are no matter of this model, and no engine is there that could be told to reject.
        if check.model in one.models.aliases or check.request.engine is not None:
            continue
        verdict = evaluate(check, endpoint.response(check.request)._replace(engine=None, is_captured=False))
        if verdict.result == "fail":
            found[check.id] = verdict.reason
    return found


def unexpected(failures: dict[str, str], differs: dict[str, str]) -> dict[str, str]:
    """Return failures without those in the message alone of rules whose words are known to differ."""
    return {
        check: reason
        for check, reason in failures.items()
        # Of two rules that are broken at once the first one rejects.
        if not (
            reason.startswith("error.message is ")
            and any(f" {path}:" in check or f" order: {path} and " in check for path in differs)
        )
    }


@pytest.mark.parametrize(
    "case", exhaustive_but(KEPT, CASES), ids=lambda case: f"{case['preset']}-{case.get('model', 'any')}"
)
def test_a_draft_of_a_preset_means_what_the_preset_means(case) -> None:
    """No check of a preset fails against its draft, none of the draft against the preset, and every answer is alike."""
    model = case.get("model", "served-model")
    max_body = case.get("max_body_mib", 1) * SMALL
    contract = preset_contract(case["preset"])
    found = probed(contract, model, max_body)
    differs = case.get("differs", {})
    assert not unexpected(failing(contract, found.contract, model, max_body), differs)
    assert not unexpected(failing(found.contract, contract, model, max_body), differs)
    assert {each.result.experiment.about for each in found.draft.mismatches} == set(differs)
    assert found.requests <= MOST_REQUESTS
    seen = observed_changes(observe(contract, found.contract, (model,), max_body=max_body))
    undetermined = [change for change in seen if not any(path in change.path for path in differs)]
    assert not undetermined


def test_every_preset_makes_the_round_trip() -> None:
    """No preset is left out of the cases."""
    assert {case["preset"] for case in CASES} == set(preset_names())
