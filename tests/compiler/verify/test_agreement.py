"""What is derived from a contract's meaning is what the router does, for every preset."""

from functools import cache

import pytest

from compiler.pipeline import compile_profile
from compiler.resolve.presets import preset_names
from compiler.resolve.selection import Selection
from compiler.verify.assertion import evaluate
from compiler.verify.check import Check, CheckSuite, ExpectedRejection
from compiler.verify.generation import Options, derive
from compiler.verify.generation.names import Deployment
from compiler.verify.generation.requests import UNTOLD
from router.contract.schema.combinations import SEPARATOR
from router.contract.schema.model import Contract
from tests.compiler.verify.endpoint import Endpoint
from tests.exhaustive import PRESETS, exhaustive_but

LARGE = 1024 * 1024


@cache
def contract_of(preset: str) -> Contract:
    return compile_profile(Selection("preset", preset, "SOURCE")).artifact.contract


@cache
def derived_of(preset: str, *, is_own: bool) -> CheckSuite:
    contract = contract_of(preset)
    return derive(contract, Deployment.for_contract(contract), Options(is_own=is_own))


def checks_of(preset: str, *, is_own: bool) -> tuple[list[Check], Endpoint]:
    contract = contract_of(preset)
    deployment = Deployment.for_contract(contract)
    suite = derived_of(preset, is_own=is_own)
    small = [check for check in suite.checks if check.request.size() < LARGE and check.request.engine != UNTOLD]
    return small, Endpoint(contract, deployment.served)


@pytest.mark.parametrize("is_own", [True, False], ids=["own", "any"])
@pytest.mark.parametrize("preset", exhaustive_but(PRESETS, preset_names()))
def test_the_router_does_what_the_contract_means(preset: str, is_own: bool) -> None:
    """Each check that is derived agrees with the router's own decision."""
    checks, endpoint = checks_of(preset, is_own=is_own)
    verdicts = {check.id: evaluate(check, endpoint.response(check.request)) for check in checks}
    assert not {name: verdict for name, verdict in verdicts.items() if verdict.result != "pass"}


@pytest.mark.parametrize("preset", exhaustive_but(PRESETS, preset_names()))
def test_every_rule_is_tried(preset: str) -> None:
    """Each rule of a preset has a check, and each that can reject is seen to."""
    contract = contract_of(preset)
    suite = derived_of(preset, is_own=True)
    tried = {check.rule for check in suite.checks} | {each.rule for each in suite.skipped}
    # Some cases apply only together with one of another group.
    cases = {name for check in suite.checks if check.case for name in check.case.split(SEPARATOR)}
    assert {rule.rule for rule in contract.rules} <= tried
    assert {case.name for case in contract.cases if not case.parts} <= cases
    assert any(isinstance(check.expected, ExpectedRejection) for check in suite.checks)


@pytest.mark.parametrize("preset", ["moonshot-kimi-k3", "mistral"])
def test_checks_are_the_same_in_every_run(preset: str) -> None:
    """The checks of a contract have the same order and ids each time, and no id twice."""
    contract = contract_of(preset)
    ids = [check.id for check in derived_of(preset, is_own=False).checks]
    assert ids == [check.id for check in derive(contract, Deployment.for_contract(contract)).checks]
    assert len(ids) == len({*ids})


@pytest.mark.parametrize("preset", exhaustive_but(["mistral"], ["mistral", "zai-glm"]))
def test_a_request_knows_its_size(preset: str) -> None:
    """The size of a request is that of the body that is sent."""
    checks, _ = checks_of(preset, is_own=True)
    assert [check.request.size() for check in checks] == [len(check.request.body()) for check in checks]
