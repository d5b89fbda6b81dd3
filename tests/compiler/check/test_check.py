import re
import shlex

import pytest

from compiler.cli import loading, main
from compiler.resolve.selection import ENVIRONMENT_NAME


@pytest.mark.parametrize(
    "named",
    [
        ["./a profile.yaml"],
        ["--api-profile-file", "a profile.yaml"],
        ["--api-profile", "moonshot-kimi"],
        ["moonshot-kimi", "--override-sampling-params", '{"n": 1}', "--sampling-param-conflict", "allow"],
    ],
    ids=str,
)
def test_the_command_in_the_hint_makes_the_artifact_fresh(named, tmp_path, capsys):
    """Whatever names the profile, running what the hint says makes the check pass without a word too many."""
    (tmp_path / "a profile.yaml").write_text("limits: {max_images: 1}\n")
    (tmp_path / "other.yaml").write_text("limits: {max_images: 2}\n")
    assert main.main(["build", "other.yaml", "-o", "the artifact.json"]) == 0
    check = ["check", "--strict", "--artifact", "the artifact.json", *named]
    capsys.readouterr()

    assert main.main(check) == 1
    hint = re.search(r"hint: rebuild to refresh: profilec (.*)", capsys.readouterr().err)
    assert main.main(shlex.split(hint[1])) == 0
    capsys.readouterr()

    assert main.main(check) == 0
    out, err = capsys.readouterr()
    *_, verdict = err.splitlines()
    assert out == ""
    assert re.fullmatch(r'"the artifact\.json" is up to date with .* \(sha256:[0-9a-f]{64}\)', verdict)


def test_an_artifact_edited_by_hand_is_an_error(tmp_path, capsys):
    """An edited artifact fails the check, even where the edit is what the sources say today."""
    (tmp_path / "profile.yaml").write_text("extends: moonshot-kimi\nsampling: {params: {top_p: 0.9}}\n")
    assert main.main(["build", "moonshot-kimi", "-o", "profile.json"]) == 0
    artifact = tmp_path / "profile.json"
    artifact.write_text(artifact.read_text().replace("0.95", "0.9"))
    assert main.main(["check", "--artifact", "profile.json", "profile.yaml"]) == 1
    assert "edited by hand" in capsys.readouterr().err


def test_the_usual_selection_is_checked_when_no_source_is_named(tmp_path, monkeypatch, capsys):
    """Without a SOURCE the environment, the system's profile or the default preset is checked, as it would be built."""
    (tmp_path / "system.yaml").write_text("limits: {max_image: 1}\n")
    monkeypatch.setattr(loading, "SYSTEM_PROFILE", tmp_path / "system.yaml")
    assert main.main(["check"]) == 1
    assert "did you mean max_images?" in capsys.readouterr().err


def test_an_artifact_is_held_against_what_the_environment_names(tmp_path, monkeypatch, capsys):
    """A source that the environment or the machine names is one: an artifact of something else is out of date."""
    (tmp_path / "system.yaml").write_text("limits: {max_images: 1}\n")
    assert main.main(["build", "moonshot-kimi", "-o", "profile.json"]) == 0
    monkeypatch.setenv(ENVIRONMENT_NAME, "openai-compatible")
    assert main.main(["check", "--artifact", "profile.json"]) == 1
    assert "is out of date" in capsys.readouterr().err
    monkeypatch.delenv(ENVIRONMENT_NAME)
    monkeypatch.setattr(loading, "SYSTEM_PROFILE", tmp_path / "system.yaml")
    assert main.main(["check", "--artifact", "profile.json"]) == 1
    assert "is out of date" in capsys.readouterr().err


def test_nothing_is_written_by_a_check(tmp_path):
    """A check leaves the folder as it was."""
    (tmp_path / "profile.yaml").write_text("")
    assert main.main(["check", "profile.yaml"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["profile.yaml"]
