"""Endpoints in this process that a probe asks, and a probe of the router's own decisions."""

from typing import NamedTuple

from compiler.artifact.from_profile import contract_of
from compiler.pipeline import compile_profile
from compiler.probe.draft import Draft, Run, draft_of
from compiler.probe.learner import Aims, Learnt, learn
from compiler.probe.runner import drive
from compiler.resolve.selection import Selection
from compiler.verify.assertion import Answer
from router.contract.schema.model import Contract
from tests.compiler.verify.endpoint import Endpoint

DAY = "2026-11-30"
SMALL = 1024 * 1024


class Probed(NamedTuple):
    """What came of a probe: what was learnt, the draft, its contract, and how many different requests it took."""

    learnt: Learnt
    draft: Draft
    contract: Contract
    requests: int


def preset_contract(name: str) -> Contract:
    return compile_profile(Selection("preset", name, "SOURCE")).artifact.contract


def answering_of(contract: Contract, model: str, known: dict[str, Answer] | None = None):
    """Answer as the router does, of which a client sees the answer alone."""
    endpoint, answers = Endpoint(contract, (model,)), {} if known is None else known

    def answering(asks):
        for ask in asks:
            if ask.key() not in answers:
                answers[ask.key()] = endpoint.answer(ask)._replace(engine=None, is_captured=False)
        return answers

    return answering


def probed(
    contract: Contract, model: str = "served-model", max_body: int = SMALL, only: tuple[str, ...] = ()
) -> Probed:
    """Probe a contract and return what came of it; the draft has compiled."""
    known: dict[str, Answer] = {}
    learnt = drive(learn(Aims(model, max_body, only)), answering_of(contract, model, known))
    draft = draft_of(learnt, Run(model, model, "http://127.0.0.1/v1", DAY, len(known)))
    return Probed(learnt, draft, contract_of(draft.values), len(known))
