"""Which artifact a router enforces: the first place where there is one, and one that is broken never falls through."""

from pathlib import Path
from typing import Final, NamedTuple

from router.artifact import format as artifact_format
from router.artifact.format import Artifact, ArtifactError
from router.settings import Settings

SYSTEM_ARTIFACT: Final = Path("/etc/sgl-router/profile.json")
LOCAL_ARTIFACT: Final = Path("profile.json")
"""In the folder that the router was started in."""
BUILT_IN_PROFILE: Final = "openai-compatible"


class Choice(NamedTuple):
    """The artifact to enforce, None: the built-in one; and others that are there, and are not enforced."""

    path: Path | None
    passed_over: tuple[Path, ...] = ()


def choose(settings: Settings) -> Choice:
    """Return the artifact of ROUTER_PROFILE, else the system's, else `./profile.json`, else the built-in one."""
    usual = [path for path in (SYSTEM_ARTIFACT, LOCAL_ARTIFACT) if _is_there(path)]
    if settings.profile is not None:
        named = settings.profile
        return Choice(named, tuple(path for path in usual if not _are_same(path, named)))
    return Choice(usual[0], tuple(usual[1:])) if usual else Choice(None)


def read_chosen(settings: Settings, choice: Choice) -> Artifact:
    """Read the chosen artifact. Raises ArtifactError, also where there is none and the settings require one."""
    if choice.path is None:
        if settings.require_profile:
            raise ArtifactError(
                "there is no artifact to enforce, and ROUTER_REQUIRE_PROFILE is on: name one in ROUTER_PROFILE, or put "
                f"it at {SYSTEM_ARTIFACT} or ./{LOCAL_ARTIFACT}"
            )
        return artifact_format.read(artifact_format.shipped_folder("build") / f"{BUILT_IN_PROFILE}.json")
    if not _is_there(choice.path):
        raise ArtifactError(f"{choice.path}: no such file; ROUTER_PROFILE names an artifact, {artifact_format.REBUILD}")
    return artifact_format.read(choice.path)


def _is_there(path: Path) -> bool:
    """Tell whether something stands at a path; what cannot be reached counts, so that nothing falls through."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _are_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
