"""Diagnostics on a stderr that nobody reads."""

import io
import logging
import os

import pytest

from router.telemetry.diagnostics import NonBlockingStderrHandler


@pytest.fixture
def log(monkeypatch):
    """A log on a pipe, and the pipe's reading end."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", 0) as read, os.fdopen(writer, "w") as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        os.set_blocking(reader, False)
        logger = logging.Logger("under test")
        logger.addHandler(NonBlockingStderrHandler())
        yield logger, read


def _all_of(read):
    pieces = []
    while piece := read.read(1024 * 1024):
        pieces.append(piece)
    return b"".join(pieces).decode()


@pytest.mark.parametrize("length", [10, 1000, 5000, 100_000])
def test_lines_without_room_are_dropped_and_counted(log, length):
    """However long the lines, nothing waits for a pipe that is full, and the next line that finds room says it."""
    logger, read = log
    for _ in range(200_000 // length + 10):
        logger.warning("%s", "x" * length)
    assert _all_of(read).startswith("x" * length if length < 65_536 else "x")
    logger.warning("the next")
    dropped, line = _all_of(read).splitlines()
    assert "dropped: stderr was full" in dropped
    assert line == "the next"
    logger.warning("another")
    assert _all_of(read) == "another\n"


def test_every_line_is_written_where_there_is_room(log):
    """Lines are whole and in order, whatever is in them."""
    logger, read = log
    logger.warning("ünï %s", "\udc80")
    logger.warning("y" * 9000)
    assert _all_of(read) == "ünï \\udc80\n" + "y" * 9000 + "\n"


def test_a_reader_that_left_stops_nobody(log):
    """A pipe whose other end is closed is no error."""
    logger, read = log
    read.close()
    logger.warning("x")


def test_a_stderr_that_is_no_file_is_written_to(monkeypatch):
    """What stands for stderr without a descriptor gets the lines as from any handler."""
    stderr = io.StringIO()
    monkeypatch.setattr("sys.stderr", stderr)
    logger = logging.Logger("under test")
    logger.addHandler(NonBlockingStderrHandler())
    logger.warning("x")
    assert stderr.getvalue() == "x\n"
