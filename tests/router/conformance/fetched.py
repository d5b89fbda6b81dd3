"""What is too foreign to be kept here: fetched or built once into the cache folder, or the reason why it cannot be."""

import fcntl
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.checkout import CHECKOUT

CACHE = CHECKOUT / ".engines"
SECONDS = 300

ORJSON = "3.9.15"
"""A release of orjson whose source archive carries the JSONTestSuite, byte for byte; later ones do not."""
NLOHMANN = "nlohmann-json==3.12.0"
SUITE_FILES = 318

# pip asks an archive's build backend for its name before it hands it over; this one answers and builds nothing.
_BACKEND = f"""
from pathlib import Path

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    told = Path(folder, "orjson-{ORJSON}.dist-info")
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\\nName: orjson\\nVersion: {ORJSON}\\n")
    return told.name
"""


class UnavailableError(Exception):
    """Something cannot be had on this machine; the message says why."""


@cache
def json_test_suite() -> dict[str, bytes]:
    """Return the parsing files of the JSONTestSuite by name. Raises UnavailableError."""
    with _made_once("json-test-suite") as unfinished:
        if unfinished:
            backend = unfinished / "backend"
            backend.mkdir()
            (backend / "maturin.py").write_text(_BACKEND)
            source = ("--no-deps", "--no-build-isolation", "--no-binary", "orjson", f"orjson=={ORJSON}")
            _pip("download", "-d", str(unfinished), *source, PYTHONPATH=str(backend))
            with tarfile.open(unfinished / f"orjson-{ORJSON}.tar.gz") as archive:
                for member in archive:
                    if member.isfile() and Path(member.name).parts[1:3] == ("data", "parsing"):
                        _keep(archive.extractfile(member).read(), unfinished / Path(member.name).name)
            (unfinished / f"orjson-{ORJSON}.tar.gz").unlink()
    files = {path.name: path.read_bytes() for path in sorted((CACHE / "json-test-suite").glob("[iny]_*.json"))}
    assert len(files) == SUITE_FILES
    return files


@cache
def nlohmann_library() -> Path:
    """Return the shared library of `nlohmann.cpp`. Raises UnavailableError."""
    with _made_once("nlohmann") as unfinished:
        if unfinished:
            compiler = shutil.which("c++")
            if compiler is None:
                raise UnavailableError("there is no C++ compiler")
            _pip("install", "--no-deps", "--target", str(unfinished), NLOHMANN)
            include = unfinished / "nlohmann_json" / "include"
            source = Path(__file__).with_name("nlohmann.cpp")
            # -g0 -O0: it reads small bodies, and compiles in a few seconds.
            flags = ("-std=c++17", "-O0", "-g0", "-shared", "-fPIC", "-I", str(include))
            _do([compiler, *flags, str(source), "-o", str(unfinished / "nlohmann.so")])
    return CACHE / "nlohmann" / "nlohmann.so"


def _keep(data: bytes, path: Path) -> None:
    """Write a file, those that travel compressed as they are meant."""
    if path.suffix == ".xz":
        data, path = lzma.decompress(data), path.with_suffix("")
    path.write_bytes(data)


@contextmanager
def _made_once(name: str) -> Iterator[Path | None]:
    """Yield a folder to fill, which then takes its name, or None where it has been filled before."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        # Several test processes may get here at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (CACHE / name).exists():
            yield None
            return
        unfinished = CACHE / f"{name}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        yield unfinished
        unfinished.rename(CACHE / name)


def _pip(*arguments: str, **environment: str) -> None:
    command, *rest = arguments
    _do([sys.executable, "-m", "pip", command, "-q", "--disable-pip-version-check", *rest], **environment)


def _do(command: list[str], **environment: str) -> None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            cwd=CACHE,
            env={**os.environ, **environment},
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(str(error)) from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["no reason given"]
        raise UnavailableError(said[-1])
