import pytest

from compiler.diagnostics import ProfileError
from compiler.docs.json_schema import value_of
from compiler.language.schema import CASE, SAMPLING_PARAMS, SCHEMA
from compiler.resolve.extends import merge
from compiler.source.tree import Mapping
from compiler.validate.validation import validate
from router.contract.schema.fields import SAMPLING_FIELDS
from router.contract.schema.model import Contract, Sections
from router.contract.schema.named_checks import CHECK_TYPES
from router.contract.schema.sections import (
    Alias,
    Errors,
    Field,
    Limits,
    MaxTokens,
    Mode,
    ModeMatch,
    UnknownFields,
    UnknownMembers,
)
from router.contract.schema.types import ErrorText
from tests.batches import batched
from tests.compiler.chains import layer_of_values


def walked(schema, above=()):
    """Yield every key once: the sections of a case, and the words of each error, are the same everywhere."""
    for key, rules in schema.items():
        yield (*above, key), rules
        is_repeated = above[:1] == ("cases",) and key in SCHEMA and rules is SCHEMA[key]
        if not is_repeated and (key == "bad_request" or "definition" not in rules["meta"]):
            for branch in rules.get("anyof", [rules]):
                yield from walked(members_of(branch), (*above, key))


def members_of(rules):
    """Return the keys of a mapping; of one whose keys a profile chooses, an example of one."""
    if "valuesrules" in rules:
        return {"x": rules["valuesrules"]} if "schema" in rules["valuesrules"] else {}
    return rules.get("schema", {}) if rules.get("type") == "dict" else {}


def completed(path, value):
    """Return a profile with a value at a path, and beside it what must be there."""
    rules, levels = {"type": "dict", "schema": SCHEMA}, []
    for key in path:
        branches = [branch for branch in rules.get("anyof", [rules]) if key in members_of(branch)]
        members = members_of(branches[0])
        levels.append((key, {name: example_of(inner) for name, inner in members.items() if inner.get("required")}))
        rules = members[key]
    for key, beside in reversed(levels):
        value = {**beside, key: value}
    return {**BESIDE.get(path, {}), **value}


def example_of(rules):
    return value_of(rules["meta"]["example"]) if "example" in rules["meta"] else {"model": "x"}


BESIDE = {
    ("order",): {"unknown_fields": {"policy": "reject"}},
    ("cases", "x", "order"): {"unknown_fields": {"policy": "reject"}},
    ("cases", "x", "when", "mode"): {"mode": {"default": "thinking"}},
    ("cases", "x", "group"): {"case_groups": ["mode"]},
}
LEAVES = [(path, rules["meta"]) for path, rules in walked(SCHEMA) if "example" in rules["meta"]]


def test_every_key_says_what_it_means_and_what_is_expected():
    """No key of the language is without the words that errors and the reference need."""
    assert [path for path, rules in walked(SCHEMA) if not {"meaning", "expected"} <= set(rules["meta"])] == []


def test_every_value_says_what_holds_without_it_and_gives_an_example():
    """Whoever may leave a key out is told what that means, either as a value or in words."""
    values = [(path, rules) for path, rules in walked(SCHEMA) if rules.get("type") != "dict" or "schema" not in rules]
    values = [(path, rules) for path, rules in values if "when_missing" not in rules["meta"]]
    assert [path for path, rules in values if "example" not in rules["meta"]] == []
    assert [
        path
        for path, rules in values
        if ("default" in rules["meta"]) + ("absent" in rules["meta"]) != 1 - ("required" in rules)
    ] == []


@batched(("path", "meta"), LEAVES, ids=[".".join(path) for path, _ in LEAVES])
def test_examples_and_defaults_are_valid(path, meta):
    """The example of every key, and its default where it has one, is accepted."""
    for value in (meta["example"], meta.get("default", meta["example"])):
        if path == ("extends",):
            continue
        read = layer_of_values(completed(path, value_of(value))).tree
        validate(merge(Mapping((), read.at), read))


def test_schema_and_contract_have_the_same_sections_and_parameters():
    """What the language can say is what the contract can hold."""
    assert set(SCHEMA) - {"name", "extends"} == set(Contract.__struct_fields__)
    assert set(CASE["schema"]) - {"when", "group", "extends"} == set(Sections.__struct_fields__)
    assert tuple(SAMPLING_PARAMS) == SAMPLING_FIELDS


HELD = {
    "fields.x": (Field, {"fixed"}),
    "models.aliases.x": (Alias, set()),
    "mode": (Mode, set()),
    "limits": (Limits, set()),
    "output.max_tokens": (MaxTokens, set()),
    "unknown_fields": (UnknownFields, set()),
    "unknown_fields.within.x": (UnknownMembers, set()),
    "errors": (Errors, set()),
    "errors.codes.bad_request": (ErrorText, set()),
    **{f"checks.{name}": (check, set()) for name, check in CHECK_TYPES.items()},
}


@pytest.mark.parametrize("path", HELD)
def test_each_section_has_the_keys_of_what_holds_it(path):
    """No key can be written that the contract has no room for, and nothing in the contract cannot be written."""
    struct, written_alone = HELD[path]
    rules = dict(walked(SCHEMA))[tuple(path.split("."))]
    keys = {key for branch in rules.get("anyof", [rules]) for key in branch.get("schema", {})}
    assert keys - written_alone == set(struct.__struct_encode_fields__) - {"parts", "check"}


def test_a_reading_of_the_mode_has_the_keys_of_what_holds_it():
    """The items of a list are held to the contract as well."""
    item = SCHEMA["mode"]["schema"]["match"]["schema"]["schema"]
    assert set(item) == set(ModeMatch.__struct_fields__)
    with pytest.raises(ProfileError):
        validate(layer_of_values({"mode": {"default": "a", "read": [{"mod": "a"}]}}).tree)
