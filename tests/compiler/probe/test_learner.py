"""Each rule of the language that can be told from outside is learned as it is, and nothing beside it."""

import json
from pathlib import Path
from typing import Any

import pytest

from compiler.artifact.from_profile import contract_of
from tests.compiler.probe.endpoints import probed

RULES = json.loads(Path(__file__).with_name("rules.json").read_text())


def without_evidence(values: Any) -> Any:
    if isinstance(values, dict):
        return {key: without_evidence(value) for key, value in values.items() if key not in ("source", "name")}
    return values


@pytest.mark.parametrize("profile", RULES, ids=json.dumps)
def test_a_rule_is_learnt_as_it_is(profile) -> None:
    """A draft of an endpoint with one rule, or with a few, has them and no others of which something was asked."""
    names = [f"{section}.{name}" for section, rules in profile.items() for name in rules]
    # What excludes another field is asked about with it.
    alone = "excludes" not in json.dumps(profile)
    found = probed(contract_of(profile), only=tuple(names) if alone else ("fields", "checks.response_format"))
    assert without_evidence(found.draft.values) == profile
    assert not found.draft.mismatches


def test_an_endpoint_that_takes_everything_gives_an_empty_draft() -> None:
    """Where nothing is rejected nothing is written."""
    assert without_evidence(probed(contract_of({})).draft.values) == {}


@pytest.mark.parametrize(("max_body_mib", "written"), [(32, {}), (40, {"max_body_bytes": "40MiB"})])
def test_a_bound_of_the_probe_is_no_limit_of_the_endpoint(max_body_mib, written) -> None:
    """Where the largest body that was tried is accepted, a limit is written only if the default would reject it."""
    contract = contract_of({"limits": {"max_body_bytes": "100MiB"}})
    found = probed(contract, max_body=max_body_mib * 1024 * 1024, only=("limits.max_body_bytes",))
    limits = found.draft.values.get("limits", {})
    assert without_evidence(limits) == written
    assert not written or "no limit of the endpoint" in limits["source"]
    assert any("more was not tried" in line for line in found.learned.undetermined)


MODES = {
    "mode": {
        "default": "thinking",
        "match": [
            {"mode": "non-thinking", "when": {"thinking.type": "disabled"}},
            {"mode": "thinking", "when": {"thinking.type": "enabled"}},
            {"mode": "non-thinking", "when": {"chat_template_kwargs.thinking": False}},
        ],
    },
    "fields": {"temperature": {"allowed": [1]}, "top_p": {"min": 0, "max": 1}},
    "cases": {"non-thinking": {"when": {"mode": "non-thinking"}, "fields": {"temperature": {"allowed": [0.6]}}}},
}


def test_modes_are_learnt_with_what_prevails() -> None:
    """What turns thinking off, which of two ways prevails, and what holds then are learned; the rest is inherited."""
    learned = without_evidence(probed(contract_of(MODES)).draft.values)
    assert learned["cases"] == MODES["cases"]
    assert learned["fields"] == MODES["fields"]
    said = [(each["mode"], *each["when"].items()) for each in learned["mode"]["match"]]
    assert said.index(("thinking", ("thinking.type", "enabled"))) < said.index(
        ("non-thinking", ("chat_template_kwargs.thinking", False))
    )


def test_a_value_that_changes_a_rule_is_learnt_as_a_case() -> None:
    """A rule that holds for one value of another field becomes a case for that value."""
    profile = {
        "fields": {"top_p": {"min": 0, "max": 1}},
        "cases": {"temperature-0": {"when": {"fields": {"temperature": 0}}, "fields": {"top_p": {"allowed": [1]}}}},
    }
    found = probed(contract_of(profile))
    assert not found.draft.mismatches
    assert without_evidence(found.draft.values["cases"])["temperature-0"]["fields"]["top_p"]["allowed"] == [1]


def test_unknown_fields_are_learnt_with_those_that_are_known() -> None:
    """Where unknown fields are rejected, those that are not are listed."""
    found = probed(contract_of({"unknown_fields": {"policy": "reject", "known": ["seed", "user", "max_tokens"]}}))
    assert not found.draft.mismatches
    assert set(found.draft.values["unknown_fields"]["known"]) == {"seed", "user", "max_tokens"}


@pytest.mark.parametrize("only", ["fields.temperature", "fields", "checks.tool_choice", "limits"])
def test_only_what_is_asked_for_is_learnt(only) -> None:
    """With rules named, nothing is asked about others."""
    profile = {
        "fields": {"temperature": {"min": 0, "max": 1}, "n": {"allowed": [1]}},
        "checks": {"tool_choice": {"allowed": ["auto"]}},
        "limits": {"max_images": 1},
    }
    found = probed(contract_of(profile), only=(only,))
    section, _, name = only.partition(".")
    wanted = {section: {name: profile[section][name]} if name else profile[section]}
    assert without_evidence(found.draft.values) == wanted
    abouts = {result.experiment.about for result in found.learned.results}
    assert "fields.top_p" not in abouts or only == "fields"


def test_the_same_answers_give_the_same_draft() -> None:
    """A draft is the same byte for byte when it is learned again."""
    contract = contract_of(MODES)
    assert probed(contract).draft.data == probed(contract).draft.data


def test_every_rule_says_what_was_asked_and_when() -> None:
    """Behind each rule stand the day of the probe and what was accepted and rejected, with the status."""
    found = probed(contract_of({"fields": {"temperature": {"min": 0, "max": 1}}}))
    source = found.draft.values["fields"]["temperature"]["source"]
    assert source == "probe 2026-11-30: 0 and 1 accepted, -0.5 and 1.5 rejected (400)"
