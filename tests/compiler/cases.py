"""Golden cases: one file each, the profile and its parents above a line of dashes, what must come out below it.

The part above may begin with lines `$ profilec …`, the commands to run (`profilec print profile.yaml` when there is
none), and is split by lines `=== NAME` into files; what stands before the first of them is `profile.yaml`, which is not
there where nothing does and no command names it.
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "cases"
_DASHES = "-" * 40 + "\n"
_FILE = re.compile(r"^=== (.+)\n", re.MULTILINE)
_COMMANDS = re.compile(r"(?:\$ profilec .+\n)*")


@dataclass(frozen=True)
class Case:
    path: Path
    given: str
    expected: str

    @property
    def commands(self):
        lines = _COMMANDS.match(self.given)[0].splitlines()
        return [shlex.split(line.removeprefix("$ profilec ")) for line in lines] or [["print", "profile.yaml"]]

    def files(self):
        text = _COMMANDS.sub("", self.given, count=1)
        first, *rest = _FILE.split(text)
        files = dict(zip(rest[::2], rest[1::2], strict=True))
        is_named = any(word.endswith("profile.yaml") for command in self.commands for word in command)
        return {"profile.yaml": first, **files} if first or is_named else files

    def update(self, actual):
        self.path.write_bytes(f"{self.given}{_DASHES}{actual}".encode())


def all_cases():
    return [read_case(path) for path in sorted(FOLDER.glob("*/*.txt"))]


def read_case(path):
    given, _, expected = path.read_bytes().decode().partition(_DASHES)
    return Case(path, given, expected)


def name_of(case):
    return f"{case.path.parent.name}/{case.path.stem}"
