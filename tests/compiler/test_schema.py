import pytest

from compiler.inheritance import merge
from compiler.reading import read_yaml
from compiler.schema import SAMPLING_PARAMS, SCHEMA
from compiler.tree import Mapping
from compiler.validation import validate
from router.contract.fields import SAMPLING_FIELDS
from router.contract.model import Contract


def walked(schema, above=()):
    for key, rules in schema.items():
        yield (*above, key), rules
        if rules.get("type") == "dict":
            yield from walked(rules["schema"], (*above, key))


LEAVES = [(path, rules["meta"]) for path, rules in walked(SCHEMA) if "example" in rules["meta"]]


def test_every_key_says_what_it_means_and_what_is_expected():
    """No key of the language is without the words that errors and the reference need."""
    assert [path for path, rules in walked(SCHEMA) if not {"meaning", "expected"} <= set(rules["meta"])] == []


def test_every_value_says_what_holds_without_it_and_gives_an_example():
    """Whoever may leave a key out is told what that means, either as a value or in words."""
    values = [(path, rules) for path, rules in walked(SCHEMA) if rules.get("type") != "dict"]
    assert [path for path, rules in values if "example" not in rules["meta"]] == []
    assert [
        path
        for path, rules in values
        if ("default" in rules["meta"]) + ("absent" in rules["meta"]) != 1 - ("required" in rules)
    ] == []


@pytest.mark.parametrize(("path", "meta"), LEAVES, ids=[".".join(path) for path, _ in LEAVES])
def test_examples_and_defaults_are_valid(path, meta):
    """The example of every key, and its default where it has one, is accepted."""
    for value in (meta["example"], meta.get("default", meta["example"])):
        if path == ("extends",):
            continue
        line = "".join(f"{{{key}: " for key in path) + value + "}" * len(path)
        cap = ", cap: 9999" if path[-1] in {"default", "on_exceed"} else ""
        read = read_yaml(line.replace("}", f"{cap}}}", 1).encode(), "profile.yaml")
        validate(merge(Mapping((), read.at), read))


def test_schema_and_contract_have_the_same_sections_and_parameters():
    """What the language can say is what the contract can hold."""
    assert set(SCHEMA) - {"name", "extends"} == set(Contract.__struct_fields__)
    assert tuple(SAMPLING_PARAMS) == SAMPLING_FIELDS
