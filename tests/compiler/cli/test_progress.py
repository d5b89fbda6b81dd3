import io
import sys

import pytest

from compiler.cli.progress import progress_bar


class _Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("total", "count"), [(10, " 4/10"), (None, "4/?")])
def test_a_terminal_shows_label_count_and_note(monkeypatch, total, count):
    """On a terminal the bar shows the label, the completed requests of the total, and the note."""
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("verifying", total) as update:
        update(4, "[red]2 failed")
    shown = terminal.getvalue()
    assert all(text in shown for text in ("verifying", count, "2 failed"))
    assert "[red]" not in shown


def test_no_terminal_shows_nothing(monkeypatch):
    """Where standard error is not a terminal, nothing is written."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar("verifying", 10) as update:
        update(4)
    assert stream.getvalue() == ""
