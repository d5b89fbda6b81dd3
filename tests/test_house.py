"""The rules of the house, each kept by a test."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from router.artifact.release import shipped_folder
from tests.batches import batched
from tests.checkout import CHECKOUT, travelling_files

TESTS = sorted((CHECKOUT / "tests").rglob("test_*.py"))
SOURCES = sorted(path for folder in ("compiler", "router") for path in (CHECKOUT / folder).rglob("*.py"))


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=CHECKOUT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("-m", "ruff", "check"), id="ruff check"),
        pytest.param(("-m", "ruff", "format", "--check"), id="ruff format"),
        pytest.param(("-m", "mypy"), id="mypy"),
        pytest.param(("-c", "from importlinter.cli import lint_imports_command as run; run()"), id="import rules"),
    ],
)
def test_the_code_is_clean(command: tuple[str, ...]) -> None:
    """Linter, formatter, type checker and import rules have nothing to say."""
    done = _run(*command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_further_top_level_folder_exists() -> None:
    """The checkout's folders are the five that the house has."""
    folders = {path.parts[0] for path in travelling_files() if len(path.parts) > 1}
    assert {folder for folder in folders if not folder.startswith(".")} == {
        "compiler",
        "router",
        "profiles",
        "build",
        "tests",
    }


@batched("path", TESTS, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_every_test_says_its_behaviour_in_one_sentence(path: Path) -> None:
    """Each test function has a docstring of one line that ends with a full stop."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            text = ast.get_docstring(node) or ""
            assert re.fullmatch(r"\S.*[.]", " ".join(text.split())), f"{path}:{node.lineno} {node.name}"


@batched("path", SOURCES, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_modules_are_short_and_explain_themselves(path: Path) -> None:
    """Each module has a docstring and at most 400 lines."""
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)), path
    assert len(text.splitlines()) <= 400, path


def test_class_names_are_unique() -> None:
    """No two classes of compiler and router have the same name."""
    trees = (ast.parse(path.read_text()) for path in SOURCES)
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, count in names.items() if count > 1} == set()


def test_the_contract_opens_nothing() -> None:
    """No module of router.contract calls open, print or input."""
    modules = sorted((CHECKOUT / "router" / "contract").rglob("*.py"))
    calls = [
        (path, node.func)
        for path in modules
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    ]
    forbidden = {"open", "print", "input"}
    assert not [(path, call.id) for path, call in calls if isinstance(call, ast.Name) and call.id in forbidden]


def test_the_wheel_carries_the_presets_and_their_artifacts(tmp_path: Path) -> None:
    """A built wheel, unpacked, finds its presets and artifacts inside its own packages."""
    built = _run("-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("profilec-*.whl")
    unpacked = tmp_path / "unpacked"
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(unpacked)], check=True)
    top = {path.name for path in unpacked.iterdir() if not path.name.endswith(".dist-info")}
    assert top == {"compiler", "router"}
    script = (
        "from router.artifact.release import shipped_folder\n"
        "for folder in ('profiles', 'build'):\n"
        "    print(*sorted(path.name for path in shipped_folder(folder).iterdir()))\n"
        "print(shipped_folder('build').parent.parent)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=unpacked, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    shipped = [" ".join(sorted(path.name for path in (CHECKOUT / name).iterdir())) for name in ("profiles", "build")]
    assert found == [*shipped, str(unpacked)]


def test_the_checkout_finds_presets_beside_the_packages() -> None:
    """In a checkout the presets and artifacts are found at the top level."""
    assert shipped_folder("profiles") == CHECKOUT / "profiles"
    assert shipped_folder("build") == CHECKOUT / "build"


def test_no_machine_speaks_out_of_the_project() -> None:
    """No file that travels names a path under a home or a temporary folder."""
    for name in travelling_files():
        path = CHECKOUT / name
        if path != Path(__file__):
            found = re.search(r"(?<![\w.])/(?:home|root|Users)/\w", path.read_text(errors="replace"))
            assert not found, f"{name}: {found}"


def test_the_python_that_is_required_is_the_oldest_that_is_linted_for() -> None:
    """Packaging, linter and type checker agree on the oldest Python."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    assert project["project"]["requires-python"] == ">=3.11"
    assert project["tool"]["ruff"]["target-version"] == "py311"
    assert project["tool"]["mypy"]["python_version"] == "3.11"
