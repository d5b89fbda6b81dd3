"""The choice of the artifact to enforce: the first path where a file exists, even if it is invalid."""

from pathlib import Path
from typing import Final, NamedTuple

from router.artifact import format as artifact_format
from router.artifact.format import Artifact, ArtifactError
from router.artifact.release import shipped_folder
from router.settings.declarations import Settings

SYSTEM_ARTIFACT: Final = Path("/etc/sgl-router/profile.json")
LOCAL_ARTIFACT: Final = Path("profile.json")
"""Relative to the folder that the router was started in."""
BUILT_IN_PROFILE: Final = "openai-compatible"


class Choice(NamedTuple):
    """The path of the artifact to enforce (None: the built-in one), and existing ones that are ignored."""

    path: Path | None
    ignored: tuple[Path, ...] = ()


def choose(settings: Settings) -> Choice:
    """Choose the artifact of ROUTER_PROFILE, else the system's, else `./profile.json`, else the built-in one."""
    usual = [path for path in (SYSTEM_ARTIFACT, LOCAL_ARTIFACT) if _exists(path)]
    if settings.profile is not None:
        named = settings.profile
        return Choice(named, tuple(path for path in usual if not _is_same_file(path, named)))
    return Choice(usual[0], tuple(usual[1:])) if usual else Choice(None)


def read_chosen(settings: Settings, choice: Choice) -> Artifact:
    """Read the chosen artifact. Raises ArtifactError, also when there is none and the settings require one."""
    if choice.path is None:
        if settings.require_profile:
            raise ArtifactError(
                "there is no artifact to enforce, and ROUTER_REQUIRE_PROFILE is on: name one in ROUTER_PROFILE, or put "
                f"it at {SYSTEM_ARTIFACT} or ./{LOCAL_ARTIFACT}"
            )
        return artifact_format.read(shipped_folder("build") / f"{BUILT_IN_PROFILE}.json")
    if not _exists(choice.path):
        raise ArtifactError(f"{choice.path}: no such file; ROUTER_PROFILE names an artifact, {artifact_format.REBUILD}")
    return artifact_format.read(choice.path)


def _exists(path: Path) -> bool:
    """Return whether a path exists; an inaccessible one counts as existing, so that it is not skipped."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
