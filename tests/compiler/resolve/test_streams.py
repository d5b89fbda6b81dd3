import io
import os
import sys

import pytest

from compiler.cli import main
from compiler.resolve.selection import ENVIRONMENT_NAME


@pytest.fixture(params=["standard input", "pipe"])
def stream(request, monkeypatch):
    """A source that can be read but once: standard input, or a pipe as a shell makes of `<(…)`."""
    opened = []

    def of(data):
        if request.param == "standard input":
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
            return "-"
        end, other = os.pipe()
        opened.append(end)
        os.write(other, data)
        os.close(other)
        return f"/dev/fd/{end}"

    yield of
    for end in opened:
        os.close(end)


@pytest.fixture
def files(tmp_path):
    """A profile that extends another by a relative path, its artifact, and a profile that says something else."""
    (tmp_path / "base.yaml").write_text("limits: {max_images: 1}\n")
    (tmp_path / "one.yaml").write_text("name: one\nextends: ./base.yaml\n")
    (tmp_path / "other.yaml").write_text("name: one\n")
    assert main.main(["build", "one.yaml", "-o", "one.json"]) == 0
    return tmp_path


@pytest.mark.parametrize("name", ["one.yaml", "one.json"])
def test_a_stream_is_an_artifact_or_a_profile_by_its_content(name, stream, files, capsys):
    """`diff`, `check`, `print`, `build` and `explain` take a stream for what it holds, whatever its name."""
    data = (files / name).read_bytes()
    (files / "request.json").write_text('{"model": "m", "messages": []}')
    capsys.readouterr()
    assert main.main(["diff", stream(data), "one.json"]) == main.main(["diff", "one.yaml", stream(data)]) == 0
    assert main.main(["diff", stream(data), "other.yaml"]) == 1
    assert main.main(["check", stream(data)]) == 0
    assert main.main(["explain", "request.json", stream(data)]) == 0
    assert capsys.readouterr().out.count("limits.max_images") == 2
    assert main.main(["print", stream(data)]) == 0
    assert "max_images: 1" in capsys.readouterr().out
    assert main.main(["build", stream(data), "-o", "again.json"]) == 0
    assert main.main(["diff", "again.json", "one.json"]) == 0


def test_an_artifact_in_a_stream_is_held_against_a_profile(stream, files, capsys):
    """`check --artifact` reads a stream; what is wrong with one is told as of a file, with a place."""
    artifact = (files / "one.json").read_bytes()
    assert main.main(["check", "--artifact", stream(artifact), "one.yaml"]) == 0
    assert main.main(["check", "--artifact", stream(artifact), "other.yaml"]) == 1
    capsys.readouterr()
    name = stream(b'{"format_version": 99}')
    shown = "<stdin>" if name == "-" else name
    assert main.main(["diff", name, "one.json"]) == 1
    assert f"{shown}: artifact format 99, but this release reads only format" in capsys.readouterr().err
    assert main.main(["diff", stream(b"limits:\n  images: 1\n"), "one.json"]) == 1
    assert f"{'<stdin>' if name == '-' else '/dev/fd/'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["diff", "-", "-"], "A and B cannot both be standard input"),
        (["explain", "-", "-"], "cannot both be standard input"),
        (["explain", "-", "--api-profile-file", "-"], "cannot both be standard input"),
        (["serve", "-"], "name a file or a preset"),
    ],
)
def test_standard_input_is_one_thing(arguments, why, monkeypatch, capsys):
    """Standard input is one source at most, and none where it would have to be read again: a usage error."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"name: x\n")))
    assert main.main(arguments) == 2
    assert why in capsys.readouterr().err


def test_a_closed_standard_input_is_an_error(monkeypatch, capsys):
    """Where there is no standard input, a command that reads it says so."""
    monkeypatch.setattr(sys, "stdin", None)
    assert main.main(["print", "-"]) == 1
    assert "standard input is closed" in capsys.readouterr().err


def test_what_is_too_large_for_a_profile_is_not_read_whole(monkeypatch, capsys):
    """Of standard input no more is read than shows that it is too large."""
    endless = io.BytesIO(b"a" * (3 * 1024 * 1024))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(endless))
    assert main.main(["print", "-"]) == 1
    assert "larger than 1048576 bytes" in capsys.readouterr().err
    assert endless.tell() < 2 * 1024 * 1024


def test_an_artifact_of_the_environment_is_not_printed_over(files, monkeypatch, capsys):
    """`print -o` writes over no artifact that it reads, also where the environment names it."""
    monkeypatch.setenv(ENVIRONMENT_NAME, "./one.json")
    assert main.main(["print", "-o", "one.json"]) == 2
    assert "is the artifact itself" in capsys.readouterr().err
