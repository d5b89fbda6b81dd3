import os
import stat

import pytest

from compiler.cli import output
from compiler.cli.output import OutputError, write


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    """When writing fails half-way, the old file is untouched and nothing else is left in the folder."""
    path = tmp_path / "profile.json"
    path.write_text("old")

    def broken(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output.os, "fsync", broken)
    with pytest.raises(OutputError, match=r"cannot write .*profile\.json\": No space left on device"):
        write(b"new", str(path))
    assert [file.name for file in tmp_path.iterdir()] == ["profile.json"]
    assert path.read_text() == "old"


def test_an_interrupted_write_leaves_nothing_behind(tmp_path, monkeypatch):
    """Ctrl-C while writing removes the temporary file too."""

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(output.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(b"new", str(tmp_path / "profile.json"))
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_is_readable_as_the_umask_allows(tmp_path):
    """A new artifact gets the permissions of any new file, so that a router under another user can read it."""
    before = os.umask(0o022)
    try:
        write(b"new", str(tmp_path / "profile.json"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "profile.json").stat().st_mode) == 0o644


def test_permissions_of_a_replaced_file_stay(tmp_path):
    """Writing again keeps the permissions that somebody gave the file."""
    path = tmp_path / "profile.json"
    path.write_text("old")
    path.chmod(0o640)
    write(b"new", str(path))
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o640)


def test_a_link_keeps_pointing(tmp_path):
    """Writing to a symbolic link replaces what it points at, not the link."""
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    write(b"new", str(tmp_path / "link.json"))
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text() == "new"


def test_a_device_is_written_and_not_replaced():
    """`-o /dev/null` writes there."""
    write(b"new", "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)  # noqa: PTH116 - a device, not a file of ours


@pytest.mark.parametrize(
    ("destination", "reason"),
    [
        ("missing/profile.json", "No such file or directory"),
        (".", "Is a directory"),
        ("file/profile.json", "Not a directory"),
        ("", "Is a directory"),
    ],
)
def test_what_cannot_be_written_is_told_in_one_line(destination, reason, tmp_path):
    """A missing folder, a folder, a file as folder: one line says which and why."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError) as caught:
        write(b"new", destination)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_as_long_as_the_file_system_takes_can_be_written(tmp_path):
    """The file that is written first, and then renamed, needs no longer a name than the one asked for."""
    name = "x" * 250 + ".json"
    write(b"new", str(tmp_path / name))
    assert (tmp_path / name).read_bytes() == b"new"
