"""The folder that processes share their metrics in, and the recorder that takes requests there."""

import errno
import logging
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.mmap_dict import MmapedDict

from router.request.context import RequestContext
from router.telemetry import recorder, shared_metrics
from router.telemetry.recorder import ExporterQueue


class _Kept:
    """A sink that keeps what it is given, and fails at what has no status."""

    def __init__(self) -> None:
        self.statuses: list[int] = []

    def add(self, contexts: Iterator[RequestContext]) -> None:
        for context in contexts:
            self.statuses.append(context.status)
            assert context.status


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in use by this process."""
    monkeypatch.setattr(shared_metrics._Folder, "path", tmp_path)
    return tmp_path


def _write(path: Path, **values: float) -> None:
    file = MmapedDict(str(path))
    for key, value in values.items():
        file.write_value(key, value, 0.0)
    file.close()


def _read(path: Path) -> dict[str, float]:
    return {key: value for key, value, *_ in MmapedDict.read_all_values_from_file(str(path))}


def test_the_dead_are_summed(folder: Path) -> None:
    """What workers had counted is added up in one file, and theirs and their gauges go."""
    for pid, count in ((1, 2.0), (12, 3.0)):
        _write(folder / f"counter_{pid}.db", a=count, **{f"of{pid}": 1.0})
        _write(folder / f"gauge_livesum_{pid}.db", a=9)
    shared_metrics.merge_dead_worker(1)
    assert {path.name for path in folder.iterdir()} == {"counter_dead.db", "counter_12.db", "gauge_livesum_12.db"}
    shared_metrics.merge_dead_worker(12)
    assert [path.name for path in folder.iterdir()] == ["counter_dead.db"]
    assert _read(folder / "counter_dead.db") == {"a": 5, "of1": 1, "of12": 1}


TOO_LONG = struct.pack("iii", 64, 0, 10**6) + bytes(100)


@pytest.mark.parametrize("broken", [b"", TOO_LONG], ids=["empty", "garbage"])
def test_a_broken_file_of_a_worker_does_no_harm(folder: Path, broken: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """A file that a worker left half written is dropped, with a word in the log, and the others count."""
    _write(folder / "histogram_1.db", a=1)
    (folder / "counter_1.db").write_bytes(broken)
    with caplog.at_level(logging.ERROR, "router"):
        shared_metrics.merge_dead_worker(1)
    assert "the counters of worker 1 are lost" in caplog.text
    assert _read(folder / "histogram_dead.db") == {"a": 1}
    assert not (folder / "counter_1.db").exists()


def test_who_reads_during_a_burial_reads_again(folder: Path) -> None:
    """Reading goes round again when a worker was buried meanwhile, and only then."""
    rounds = iter(range(1, 10))

    def read() -> bytes:
        if (this := next(rounds)) <= 2:
            shared_metrics.merge_dead_worker(1)
        return b"%d" % this

    assert shared_metrics.read_consistent(read) == b"3"


def test_a_file_that_is_just_being_made_is_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's file is there before anything is in it; one that stays so is an error in the end."""
    file = folder / "counter_1.db"
    file.touch()
    tries = iter(range(10))

    def read() -> bytes:
        if next(tries) == 1:
            file.unlink()
            _write(file, a=1)
        return str(_read(file)).encode()

    assert shared_metrics.read_consistent(read) == b"{'a': 1.0}"
    file.write_bytes(b"")
    monkeypatch.setattr(shared_metrics, "MAX_TRIES", 2)
    with pytest.raises(struct.error):
        shared_metrics.read_consistent(lambda: str(_read(file)).encode())


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the recorder's thread is late, the one that ends a request takes all that waits to the sink."""
    monkeypatch.setattr(recorder, "MAX_QUEUED", 3)
    monkeypatch.setattr(recorder, "TICK_SECONDS", 10_000.0)
    kept: ExporterQueue[_Kept] = ExporterQueue(_Kept)
    sink = kept.start()
    for status in (1, 2):
        kept.note(RequestContext(request_id="", status=status))
    assert sink.statuses == []
    kept.note(RequestContext(request_id="", status=3))
    assert sink.statuses == [1, 2, 3]


def test_a_sink_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What a sink cannot take is said in the log, and the next request is taken."""
    monkeypatch.setattr(recorder, "TICK_SECONDS", 10_000.0)
    kept: ExporterQueue[_Kept] = ExporterQueue(_Kept)
    sink = kept.start()
    with caplog.at_level(logging.ERROR, "router"):
        for status in (0, 7):
            kept.note(RequestContext(request_id="", status=status))
            kept.flush()
    assert sink.statuses == [0, 7]
    assert "missing in the metrics or traces" in caplog.text


def test_room_is_taken_before_it_is_needed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of a process have all their blocks: a disk that fills up later does no harm."""
    monkeypatch.setenv(shared_metrics.VARIABLE, str(folder))
    shared_metrics.reserve(4711)
    files = list(folder.glob("*_4711.db"))
    assert len(files) == 5
    assert all(file.stat().st_blocks * 512 >= shared_metrics.RESERVED_BYTES for file in files)


def test_what_could_not_begin_begins_later(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A process that had no room for its metrics says so once, and counts from when there is some."""
    kept = _Kept()
    has_room = False

    def open_exporter() -> _Kept:
        if not has_room:
            raise OSError("no room")
        return kept

    made = ExporterQueue(open_exporter)
    for _ in range(3):
        made.note(RequestContext(request_id="", status=200))
        assert made.has_failed()
    monkeypatch.setattr(made, "_try_again_at", 0.0)
    made.note(RequestContext(request_id="", status=200))
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == ["no room"]
    has_room = True
    assert made.start() is kept  # somebody asks for the metrics meanwhile
    made.note(RequestContext(request_id="", status=404))
    made.flush()
    assert kept.statuses == [404]


def test_without_room_no_half_files_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room that is not there for all is given back: the files of others can be read."""
    monkeypatch.setenv(shared_metrics.VARIABLE, str(folder))
    taken = iter([None, None, OSError(errno.ENOSPC, "no room")])

    def allocate(*_: int) -> None:
        if (failure := next(taken)) is not None:
            raise failure

    monkeypatch.setattr("os.posix_fallocate", allocate)
    with pytest.raises(OSError, match="no room"):
        shared_metrics.reserve(1)
    assert list(folder.iterdir()) == []
