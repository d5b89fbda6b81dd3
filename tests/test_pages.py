"""The pages are true: their commands run and print what they show, and the files and sections they name exist."""

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

from tests.checkout import CHECKOUT, travelling_files
from tests.router.serving import wait_until

PAGES = (
    "README.md",
    "router/README.md",
    "router/deploy/README.md",
    "compiler/README.md",
    "profiles/README.md",
    "build/README.md",
    "tests/bench/README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
)
FOLDERS = {"profiles/README.md": "profiles/examples"}
"""Pages whose commands run in a copy of a folder of the checkout; those of other pages run in an empty folder."""
PORTS = ("30000", "8000", "8001", "8080")
SECONDS = 120

_PATH = re.compile(r"`((?:compiler|router|profiles|build|tests)/[\w./-]*)`")
_LINK = re.compile(r"\]\((?!https?://)([^)\s]+)\)")
_HOUSE = ("router/README.md", "compiler/README.md")
"""The pages that say how a package is built."""

EXTENSIONS = {
    "A constraint of a field": "multiple_of",
    "A named check": "alternation",
    "A setting of the router": "max_in_flight",
    "A balancing policy": "PrefixAffinity",
}
"""The lists of compiler/README.md that say where to add something, each with the example that its files handle."""
COMPLETE = ("A constraint of a field", "A named check")
"""The lists that name every module that handles their example."""


class Example(NamedTuple):
    """A command of a page and the output it shows; `…` stands for anything."""

    command: str
    output: list[str]

    @property
    def sets_up(self) -> bool:
        return ".venv/bin/" in self.command

    def pattern(self) -> re.Pattern[str]:
        lines = [r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in self.output]
        return re.compile("".join(lines))


def _text(page: str) -> str:
    return (CHECKOUT / page).read_text()


def _examples(page: str) -> list[Example]:
    examples = []
    for block in re.findall(r"```console\n(.*?)```", _text(page), re.DOTALL):
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
def test_the_first_commands_work_from_nothing(tmp_path: Path) -> None:
    """In a copy of the checkout with a plain Python, the README's first commands install it and run a demo."""
    for name in travelling_files():
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, copy)
    install, demo = _examples("README.md")[:2]
    assert install.sets_up
    assert demo.sets_up
    for example in (install, demo):
        done = subprocess.run(
            ["bash", "-c", example.command],
            cwd=tmp_path,
            env=_environment(Path(sys.base_prefix) / "bin"),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert example.pattern().fullmatch(_trimmed(done.stdout)), done.stdout


@pytest.mark.parametrize("page", [page for page in PAGES if _examples(page)])
def test_every_command_prints_what_its_page_shows(page: str, tmp_path: Path) -> None:
    """The commands of a page, run one after the other in one folder, print what stands below them."""
    if shutil.which("curl") is None:
        pytest.skip("the examples use curl, which is not installed here")
    folder = tmp_path / "folder"
    if page in FOLDERS:
        shutil.copytree(CHECKOUT / FOLDERS[page], folder)
    else:
        folder.mkdir()
    for name, text in re.findall(r"Save this as\s`(\S+?)`:\n\n```yaml\n(.*?)```", _text(page), re.DOTALL):
        (folder / name).write_text(text)
    with _Shell(folder, {port: _free_port() for port in PORTS}) as shell:
        for example in _examples(page):
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
        log = self._folder.parent / f"background-{len(self._background)}.log"
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


def test_one_command_runs_the_tests() -> None:
    """The README names one command that sets up and runs all tests, in the form that .ci/run takes it from."""
    commands = [example.command for example in _examples("README.md") if "-m pytest" in example.command]
    assert len(commands) == 1
    assert commands[0].startswith("python3 -m venv ")


@pytest.mark.parametrize("page", PAGES)
def test_the_files_that_a_page_names_exist(page: str) -> None:
    """Each path of the checkout that a page names, in code or as a link, exists, and each section that it links to."""
    for path in _PATH.findall(_text(page)):
        assert (CHECKOUT / path).exists(), path
    for link in _LINK.findall(_text(page)):
        path, _, section = link.partition("#")
        target = (CHECKOUT / page).parent / path if path else CHECKOUT / page
        assert target.exists(), link
        assert not section or section in _anchors(target.read_text()), link


def _anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_changelog_has_the_usual_headings() -> None:
    """Each version of the changelog has the headings of Keep a Changelog, each at most once and in its order."""
    usual = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    for version in re.split(r"^## ", _text("CHANGELOG.md"), flags=re.MULTILINE)[1:]:
        found = re.findall(r"^### (.*)$", version, re.MULTILINE)
        assert found == [heading for heading in usual if heading in found]
        assert "\n- " not in version.partition("\n### ")[0]


def test_every_package_has_its_place_in_the_pages() -> None:
    """Each package of router and compiler is named on the page that says how they are built."""
    for page in _HOUSE:
        root = CHECKOUT / page.partition("/")[0]
        named = set(re.findall(r"`((?:compiler|router)/[\w./-]*)`", "".join(map(_text, _HOUSE))))
        for package in root.iterdir():
            if (package / "__init__.py").exists():
                inside = f"{package.relative_to(CHECKOUT)}/"
                assert any(path.startswith(inside) for path in named), inside


@pytest.mark.parametrize("title", EXTENSIONS)
def test_the_lists_of_files_to_extend_are_right(title: str) -> None:
    """Each file of a list of what to extend handles the list's example, and no module that does is missing."""
    example = re.compile(rf"\b{EXTENSIONS[title]}\b", re.IGNORECASE)
    section = _text("compiler/README.md").partition(f"### {title}\n")[2].partition("\n#")[0]
    listed = {path for path in _PATH.findall(section) if path.endswith(".py")}
    assert listed
    for path in listed:
        assert example.search(_text(path)), path
    if title in COMPLETE:
        modules = (path for folder in ("compiler", "router") for path in (CHECKOUT / folder).rglob("*.py"))
        assert {str(path.relative_to(CHECKOUT)) for path in modules if example.search(path.read_text())} == listed


def test_the_runbook_quotes_the_log() -> None:
    """Each log line of the runbook is one that the router's sources write."""
    sources = " ".join(path.read_text() for path in sorted((CHECKOUT / "router").rglob("*.py")))
    written = re.sub(r'"\s*f?"', "", sources)
    table = _text("router/README.md").partition("| symptom | log line | action |\n")[2].partition("\n\n")[0]
    lines = re.findall(r"^\|[^|]*\| `([^`|]*)` \|", table, re.MULTILINE)
    assert len(lines) == len(table.splitlines()) - 1 > 5
    for line in lines:
        for fragment in filter(None, map(str.strip, line.split("…"))):
            assert fragment in written, line
