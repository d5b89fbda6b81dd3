"""Endpoints in this process that a probe asks, and a probe of the router's own decisions."""

from typing import NamedTuple

from compiler.artifact.from_profile import contract_of
from compiler.pipeline import compile_profile
from compiler.probe.draft import ProbeRun, ProfileDraft, draft_of
from compiler.probe.learner import LearnedContract, ProbeGoal, learn
from compiler.probe.runner import run_learner
from compiler.resolve.selection import Selection
from compiler.verify.assertion import EndpointResponse
from router.contract.schema.model import Contract
from tests.compiler.verify.endpoint import Endpoint

DAY = "2026-11-30"
SMALL = 1024 * 1024


class Probed(NamedTuple):
    """What came of a probe: what was learned, the draft, its contract, and how many different requests it took."""

    learned: LearnedContract
    draft: ProfileDraft
    contract: Contract
    requests: int


def preset_contract(name: str) -> Contract:
    return compile_profile(Selection("preset", name, "SOURCE")).artifact.contract


def sender_for(contract: Contract, model: str, known: dict[str, EndpointResponse] | None = None):
    """Answer as the router does, of which a client sees the response alone."""
    endpoint, responses = Endpoint(contract, (model,)), {} if known is None else known

    def send(chat_requests):
        for request in chat_requests:
            if request.key() not in responses:
                responses[request.key()] = endpoint.response(request)._replace(engine=None, is_captured=False)
        return responses

    return send


def probed(
    contract: Contract, model: str = "served-model", max_body: int = SMALL, only: tuple[str, ...] = ()
) -> Probed:
    """Probe a contract and return what came of it; the draft has compiled."""
    known: dict[str, EndpointResponse] = {}
    learned = run_learner(learn(ProbeGoal(model, max_body, only)), sender_for(contract, model, known))
    draft = draft_of(learned, ProbeRun(model, model, "http://127.0.0.1/v1", DAY, len(known)))
    return Probed(learned, draft, contract_of(draft.values), len(known))
