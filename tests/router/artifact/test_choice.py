"""Which artifact is enforced: the order of the places, what is there beside it, and what a broken one means."""

from pathlib import Path

import pytest

from router.artifact import choice as artifact_choice
from router.artifact.choice import Choice, choose, read_chosen
from router.artifact.format import ArtifactError
from router.contract.schema.model import Contract
from router.settings.declarations import Settings
from tests.router.serving import artifact_file


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, in which `system.json` stands for the system's artifact."""
    monkeypatch.setattr(artifact_choice, "SYSTEM_ARTIFACT", tmp_path / "system.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _settings(profile: str | None = None, *, require_profile: bool = False) -> Settings:
    named = Path(profile) if profile is not None else None
    return Settings(engines=("http://a",), profile=named, require_profile=require_profile)


@pytest.mark.parametrize(
    ("there", "named", "path", "ignored"),
    [
        ((), None, None, ()),
        (("profile",), None, "profile.json", ()),
        (("system",), None, "system.json", ()),
        (("system", "profile"), None, "system.json", ("profile.json",)),
        (("system", "profile", "mine"), "mine.json", "mine.json", ("system.json", "profile.json")),
        (("profile",), "./profile.json", "profile.json", ()),
        (("profile",), "none.json", "none.json", ("profile.json",)),
    ],
)
def test_the_first_place_is_taken_and_the_others_are_known(
    folder: Path, there: tuple[str, ...], named: str | None, path: str | None, ignored: tuple[str, ...]
) -> None:
    """ROUTER_PROFILE, the system's artifact, the working folder's: the first is enforced, the others are known."""
    for name in there:
        artifact_file(folder, Contract(), name)
    choice = choose(_settings(named))
    found = [each.name if each is not None else None for each in (choice.path, *choice.ignored)]
    assert found == [path, *ignored]
    if path != "none.json":
        assert read_chosen(_settings(named), choice).name == ("openai-compatible" if path is None else Path(path).stem)


def test_nothing_falls_through(folder: Path) -> None:
    """A named artifact that is gone and one that is broken are errors, whatever stands at the other places."""
    artifact_file(folder, Contract(), "system")
    for own in (_settings("none.json"), _settings()):
        Path("system.json").write_text("{}")
        with pytest.raises(ArtifactError):
            read_chosen(own, choose(own))


def test_a_contract_can_be_required() -> None:
    """With ROUTER_REQUIRE_PROFILE the built-in artifact is none, and the error says where one is looked for."""
    own = _settings(require_profile=True)
    assert choose(own) == Choice(None)
    with pytest.raises(ArtifactError, match=r"ROUTER_REQUIRE_PROFILE is on: .*ROUTER_PROFILE.* \./profile\.json"):
        read_chosen(own, choose(own))
