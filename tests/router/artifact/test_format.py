"""The artifact: its bytes, its digest, and everything that is refused."""

import hashlib
import json
import os
from pathlib import Path

import msgspec
import pytest

from router.artifact import format as artifact_format
from router.artifact import release
from router.artifact.format import ArtifactError, Source, freeze, load, read, serialise
from router.artifact.layout import LINE_LENGTH, laid_out
from router.artifact.release import FORMAT_VERSION, shipped_folder
from router.contract.schema.model import Case, Contract, Sections, When
from router.contract.schema.named_checks import MessageTools, Roles, Tools
from router.contract.schema.sections import (
    Alias,
    Errors,
    Field,
    Interval,
    Limits,
    MaxTokens,
    Mode,
    Models,
    ModeMatch,
    Output,
    Response,
    Sampling,
    Stream,
    UnknownFields,
)
from router.contract.schema.types import ErrorText
from tests.batches import batched

GROWN = {
    "checks": {"roles": Roles(allowed=("user", "system"), error=ErrorText(message="no {value}"))},
    "fields": {
        "thinking.type": Field(allowed=("enabled", "disabled"), source="docs"),
        "stop": Field(max_items=4, parts={"items": ErrorText(code=7)}),
        "seed": Field(sources=("random_seed",), default=1.5, requires={"user": (True, "x")}),
    },
    "order": ("checks.roles",),
    "response": Response(Stream("end_frame")),
    "unknown_fields": UnknownFields(policy="reject", known=("user",)),
}
SOURCES = (Source("preset", "root", "0" * 64), Source("file", "../é.yaml", "f" * 64))
FULL = Contract(
    errors=Errors("vendor_error"),
    limits=Limits(max_body_bytes=1024, max_images=3),
    models=Models(
        {"kimi-é": Alias(), "a/b": Alias("served", {"thinking.type": "disabled"})}, respond_as="served", default="a/b"
    ),
    mode=Mode("thinking", (ModeMatch("quiet", (), {"thinking.type": ("disabled",)}),)),
    output=Output(MaxTokens(cap=100, default=40, on_exceed="clamp")),
    sampling=Sampling("reject", {"temperature": Interval(0, 1.5), "top_p": 1.0, "top_k": 10**30, "n": 1}),
)
FULL = msgspec.structs.replace(FULL, **GROWN, cases=(Case("quiet", When(mode=("quiet",)), Sections(**GROWN)),))
WRITTEN = serialise(freeze("kimi", FULL, SOURCES))
REBUILD = "profilec build"


def _leaves(value, path=()):
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, (*path, key))
    else:
        yield path


def _objects(value, path=()):
    if isinstance(value, dict | list):
        if isinstance(value, dict):
            yield path
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _objects(inner, (*path, key))


def _at(value, path):
    for key in path:
        value = value[key]
    return value


def _changed(value):
    """Return other values, of the same type where there is one, that an editor might write."""
    if isinstance(value, bool) or value is None:
        return [1, "x"]
    if isinstance(value, int):
        return [value + 1, value - 1, float(value), str(value), bool(value), None]
    if isinstance(value, float):
        return [value + 0.5, int(value), str(value), None]
    if isinstance(value, list | dict):
        return [1, None, "x"]
    texts = [value + "x", value.upper() if value.upper() != value else value.lower() + "y", ""]
    return [*(text for text in texts if text != value), 1, None]


def _rewritten(value):
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).encode() + b"\n"


PARSED = json.loads(WRITTEN)
BOUND_LEAVES = [path for path in _leaves(PARSED) if path[0] in {"contract", "rules", "digest", "format_version"}]


@pytest.mark.parametrize("contract", [Contract(), FULL], ids=["defaults", "full"])
def test_what_is_written_is_read_back(contract):
    """An artifact survives writing and reading, and gives the same bytes again."""
    frozen = freeze("name", contract, SOURCES)
    again = load(serialise(frozen), "here")
    assert again == frozen
    assert serialise(again) == serialise(frozen)


def test_the_file_is_made_to_be_diffed():
    """UTF-8, sorted keys, what fits into a line in one, a newline at the end; every default is spelled out."""
    lines = WRITTEN.decode().splitlines()
    assert '      "stop": {"max_items": 4, "parts": {"items": {"code": 7}}},' in lines
    assert max(map(len, lines)) <= LINE_LENGTH
    assert (lines[0], lines[-1], WRITTEN[-2:]) == ("{", "}", b"}\n")
    assert list(PARSED) == sorted(PARSED)
    short, long = "x" * 51, "z" * 49  # one character more each, or less, is another layout
    assert laid_out({"outer": {"b": [short, short], "a": {"long": [long, long]}}}) == (
        '{\n  "outer": {\n    "a": {\n      "long": [\n'
        f'        "{long}",\n        "{long}"\n      ]\n    }},\n    "b": ["{short}", "{short}"]\n  }}\n}}\n'
    )
    assert "kimi-é".encode() in WRITTEN
    assert json.loads(serialise(freeze("plain", Contract(), ())))["contract"] == {
        "case_groups": [],
        "cases": [],
        "checks": {},
        "combinations": [],
        "errors": {
            "bad_request_type": None,
            "body": None,
            "codes": {},
            "engine_400": None,
            "omit_null": False,
            "source": None,
        },
        "fields": {},
        "limits": {
            "max_body_bytes": 32 * 1024 * 1024,
            "max_images": None,
            "max_videos": None,
            "max_audios": None,
            "max_files": None,
            "source": None,
        },
        "mode": {"default": None, "match": [], "source": None},
        "models": {"aliases": {}, "default": None, "respond_as": "requested"},
        "order": [],
        "output": {"max_tokens": None},
        "response": {"stream": {"source": None, "usage": "as_asked"}},
        "sampling": {"conflict": "reject", "params": {}, "source": None},
        "unknown_fields": {},
    }


def test_the_digest_is_over_the_contract_alone():
    """The digest is the SHA-256 of the contract on one line; name and sources do not enter."""
    text = json.dumps(PARSED["contract"], sort_keys=True, ensure_ascii=False)
    assert PARSED["digest"] == "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    assert freeze("another", FULL, ()).digest == PARSED["digest"]


def test_numbers_keep_their_kind():
    """`1.0` stays a float, `1` an integer, and integers of any size are exact."""
    params = load(WRITTEN, "here").contract.sampling.params
    assert [repr(params[name]) for name in ("top_p", "top_k", "n")] == ["1.0", str(10**30), "1"]
    assert [repr(end) for end in (params["temperature"].min, params["temperature"].max)] == ["0", "1.5"]


def test_rules_stand_in_the_order_in_which_they_are_checked():
    """The body limit, what `order` names, unknown fields, sampling in its order, fields, checks, images, the budget."""
    assert PARSED["rules"] == [
        "limits.max_body_bytes",
        "checks.roles",
        "unknown_fields",
        "sampling.params.temperature",
        "sampling.params.top_p",
        "sampling.params.top_k",
        "sampling.params.n",
        "fields.seed",
        "fields.stop",
        "fields.thinking.type",
        "limits.max_images",
        "output.max_tokens",
    ]


@batched("path", BOUND_LEAVES, ids=lambda path: ".".join(map(str, path)))
def test_a_hand_edited_value_is_refused(path):
    """No value of the contract, the rules or the digest can be changed, also not from `1` to `1.0`."""
    for other in _changed(_at(PARSED, path)):
        edited = json.loads(WRITTEN)
        _at(edited, path[:-1])[path[-1]] = other
        with pytest.raises(ArtifactError, match=REBUILD):
            load(_rewritten(edited), "here")


@batched("path", list(_leaves(PARSED)), ids=lambda path: ".".join(map(str, path)))
def test_a_removed_value_is_refused(path):
    """Nothing can be left out, also not what equals a default."""
    edited = json.loads(WRITTEN)
    del _at(edited, path[:-1])[path[-1]]
    if path[0] != "sources" or isinstance(path[-1], str):
        with pytest.raises(ArtifactError, match=REBUILD):
            load(_rewritten(edited), "here")


@batched("path", list(_objects(PARSED)), ids=lambda path: ".".join(map(str, path)) or "top")
@batched("key", ["unknown", "", "Name", "two\nlines", "\ud800"])
def test_an_unknown_key_is_refused_at_every_level(path, key):
    """A key that this release does not know is an error of one line, wherever it stands."""
    edited = json.loads(WRITTEN)
    _at(edited, path)[key] = 1
    with pytest.raises(ArtifactError, match=REBUILD) as refused:
        load(json.dumps(edited).encode(), "here")
    assert str(refused.value).isprintable()


def test_reordered_rules_are_refused():
    """The order of the rules is part of what was built."""
    edited = json.loads(WRITTEN)
    edited["rules"].reverse()
    with pytest.raises(ArtifactError, match="edited by hand"):
        load(_rewritten(edited), "here")


def test_a_recomputed_digest_does_not_hide_a_key():
    """A file whose digest was made to fit still has its rules compared."""
    edited = json.loads(WRITTEN)
    edited["contract"]["sampling"]["params"].pop("n")
    text = json.dumps(edited["contract"], sort_keys=True, ensure_ascii=False)
    edited["digest"] = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    with pytest.raises(ArtifactError, match="edited by hand"):
        load(_rewritten(edited), "here")


@pytest.mark.parametrize("rewrite", [json.dumps, lambda value: json.dumps(value, indent=4) + "\r\n"])
def test_another_layout_is_no_edit(rewrite):
    """A formatter that changes spacing, key order or escapes changes nothing that was frozen."""
    again = json.loads(WRITTEN)
    reordered = dict(reversed(again.items()))
    assert load(rewrite(reordered).encode(), "here") == load(WRITTEN, "here")


@pytest.mark.parametrize("version", [0, 1, FORMAT_VERSION - 1, FORMAT_VERSION + 1, 10**6, -1])
def test_an_unknown_version_is_refused_with_what_to_run(version):
    """An older or newer format is rejected in one line: that format, ours, and the command to rebuild."""
    edited = {**json.loads(WRITTEN), "format_version": version}
    with pytest.raises(ArtifactError, match=REBUILD) as refused:
        load(_rewritten(edited), "here")
    assert f"artifact format {version}, but this release reads only format {FORMAT_VERSION}" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "the profilec of the router's release" in str(refused.value)


@pytest.mark.parametrize("version", ["1", 1.0, True, None, [1]])
def test_a_version_that_is_no_integer_is_refused(version):
    """Only a whole number is a version."""
    with pytest.raises(ArtifactError, match=REBUILD):
        load(_rewritten({**json.loads(WRITTEN), "format_version": version}), "here")


NOT_ARTIFACTS = {
    "empty": b"",
    "YAML": b"name: kimi\n",
    "array": b"[]",
    "number": b"1",
    "null": b"null",
    "empty object": b"{}",
    "cut off": WRITTEN[:-3],
    "something behind": WRITTEN + b"x",
    "twice": WRITTEN * 2,
    "NUL behind": WRITTEN + b"\x00",
    "BOM": b"\xef\xbb\xbf" + WRITTEN,
    "UTF-16": WRITTEN.decode().encode("utf-16"),
    "Latin-1": WRITTEN.decode().encode("latin-1"),
    "NaN": WRITTEN.replace(b"1.5", b"NaN"),
    "Infinity": WRITTEN.replace(b"1.5", b"Infinity"),
    "beyond float64": WRITTEN.replace(b"1.5", b"1e400"),
    "a float beyond float64": WRITTEN.replace(b"1.5", b"-1.5e999"),
    "an integer of 5,000 digits": WRITTEN.replace(b"1024", b"9" * 5000),
    "a lone surrogate": WRITTEN.replace(b"vendor_error", b"\\ud800"),
    "a repeated key": WRITTEN.replace(b'"name": "kimi"', b'"name": "kimi", "name": "kimi"'),
    "a repeated key, escaped": WRITTEN.replace(
        b'"conflict": "reject"', b'"conflict": "reject", "confl\\u0069ct": "reject"'
    ),
    "a comment": WRITTEN.replace(b"{", b"{ // x", 1),
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000,
    "too large": WRITTEN + b" " * artifact_format.MAX_ARTIFACT_BYTES,
}


@pytest.mark.parametrize("data", NOT_ARTIFACTS.values(), ids=NOT_ARTIFACTS)
def test_what_is_no_artifact_is_refused(data):
    """Anything else is one line that names the file and says what to run."""
    assert data != WRITTEN
    with pytest.raises(ArtifactError, match=REBUILD) as refused:
        load(data, "profile.json")
    assert str(refused.value).startswith("profile.json: ")
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300


def test_an_artifact_at_the_size_limit_is_read():
    """The largest file that is read is one of exactly the limit."""
    assert load(WRITTEN.ljust(artifact_format.MAX_ARTIFACT_BYTES), "here").name == "kimi"


def test_a_file_is_read(tmp_path):
    """An artifact file gives its artifact."""
    path = tmp_path / "profile.json"
    path.write_bytes(WRITTEN)
    assert read(path) == freeze("kimi", FULL, SOURCES)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    """A missing file, a folder and a pipe, for which nobody waits, are errors of one line: the path and the reason."""
    with pytest.raises(ArtifactError, match=r"missing\.json: cannot be read: No such file"):
        read(tmp_path / "missing.json")
    os.mkfifo(tmp_path / "pipe.json")
    for path in (tmp_path, tmp_path / "pipe.json"):
        with pytest.raises(ArtifactError, match="cannot be read: not a regular file"):
            read(path)


def test_a_huge_file_is_not_read_whole(tmp_path):
    """Of a file over the limit one byte more than the limit is read."""
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(10 * artifact_format.MAX_ARTIFACT_BYTES)
    assert len(artifact_format.read_bytes(path)) == artifact_format.MAX_ARTIFACT_BYTES + 1
    with pytest.raises(ArtifactError, match="larger than"):
        read(path)


def test_shipped_folders_are_found_beside_the_packages(tmp_path, monkeypatch):
    """In a checkout they stand beside the packages, in an installation inside of them, where they win."""
    monkeypatch.setattr(release, "__file__", str(tmp_path / "router" / "artifact" / "release.py"))
    for inside, beside in (("compiler/profiles", "profiles"), ("router/build", "build")):
        assert shipped_folder(beside) == tmp_path / beside
        (tmp_path / inside).mkdir(parents=True)
        assert shipped_folder(beside) == tmp_path / Path(inside)


def _in_a_case(sections):
    return Contract(cases=(Case("quiet", When(model=("x",)), sections),))


@pytest.mark.parametrize(
    ("contract", "said"),
    [
        (Contract(output=Output(MaxTokens(100, 500))), "the default of 500 tokens is above the cap of 100"),
        (Contract(sampling=Sampling(params={"temperature": Interval(1, 0)})), "the band of temperature is empty"),
        (Contract(sampling=Sampling("allow", {"n": Interval(1, 2)})), "n is a band under conflict: allow"),
        (Contract(sampling=Sampling(params={"top_q": 1})), "unknown sampling parameter 'top_q'"),
        (Contract(checks={"tools": Roles(allowed=("user",))}), "unknown check 'tools'"),
        (Contract(fields={"a": Field(pattern="(")}), "the contract cannot be run"),
        (Contract(fields={"a": Field(pattern="a{99999999999}")}), "the contract cannot be run"),
        (Contract(checks={"tools": Tools(name_pattern="[")}), "the contract cannot be run"),
        (Contract(checks={"message_tools": MessageTools(name_pattern="*")}), "the contract cannot be run"),
        (_in_a_case(Sections(fields={"a": Field(pattern="(?P<")})), "the contract cannot be run"),
        (_in_a_case(Sections(output=Output(MaxTokens(100, 500)))), "the default of 500 tokens is above the cap of 100"),
        (_in_a_case(Sections(sampling=Sampling("allow", {"n": Interval(1, 2)}))), "n is a band under conflict: allow"),
        (_in_a_case(Sections(checks={"roles": Tools()})), "unknown check 'roles'"),
    ],
)
def test_a_contract_that_contradicts_itself_is_refused(contract, said):
    """What cannot be enforced together is refused although the digest fits it."""
    with pytest.raises(ArtifactError, match=said):
        load(serialise(freeze("made-up", contract, SOURCES)), "made-up.json")


def test_names_like_the_key_of_a_body_are_names():
    """Keys are in any order where a field or an alias is named `body`: only bodies of errors have an order."""
    contract = Contract(
        fields={"body": Field(type=("integer",), min=0, max=2, default=1)},
        models=Models(aliases={"body": Alias("m", source="docs")}),
    )
    written = serialise(freeze("named", contract, ()))
    assert load(json.dumps(json.loads(written), sort_keys=True).encode(), "named.json").contract == contract
