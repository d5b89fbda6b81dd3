import json
import re

import pytest

from compiler.cli import main
from compiler.diagnostics import Diagnostic, Document, Location, Note
from compiler.diagnostics.formats import counted, github_of, json_of


def at(name="profile.yaml", span=(2, 3, 2, 6), extended_at=None):
    return Location(Document(name, "", extended_at), *span)


def error(message="x", place=None, **more):
    return Diagnostic("wrong-value", message, place, **more)


def warning(message="x", place=None):
    return Diagnostic("idle-null", message, place, severity="warning")


def test_the_json_has_every_key_always():
    """Of a diagnostic without a place, a hint or an expectation, the JSON says null, and leaves nothing out."""
    report = json.loads(json_of([error(place=at(), hint="h", expected="e", notes=(Note(at(), "n"),)), warning()]))
    assert (report["format_version"], report["error_count"], report["warning_count"]) == (1, 1, 1)
    full, bare = report["diagnostics"]
    assert list(full) == list(bare)
    assert bare == {
        "severity": "warning",
        "code": "idle-null",
        "message": "x",
        "file": None,
        "range": None,
        "hops": [],
        "expected": None,
        "hint": None,
        "notes": [],
    }


def test_the_json_holds_places_and_hops():
    """A range has its start and its exclusive end, and the hops lead from the nearest `extends` to the first."""
    first = at("a.yaml", (1, 10, 1, 16))
    second = at("b.yaml", (3, 1, 3, 2), extended_at=first)
    (told,) = json.loads(json_of([error(place=at("c.yaml", extended_at=second))]))["diagnostics"]
    assert told["file"] == "c.yaml"
    assert told["range"] == {"start": {"line": 2, "column": 3}, "end": {"line": 2, "column": 6}}
    assert [hop["file"] for hop in told["hops"]] == ["b.yaml", "a.yaml"]


def test_names_and_messages_of_any_characters_are_json():
    """A file name of bytes that are no text, and control characters, come out as valid UTF-8 JSON."""
    (told,) = json.loads(json_of([error("\x1b\n", at("a\udcff.yaml"))]).decode())["diagnostics"]
    assert (told["message"], told["file"]) == ("\x1b\n", "a\udcff.yaml")


@pytest.mark.parametrize("text", ["50%", "a:b,c", "line\nline", "cr\r", "\x1b[31m", "\udcff", "::error::"])
def test_an_annotation_is_one_line_whatever_it_says(text):
    """Nothing in a message or a name can end a workflow command or begin another."""
    lines = github_of([error(text, at(text), hint=text)]).decode().splitlines()
    assert len(lines) == 1
    assert re.fullmatch(
        r"::error file=[^:,]+,line=2,col=3,endLine=2,endColumn=6,title=profilec wrong-value::.+", lines[0]
    )


def test_an_annotation_over_several_lines_has_no_columns():
    """GitHub takes columns only for a place on one line."""
    (line,) = github_of([error(place=at(span=(2, 3, 4, 6)))]).decode().splitlines()
    assert line == "::error file=profile.yaml,line=2,endLine=4,title=profilec wrong-value::x"


def test_errors_and_warnings_are_counted_in_words():
    """The summary names what there is, and only that."""
    assert counted([]) == "no errors"
    assert counted([error()]) == "1 error"
    assert counted([warning(), warning()]) == "2 warnings"
    assert counted([error(), error(), warning()]) == "2 errors, 1 warning"


def test_machines_get_all_that_people_get_cut(tmp_path, capsys):
    """JSON holds every diagnostic, however many there are."""
    (tmp_path / "profile.yaml").write_text("".join(f"key{number}: 1\n" for number in range(60)))
    assert main.main(["check", "--format", "json", "profile.yaml"]) == 1
    out, err = capsys.readouterr()
    assert len(json.loads(out)["diagnostics"]) == 60
    assert err == "1 profile checked: 60 errors, of which 50 are shown\n"
