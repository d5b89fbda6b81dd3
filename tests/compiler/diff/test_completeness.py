import json
import random
from contextlib import suppress

import msgspec
import pytest

from compiler.cli import main
from compiler.diagnostics import ProfileError
from compiler.diff import cases
from compiler.diff.cases import UnknownChangeError, compare
from compiler.pipeline import compile_profile
from compiler.resolve.presets import preset_names
from compiler.resolve.selection import Selection
from router.artifact.format import digest_of, load, serialise
from tests.compiler.cases import all_cases
from tests.compiler.diff.settings import pairs


def test_every_member_of_every_section_is_known_to_the_comparison():
    """Two contracts that differ in one member alone, of the base or of a case, differ in a change that is told."""
    unknown, names = [], set()
    for name, before, after in pairs():
        names.add(name)
        if digest_of(before) == digest_of(after):
            continue
        try:
            compare(before, after)
        except UnknownChangeError:
            unknown.append(name)
    assert unknown == []
    # The walk itself reaches into sections, unions, mappings and cases.
    assert {
        "contract.fields.a.requires.a[]",
        "contract.output.max_tokens.cap",
        "contract.checks.images.file_prefix",
        "contract.cases[].sections.limits.source",
    } <= names


def test_what_no_comparison_knows_is_never_equal(tmp_path, monkeypatch, capsys):
    """Where the digests differ and no change is found, `diff` and `check --artifact` say so and end with 1."""
    monkeypatch.setattr(cases, "compare_sections", lambda *_: ())
    (tmp_path / "one.yaml").write_text("limits: {max_images: 1}\n")
    (tmp_path / "two.yaml").write_text("limits: {max_images: 2}\n")
    assert main.main(["build", "one.yaml", "-o", "one.json"]) == 0
    for command in (
        ["diff", "one.json", "two.yaml", "--fail-on", "tighter"],
        ["check", "--artifact", "one.json", "two.yaml"],
    ):
        capsys.readouterr()
        assert main.main(command) == 1
        out, err = capsys.readouterr()
        assert (out, "profilec finds no setting that does" in err) == ("", True)


@pytest.mark.exhaustive
def test_the_order_of_keys_is_no_change(tmp_path, monkeypatch):
    """Whatever compiles equals a copy of its artifact with shuffled keys; beside a change, they add no other one."""
    compiled = 0
    for artifact in artifacts(tmp_path, monkeypatch):
        fresh, copy = artifact.contract, shuffled(artifact).contract
        assert compare(fresh, copy) == compare(copy, fresh) == ()
        other = {"requested": "served", "served": "requested"}[fresh.models.respond_as]
        models = msgspec.structs.replace(copy.models, respond_as=other)
        changes = compare(fresh, msgspec.structs.replace(copy, models=models))
        assert [change.path for change in changes] == ["models.respond_as"]
        compiled += 1
    assert compiled > len(preset_names())


def artifacts(folder, monkeypatch):
    """Yield the artifact of every preset, and of every profile of the golden cases that compiles."""
    yield from (compile_profile(Selection("preset", name, "SOURCE")).artifact for name in preset_names())
    for number, case in enumerate(all_cases()):
        here = folder / str(number)
        here.mkdir()
        for name, text in case.files().items():
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            (here / name).write_bytes(text.encode())
        monkeypatch.chdir(here)
        for name in case.files():
            with suppress(ProfileError):
                yield compile_profile(Selection("file", name, "SOURCE")).artifact


def shuffled(artifact):
    return load(json.dumps(_shuffled(json.loads(serialise(artifact)))).encode(), "copy.json")


def _shuffled(value):
    if isinstance(value, list):
        return [_shuffled(each) for each in value]
    if not isinstance(value, dict):
        return value
    keys = random.Random(1).sample([*value], len(value))
    # The order of the members of an error's body is part of the contract.
    return {key: value[key] if key == "body" else _shuffled(value[key]) for key in keys}
