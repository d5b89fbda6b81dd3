"""What belongs to this release: the format of its artifacts, and its shipped folders. Imports little, on purpose."""

from pathlib import Path
from typing import Final

FORMAT_VERSION: Final = 5
"""The version of the artifact format: the only one that this release writes and reads."""


def shipped_folder(name: str) -> Path:
    """Return the shipped folder `profiles` or `build`: inside its package, or beside the packages in a checkout."""
    router = Path(__file__).resolve().parents[1]
    checkout = router.parent
    packaged = {"profiles": checkout / "compiler" / "profiles", "build": router / "build"}[name]
    return packaged if packaged.is_dir() else checkout / name
