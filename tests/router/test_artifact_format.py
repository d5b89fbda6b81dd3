"""The artifact format is what `build/README.md` and the published JSON Schema say, and stays what it was."""

import hashlib
import json
import re
from copy import deepcopy
from pathlib import Path

import jsonschema
import msgspec
import pytest

from router.artifact.format import ArtifactError, load, read, serialise
from router.artifact.json_schema import artifact_schema
from router.artifact.release import FORMAT_VERSION, shipped_folder
from router.contract.schema.rule_list import Rule
from tests.batches import batched

KEPT = Path(__file__).parent / "artifacts"
GOLDEN = sorted(KEPT.glob("format-*/*.json"))
SHIPPED = [path for path in shipped_folder("build").glob("*.json") if not path.name.endswith(".schema.json")]
EVERYTHING = json.loads((KEPT / f"format-{FORMAT_VERSION}" / "every-section.json").read_text())
DESCRIPTION = (shipped_folder("build") / "README.md").read_text()
SCHEMA = jsonschema.Draft202012Validator(artifact_schema())


def name_of(path):
    return f"{path.parent.name}/{path.name}"


def test_the_artifacts_of_the_format_are_kept():
    """There is a folder of artifacts of today's format alone, and no artifact is new, gone or changed."""
    assert {path.name for path in KEPT.iterdir()} == {f"format-{FORMAT_VERSION}"}
    for folder in KEPT.iterdir():
        listed = dict(line.split()[::-1] for line in (folder / "SHA256SUMS").read_text().splitlines())
        assert listed == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.json")}


@pytest.mark.parametrize("path", GOLDEN, ids=name_of)
def test_kept_artifacts_are_read(path):
    """A kept artifact is read, also where its white space and the order of its keys were changed."""
    artifact = read(path)
    assert load(json.dumps(json.loads(path.read_bytes())).encode(), "") == artifact
    assert serialise(artifact) == path.read_bytes()


@pytest.mark.parametrize("path", [*GOLDEN, *SHIPPED], ids=name_of)
def test_artifacts_follow_the_published_schema(path):
    """Every artifact that was built validates."""
    SCHEMA.validate(json.loads(path.read_bytes()))


@pytest.mark.parametrize("path", GOLDEN, ids=name_of)
def test_the_digest_is_computed_as_described(path, tmp_path, monkeypatch, capsys):
    """The lines of Python in the description print the digest of any artifact."""
    (tmp_path / "profile.json").write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    (lines,) = re.findall(r"```python\n(.*?)```", DESCRIPTION, re.DOTALL)
    exec(compile(lines, "build/README.md", "exec"), {})
    assert capsys.readouterr().out.strip() == json.loads(path.read_bytes())["digest"]


def test_the_schema_is_a_json_schema():
    """Draft 2020-12's own schema accepts ours."""
    jsonschema.Draft202012Validator.check_schema(artifact_schema())


def test_every_member_is_described():
    """No struct of an artifact has a member, and no rule a kind, that the description leaves out."""
    members = {member for struct in artifact_schema()["$defs"].values() for member in struct["properties"]}
    rules = msgspec.json.schema(Rule)["$defs"].values()
    kinds = {kind for struct in rules for kind in struct["properties"].get("kind", {}).get("enum", ())}
    words = set(re.findall(r"[\w]+", " ".join(re.findall(r"`([^`\n]+)`", DESCRIPTION))))
    assert (members | kinds) - words == set()


def objects(value, above=()):
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from objects(inner, (*above, key))
    if isinstance(value, dict):
        yield above


def at(value, path):
    for step in path:
        value = value[step]
    return value


def refused(value):
    with pytest.raises(ArtifactError, match="rebuild it: profilec build SOURCE -o FILE"):
        load(value if isinstance(value, bytes) else json.dumps(value).encode(), "profile.json")
    return True


OF_FREE_NAMES = {"aliases", "codes", "fields", "map", "parts", "within"}


@batched("path", list(objects(EVERYTHING)), ids=str)
def test_neither_more_nor_less_than_the_members_is_read(path):
    """A member too many or too few anywhere is refused; by the schema too, where the members are not of free names."""
    is_free = "body" in path or (bool(path) and path[-1] in OF_FREE_NAMES) or path[-2:] == ("changes", "checks")
    more = deepcopy(EVERYTHING)
    at(more, path)["comment"] = {}
    assert refused(more)
    assert is_free or not SCHEMA.is_valid(more)
    is_stated = path[:1] != ("sources",) and set(path) & {"fields", "checks", "aliases", "errors", "cases", "rules"}
    is_stated = is_stated or set(path) & {"combinations", "mode", "unknown_fields", "params"}
    for member in at(EVERYTHING, path):
        less = deepcopy(EVERYTHING)
        del at(less, path)[member]
        assert refused(less)
        assert is_stated or not SCHEMA.is_valid(less)


TEXT = json.dumps(EVERYTHING)
NEVER_BUILT = {
    "not UTF-8": TEXT.encode("utf-16"),
    "not JSON": TEXT.replace("{", "{,", 1).encode(),
    "a repeated key": TEXT.replace("{", '{"name": "x", ', 1).encode(),
    "beyond float64": TEXT.replace("0.95", "1e999").encode(),
    "not a number": TEXT.replace("0.95", "NaN").encode(),
    "too large": TEXT.encode() + b" " * 1024 * 1024,
    "an older format": {**EVERYTHING, "format_version": FORMAT_VERSION - 1},
    "a newer format": {**EVERYTHING, "format_version": FORMAT_VERSION + 1},
    "a format that is no number": {**EVERYTHING, "format_version": "1"},
    "another pin": TEXT.replace("0.95", "0.9").encode(),
    "another digest": {**EVERYTHING, "digest": "sha256:" + "0" * 64},
    "another order of rules": {**EVERYTHING, "rules": EVERYTHING["rules"][::-1]},
    "a rule less": {**EVERYTHING, "rules": EVERYTHING["rules"][1:]},
    "a mistyped member": TEXT.replace('"max_images": 20', '"max_images": "20"').encode(),
    "another spelling of a number": TEXT.replace('"max_images": 20', '"max_images": 20.0').encode(),
    "a list": [EVERYTHING],
}


@pytest.mark.parametrize("value", NEVER_BUILT.values(), ids=NEVER_BUILT)
def test_what_was_never_built_is_refused(value):
    """What `profilec build` would not have written is refused in one line that says what to run."""
    assert refused(value)
