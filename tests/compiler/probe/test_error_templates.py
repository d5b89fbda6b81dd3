"""Words of rejections are learned by example: templates, the shapes of bodies, and what all rejections share."""

import json
from pathlib import Path

import pytest

from compiler.artifact.from_profile import contract_of
from compiler.probe.template_induction import Example, template_of
from tests.compiler.probe.endpoints import probed

PHRASES = json.loads(Path(__file__).with_name("phrases.json").read_text())
FIELDS = {
    "temperature": {"min": 0, "max": 1},
    "top_p": {"min": 0, "max": 1},
    "n": {"allowed": [1]},
    "seed": {"min": 0, "max": 100},
}


@pytest.mark.parametrize("case", PHRASES, ids=lambda case: case["template"] or case["texts"][0][0])
def test_a_template_is_found_by_example(case) -> None:
    """What differs between texts as what they are about does becomes a placeholder; all else stays."""
    examples = [Example(text, details, frozenset(*sent)) for text, details, *sent in case["texts"]]
    template, count = template_of(examples)
    assert template == case["template"]
    assert count == case.get("gives", len(examples))
    assert sum(each.is_given_by(template) for each in examples) == count


def errors_of(errors, fields=None):
    """Return the section `errors` that is learned, and the draft's answers that differ."""
    found = probed(contract_of({"fields": fields or FIELDS, "errors": errors}), only=("fields", "models", "errors"))
    learned = found.draft.values["errors"]
    return {key: value for key, value in learned.items() if key != "source"}, found.draft


@pytest.mark.parametrize(
    "errors",
    [
        {"codes": {"bad_request": {"type": "BadRequest", "code": "InvalidParameter"}}},
        {"codes": {"bad_request": {"code": 1210}, "model_not_found": {"status": 400, "message": "no {model} here"}}},
        {"body": {"error": {"message": "{message}", "type": "{type}"}}},
        {"codes": {"sampling_contract_violation": {"status": 422, "message": "bad {param}: {value}"}}},
    ],
    ids=json.dumps,
)
def test_what_all_rejections_share_is_told_once(errors) -> None:
    """A type, a code, a status, a shape and a sentence that rejections share are learned as words of all."""
    learned, draft = errors_of(errors)
    assert learned == errors
    assert not draft.mismatches


@pytest.mark.parametrize(
    "errors",
    [
        {"body": {"object": "error", "message": "{message}", "type": "{type}", "param": "{null}", "code": "{null}"}},
        {"body": {"error": {"code": "400", "message": "Param Incorrect", "param": "{message}", "type": ""}}},
        {"body": {"error": {"msg": "{message}"}, "trace": "t-{request_id}"}},
        {"body": {"detail": [{"loc": ["body", "{param}"], "msg": "{message}", "type": "{code}"}]}},
        {"body": {"type": "error", "error": {"type": "{type}", "message": "{message}", "http_code": "{status}{null}"}}},
        {"codes": {"bad_request": {"body": {"error": {"message": "<400> Wrong: {message}", "code": "{code}"}}}}},
    ],
    ids=json.dumps,
)
def test_any_shape_of_bodies_is_told_as_it_came(errors) -> None:
    """Whatever shape rejections have, the draft answers each of those that were seen byte for byte alike."""
    assert not errors_of(errors)[1].mismatches


def test_a_rule_has_its_own_words() -> None:
    """What one rule alone says stays with it, by its parts where these differ."""
    error = {
        "too_low": {"code": "greater_than_equal", "message": "Input should be greater than or equal to {min}"},
        "too_high": {"code": "less_than_equal", "message": "Input should be less than or equal to {max}"},
    }
    fields = {**FIELDS, "presence_penalty": {"min": -2, "max": 2, "error": error}}
    found = probed(contract_of({"fields": fields}), only=("fields",))
    assert not found.draft.mismatches
    learned = found.draft.values["fields"]["presence_penalty"]["error"]
    assert {part: words["code"] for part, words in learned.items()} == {
        "too_low": "greater_than_equal",
        "too_high": "less_than_equal",
    }
