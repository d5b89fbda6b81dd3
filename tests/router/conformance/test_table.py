"""Thousands of bodies, judged, and what every engine then reads in what is forwarded."""

import pytest

from router.contract.decide import Forward, Rejection, ServedIds, decide
from router.contract.schema.model import Contract
from tests.exhaustive import exhaustive_but
from tests.router.conformance.bodies import bodies
from tests.router.conformance.contracts import ALLOWING, CLAMPING, KIMI, OF_FIELDS, OPEN
from tests.router.conformance.engines import engines, llama_cpp, llama_cpp_itself, read_by
from tests.router.conformance.promises import broken_promises
from tests.router.conformance.readers import missing

CONTRACTS = {"open": OPEN, "rejecting": KIMI, "clamping": CLAMPING, "allowing": ALLOWING, "of fields": OF_FIELDS}
AT_LEAST = 3000
AT_LEAST_FORWARDED = 300


@pytest.fixture(scope="module")
def table() -> list[bytes]:
    """All bodies of the table."""
    return bodies()


def test_the_table_is_long_and_always_the_same(table: list[bytes]) -> None:
    """The table has thousands of bodies and comes out the same each time."""
    assert len(table) >= AT_LEAST
    assert table == bodies()


@pytest.mark.parametrize("name", exhaustive_but(["of fields"], CONTRACTS))
def test_no_body_is_judged_one_way_and_read_another(table: list[bytes], name: str) -> None:
    """Whatever is forwarded is the same JSON to every reader and keeps the contract by every engine's own rules."""
    contract = CONTRACTS[name]
    broken = {}
    forwarded = 0
    for body in table:
        verdict = decide(body, contract, ServedIds(("served",)))
        if isinstance(verdict, Rejection):
            assert verdict.error.status == 400 or verdict.error.code == "model_not_found", (body, verdict)
            continue
        assert isinstance(verdict, Forward)
        forwarded += 1
        if complaints := broken_promises(body, verdict, contract):
            broken[body] = complaints
    assert broken == {}
    assert forwarded >= AT_LEAST_FORWARDED


KEPT = '"top_p":0.95,"top_k":1000,"frequency_penalty":0,"presence_penalty":0,"n":1,"max_tokens":5'
MISREAD = [
    ("vLLM", '"max_completion_tokens":0'),
    ("vLLM", '"max_completion_tokens":"1_000"'),
    ("SGLang", '"max_tokens":101,"max_completion_tokens":0'),
    ("SGLang", '"n":" 2 "'),
    ("pydantic alone", '"temperature":"1e1"'),
    ("pydantic alone", '"best_of":2.0'),
    ("first wins", '"max_completion_tokens":101,"max_completion_tokens":5'),
    ("llama.cpp", '"n_predict":-1'),
    ("llama.cpp", '"n_cmpl":4294967298'),
    ("llama.cpp with nlohmann", '"max_completion_tokens":-2147483649'),
    ("llama.cpp with nlohmann", '"n":2.9'),
]


def _complaints(members: str, contract: Contract) -> list[str]:
    body = f'{{"model":"served","messages":[],{KEPT},{members}}}'.encode()
    return broken_promises(body, Forward(body, "served", "served", False, None), contract)


@pytest.mark.parametrize(("name", "members"), MISREAD)
def test_what_is_read_otherwise_would_be_noticed(name: str, members: str) -> None:
    """Had the router forwarded what an engine reads otherwise, the table would name the engine."""
    if name not in engines():
        pytest.skip(f"nlohmann cannot be had here: {missing()}")
    assert _complaints('"seed":1', KIMI) == []
    assert [complaint for complaint in _complaints(members, KIMI) if complaint.startswith(f"{name}: ")]


@pytest.mark.parametrize(
    "members",
    ['"temperature":1.5', '"temperature":null', '"top_p":0.5', '"min_p":0.6', '"best_of":5', '"presence_penalty":1'],
)
def test_a_field_that_breaks_its_rule_would_be_noticed(members: str) -> None:
    """The same for rules of fields, each part of them."""
    kept = '"temperature":1,"presence_penalty":0,"max_tokens":5,"top_p":1,"n":1'
    for written, expected in ((f"{{{kept}}}", False), (f"{{{kept},{members}}}", True)):
        body = f'{{"model":"served","messages":[],{written[1:]}'.encode()
        assert bool(broken_promises(body, Forward(body, "served", "served", False, None), OF_FIELDS)) is expected


def test_the_rules_of_nlohmann_are_retold_rightly(table: list[bytes]) -> None:
    """What the table takes for llama.cpp's reading of a judged body is what nlohmann itself reads."""
    if reason := missing():
        pytest.skip(f"nlohmann cannot be had here: {reason}")
    differing = []
    for body in table:
        verdict = decide(body, KIMI, ServedIds(("served",)))
        if isinstance(verdict, Forward) and read_by(llama_cpp, verdict.body) != read_by(llama_cpp_itself, verdict.body):
            differing.append(verdict.body)
    assert differing == []
