"""`--help` teaches by example, and every example works; the completion script completes."""

import argparse
import os
import re
import shutil
import subprocess
import sys

import pytest

from compiler.cli import main
from compiler.cli.parser import parser_of_profilec
from compiler.resolve.presets import preset_names
from tests.checkout import CHECKOUT

NEVER_ENDS_OR_NEEDS_MORE = ("demo", "serve", "verify", "probe")


def _presets(prefix):
    return {name for name in preset_names() if name.startswith(prefix)}


def parsers():
    root = parser_of_profilec()
    (commands,) = (action for action in root._actions if isinstance(action, argparse._SubParsersAction))
    return {"": root, **commands.choices}


def examples_of(parser):
    """Return the commands of the examples: what stands before two blanks."""
    block = parser.format_help().partition("examples:\n")[2]
    return [
        re.split(r" {2,}", line.strip())[0] for line in block.splitlines() if re.match(r"  (profilec|eval|echo) ", line)
    ]


PARSERS = parsers()
EXAMPLES = sorted({example for parser in PARSERS.values() for example in examples_of(parser)})


@pytest.fixture
def shell(tmp_path):
    """A shell with `profilec` on its PATH, in a folder with a profile, artifacts and requests."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "profilec").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m compiler "$@"\n')
    (programs / "profilec").chmod(0o755)
    folder = tmp_path / "deployment"
    folder.mkdir()
    (folder / "profile.yaml").write_text("extends: moonshot-kimi\n")
    assert main.main(["build", str(folder / "profile.yaml"), "-o", str(folder / "profile.json")]) == 0
    for artifact in ("old.json", "new.json"):
        shutil.copy(folder / "profile.json", folder / artifact)
    for requests in ("request.json", "yesterday.jsonl"):
        (folder / requests).write_text('{"model": "m", "messages": []}\n')
    path = os.pathsep.join([str(programs), os.environ["PATH"]])

    def run(script, program="bash"):
        command = [program, "-c", script] if program == "bash" else [program, "-f", "-c", script]
        environment = {**os.environ, "PATH": path, "PYTHONPATH": str(CHECKOUT)}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("parser", PARSERS.values(), ids=lambda parser: parser.prog)
def test_every_command_teaches_by_example(parser):
    """The help of the program and of each command shows lines to copy: two at least, or the only one there is."""
    assert len(examples_of(parser)) >= (1 if parser.prog == "profilec schema" else 2)
    assert all(len(line) <= 120 for line in parser.epilog.splitlines())


@pytest.mark.parametrize(
    "example", [example for example in EXAMPLES if example.split()[1] not in NEVER_ENDS_OR_NEEDS_MORE]
)
def test_every_example_works(example, shell):
    """Each line of the help, copied into a shell beside a profile and its artifact, succeeds."""
    if example == "profilec init .":
        shell("rm profile.yaml profile.json")
    shell(example)


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("profilec bu", {"build"}),
        ("profilec build mo", _presets("mo")),
        ("profilec build ./prof", {"./profile.json", "./profile.yaml"}),
        ("profilec build --api-profile ", set(preset_names())),
        ("profilec build --api-profile-file profile.y", {"profile.yaml"}),
        ("profilec print --sampling-param-conflict ", {"reject", "allow"}),
        ("profilec serve mo", _presets("mo")),
        ("profilec serve profile.json --re", {"--reload"}),
        ("profilec diff moon", _presets("moon")),
        ("profilec diff old.json new", {"new.json"}),
        ("profilec explain req", {"request.json"}),
        ("profilec explain request.json open", _presets("open")),
        ("profilec init d --preset o", _presets("o")),
        ("profilec schema --out", {"--output"}),
    ],
)
def test_bash_completes_commands_presets_and_files(line, completed, shell):
    """After the script of `--print-completion bash`, the Tab key offers what can stand there."""
    words = " ".join(f'"{word}"' for word in line.split(" "))
    said = shell(
        f'eval "$(profilec --print-completion bash)"; COMP_WORDS=({words}); COMP_CWORD={line.count(" ")}; '
        '_shtab_profilec; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert {word.strip() for word in said.splitlines()} == completed


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_takes_the_script(shell):
    """Zsh reads its script and knows then how profilec is completed."""
    script = 'autoload -Uz compinit; compinit -D -u; eval "$(profilec --print-completion zsh)"; print $_comps[profilec]'
    assert shell(script, "zsh") == "_shtab_profilec\n"


def test_an_unknown_shell_is_a_usage_error(capsys):
    """Only the shells that are known have a script."""
    assert main.main(["--print-completion", "csh"]) == 2
    assert "choose from" in capsys.readouterr().err
