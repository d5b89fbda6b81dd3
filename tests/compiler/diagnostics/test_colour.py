import os
import pty
import re
import subprocess
import sys
from io import StringIO

import pytest

from compiler.diagnostics import Diagnostic, Document, Location, render
from compiler.diagnostics.colour import COLOURED, PLAIN, style_for
from tests.checkout import CHECKOUT

DIAGNOSTIC = Diagnostic(
    "wrong-value", "top_p is 2", Location(Document("p.yaml", "top_p: 2"), 1, 8, 1, 9), "at most 1", "write 1"
)


class Terminal(StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "style"),
    [
        (Terminal(), {"TERM": "xterm"}, COLOURED),
        (Terminal(), {}, COLOURED),
        (Terminal(), {"NO_COLOR": ""}, COLOURED),
        (Terminal(), {"NO_COLOR": "1"}, PLAIN),
        (Terminal(), {"NO_COLOR": "0"}, PLAIN),
        (Terminal(), {"TERM": "dumb"}, PLAIN),
        (StringIO(), {"TERM": "xterm"}, PLAIN),
        (None, {}, PLAIN),
    ],
)
def test_colour_is_for_terminals_that_want_it(stream, environment, style):
    """A terminal gets colour unless it is dumb or NO_COLOR is set and not empty; a pipe or a file never does."""
    assert style_for(stream, environment) == style


def test_colour_changes_nothing_but_the_colour():
    """Severity, message and caret are painted; without the codes the text is the plain one."""
    painted = render(DIAGNOSTIC, COLOURED)
    assert painted.splitlines()[0] == "p.yaml:1:8: \x1b[1;31merror\x1b[0m: \x1b[1mtop_p is 2\x1b[0m"
    assert painted.splitlines()[2] == "    |        \x1b[1;31m^\x1b[0m"
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == render(DIAGNOSTIC)


@pytest.mark.parametrize(("no_color", "painted"), [("", True), ("1", False)])
def test_a_terminal_shows_it(no_color, painted, tmp_path):
    """As a process on a real terminal, profilec paints its errors, and does not where NO_COLOR asks it."""
    (tmp_path / "p.yaml").write_text("top_p: 2\n")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": no_color, "PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-m", "compiler", "build", "p.yaml"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, stderr=theirs, check=False, timeout=60)
    os.close(theirs)
    said = os.read(ours, 10_000).decode()
    os.close(ours)
    assert done.returncode == 1
    assert ("\x1b[1;31merror\x1b[0m" in said) == painted
    assert ("\x1b" in said) == painted
