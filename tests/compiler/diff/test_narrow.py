"""What is left of a contract for one model is what holds for requests that ask for it."""

import pytest

from compiler.diff.narrow import of_models, with_aliases
from compiler.diff.observe import observe
from compiler.diff.observed_changes import observed_changes
from tests.compiler.verify.mutants import contract_of
from tests.exhaustive import exhaustive_but


@pytest.mark.parametrize(
    ("preset", "model"),
    exhaustive_but(
        [("minimax", "MiniMax-M2"), ("moonshot-kimi-k3", "kimi-k3")],
        [
            ("deepseek-v4", "deepseek-chat"),
            ("minimax", "MiniMax-M2"),
            ("mistral", "mistral-medium-latest"),
            ("moonshot-kimi-k3", "kimi-k3"),
            ("openai-reasoning", "o3-mini"),
            ("qwen", "qwq-32b"),
            ("stepfun", "step-3.5-flash"),
            ("xiaomi-mimo", "mimo-v2.6"),
            ("zai-glm", "glm-5.3"),
            ("zai-glm", "a-model-of-nobody"),
        ],
    ),
)
def test_a_contract_and_what_is_left_of_it_answer_a_model_alike(preset: str, model: str) -> None:
    """Requests for a model cannot tell a contract from what is left of it, where no condition is about it."""
    contract = contract_of(preset)
    narrowed = of_models(contract, (model,))
    assert not any(case.when.model for case in narrowed.cases)
    assert not any(reading.model for reading in narrowed.mode.match)
    assert set(narrowed.models.aliases) <= {model}
    # Words that list the names tell of the other aliases, too.
    assert observed_changes(observe(with_aliases(contract, (model,)), narrowed, (model,))) == ()


def test_a_condition_that_only_some_of_the_models_match_stays() -> None:
    """Of several models, what only some are for stays a case of its own, and what none is for goes."""
    contract = contract_of("openai-reasoning")
    (first, *_) = contract.cases
    narrowed = of_models(contract, ("o3-mini", "o1"))
    assert [(case.name, case.when) for case in narrowed.cases] == [(first.name, first.when)]
