"""Source resolution: the first source that is set is used, even if it cannot be read."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

ENVIRONMENT_NAME: Final = "SGLANG_ROUTER_API_PROFILE"
"""The environment variable that names a preset or a path."""

SYSTEM_PROFILE: Final = Path("/etc/sgl-router/profile.yaml")
"""The profile that is used, if it exists, when the user names none."""

FOLDER_PROFILES: Final = ("./profile.yaml", "./profile.yml")
"""Profiles in the working folder; one is used when the user names none and the system profile does not exist."""

DEFAULT_PRESET: Final = "openai-compatible"
"""The preset that is used when no other source exists; it enforces nothing."""

STANDARD_INPUT: Final = "-"
"""The name of standard input as a source."""

CHOSEN_BY_DEFAULT: Final = "default"
"""The value of `chosen_by` for the default preset."""


class UsageError(Exception):
    """The command line is invalid; the message is one line."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected profile: a file, a preset or an artifact; `chosen_by` is what named it, for messages."""

    kind: Literal["file", "preset", "artifact"]
    name: str
    chosen_by: str
    content: bytes | None = None
    """The content of a source that can be read only once."""

    @property
    def display_name(self) -> str:
        """The name for people, as in errors."""
        return "<stdin>" if self.name == STANDARD_INPUT else self.name


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of the command line that name a profile."""

    source: str | None = None
    file: str | None = None
    preset: str | None = None


def select(named: SourceOptions, environment: Mapping[str, str], system_profile: Path = SYSTEM_PROFILE) -> Selection:
    """Return the selected profile.

    Raises UsageError when the command line names more than one, or names none and two are in the working folder.
    """
    given = [name for name in (named.source, named.file, named.preset) if name is not None]
    if len(given) > 1:
        raise UsageError("name the profile once: SOURCE, --api-profile-file or --api-profile")
    if named.file is not None:
        return _file(named.file, "--api-profile-file")
    if named.preset is not None:
        return Selection("preset", named.preset, "--api-profile")
    if named.source is not None:
        is_file = named.source == STANDARD_INPUT or is_path(named.source) or named.source.endswith(".json")
        return _file(named.source, "SOURCE") if is_file else Selection("preset", named.source, "SOURCE")
    return _unnamed(environment.get(ENVIRONMENT_NAME, ""), system_profile)


def is_path(name: str) -> bool:
    """Return whether a name is a path; otherwise it is a preset."""
    return "/" in name or name.endswith((".yaml", ".yml"))


def _unnamed(from_environment: str, system_profile: Path) -> Selection:
    if from_environment:
        if is_path(from_environment):
            return _file(from_environment, ENVIRONMENT_NAME)
        return Selection("preset", from_environment, ENVIRONMENT_NAME)
    if _exists(system_profile):
        return Selection("file", str(system_profile), str(system_profile))
    here = [name for name in FOLDER_PROFILES if _exists(Path(name))]
    if len(here) > 1:
        raise UsageError(f"{' and '.join(here)} both exist here: name one of them")
    if here:
        return Selection("file", here[0], here[0])
    return Selection("preset", DEFAULT_PRESET, CHOSEN_BY_DEFAULT)


def _file(path: str, chosen_by: str) -> Selection:
    return Selection("artifact" if path.endswith(".json") else "file", path, chosen_by)


def _exists(path: Path) -> bool:
    """Return whether a path exists. A path that cannot be reached counts as existing, so that reading it fails."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
