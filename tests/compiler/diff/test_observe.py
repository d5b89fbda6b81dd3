"""What a client can tell of two contracts is what the router's answers tell: neither more nor less."""

from functools import cache
from itertools import pairwise

import pytest

from compiler.diff.client_view import ClientView
from compiler.diff.observe import ComparedContract, differing, observe, requests_for
from compiler.diff.observed_changes import observed_changes
from compiler.resolve.presets import preset_names
from compiler.verify.assertion import evaluate
from compiler.verify.check import Check
from compiler.verify.generation import Options, derive
from compiler.verify.generation.names import Deployment
from router.contract.schema.model import Contract
from tests.compiler.verify.endpoint import Endpoint
from tests.compiler.verify.mutants import WORDS, Mutant, contract_of, mutants_of
from tests.exhaustive import PRESETS, exhaustive_but

of_preset = cache(contract_of)

MOST_MUTANTS = 10
"""Of a preset; those that are looked at lie evenly among all."""

NOT_COMPARED = {"stream", "engine_400"}
"""What only streams and an engine's own rejections show, which are left out."""


@pytest.mark.parametrize("preset", exhaustive_but(PRESETS, preset_names()))
def test_a_preset_is_as_itself(preset: str) -> None:
    """No request tells a contract from itself, and each has some that could."""
    seen = observe(of_preset(preset), of_preset(preset))
    assert seen.requests
    assert observed_changes(seen) == ()


@cache
def checks_of(preset: str, *, is_own: bool) -> tuple[tuple[Check, ...], tuple[str, ...]]:
    """Return what verify would ask an endpoint of a preset, and the models before which it stands."""
    contract = of_preset(preset)
    deployment = Deployment.for_contract(contract)
    return derive(contract, deployment, Options(is_own=is_own)).checks, deployment.served


def fails(preset: str, other: Contract, *, is_own: bool = False) -> bool:
    """Return whether answers alone, without a look at the engine, tell a contract from that of a preset to verify.

    Where the endpoint is not known to be this project's router, it gives it the benefit of many a doubt.
    """
    checks, served = checks_of(preset, is_own=is_own)
    endpoint = Endpoint(other, served)
    chat_requests = (check for check in checks if check.request.engine is None)
    responses = (
        (check, endpoint.response(check.request)._replace(is_captured=False, engine=None)) for check in chat_requests
    )
    return any(evaluate(check, response).result == "fail" for check, response in responses)


PAIRS = [*pairwise(["zai-glm", *preset_names()])]
REPRESENTATIVE_PAIRS = [
    ("minimax", "mistral"),
    ("moonshot-kimi", "moonshot-kimi-fixed"),
    ("openai", "openai-compatible"),
]


@pytest.mark.parametrize(("one", "other"), exhaustive_but(REPRESENTATIVE_PAIRS, PAIRS))
def test_presets_that_verify_tells_apart_differ(one: str, other: str) -> None:
    """Where an endpoint of one preset fails the checks of another, there is a change, and the other way round, too."""
    changes = observed_changes(observe(of_preset(one), of_preset(other)))
    assert changes or not fails(one, of_preset(other))


@pytest.mark.parametrize("preset", exhaustive_but(PRESETS, preset_names()))
def test_mutants_are_seen_exactly_where_answers_show_them(preset: str) -> None:
    """A mutant that verify catches from outside is a change; one that it catches only at the engine is none."""
    assert not wrongly_seen(preset, list(mutants_of(of_preset(preset))))


@pytest.mark.parametrize(
    "preset", exhaustive_but(["minimax", "openai"], ["minimax", "mistral", "moonshot-kimi-k3", "openai", "stepfun"])
)
def test_mutants_of_words_are_seen(preset: str) -> None:
    """A change of error texts is found exactly where some rejection of the router itself has another text."""
    mutants = [mutant for mutant in mutants_of(of_preset(preset), of_words=True) if WORDS & {*mutant.path}]
    assert not wrongly_seen(preset, mutants)


def wrongly_seen(preset: str, mutants: list[Mutant]) -> list[tuple[str, bool]]:
    """Return those of some mutants of which the responses show another thing than what is seen, and what is seen.

    `verify` holds no endpoint to the router's own sentences, so not to what stands around them in an envelope.
    """
    contract = of_preset(preset)
    deployment = Deployment.for_contract(contract)
    requests = requests_for([ComparedContract(contract, deployment)])
    before = ClientView(contract, deployment.served)
    mutants = [mutant for mutant in mutants if not NOT_COMPARED & {*mutant.path}]
    mutants = [mutant for mutant in mutants if not str(mutant).endswith("'{message}' becomes '{message}x'")]
    wrong = []
    for mutant in mutants[:: -(-len(mutants) // MOST_MUTANTS)]:
        is_seen = any(differing(requests, before, ClientView(mutant.contract, deployment.served)))
        if fails(preset, mutant.contract, is_own=is_seen) != is_seen:
            wrong.append((str(mutant), is_seen))
    return wrong
