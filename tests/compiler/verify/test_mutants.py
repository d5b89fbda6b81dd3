"""A router that has lost a rule, or moved an edge by one step, is found out."""

import re

import pytest

from compiler.pipeline import compile_profile
from compiler.resolve.presets import preset_names
from compiler.resolve.selection import Selection
from compiler.verify.assertion import evaluate
from compiler.verify.generation import Options, derive
from compiler.verify.generation.names import Deployment
from router.contract.schema.model import Contract
from router.contract.schema.rule_list import PART_LIMITS, UnknownFieldsRule
from router.contract.schema.sections import Field, ValueRule
from tests.compiler.verify.endpoint import Endpoint
from tests.compiler.verify.mutants import Mutant, contract_of, is_caught, mutants_of
from tests.exhaustive import PRESETS, exhaustive_but

ALIKE = (
    ("moonshot-kimi-fixed", r"^mode\.", "no case asks for a mode"),
    ("", r"^mode\.default|^mode\.match\.\d+\.mode: 'thinking'", "no case asks for this mode by its name"),
    ("moonshot-", r"fields\.chat_template_kwargs\.thinking\.from", "what it takes over is the default"),
    ("moonshot-kimi-k2.7-code", r"chat_template_kwargs\.thinking\.map", "the value is forced, whatever is mapped"),
    ("openai-reasoning", r"^fields\.temperature\.(min|max)", "only one value is allowed, which lies within"),
    ("openai-reasoning", r"^cases\.0\.sections\.fields\.temperature\.(type|allowed|min|max)", "it is rejected anyway"),
    ("openai-reasoning", r"^cases\.1\.sections\.fields\.stop\.(type|min_items|max_items)", "it is rejected anyway"),
    ("mistral", r"^cases\.0\.sections\.fields\.top_p\.(above|max)", "only one value is allowed, which lies within"),
    ("xiaomi-mimo", r"^fields\.thinking\.type\.allowed\.1: removed", "this value leads into another case"),
    ("xiaomi-mimo", r"^cases\.[02]\.when\.mode", "the other mode has a case before it"),
    ("zai-glm|qwen|deepseek-v4", r"^cases\.\d+\.when\.mode(\.0)?: removed", "no other mode gets there"),
    (
        "",
        r"^mode\.match\.\d+\.when\.(chat_template_kwargs\.)?(thinking\.type|thinking|enable_thinking)\.0: removed",
        "other values are rejected anyway",
    ),
    ("moonshot-", r"^fields\.chat_template_kwargs\.thinking\.map\.disabled", "this value leads into another case"),
    (
        "deepseek-v4",
        r"^cases\.\d+\.sections\.fields\.chat_template_kwargs\.thinking\.map\.disabled",
        "this value leads into another case",
    ),
    ("deepseek-v4", r"^cases\.3(\.|:)", "a request that it is for matches the case of its mode, too"),
    ("qwen", r"^fields\.enable_thinking(\.type)?(\.0)?: removed", "what takes its value asks the same of it"),
    ("qwen", r"^checks\.prompt_contains", "what it asks for is rejected while the model thinks"),
    ("qwen", r"^cases\.0\.sections\.fields\.enable_thinking\.type", "only true is allowed, which is of the type"),
    ("zai-glm", r"^cases\.\d+\.sections\.fields\.chat_template_kwargs\.enable_thinking\.map", "the value is forced"),
    ("deepseek-v4", r"^fields\.chat_template_kwargs\.thinking\.map\.enabled", "this value leads into another case"),
)
"""Mutants that nobody can tell from the contract: a preset, the change, and why both do the same."""


def why_alike(preset: str, contract: Contract, mutant: Mutant) -> str | None:
    """Say why a mutant does what its contract does; None where nothing is known of it."""
    if "known" in mutant.path and _knows_no_less(contract, mutant.contract):
        return "the field is known by a rule of its own, too, and nobody asks for a name that is unknown"
    if (
        "limits" in mutant.path
        and mutant.path[0] == "cases"
        and _part_limits(contract) == _part_limits(mutant.contract)
    ):
        return "the size is held before the case is known"
    found = (why for which, change, why in ALIKE if re.match(which, preset) and re.search(change, str(mutant)))
    return next(found, None)


def _knows_no_less(contract: Contract, mutant: Contract) -> bool:
    pairs = zip(_known(contract), _known(mutant), strict=True)
    return all({*known} <= {*of_mutant} for known, of_mutant in pairs)


def _known(contract: Contract) -> list[tuple[str, ...]]:
    rules = [*contract.rules, *(rule for rules in contract.case_rules.values() for rule in rules)]
    return [rule.known for rule in rules if isinstance(rule, UnknownFieldsRule)]


def _part_limits(contract: Contract) -> list[tuple[int | None, ...]]:
    limits = [case.sections.limits for case in contract.cases]
    return [tuple(getattr(each, member) for member in PART_LIMITS.values()) for each in limits]


EVERY_CONSTRAINT = Contract(
    fields={
        "temperature": Field(min=0, max=2, multiple_of=0.1),
        "seed": Field(multiple_of=3),
        "user": Field(min_length=2, max_length=5),
        "stop": Field(
            type=("string", "array"),
            max_items=4,
            items=ValueRule(type=("string",), min_length=1, max_length=3),
        ),
        "x": Field(items=ValueRule(min=0, max=5, multiple_of=0.5)),
        "y": Field(items=ValueRule(allowed=("a", 1))),
    }
)
"""Constraints that no preset states."""


def test_every_mutant_of_constraints_without_presets_is_caught() -> None:
    """Each change to steps, lengths and the rules of items makes some check fail."""
    deployment = Deployment.for_contract(EVERY_CONSTRAINT)
    checks = derive(EVERY_CONSTRAINT, deployment, Options(is_own=True)).checks
    mutants = list(mutants_of(EVERY_CONSTRAINT))
    assert len(mutants) > len(EVERY_CONSTRAINT.fields)
    assert [str(each) for each in mutants if not is_caught(each, EVERY_CONSTRAINT, checks, deployment.served)] == []


@pytest.mark.parametrize("preset", exhaustive_but(PRESETS, preset_names()))
def test_every_mutant_of_a_preset_is_caught(preset: str, record_property) -> None:
    """Each change to a rule of a preset makes some check fail, but for those that change nothing."""
    contract = contract_of(preset)
    deployment = Deployment.for_contract(contract)
    checks = derive(contract, deployment, Options(is_own=True)).checks
    mutants = [mutant for mutant in mutants_of(contract) if why_alike(preset, contract, mutant) is None]
    missed = [str(mutant) for mutant in mutants if not is_caught(mutant, contract, checks, deployment.served)]
    record_property("caught", f"{len(mutants) - len(missed)} of {len(mutants)}")
    print(f"{preset}: {len(mutants) - len(missed)} of {len(mutants)} mutants caught")  # noqa: T201 - the figure
    assert not missed


FEATURES = """
models: {default: usual, aliases: {usual: {model: served}}}
unknown_fields:
  within:
    thinking: {known: [type]}
    a.b: {policy: drop, known: [c]}
fields:
  thinking.budget_tokens: {max: 9}
checks:
  images: {max_bytes: 400, max_total_bytes: 1000, wrap_bare_url: true}
"""
"""What no preset says."""


def test_every_mutant_of_what_no_preset_says_is_caught(tmp_path) -> None:
    """Each change to a rule that only this profile has makes some check fail, and no check fails on the original."""
    (tmp_path / "features.yaml").write_text(FEATURES)
    contract = compile_profile(Selection("file", str(tmp_path / "features.yaml"), "SOURCE")).artifact.contract
    deployment = Deployment.for_contract(contract)
    checks = derive(contract, deployment, Options(is_own=True)).checks
    endpoint = Endpoint(contract, deployment.served)
    assert [each.id for each in checks if evaluate(each, endpoint.response(each.request)).result == "fail"] == []
    mutants = [mutant for mutant in mutants_of(contract) if mutant.path[0] != "limits"]
    missed = [str(each) for each in mutants if not is_caught(each, contract, checks, deployment.served)]
    assert missed == []
