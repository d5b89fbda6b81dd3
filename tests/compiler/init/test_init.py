"""`profilec init`: the folder runs as it stands, says the truth, and comes whole or not at all."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from compiler.cli import main
from compiler.init.folder import FolderError, NewFolder
from compiler.resolve.presets import preset_names
from router.artifact.format import read
from router.artifact.release import shipped_folder
from router.mock_engine import MockEngine
from tests.checkout import CHECKOUT
from tests.router.rawclient import RawClient
from tests.router.serving import RunningRouter

SAMPLING_FIELDS = {"temperature", "top_p"}
FILES = {
    ".github/workflows/profile.yml",
    "README.md",
    "gunicorn.conf.py",
    "profile.json",
    "profile.schema.json",
    "profile.yaml",
    "requirements.txt",
}


def files_in(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def commands_in(folder):
    """Return the commands that the README of a deployment names."""
    return re.findall(r": `(.+)`$", (folder / "README.md").read_text(), re.MULTILINE)


@pytest.fixture
def kimi(tmp_path):
    assert main.main(["init", "kimi-eu", "--preset", "moonshot-kimi"]) == 0
    return tmp_path / "kimi-eu"


def test_the_folder_holds_what_a_deployment_needs(tmp_path, capsys):
    """The files are there, the list of them on standard output, and what to read next on standard error."""
    assert main.main(["init", "kimi-eu", "--preset", "moonshot-kimi"]) == 0
    assert files_in(tmp_path / "kimi-eu") == FILES
    assert len((tmp_path / "kimi-eu" / "README.md").read_text().splitlines()) <= 10
    out, err = capsys.readouterr()
    assert {str(Path(line).relative_to("kimi-eu")) for line in out.splitlines()} == FILES
    assert err == "kimi-eu/README.md says how to build, check and run it\n"


def test_the_commands_in_its_readme_leave_it_as_it_is(kimi, monkeypatch):
    """Building, checking and writing the schema as the README says succeeds and gives the same bytes again."""
    monkeypatch.chdir(kimi)
    before = {name: (kimi / name).read_bytes() for name in FILES}
    run = [shlex.split(command)[1:] for command in commands_in(kimi) if command.startswith("profilec ")]
    assert [arguments[0] for arguments in run] == ["build", "check", "serve", "schema"]
    assert [main.main(arguments) for arguments in run if arguments[0] != "serve"] == [0, 0, 0]
    assert {name: (kimi / name).read_bytes() for name in FILES} == before


def test_it_runs_as_it_stands(kimi):
    """Gunicorn, started in the folder as its README says, enforces the contract in front of an engine."""
    (command,) = [shlex.split(command) for command in commands_in(kimi) if " gunicorn " in command]
    assert command[-3:] == ["gunicorn", "-b", "127.0.0.1:8000"]
    environment = dict(word.split("=", 1) for word in command[:-3])
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("ROUTER_", "SGLANG_"))}
    with MockEngine(models=("served",)) as engine:
        process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "--bind", "127.0.0.1:0"],
            env={**plain, **environment, "ROUTER_ENGINES": engine.url, "PYTHONPATH": str(CHECKOUT)},
            cwd=kimi,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with RunningRouter(process) as router:
            router.wait_until_ready()
            body = {"model": "served", "messages": [{"role": "user", "content": "hi"}]}
            with RawClient(router.port) as client:
                answered = client.post("/v1/chat/completions", json.dumps(body).encode())
                refused = client.post("/v1/chat/completions", json.dumps({**body, "top_p": 0.8}).encode())
                said = client.get("/readyz").json()
    assert answered.status == 200
    assert refused.json()["error"]["code"] == "sampling_contract_violation"
    assert (said["profile"], said["digest"]) == ("kimi-eu", read(kimi / "profile.json").digest)


def test_the_workflow_checks_the_artifact(kimi, monkeypatch):
    """The CI snippet is YAML, installs the release that the folder names and runs the check line, which succeeds."""
    workflow = yaml.safe_load((kimi / ".github/workflows/profile.yml").read_text())
    runs = [step["run"] for step in workflow["jobs"]["check"]["steps"] if "run" in step]
    assert runs == [
        "pip install -r requirements.txt",
        "profilec check --artifact profile.json ./profile.yaml --format github",
    ]
    monkeypatch.chdir(kimi)
    assert main.main(shlex.split(runs[1])[1:]) == 0
    assert (kimi / "requirements.txt").read_text().splitlines()[-1].startswith("profilec")


def test_the_gunicorn_conf_only_brings_in_ours(kimi):
    """The conf of a deployment is the one in the checkout, but for where it says that the rest lives."""
    ours = (CHECKOUT / "gunicorn.conf.py").read_text()
    assert (kimi / "gunicorn.conf.py").read_text().splitlines()[1:] == ours.splitlines()[1:]


def test_editors_find_the_schema(kimi):
    """The profile names the JSON Schema that lies beside it."""
    first = (kimi / "profile.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=./profile.schema.json"
    shipped = shipped_folder("profiles") / "profile.schema.json"
    assert (kimi / "profile.schema.json").read_bytes() == shipped.read_bytes()


@pytest.mark.parametrize("preset", preset_names())
def test_everything_that_it_proposes_is_right(preset, tmp_path):
    """With every comment taken away from the examples, the profile compiles, on top of any preset."""
    assert main.main(["init", "d", "--preset", preset]) == 0
    profile = tmp_path / "d" / "profile.yaml"
    above, proposed = profile.read_text().split("\n#\n# models:")
    profile.write_text(above + "\n" + re.sub(r"^# ", "", f"# models:{proposed}", flags=re.MULTILINE))
    assert main.main(["build", "d/profile.yaml", "-o", "d.json"]) == 0
    contract = read(tmp_path / "d.json").contract
    assert contract.output.max_tokens.cap == 32768
    assert ("min_p" in contract.sampling.params) != bool(SAMPLING_FIELDS & contract.fields.keys())


@pytest.mark.parametrize("there", ["profile.yaml", "README.md", ".github/workflows/profile.yml"])
def test_nothing_is_overwritten(there, tmp_path, capsys):
    """When one of the files is there already, the error names it and nothing is written."""
    file = tmp_path / "d" / there
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    assert main.main(["init", "d"]) == 1
    assert capsys.readouterr().err == (
        f'profilec: error: "d" already contains {there}, and existing files are not overwritten\n'
    )
    assert files_in(tmp_path / "d") == {there}
    assert file.read_text() == "mine"


def test_a_link_that_leads_nowhere_is_not_written_through(tmp_path):
    """A dangling link in the place of a file counts as being there."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "profile.json").symlink_to("elsewhere.json")
    assert main.main(["init", "d"]) == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "d"]


@pytest.mark.parametrize(
    "folder", ["empty", "empty/", "with-other-files", "new/and/deep", ".", "{absolute}", "Ünïcode: 'x'"]
)
def test_wherever_it_is_made_it_is_the_same(folder, tmp_path, monkeypatch):
    """The folder may be empty, new, deep, the current one or absolute; it names the profile; other files stay."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "with-other-files").mkdir()
    (tmp_path / "with-other-files" / "LICENSE").write_text("mine")
    if folder == ".":
        (tmp_path / "here").mkdir()
        monkeypatch.chdir("here")
    path = folder.replace("{absolute}", str(tmp_path / "absolute"))
    assert main.main(["init", path]) == 0
    assert files_in(Path(path)) - {"LICENSE"} == FILES
    assert read(Path(path) / "profile.json").name == Path(path).resolve().name
    assert str(tmp_path) not in "".join((Path(path) / name).read_text() for name in FILES)


def test_a_folder_whose_name_cannot_be_a_profiles_gets_a_plain_one(tmp_path):
    """A name with a line break would not do; the profile is then called profile."""
    assert main.main(["init", "a\nb"]) == 0
    assert read(tmp_path / "a\nb" / "profile.json").name == "profile"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["file"], 1, 'cannot write "file/profile.yaml": Not a directory'),
        (["file/below"], 1, 'cannot write "file/below": Not a directory'),
        ([""], 2, "the name of the folder is empty"),
        (["d", "--preset", "moonshot"], 1, '--preset: there is no preset "moonshot"\n  expected: one of'),
        (["d", "--preset", "./x.yaml"], 1, '--preset: there is no preset "./x.yaml"\n  expected: one of'),
    ],
)
def test_what_cannot_be_made_is_told(arguments, code, message, tmp_path, capsys):
    """A file in the way, no name, an unknown preset: the error says so, and nothing was made."""
    (tmp_path / "file").write_text("")
    assert main.main(["init", *arguments]) == code
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_told(tmp_path, capsys):
    """Without permission the error says so."""
    (tmp_path / "d").mkdir(mode=0o555)
    assert main.main(["init", "d"]) == 1
    assert capsys.readouterr().err == 'profilec: error: cannot write "d/profile.yaml": Permission denied\n'


@pytest.mark.parametrize(
    ("error", "seen"), [(OSError(28, "No space left on device"), FolderError), (KeyboardInterrupt(), KeyboardInterrupt)]
)
def test_what_was_made_goes_away_when_the_rest_fails(error, seen, tmp_path):
    """A full disk or Ctrl-C in the middle leaves neither files nor folders behind, and what was there before stays."""
    (tmp_path / "there").mkdir()
    new = NewFolder(tmp_path / "there" / "new", ("a", "b/c"))

    def fail():
        with new:
            new.add("a", b"")
            new.add("b/c", b"")
            raise error

    with pytest.raises(seen):
        fail()
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]


def test_a_file_that_came_in_between_stays(tmp_path):
    """A file that somebody else makes meanwhile is not overwritten, and ours go away."""
    new = NewFolder(tmp_path, ("a", "b"))

    def collide():
        with new:
            new.add("a", b"")
            (tmp_path / "b").write_text("mine")
            new.add("b", b"")

    with pytest.raises(FolderError, match="File exists"):
        collide()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("b", "mine")]
