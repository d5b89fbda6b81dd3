"""The checkout that is tested, and what of it travels."""

import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]


def travelling_files() -> list[Path]:
    """Return the files that are tracked or would be, relative to the checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [Path(name) for name in listed.stdout.splitlines() if (CHECKOUT / name).exists()]
