import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.cli import lists, loading, main
from compiler.resolve.presets import preset_names
from router.artifact.format import read
from router.artifact.release import FORMAT_VERSION, shipped_folder

REPOSITORY = Path(main.__file__).parents[2]


def profilec(*arguments, **options):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), **options.pop("environment", {})}
    command = [sys.executable, "-m", "compiler", *arguments]
    return subprocess.run(command, check=False, capture_output=True, env=environment, timeout=60, **options)


def raising(error):
    def run(_):
        raise error

    return run


def test_artifact_on_stdout_and_words_on_stderr():
    """As a process, `build` writes nothing but the artifact to standard output."""
    done = profilec("build", environment={"SGLANG_ROUTER_API_PROFILE": "moonshot-kimi"})
    assert done.returncode == 0
    assert json.loads(done.stdout)["name"] == "moonshot-kimi"
    assert done.stderr == b"profile: moonshot-kimi (from SGLANG_ROUTER_API_PROFILE)\n"


def test_a_profile_from_the_environment_that_fails_never_falls_through(monkeypatch, capsys):
    """A set source that cannot be read is an error that names it."""
    monkeypatch.setenv("SGLANG_ROUTER_API_PROFILE", "./gone.yaml")
    assert main.main(["build"]) == 1
    err = capsys.readouterr().err
    assert 'SGLANG_ROUTER_API_PROFILE: cannot read "./gone.yaml": No such file or directory' in err


def test_the_system_profile_is_taken_when_it_exists(monkeypatch, tmp_path, capsys):
    """Without a name and an environment variable, the system's profile is compiled."""
    (tmp_path / "system.yaml").write_text("name: the-system\n")
    monkeypatch.setattr(loading, "SYSTEM_PROFILE", tmp_path / "system.yaml")
    assert main.main(["print"]) == 0
    assert capsys.readouterr().out == "name: the-system\n"


def test_building_twice_gives_the_same_file(tmp_path, monkeypatch):
    """The same input gives the same bytes, also from another folder."""
    (tmp_path / "elsewhere").mkdir()
    assert main.main(["build", "moonshot-kimi", "-o", "one.json"]) == 0
    monkeypatch.chdir("elsewhere")
    assert main.main(["build", "moonshot-kimi", "-o", "../two.json"]) == 0
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_an_artifact_is_checked_and_written_again(tmp_path, capsys):
    """`build` of an artifact gives its bytes in our own form; one edited by hand is refused."""
    assert main.main(["build", "moonshot-kimi", "-o", "a.json"]) == 0
    text = (tmp_path / "a.json").read_text()
    (tmp_path / "b.json").write_text(json.dumps(json.loads(text)))
    assert main.main(["build", "b.json", "-o", "c.json"]) == 0
    assert (tmp_path / "c.json").read_text() == text

    (tmp_path / "edited.json").write_text(text.replace("0.95", "0.9"))
    assert main.main(["build", "edited.json"]) == 1
    assert "edited by hand" in capsys.readouterr().err


def test_an_artifact_prints_as_a_profile_that_compiles_to_it(tmp_path):
    """`print` of an artifact gives YAML of the same contract and name."""
    assert main.main(["build", "moonshot-kimi", "-o", "a.json"]) == 0
    assert main.main(["print", "a.json", "-o", "printed.yaml"]) == 0
    assert main.main(["build", "./printed.yaml", "-o", "b.json"]) == 0
    one, two = read(Path("a.json")), read(Path("b.json"))
    assert (one.name, one.contract, one.digest) == (two.name, two.contract, two.digest)


def test_a_source_is_never_overwritten(tmp_path, capsys):
    """Writing the result over one of the profiles it comes from is a usage error."""
    (tmp_path / "base.yaml").write_text("name: base\n")
    (tmp_path / "profile.yaml").write_text("extends: base.yaml\n")
    assert main.main(["build", "profile.yaml", "-o", "./base.yaml"]) == 2
    assert (tmp_path / "base.yaml").read_text() == "name: base\n"
    assert "is a source of this profile" in capsys.readouterr().err


def test_an_error_leaves_the_output_alone(tmp_path):
    """A profile that does not compile leaves the artifact of yesterday where it is."""
    (tmp_path / "profile.json").write_text("yesterday")
    (tmp_path / "profile.yaml").write_text("nam: x\n")
    assert main.main(["build", "profile.yaml", "-o", "profile.json"]) == 1
    assert (tmp_path / "profile.json").read_text() == "yesterday"


def test_presets_are_listed(capsys):
    """`presets` gives a line for each: its name, and what it is."""
    assert main.main(["presets"]) == 0
    listed = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert [name for name, _ in listed] == list(preset_names())
    assert dict(listed)["openai-compatible"]


def test_the_schema_is_written_where_it_is_wanted(tmp_path, capsys):
    """`schema` gives the JSON Schema that also ships beside the presets."""
    assert main.main(["schema"]) == 0
    assert main.main(["schema", "-o", "schema.json"]) == 0
    shipped = (shipped_folder("profiles") / "profile.schema.json").read_text()
    assert capsys.readouterr().out == shipped
    assert (tmp_path / "schema.json").read_text() == shipped


def test_version_names_the_artifact_format(capsys):
    """`--version` says which artifact format is written, since a router must read it."""
    assert main.main(["--version"]) == 0
    assert capsys.readouterr().out.endswith(f"(artifact format {FORMAT_VERSION})\n")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["biuld"],
        ["build", "--outptu", "x"],
        ["build", "a", "b"],
        ["build", "--sampling-param-conflict", "no"],
        ["build", "--print-profile", "--origin"],
        ["check", "--format", "xml"],
    ],
)
def test_misuse_is_exit_code_2(arguments, capsys):
    """A command line that makes no sense ends with 2, words on standard error, nothing on standard output."""
    assert main.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "usage: profilec" in err


def test_options_are_not_guessed_from_their_beginning():
    """An abbreviated option is refused, so that a new option never changes what an old script means."""
    assert main.main(["build", "--api-profile-f", "x.yaml"]) == 2


def test_many_errors_are_cut_and_counted(tmp_path, capsys):
    """Of very many errors the first fifty are shown, and all are counted."""
    (tmp_path / "profile.yaml").write_text("".join(f"key{number}: 1\n" for number in range(60)))
    assert main.main(["build", "profile.yaml"]) == 1
    err = capsys.readouterr().err
    assert err.count("is not a key") == 50
    assert err.endswith("60 errors, of which 50 are shown\n")


def test_a_bug_is_told_as_ours(monkeypatch, capsys):
    """An unforeseen exception is exit code 3, says that it is our bug and how to report it, and shows no traceback."""
    monkeypatch.setattr(lists, "presets", raising(RuntimeError("boom")))
    assert main.main(["presets"]) == 3
    err = capsys.readouterr().err
    assert "internal error: RuntimeError: boom" in err
    assert "Traceback" not in err
    assert "PROFILEC_TRACEBACK=1" in err


def test_another_module_of_the_routers_name_is_reported(tmp_path):
    """In a folder with a `router` of its own, which `python -m` finds first, the error names it; it is no bug."""
    (tmp_path / "router.py").touch()
    done = profilec("presets", cwd=tmp_path, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"profilec: error: {tmp_path / 'router.py'} hides the installed package `router`")
    assert done.stderr.count("\n") == 1


def test_a_traceback_is_shown_to_who_asks(monkeypatch, capsys):
    """With PROFILEC_TRACEBACK set the traceback of a bug is shown as well."""
    monkeypatch.setattr(lists, "presets", raising(RuntimeError("boom")))
    monkeypatch.setenv("PROFILEC_TRACEBACK", "1")
    assert main.main(["presets"]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_is_exit_code_130(monkeypatch, capsys):
    """Ctrl-C ends quietly with 130."""
    monkeypatch.setattr(lists, "presets", raising(KeyboardInterrupt()))
    assert main.main(["presets"]) == 130
    assert capsys.readouterr() == ("", "")


def test_errors_come_in_the_same_order_on_every_run(tmp_path):
    """Errors at one place are told in one order, however Python happens to hash strings."""
    (tmp_path / "profile.yaml").write_text("sampling: {params: {temperature: {}, top_p: {}, min_p: {}}}\n")
    runs = (profilec("build", "profile.yaml", environment={"PYTHONHASHSEED": seed}, cwd=tmp_path) for seed in "1234")
    assert len({run.stderr for run in runs}) == 1


def test_a_reader_that_goes_away_is_no_error_to_talk_about():
    """When the reader of a pipe has gone, the process ends with 141 and no word."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "compiler", "print", "moonshot-kimi"],
            check=False,
            stdout=pipe,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told_in_one_line():
    """Standard output that cannot be written is exit code 1 and one line."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "compiler", "print", "moonshot-kimi"],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr == b"profilec: error: cannot write to standard output: No space left on device\n"


def test_help_does_not_wait_for_what_it_does_not_need():
    """`--help` imports neither the YAML reader nor the validator."""
    done = profilec("--help", environment={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.returncode == 0
    assert not any(module in done.stderr for module in (b"yaml", b"cerberus", b"msgspec", b"shtab"))


def test_every_option_is_explained(capsys):
    """`build --help` says how a profile is chosen when none is named."""
    assert main.main(["build", "--help"]) == 0
    out = capsys.readouterr().out
    assert "SGLANG_ROUTER_API_PROFILE" in out
    assert "/etc/sgl-router/profile.yaml" in out


@pytest.mark.parametrize("arguments", [["--version"], ["--print-completion", "bash"], ["presets"]], ids=" ".join)
def test_a_full_disk_is_told_whatever_prints(arguments):
    """Output that cannot be written is one line and exit code 1, whatever prints it."""
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device, to be handed to a process
        done = subprocess.run(
            [sys.executable, "-m", "compiler", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("profilec: error: cannot write to standard output: No space left")
