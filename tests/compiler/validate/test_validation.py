import json
import sys
import threading
from collections import Counter

import pytest
from hypothesis import given

from compiler.diagnostics import ProfileError
from compiler.language.schema import SCHEMA
from compiler.source.yaml_reader import read_yaml
from compiler.validate.validation import _ProfileValidator, validate
from tests.compiler.profiles import profiles

DOMAINS = {
    "temperature": ([0, 2, 1.5, 0.0, -0.0], [-0.001, 2.001, 2.0000000001]),
    "top_p": ([1, 1.0, 1e-9], [0, 0.0, -0.0, 1.0000000001, -1]),
    "top_k": ([1, -1, 1000, 2.0, -1.0, 2**53 - 1], [0, -2, 1.5, -1.5, -0.5, 2**53]),
    "min_p": ([0, 1, 0.5], [-1e-9, 1.001]),
    "repetition_penalty": ([2, 1e-9, 1], [0, -1, 2.001]),
    "frequency_penalty": ([-2, 2, 0, -1.5], [-2.001, 2.001]),
    "presence_penalty": ([-2, 2, 0, -1.5], [-2.001, 2.001]),
    "n": ([1, 128, 2.0], [0, 129, -1, 1.5]),
}
NEVER_NUMBERS = [True, False, "1", "", [1], [], None]


def errors_of(values):
    try:
        validate(read_yaml(json.dumps(values).encode(), "profile.yaml"))
    except ProfileError as error:
        return [diagnostic.code for diagnostic in error.diagnostics]
    return []


def with_param(name, value):
    return {"sampling": {"params": {name: value}}}


@pytest.mark.parametrize("name", DOMAINS)
def test_a_pin_stands_in_its_domain(name):
    """Each parameter accepts exactly its domain, edges as section 3 has them, whatever the form of the number."""
    inside, outside = DOMAINS[name]
    assert [value for value in inside if errors_of(with_param(name, value))] == []
    assert [value for value in outside if errors_of(with_param(name, value)) != ["wrong-value"]] == []


@pytest.mark.parametrize("name", DOMAINS)
def test_a_truth_value_or_a_text_is_never_a_number(name):
    """True and false, numbers in quotes, lists and nulls are refused as pins and as edges of bands."""
    edge = 1
    assert [value for value in NEVER_NUMBERS if errors_of(with_param(name, value)) != ["wrong-value"]] == []
    bands = [{"min": value, "max": edge} for value in NEVER_NUMBERS]
    assert [band for band in bands if errors_of(with_param(name, band)) != ["wrong-value"]] == []


@pytest.mark.parametrize("name", DOMAINS)
def test_a_band_stands_in_the_domain(name):
    """Both edges of a band must stand in the domain, for top_k above zero, and may be equal."""
    inside, outside = DOMAINS[name]
    edges = [value for value in inside if name != "top_k" or value > 0]
    assert errors_of(with_param(name, {"min": min(edges), "max": max(edges)})) == []
    assert errors_of(with_param(name, {"min": edges[0], "max": edges[0]})) == []
    assert errors_of(with_param(name, {"min": outside[0], "max": outside[0]})) == ["wrong-value"] * 2


def test_a_band_of_top_k_has_no_special_value():
    """-1, which means all tokens, is no edge of a band."""
    assert errors_of(with_param("top_k", {"min": -1, "max": 5})) == ["wrong-value"]


@pytest.mark.parametrize("path", ["limits.max_images", "limits.max_body_bytes", "output.max_tokens.cap"])
def test_whole_numbers_are_whole_and_no_truth_values(path):
    """Counts and sizes refuse fractions, infinities, truth values and what no JSON reader keeps exactly."""
    section, *rest = path.split(".")

    def profile(value):
        for key in reversed(rest):
            value = {key: value}
        return {section: value}

    assert errors_of(profile(1.0)) == []
    assert errors_of(profile(2**53 - 1)) == []
    for value in [1.5, True, -1, 2**53, [], {}]:
        assert errors_of(profile(value)), value


@given(profiles)
def test_valid_profiles_pass(values):
    """Every profile of the language is accepted."""
    assert errors_of(values) == []


def test_threads_do_not_disturb_each_other():
    """Profiles can be validated in many threads at once, each getting its own errors."""
    found = []

    def work(number):
        value = number % 2  # 0 is outside the domain, 1 inside
        found.append(all(len(errors_of(with_param("top_p", value))) == 1 - value for _ in range(20)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 6


def test_thousands_of_mistakes_are_all_told():
    """Every one of thousands of unknown keys and of wrong items is an error of its own."""
    assert errors_of({f"key{number}": 1 for number in range(4900)}) == ["unknown-key"] * 4900
    assert errors_of({"models": {"aliases": list(range(1000))}}) == ["wrong-value"] * 1000


def test_a_list_that_is_too_long_is_one_mistake():
    """Of a list with more items than are allowed its length is told, not each item."""
    assert errors_of({"models": {"aliases": [1] * 4000}})[0] == "wrong-value"
    assert errors_of({"models": {"aliases": list(range(4000))}}) == ["wrong-value"]


def calls_to_validate(fields):
    """The function calls, of Python and of C, that a valid profile of so many fields takes."""
    rules = {f"f{number}": {"max": 1} for number in range(fields)}
    tree = read_yaml(json.dumps({"fields": rules}).encode(), "big.yaml")
    calls = Counter()
    sys.setprofile(lambda _frame, event, _argument: calls.update([event]))
    try:
        validate(tree)
    finally:
        sys.setprofile(None)
    return calls["call"] + calls["c_call"]


def test_validation_takes_time_in_proportion_to_the_profile():
    """Four times as many fields take four times as many calls, not sixteen times."""
    calls_to_validate(1)  # fills the caches
    assert calls_to_validate(400) <= 4.2 * calls_to_validate(100)


def test_cerberus_accepts_the_schema_of_the_language():
    """The schema is one that Cerberus accepts: validation does not have it checked each time."""
    assert _ProfileValidator(SCHEMA).schema
