"""Cases in groups: of each group the first case that matches is merged into the base, in the order of the groups."""

import json
from itertools import product

from compiler.artifact.from_profile import contract_of
from router.artifact.differences import merged_values
from router.artifact.format import freeze, load, serialise
from router.contract.decide import Forward, ServedIds, decide
from router.contract.errors import build_error_response

PROFILE = {
    "mode": {"default": "sampling", "match": [{"mode": "greedy", "when": {"do_sample": False}}]},
    "fields": {
        "temperature": {"min": 0, "max": 1, "default": 1},
        "top_p": {"min": 0.1, "max": 1, "default": 0.9},
    },
    "output": {"max_tokens": {"cap": 100}},
    "case_groups": ["mode", "family"],
    "cases": {
        "mini": {
            "when": {"model": ["*-mini"]},
            "fields": {"temperature": {"max": 0.8, "default": 0.5}, "seed": {"max": 9}},
        },
        "tiny": {"when": {"model": ["*-mini", "*-tiny"]}, "output": {"max_tokens": {"cap": 10}}},
        "greedy": {
            "group": "mode",
            "when": {"mode": "greedy"},
            # What the base has is stated again, and a field that only another case has is deleted.
            "fields": {"temperature": {"default": 1, "drop": True}, "top_p": None, "seed": None},
        },
        "old": {
            "group": "family",
            "when": {"model": ["x1-*"], "fields": {"stream": True}},
            "fields": {"top_p": {"max": 0.5}},
        },
        "x1": {"group": "family", "when": {"model": ["x1-*"]}, "output": {"max_tokens": {"cap": 50, "default": 5}}},
    },
}
IN_GROUPS = (("mini", "tiny"), ("greedy",), ("old", "x1"))


def naive(request):
    """Return the contract of a request by reading the profile as its page says, with no cases left in it."""
    fits = {
        "mini": request["model"].endswith("-mini"),
        "tiny": request["model"].endswith(("-mini", "-tiny")),
        "greedy": request.get("do_sample") is False,
        "old": request["model"].startswith("x1-") and request.get("stream") is True,
        "x1": request["model"].startswith("x1-"),
    }
    profile = {key: value for key, value in PROFILE.items() if key not in {"cases", "case_groups"}}
    for group in IN_GROUPS:
        for name in [name for name in group if fits[name]][:1]:
            case = PROFILE["cases"][name]
            profile = merged_values(
                profile, {key: value for key, value in case.items() if key not in {"when", "group"}}
            )
    return contract_of(profile)


def requests():
    models = ("x1-mini", "x2-mini", "x1-tiny", "x1-max", "y")
    members = product(
        models, (None, False, True), (None, True), (None, 0.7, 0.9), (None, 0.05, 0.6), (None, 10), (None, 40)
    )
    names = ("model", "do_sample", "stream", "temperature", "top_p", "seed", "max_tokens")
    for values in members:
        sent = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        yield {**sent, "messages": [{"role": "user", "content": "hi"}]}


def outcome(request, contract):
    decision = decide(json.dumps(request).encode(), contract, ServedIds((request["model"],)))
    if isinstance(decision, Forward):
        return json.loads(decision.body)
    return build_error_response(decision.error, decision.errors, "an id")


def test_of_each_group_the_first_case_that_matches_applies():
    """Every request is decided as if its profile had been merged for it alone, also from a loaded artifact."""
    contract = contract_of(PROFILE)
    loaded = load(serialise(freeze("groups", contract, ())), "profile.json").contract
    assert loaded == contract
    for request in requests():
        assert outcome(request, loaded) == outcome(request, naive(request)), request


def test_an_artifact_has_each_case_once():
    """Combinations are made when an artifact is loaded; it has one only where its cases do not say all of it."""
    stored = json.loads(serialise(freeze("groups", contract_of(PROFILE), ())))["contract"]
    assert [case["name"] for case in stored["cases"]] == list(PROFILE["cases"])
    assert stored["case_groups"] == PROFILE["case_groups"]
    # `greedy` states the default of the base again, over that of `mini`, and deletes what only `mini` has.
    assert {tuple(each["cases"]) for each in stored["combinations"]} == {
        ("mini", "greedy"),
        ("mini", "greedy", "old"),
        ("mini", "greedy", "x1"),
    }
