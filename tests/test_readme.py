"""The README is true: its commands are run as they stand, and say what it says they say."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO, NamedTuple, Self

import pytest

from router.settings.reference import reference
from tests.checkout import CHECKOUT, travelling_files
from tests.router.serving import wait_until

README = (CHECKOUT / "README.md").read_text()
PORTS_IN_README = ("30000", "8000", "8001", "8080")
SECONDS = 120


class Example(NamedTuple):
    """A command of the README and the output it shows; `…` stands for anything."""

    command: str
    output: list[str]

    @property
    def sets_up(self) -> bool:
        return "-m venv" in self.command

    def pattern(self) -> re.Pattern[str]:
        lines = [r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in self.output]
        return re.compile("".join(lines))


def _examples() -> list[Example]:
    examples = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *output = part.splitlines()
            examples.append(Example(command, output))
    return examples


def _environment(*first_on_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ROUTER_", "SGLANG_", "PYTHON"))}
    kept.pop("VIRTUAL_ENV", None)
    return {**kept, "PATH": os.pathsep.join([*map(str, first_on_path), os.environ["PATH"]]), "COLUMNS": "120"}


def _trimmed(output: str) -> str:
    """Return lines without the space at their ends; the last line too ends with a line break, which curl leaves out."""
    return "".join(f"{line.rstrip()}\n" for line in output.splitlines())


def _free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.mark.exhaustive  # a virtual environment takes long to make
def test_the_first_command_line_works_from_nothing(tmp_path: Path) -> None:
    """In a copy of the checkout with a plain Python, the README's first command shows a contract at work."""
    for name in travelling_files():
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, copy)
    first = _examples()[0]
    assert first.sets_up
    done = subprocess.run(
        ["bash", "-c", first.command],
        cwd=tmp_path,
        env=_environment(Path(sys.base_prefix) / "bin"),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert first.pattern().fullmatch(_trimmed(done.stdout)), done.stdout


def test_every_other_command_says_what_the_readme_says(tmp_path: Path) -> None:
    """The README's commands, run one after the other in an empty folder, print what stands below them."""
    if shutil.which("curl") is None:
        pytest.skip("the README's examples use curl, which is not installed here")
    for name, text in re.findall(r"Save this as\s`(\S+?)`:\n\n```yaml\n(.*?)```", README, re.DOTALL):
        (tmp_path / name).write_text(text)
    ports = {port: _free_port() for port in PORTS_IN_README}
    with _Shell(tmp_path, ports) as shell:
        for example in _examples():
            if not example.sets_up:
                shell.try_out(example)


class _Shell:
    """Runs examples in one folder, on free ports, and ends at last what they left in the background."""

    def __init__(self, folder: Path, ports: dict[str, str]) -> None:
        self._folder = folder
        self._ports = ports
        self._background: list[subprocess.Popen[str]] = []

    def try_out(self, example: Example) -> None:
        command = self._translated(example.command)
        expected = Example(command, [self._translated(line) for line in example.output]).pattern()
        if command.endswith(" &"):
            self._start(command.removesuffix(" &"), expected)
            return
        done = self._popen(command)
        output, _ = done.communicate(timeout=SECONDS)
        assert expected.fullmatch(_trimmed(output)), f"$ {command}\n{output}"

    def _start(self, command: str, expected: re.Pattern[str]) -> None:
        log = self._folder / f"background-{len(self._background)}.log"
        with log.open("w") as file:
            self._background.append(self._popen(f"exec env {command}", file))
        wait_until(lambda: expected.match(log.read_text()), log.read_text)

    def _popen(self, command: str, output: int | IO[str] = subprocess.PIPE) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", command],
            cwd=self._folder,
            env=_environment(Path(sys.executable).parent),
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _translated(self, text: str) -> str:
        for port, free in self._ports.items():
            text = re.sub(rf"(?<=[ :=]){port}\b", free, text)
        return text

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._background):
            process.send_signal(signal.SIGINT)
            process.wait(SECONDS)


def test_the_settings_are_all_of_them() -> None:
    """The README's table of settings is the one that the router's settings give."""
    table = README.partition("<!-- settings: generated from router/settings/__init__.py -->\n")[2].partition(
        "<!-- end of"
    )[0]
    assert table == reference()


def test_the_check_from_nothing_runs_the_test_command() -> None:
    """The README names one command that sets up and runs all tests, in the form that .ci/run takes it from."""
    commands = [example.command for example in _examples() if example.sets_up and "-m pytest" in example.command]
    assert len(commands) == 1
    assert commands[0].startswith("python3 -m venv ")
