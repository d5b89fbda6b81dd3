import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.artifact.from_profile import contract_of
from compiler.artifact.sizes import bytes_of, size_of
from router.artifact.format import freeze, load, serialise
from router.contract.schema.model import Contract, When
from router.contract.schema.sections import Alias, Field, Interval, Limits, MaxTokens
from router.contract.schema.types import ErrorText
from tests.compiler.profiles import profiles


@given(profiles)
def test_every_valid_profile_freezes_to_what_a_router_reads(values):
    """The artifact of any valid profile is read by the router as the very same contract."""
    artifact = freeze("name", contract_of(values), ())
    assert load(serialise(artifact), "profile.json") == artifact


def test_an_empty_profile_is_the_contract_of_defaults():
    """Absent and empty sections alike mean the defaults."""
    empty = {"models": {}, "limits": {}, "output": {}, "sampling": {"params": {}}, "errors": {}}
    assert contract_of({}) == contract_of(empty) == Contract()


def test_the_default_budget_is_the_cap():
    """Where no default is written, the contract spells out the cap."""
    assert contract_of({"output": {"max_tokens": {"cap": 5.0}}}).output.max_tokens == MaxTokens(5, 5)


def test_numbers_are_normalised_by_their_field():
    """Whole-number fields hold integers; elsewhere an integer stays one and a float stays a float."""
    params = {"n": 2.0, "top_k": {"min": 1.0, "max": 1e3}, "temperature": 1, "top_p": 1.0}
    found = contract_of({"sampling": {"params": params}}).sampling.params
    assert repr(found) == repr({"temperature": 1, "top_p": 1.0, "top_k": Interval(1, 1000), "n": 2})


@pytest.mark.parametrize(
    ("size", "expected"),
    [("5B", 5), ("1KiB", 1024), ("100MiB", 104857600), ("2 GiB ", 2 * 2**30), ("007B", 7)]
    + [
        (wrong, None)
        for wrong in ("5", "5b", "5KB", "5 kib", " 5B", "5B\n", "-5B", "5.0B", "5\tB", "\u0665B", "KiB", "")
    ],
)
def test_sizes_are_digits_and_one_of_four_units(size, expected):
    """A size is digits and B, KiB, MiB or GiB as written, with spaces around the unit, and nothing else."""
    assert bytes_of(size) == expected


@given(st.integers(1, 2**53) | st.integers(1, 2**20).map(lambda number: number * 1024))
def test_a_size_is_written_so_that_it_means_the_same(number):
    """A number of bytes is written in the largest unit that divides it, and reads back as itself."""
    size = size_of(number)
    assert (size if isinstance(size, int) else bytes_of(size)) == number
    assert isinstance(size, int) == bool(number % 1024)


def test_a_value_may_stand_for_a_list_of_one():
    """One value and a list of it are the same contract, wherever several may stand."""
    one = {
        "mode": {"default": "a", "match": [{"mode": "b", "model": "x", "when": {"y": 1}}]},
        "fields": {"a": {"type": "string", "allowed": "b", "requires": "c", "excludes": {"d": 1}, "from": "e"}},
        "checks": {"roles": {"allowed": "user"}, "prompt_contains": {"word": "w", "when": {"f": True}}},
        "cases": {"c": {"when": {"model": "x", "mode": "b", "fields": {"y": 1}}}},
    }
    many = {
        "mode": {"default": "a", "match": [{"mode": "b", "model": ["x"], "when": {"y": [1]}}]},
        "fields": {
            "a": {"type": ["string"], "allowed": ["b"], "requires": ["c"], "excludes": {"d": [1]}, "from": ["e"]}
        },
        "checks": {"roles": {"allowed": ["user"]}, "prompt_contains": {"word": "w", "when": {"f": [True]}}},
        "cases": {"c": {"when": {"model": ["x"], "mode": ["b"], "fields": {"y": [1]}}}},
    }
    assert contract_of(one) == contract_of(many)
    assert contract_of(one).fields["a"].requires == {"c": ()}


def test_fixed_stands_for_allowed_and_default():
    """A fixed value is the only one that is allowed, and the default."""
    field = contract_of({"fields": {"top_p": {"fixed": 0.95}}}).fields["top_p"]
    assert field == Field(allowed=(0.95,), default=0.95)


def test_words_are_a_message_and_parts_stand_apart():
    """A text is the message; of a mapping the members of words are told from the parts of the rule."""
    told = {"status": 422.0, "code": 7.0, "range": "too high", "required": {"param": "x"}}
    field = contract_of({"fields": {"a": {"error": told}}}).fields["a"]
    assert field.error == ErrorText(status=422, code=7)
    assert repr(field.error.status) == "422"
    assert field.parts == {"range": ErrorText(message="too high"), "required": ErrorText(param="x")}
    only_parts = contract_of({"checks": {"tools": {"error": {"name": "no"}}}}).checks["tools"]
    assert (only_parts.error, only_parts.parts) == (None, {"name": ErrorText(message="no")})


def test_a_budget_without_a_default_injects_nothing():
    """The word none means no default, while an absent default is the cap."""
    assert contract_of({"output": {"max_tokens": {"cap": 5, "default": "none"}}}).output.max_tokens.default is None


def test_aliases_are_a_list_or_a_mapping():
    """A listed alias is one that says nothing of its own."""
    assert contract_of({"models": {"aliases": ["a"]}}) == contract_of({"models": {"aliases": {"a": {}}}})
    aliases = contract_of({"models": {"aliases": {"a": {"model": "m", "implies": {"x.y": True}}}}}).models.aliases
    assert aliases == {"a": Alias(model="m", implies={"x.y": True})}


def test_a_case_is_complete():
    """What a case does not say holds as for all requests; a null in it takes something away; cases keep their order."""
    profile = {
        "limits": {"max_body_bytes": "1MiB", "max_images": 3},
        "fields": {"a": {"min": 1, "max": 2}},
        "errors": {"body": {"x": {"y": 1}}},
        "cases": {
            "z": {"when": {"model": "k"}, "limits": {"max_images": None}, "fields": {"a": {"max": None, "below": 9}}},
            "b": {"when": {"model": "l", "mode": None}, "errors": {"body": {"x": None, "z": [None, 1]}}},
        },
    }
    first, second = contract_of(profile).cases
    assert (first.name, second.name) == ("z", "b")
    assert (first.sections.limits, first.sections.fields) == (Limits(2**20, None), {"a": Field(min=1, below=9)})
    assert (second.when, second.sections.errors.body) == (When(model=("l",)), {"z": [None, 1]})
    assert second.sections.fields == {"a": Field(min=1, max=2)}
