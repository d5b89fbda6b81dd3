"""The JSON Schema for editors says of a single file what the compiler says, wherever JSON Schema can say it."""

import json
import math
import re
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator, ValidationError, validators

from compiler.diagnostics import ProfileError
from compiler.docs.json_schema import BEYOND, description_of, json_schema
from compiler.language.schema import SCHEMA
from compiler.pipeline import compile_profile
from compiler.resolve.presets import preset_names
from compiler.resolve.selection import Selection, is_path
from compiler.source.tree import plain
from compiler.source.yaml_reader import read_yaml
from router.contract.schema.fields import SAMPLING_FIELDS
from tests.batches import batched
from tests.compiler.cases import all_cases, name_of
from tests.compiler.constraint_values import VALUES
from tests.compiler.profiles import profiles
from tests.exhaustive import exhaustive_but

SCHEMA_OF_EDITORS = json_schema(preset_names())


def ecmascript_pattern(_, pattern, instance, __):
    """Match as editors do, for whom `$` lets no newline pass."""
    if isinstance(instance, str) and not re.search(pattern.replace("$", r"\Z"), instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


EDITOR = validators.extend(Draft7Validator, {"pattern": ecmascript_pattern})(SCHEMA_OF_EDITORS)


def diagnostics_of(values, folder):
    """Return what the compiler says of these values written as a file; JSON is YAML."""
    path = folder / "profile.yaml"
    path.write_text(json.dumps(values))
    try:
        compile_profile(Selection("file", str(path), "SOURCE"))
    except ProfileError as error:
        return [diagnostic for diagnostic in error.diagnostics if diagnostic.severity == "error"]
    return []


def is_beyond(diagnostic, values):
    """Tell whether JSON Schema cannot express what this error is about; each kind has its words in `BEYOND`."""
    if diagnostic.code not in BEYOND:
        return False
    if diagnostic.code == "missing-key":
        is_of_case = diagnostic.message.startswith("cases.") and ".when is" not in diagnostic.message
        return is_of_case or isinstance(values.get("extends"), str)
    if diagnostic.code == "wrong-value":
        is_number = (diagnostic.hint or "").startswith("a size is from") or diagnostic.message.endswith(".nan")
        return is_number or ".body." in diagnostic.message.partition(" is ")[0]
    return True


def agree(values, folder):
    diagnostics = diagnostics_of(values, folder)
    complaints = [error.message for error in EDITOR.iter_errors(values)]
    if not diagnostics:
        assert complaints == [] or unknown_nulls(values)
    elif not all(is_beyond(diagnostic, values) for diagnostic in diagnostics):
        assert complaints, [diagnostic.message for diagnostic in diagnostics]


def test_it_is_a_json_schema():
    """Draft-07's own schema accepts ours."""
    Draft7Validator.check_schema(SCHEMA_OF_EDITORS)
    assert SCHEMA_OF_EDITORS["$schema"] == Draft7Validator.META_SCHEMA["$schema"]


def written_in(case):
    """Yield the profiles of a golden case as bare values, each by itself: its parent becomes the empty preset."""
    for name, text in case.files().items():
        try:
            values = plain(read_yaml(text.encode(), name))
        except ProfileError:
            continue
        if isinstance(values.get("extends"), str) and is_path(values["extends"]):
            values["extends"] = "openai-compatible"
        if "Infinity" not in json.dumps(values) and "NaN" not in json.dumps(values):
            yield values


@batched("case", all_cases(), ids=name_of)
def test_editor_and_compiler_agree_on_the_golden_cases(case, tmp_path):
    """Of every profile of the golden cases, an editor thinks what the compiler thinks."""
    for values in written_in(case):
        agree(values, tmp_path)


WORDS = {"status": 422, "type": "a", "code": 1, "param": "b", "message": "{param}", "body": {"a": [1, "{value}"]}}
FIELD = {
    "required": True,
    "reject": False,
    "type": ["string"],
    "allowed": ["a", "b"],
    "max_items": 2,
    "max_bytes": "2KiB",
    "pattern": "[a-z]",
    "requires": ["x"],
    "excludes": {"y.z": ["1"]},
    "from": "z",
    "map": {"a": "b"},
    "ceiling": 3,
    "drop": False,
    "default": "a",
    "error": {"message": "no", "pattern": WORDS},
    "source": "docs",
}
CASE_SECTIONS = {
    "fields": {"a.b": FIELD, **{f"alone.{key}": {key: values[0]} for key, values in VALUES.items()}},
    "checks": {
        "roles": {"allowed": ["user"], "error": "no", "source": "x"},
        "content_parts": {"allowed": "text", "by_role": {"tool": ["text"]}, "error": {"shape": "no"}},
        "tool_choice": {"allowed": "auto", "requires_tools": ["auto"], "known": True, "error": {"auto": "no"}},
        "images": {"sources": ["data"], "file_prefix": "x", "max_bytes": 1, "max_data_urls": 0},
        "prompt_contains": {"word": "json", "when": {"a": "b"}},
    },
    "unknown_fields": {"policy": "reject", "known": ["a"], "within": {"b.c": {"policy": "drop", "known": ["d"]}}},
    "response": {"stream": {"usage": "end_frame"}},
    "order": ["unknown_fields"],
}
EVERYTHING = {
    "name": "x",
    "extends": None,
    "models": {"aliases": ["a", "b"], "respond_as": "served", "default": "a"},
    "mode": {"default": "a", "match": [{"mode": "b", "model": "c*", "when": {"d": [1, True]}}], "source": "x"},
    "limits": {"max_body_bytes": 1, "max_images": 0, "max_videos": 0, "max_audios": 1, "max_files": 2},
    "output": {"max_tokens": {"cap": 5, "on_exceed": "clamp", "default": 5}},
    "sampling": {
        "conflict": "reject",
        "params": dict.fromkeys(SAMPLING_FIELDS, 1) | {name: {"min": 1, "max": 1} for name in SAMPLING_FIELDS[::2]},
    },
    "errors": {
        "bad_request_type": "x",
        "body": {"error": "{message}"},
        "omit_null": True,
        "codes": {"bad_request": WORDS, "not_found": "no"},
        "engine_400": "{message}",
    },
    **CASE_SECTIONS,
    "cases": {"one": {"when": {"model": ["a"], "mode": "b", "fields": {"c": 1}}, "limits": {"max_images": 1}}},
}
BESIDE = {"order": ["unknown_fields"], "cases": ["mode"]}
"""Sections that others need beside them."""

JUNK_SCALARS = [
    *(None, True, False, 0, 1, -1, -2, 3, 129, 0.0, 0.5, 1.0, 1.5, 2.5, -2.5, 2**53 - 1, 2**53, 1e300),
    *("", "x", "a\n", "\x1b", "x" * 200, "x" * 201, "reject", "allow", "clamp", "served", "1", "0.5"),
    *("1B", "5 MiB ", "1MB", "1 mib", " 1B", "0B", "1KiB\n", "9999999999999999GiB"),
    *("moonshot-kimi", "moonshot", "./gone.yaml", "a.json", "a/b.json"),
]
_JUNK = st.recursive(
    st.sampled_from(JUNK_SCALARS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["min", "max", "cap", "default"]), inner, max_size=3)
    ),
    max_leaves=4,
)


def _places(values, above=()):
    for key in values if isinstance(values, dict) else range(len(values)) if isinstance(values, list) else ():
        yield (*above, key)
        yield from _places(values[key], (*above, key))


PLACES = [list(path) for path in _places(EVERYTHING)]


@pytest.mark.parametrize("path", exhaustive_but(PLACES[::8], PLACES), ids=str)
def test_editor_and_compiler_agree_on_every_value_of_every_key(path, tmp_path):
    """Whatever stands at one key of a profile that is otherwise right, an editor thinks what the compiler thinks."""
    *above, key = path
    pin_or_band = {"min": 1, "max": 1} if _at(EVERYTHING, path) == 1 else 1
    sections = {path[0], *BESIDE.get(path[0], ())}
    for junk in [*JUNK_SCALARS, [], {}, ["a"], ["a", "a"], [None], pin_or_band, {"min": 1}, {"cap": 1}, {"x": 1}]:
        values = deepcopy({section: EVERYTHING[section] for section in sections})
        _at(values, above)[key] = junk
        agree(values, tmp_path)


@st.composite
def mutated(draw):
    """A valid profile with up to three values replaced, removed or added."""
    values = deepcopy(draw(profiles))
    for _ in range(draw(st.integers(1, 3))):
        *above, key = draw(st.sampled_from([*_places(values), ("extends",), ("nmae",), ("sampling",), ("output",)]))
        inner = values
        for step in above:
            inner = inner[step]
        if key in (inner if isinstance(inner, dict) else range(len(inner))) and draw(st.booleans()):
            del inner[key]
        else:
            inner[key] = draw(_JUNK)
    return values


def unknown_nulls(values):
    """Tell whether a null stands under an unknown key, where it deletes nothing: to the compiler no error."""
    return any(
        None in mapping.values() and not set(mapping) <= known
        for path in [(), *_places(values)]
        for mapping, known in [(_at(values, path), _known(path))]
        if isinstance(mapping, dict) and known is not None
    )


def _at(values, path):
    for step in path:
        values = values[step]
    return values


def _known(path):
    rules = {"schema": SCHEMA}
    for step in path:
        branches = rules.get("anyof", [rules])
        if not isinstance(step, str):
            return None
        inner = [branch["schema"][step] for branch in branches if step in branch.get("schema", {})]
        inner += [branch["valuesrules"] for branch in branches if "valuesrules" in branch]
        if not inner:
            return None
        rules = inner[0]
    branches = rules.get("anyof", [rules])
    if any("valuesrules" in branch for branch in branches):
        return None
    return {key for branch in branches for key in branch.get("schema", ()) if isinstance(key, str)}


@given(values=mutated())
def test_editor_and_compiler_agree_on_mutated_profiles(values, tmp_path_factory):
    """However a valid profile is damaged, an editor thinks what the compiler thinks of it."""
    agree(values, tmp_path_factory.getbasetemp())


@given(values=profiles)
def test_editors_accept_what_compiles(values):
    """No editor marks a valid profile."""
    assert EDITOR.is_valid(values)


BEYOND_CASES = {
    "default-above-cap": {"output": {"max_tokens": {"cap": 1, "default": 2}}},
    "empty-band": {"sampling": {"params": {"top_p": {"min": 1, "max": 0.5}}}},
    "band-under-allow": {"sampling": {"conflict": "allow", "params": {"top_p": {"min": 0.5, "max": 1}}}},
    "missing-key": {"extends": "openai-compatible", "output": {"max_tokens": {"default": 2}}},
    "cycle": {"extends": "./profile.yaml"},
    "unreadable-file": {"extends": "./gone.yaml"},
    "wrong-value": {"limits": {"max_body_bytes": "0MiB"}},
    "two-bounds": {"fields": {"a": {"min": 1, "above": 0}}},
    "empty-range": {"fields": {"a": {"min": 1, "max": 0}}},
    "fixed-and-more": {"fields": {"a": {"fixed": 1, "allowed": [1]}}},
    "idle-default": {"fields": {"a": {"default": 1, "drop": True}}},
    "force-and-drop": {"fields": {"a": {"force": 1, "drop": True}}},
    "refused-and-required": {"fields": {"a": {"reject": True, "required": True}}},
    "unfit-value": {"fields": {"a": {"allowed": [1, 2], "default": 3}}},
    "ruled-twice": {"fields": {"n": {"max": 2}}, "sampling": {"params": {"n": 1}}},
    "ungovernable-field": {"fields": {"messages": {"max_items": 2, "type": "array"}}},
    "from-cycle": {"fields": {"a": {"from": "b"}, "b": {"from": ["c", "a"]}}},
    "bad-pattern": {"fields": {"a": {"pattern": "("}}},
    "unknown-placeholder": {"errors": {"engine_400": "{mesage}"}},
    "bare-brace": {"errors": {"engine_400": "}"}},
    "too-deep": {"errors": {"body": {"a": [[[[[[[[1]]]]]]]]}}},
    "never-allowed": {"checks": {"tool_choice": {"allowed": ["auto"], "requires_tools": "named"}}},
    "unknown-rule": {"order": ["fields.a"]},
    "unknown-group": {"cases": {"a": {"group": "b", "when": {"model": "a"}}}},
    "ambiguous-case": {
        "case_groups": ["b"],
        "cases": {
            "a": {"when": {"model": "a"}},
            "b": {"group": "b", "when": {"fields": {"d": [1]}}},
            "a + b": {"group": "b", "when": {"fields": {"c": [1]}}},
        },
    },
    "too-many-combinations": {
        "case_groups": ["b"],
        "cases": {
            f"{group}{number}": {"group": "b"} | {"when": {"fields": {group: number}}}
            if group == "b"
            else {"when": {"fields": {group: number}}}
            for group in "ab"
            for number in range(20)
        },
    },
    "unknown-mode": {"cases": {"a": {"when": {"mode": "b"}}}},
    "empty-when": {"cases": {"a": {"when": {}}}},
    "alias-of-alias": {"models": {"aliases": {"a": {"model": "b"}, "b": {}}}},
    "covered-case": {"cases": {"a": {"when": {"model": "k*"}}, "b": {"when": {"model": "ka"}}}},
}


@pytest.mark.parametrize("code", BEYOND)
def test_what_only_the_compiler_tells(code, tmp_path):
    """Everything that is listed as beyond JSON Schema is so: an editor accepts it, the compiler does not."""
    if code == "empty-value":
        (tmp_path / "profile.yaml").write_text("name:\n")
        with pytest.raises(ProfileError, match="has no value"):
            compile_profile(Selection("file", str(tmp_path / "profile.yaml"), "SOURCE"))
        assert EDITOR.is_valid({"name": None})
        return
    values = BEYOND_CASES[code]
    assert [diagnostic.code for diagnostic in diagnostics_of(values, tmp_path)] == [code]
    assert EDITOR.is_valid(values)
    assert BEYOND[code] in SCHEMA_OF_EDITORS["$comment"]


def test_nan_is_beyond_json():
    """JSON has no NaN, so nothing can be said about it there."""
    assert EDITOR.is_valid({"sampling": {"params": {"top_p": math.nan}}})
    assert not EDITOR.is_valid({"sampling": {"params": {"top_p": math.inf}}})


def test_a_null_under_an_unknown_key_is_marked(tmp_path):
    """To the compiler such a null deletes nothing and vanishes; an editor marks the key, which is unknown."""
    assert diagnostics_of({"nmae": None}, tmp_path) == []
    assert not EDITOR.is_valid({"nmae": None})


def test_what_must_be_there_is_asked_of_who_inherits_nothing():
    """A cap may come from a parent; a profile without one needs its own."""
    half = {"output": {"max_tokens": {"default": 2}}, "sampling": {"params": {"top_p": {"min": 0.5}}}}
    assert EDITOR.is_valid({"extends": "moonshot-kimi", **half})
    assert not EDITOR.is_valid(half)
    assert not EDITOR.is_valid({"extends": None, **half})
    assert not EDITOR.is_valid({"output": {"max_tokens": {"cap": None}}})
    assert EDITOR.is_valid({"output": {"max_tokens": None}})


def test_every_key_is_described_in_the_words_of_the_reference():
    """An editor shows the meaning, what is expected, the default and an example."""
    cap = SCHEMA_OF_EDITORS["properties"]["output"]["properties"]["max_tokens"]["properties"]["default"]
    assert cap["description"] == description_of(SCHEMA["output"]["schema"]["max_tokens"]["schema"]["default"])
    assert cap["description"].splitlines() == [
        "The budget of a request without one; `none` injects nothing.",
        "Expected: a whole number of tokens, from 1 to the cap, or none.",
        "Default: the cap.",
        "Example: 8192",
    ]
