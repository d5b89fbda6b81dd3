from pathlib import Path

import pytest

from compiler.resolve.selection import ENVIRONMENT_NAME, Selection, SourceOptions, UsageError, select

NOWHERE = Path("/nonexistent/profile.yaml")


@pytest.fixture
def system_profile(tmp_path):
    path = tmp_path / "system.yaml"
    path.write_text("")
    return path


def test_the_first_source_that_is_set_wins(system_profile):
    """Flags, environment, system file, the folder's file, default: each is taken only when none before it is set."""
    Path("profile.yml").symlink_to("gone.yml")  # One that cannot be read is not passed over either.
    environment = {ENVIRONMENT_NAME: "from-environment"}
    assert select(SourceOptions(file="a.yaml"), environment, system_profile).name == "a.yaml"
    assert select(SourceOptions(preset="p"), environment, system_profile).name == "p"
    assert select(SourceOptions(), environment, system_profile).name == "from-environment"
    assert select(SourceOptions(), {}, system_profile).name == str(system_profile)
    assert select(SourceOptions(), {}, NOWHERE) == Selection("file", "./profile.yml", "./profile.yml")
    Path("profile.yaml").write_text("")
    assert select(SourceOptions(), {}, system_profile).name == str(system_profile)
    with pytest.raises(UsageError, match="both exist here"):
        select(SourceOptions(), {}, NOWHERE)
    Path("profile.yml").unlink()
    assert select(SourceOptions(), {}, NOWHERE) == Selection("file", "./profile.yaml", "./profile.yaml")
    Path("profile.yaml").unlink()
    assert select(SourceOptions(), {}, NOWHERE) == Selection("preset", "openai-compatible", "default")


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("moonshot-kimi", "preset"),
        ("moonshot-kimi.YAML", "preset"),
        ("profile", "preset"),
        ("", "preset"),
        ("profile.yaml", "file"),
        ("profile.yml", "file"),
        ("./profile", "file"),
        ("a/", "file"),
        ("profile.json", "artifact"),
        ("a/profile.json", "artifact"),
    ],
)
def test_a_source_is_a_path_by_its_spelling_alone(source, kind):
    """A slash or an ending in .yaml or .yml makes a path, .json an artifact; anything else is a preset."""
    assert select(SourceOptions(source=source), {}, NOWHERE).kind == kind


def test_flags_say_what_they_take():
    """`--api-profile-file` takes a path and `--api-profile` a preset, whatever the spelling."""
    assert select(SourceOptions(file="moonshot-kimi"), {}, NOWHERE).kind == "file"
    assert select(SourceOptions(preset="a/b.yaml"), {}, NOWHERE).kind == "preset"


def test_an_environment_variable_names_a_path_or_a_preset():
    """The environment variable holds a path when it has a slash or ends in .yaml or .yml, else a preset."""
    kinds = {
        value: select(SourceOptions(), {ENVIRONMENT_NAME: value}, NOWHERE).kind
        for value in ("kimi", "kimi.json", "./kimi", "kimi.yaml", "./kimi.json")
    }
    assert kinds == {
        "kimi": "preset",
        "kimi.json": "preset",
        "./kimi": "file",
        "kimi.yaml": "file",
        "./kimi.json": "artifact",
    }


def test_an_empty_environment_variable_is_not_set(system_profile):
    """An empty value of the environment variable leaves the choice to what comes after it."""
    assert select(SourceOptions(), {ENVIRONMENT_NAME: ""}, system_profile).name == str(system_profile)


@pytest.mark.parametrize(
    "options",
    [
        SourceOptions("a", "b", None),
        SourceOptions("a", None, "b"),
        SourceOptions(None, "a", "b"),
        SourceOptions("", None, ""),
    ],
)
def test_naming_two_profiles_is_a_usage_error(options):
    """Two ways of naming the profile on one command line contradict each other, even where they agree."""
    with pytest.raises(UsageError, match="once"):
        select(options, {}, NOWHERE)


def test_a_system_profile_that_cannot_be_reached_is_taken_and_fails(tmp_path):
    """A dangling link at the system's place is not passed over: it is selected, so that reading it fails."""
    link = tmp_path / "profile.yaml"
    link.symlink_to(tmp_path / "gone.yaml")
    assert select(SourceOptions(), {}, link).kind == "file"
