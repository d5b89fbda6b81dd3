"""The cache folder: packages of the peers and what is compiled, each set up once and never inside the repository."""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
SETUP_SECONDS: Final = 600
_READY: Final = "ready"


class SetupError(Exception):
    """Something cannot be set up; the message is one line that says why."""


def default_folder() -> Path:
    """Return the cache folder of the bench in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "profilec-bench" / "peers"


class Cache:
    """A folder with a folder for each package; one whose setup was cut short is made anew."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def python_package(self, requirement: str) -> Path:
        """Return the virtual environment that holds a package of PyPI."""
        place, is_ready = self._place(f"python{_python_of_this()}-" + re.sub(r"\[.*?\]|=", "", requirement))
        if not is_ready:
            _run(sys.executable, "-m", "venv", place)
            _run(place / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", requirement)
            self._is_ready(place)
        return place

    def node_package(self, name: str, version: str) -> Path:
        """Return the folder of a package of the npm registry."""
        _tool("node")
        place, is_ready = self._place(f"node-{name.strip('@').replace('/', '-')}-{version}")
        if not is_ready:
            place.mkdir()
            quiet = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts")
            _run(_tool("npm"), "install", *quiet, "--prefix", place, f"{name}@{version}")
            self._is_ready(place)
        return place / "node_modules" / name

    def debian_program(self, program: str, packages: Sequence[str]) -> Path:
        """Return a program: the system's, else out of Debian's packages, unpacked here without being installed."""
        found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
        if found:
            return Path(found)
        place, is_ready = self._place(f"debian-{program}")
        if not is_ready:
            place.mkdir()
            self._download(packages, place)
            for package in place.glob("*.deb"):
                _run(_tool("dpkg-deb"), "--extract", package, place)
            self._is_ready(place)
        return next(path for folder in ("usr/bin", "usr/sbin") if (path := place / folder / program).exists())

    def compiled(self, source: str) -> Path:
        """Return the program that a C file beside this module makes."""
        path, program = HERE / source, self.folder / Path(source).stem
        if not program.exists() or program.stat().st_mtime < path.stat().st_mtime:
            compiler = shutil.which("cc") or _tool("gcc")
            _run(compiler, "-O2", "-Wall", "-Wextra", "-o", program, path)
        return program

    def _place(self, name: str) -> tuple[Path, bool]:
        place = self.folder / name
        is_ready = (place / _READY).exists()
        if not is_ready:
            shutil.rmtree(place, ignore_errors=True)
        return place, is_ready

    def _is_ready(self, place: Path) -> None:
        (place / _READY).touch()

    def _download(self, packages: Sequence[str], place: Path) -> None:
        apt = _tool("apt-get")
        try:
            _run(apt, "download", *packages, folder=place)
        except SetupError:
            # The machine has no lists of packages, or old ones; with lists of our own nobody needs to be root.
            lists = self.folder / "apt"
            for part in ("lists/partial", "archives/partial"):
                (lists / part).mkdir(parents=True, exist_ok=True)
            own = ("-o", f"Dir::State::Lists={lists}/lists", "-o", f"Dir::Cache={lists}", "-o", "Debug::NoLocking=1")
            _run(apt, *own, "update")
            _run(apt, *own, "download", *packages, folder=place)


def libraries_of(program: Path) -> dict[str, str]:
    """Return the environment in which a program finds the libraries that were unpacked beside it."""
    folders = sorted({str(path.parent) for path in (program.parents[1] / "lib").rglob("*.so*")})
    is_ours = (program.parents[2] / _READY).exists()
    return {"LD_LIBRARY_PATH": ":".join(folders)} if is_ours and folders else {}


def output_of(*command: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """Return what a command prints on both streams, in one piece."""
    done = subprocess.run(
        command,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout


def python_version(place: Path, package: str) -> str:
    """Return the version of a package in a virtual environment."""
    script = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    return output_of(place / "bin" / "python", "-c", script, package).strip()


def node_version(package: Path) -> str:
    """Return the version of an npm package."""
    return str(json.loads((package / "package.json").read_text())["version"])


def _tool(name: str) -> str:
    found = shutil.which(name)
    if not found:
        raise SetupError(f"there is no {name} on this machine")
    return found


def _run(*command: str | Path, folder: Path | None = None) -> None:
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=folder,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
            timeout=SETUP_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{name}: {error}") from None
    if done.returncode:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        said = next((line for line in reversed(lines) if "error" in line.lower() or line.startswith("E:")), lines[-1:])
        raise SetupError(f"{name} {command[1]}: {str(said)[:200]}")


def _python_of_this() -> str:
    """Return what tells this Python from others: how it was built decides how fast all Python subjects are."""
    return f"{platform.python_version()}-{hashlib.sha256(sys.version.encode()).hexdigest()[:8]}"
