import json

import pytest

from compiler.cli import main

FORMATS = ("text", "json", "markdown")


def diff(*arguments):
    return main.main(["diff", *arguments])


@pytest.fixture(autouse=True)
def profiles(tmp_path):
    """Three profiles: the second caps lower than the first, the third shifts a band against the first."""
    cap, band = (
        "output: {max_tokens: {cap: %s, default: 5}}\n",
        "sampling: {params: {temperature: {min: %s, max: %s}}}\n",
    )
    (tmp_path / "one.yaml").write_text(cap % 20 + band % (0, 1))
    (tmp_path / "lower.yaml").write_text(cap % 10 + band % (0, 1))
    (tmp_path / "shifted.yaml").write_text(cap % 20 + band % (0.5, 1.5))
    (tmp_path / "same.yaml").write_text("name: other\nextends: one.yaml\n")


@pytest.mark.parametrize(
    ("a", "b", "codes"),
    [
        ("one.yaml", "same.yaml", {"any": 0, "tighter": 0, "looser": 0}),
        ("one.yaml", "lower.yaml", {"any": 1, "tighter": 1, "looser": 0}),
        ("lower.yaml", "one.yaml", {"any": 1, "tighter": 0, "looser": 1}),
        ("one.yaml", "shifted.yaml", {"any": 1, "tighter": 1, "looser": 1}),
    ],
)
@pytest.mark.parametrize("form", FORMATS)
def test_the_exit_code_says_whether_such_a_change_exists(a, b, codes, form, capsys):
    """1 only when a change of the kind asked about exists, in every format; a shifted band is of both kinds."""
    assert diff(a, b, "--format", form) == codes["any"]
    assert {kind: diff(a, b, "--format", form, "--fail-on", kind) for kind in codes} == codes
    assert capsys.readouterr().err == ""


def test_artifacts_profiles_and_presets_compare_with_each_other(tmp_path, capsys):
    """A profile, its artifact, and what extends it are equal, whatever their names and sources."""
    assert main.main(["build", "one.yaml", "-o", "one.json"]) == 0
    assert diff("one.json", "one.yaml") == diff("same.yaml", "one.json") == diff("one.json", "one.json") == 0
    assert set(capsys.readouterr().out.splitlines()) == {"The contracts are equal."}
    assert diff("moonshot-kimi", "one.json", "--format", "json") == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["before"]["name"], told["after"]["source"]) == ("moonshot-kimi", "one.json")


def test_the_result_goes_into_a_file(tmp_path, capsys):
    """With -o the comparison is written there, and nothing to standard output; the exit code is the same."""
    assert diff("one.yaml", "lower.yaml", "--format", "markdown", "-o", "comment.md") == 1
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "comment.md").read_text().startswith("### API contract: `one.yaml` → `lower.yaml`\n")


@pytest.mark.parametrize("source", ["one.yaml", "same.yaml", "one.json"])
def test_what_is_compared_is_never_overwritten(source, tmp_path, capsys):
    """Writing over a profile, its parent or an artifact that is compared is a usage error."""
    assert main.main(["build", "one.yaml", "-o", "one.json"]) == 0
    before = (tmp_path / source).read_bytes()
    assert diff("same.yaml", "one.json", "-o", f"./{source}") == 2
    assert (tmp_path / source).read_bytes() == before
    assert "is a source of what is compared" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["a"], ["a", "b", "c"], ["a", "b", "--format", "xml"], ["a", "b", "--fail-on", "x"]]
)
def test_misuse_is_exit_code_2(arguments, capsys):
    """One side, three sides or an unknown choice is a usage error."""
    assert diff(*arguments) == 2
    assert "usage: profilec" in capsys.readouterr().err


def test_a_side_that_is_wrong_writes_nothing(tmp_path, capsys):
    """When one side does not compile, nothing is written, and the file of yesterday stays."""
    (tmp_path / "wrong.yaml").write_text("nam: x\n")
    (tmp_path / "comment.md").write_text("yesterday")
    assert diff("one.yaml", "wrong.yaml", "-o", "comment.md") == 1
    assert (tmp_path / "comment.md").read_text() == "yesterday"
    assert capsys.readouterr().out == ""
