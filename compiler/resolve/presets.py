"""The presets that ship with the product: their names and their files."""

import re
from pathlib import Path
from typing import Final

from compiler.diagnostics import Diagnostic, Location, ProfileError, nearest, quoted
from router.artifact.release import shipped_folder

MODELINE: Final = "# yaml-language-server:"
"""The start of the comment that names the JSON Schema of a file for editors."""


NOT_KNOWN: Final = "# Not known:"
"""Start of the paragraph in a preset's header that lists unknown facts about its vendor."""

_LABEL = re.compile(r"# [A-Z][\w ]{1,40}: ")


def preset_names() -> tuple[str, ...]:
    """Return the names of all presets, sorted."""
    return tuple(sorted(path.stem for path in shipped_folder("profiles").glob("*.yaml")))


def preset_path(name: str, named_at: Location | None = None, named_by: str = "") -> Path:
    """Return the file of a preset; `named_at` or `named_by` is the place of its name, for the error.

    Raises ProfileError if there is no such preset.
    """
    if name in preset_names():
        return shipped_folder("profiles") / f"{name}.yaml"
    prefix = f"{named_by}: " if named_by else "extends: " if named_at else ""
    raise ProfileError(
        Diagnostic(
            "unknown-preset",
            f"{prefix}there is no preset {quoted(name)}",
            named_at,
            expected="one of " + ", ".join(preset_names()),
            hint=_hint(name, named_at, named_by),
        )
    )


def describe(name: str) -> str:
    """Return the first descriptive comment line of a preset."""
    lines = preset_path(name).read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if not line.startswith(MODELINE)).removeprefix("#").strip()


def not_known(name: str) -> str:
    """Return the unknown facts about the vendor from a preset's header as one line; empty if there are none.

    The text starts with NOT_KNOWN. It ends with the comment, with its paragraph, or after a sentence if the next line
    starts with another label.
    """
    lines = preset_path(name).read_text(encoding="utf-8").splitlines()
    parts: list[str] = []
    for line in lines:
        if parts and (not line.startswith("# ") or (parts[-1].endswith(".") and _LABEL.match(line))):
            break
        if parts or line.startswith(NOT_KNOWN):
            parts.append(line.removeprefix("#").strip())
    return " ".join(parts).removeprefix(NOT_KNOWN.removeprefix("# ")).strip()


def _hint(name: str, named_at: Location | None, named_by: str) -> str | None:
    match = _intended(name)
    if match is not None:
        return f"did you mean {match}?"
    if named_by == "--preset":
        return None
    beside = Path(named_at.document.name).parent if named_at else Path()
    for candidate in (name, f"{name}.yaml", f"{name}.yml"):
        if "\0" not in candidate and name and (beside / candidate).is_file():
            if named_by == "--api-profile":
                return f"to use the file, write --api-profile-file {candidate}"
            return f"to use the file, write ./{candidate}"
    if named_by == "--api-profile":
        return "use --api-profile-file for a file"
    return "the path of a file contains a / or ends in .yaml or .yml"


def _intended(name: str) -> str | None:
    """Return the only preset whose name contains this one, or else the most similar name."""
    holding = [preset for preset in preset_names() if len(name) > 1 and name.lower() in preset]
    return holding[0] if len(holding) == 1 else nearest(name, holding or preset_names())
