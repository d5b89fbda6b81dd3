"""The access log: what its lines say, and what becomes of them where they cannot be written."""

import errno
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.request.context import RequestContext
from router.telemetry.access_log import JSON, WRITE_BYTES, AccessLog, as_json, as_text

CLOCK = 1_700_000_000.25
NASTY = 'a"b\\\n\r\x1b[2J\x9b\u2028\u202e\ud800\U0001f600'


def _request(**facts: object) -> RequestContext:
    return RequestContext(**{"request_id": "id", "method": "POST", "status": 200, "started_at": 10.0, **facts})  # type: ignore[arg-type]


def _json(context: RequestContext) -> dict[str, object]:
    line = as_json(context, CLOCK, 12.0)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return json.loads(line)  # type: ignore[no-any-return]


def _text(context: RequestContext) -> str:
    return as_text(context, CLOCK, 12.0).decode()


FULL = {
    "route": "/v1/chat/completions",
    "key_name": "team-a",
    "model_asked": "latest",
    "model_served": "served",
    "stream": True,
    "rule": "sampling.params.top_p",
    "engine": "http://engine:30000",
    "attempts": 2,
    "code": "upstream_incomplete",
    "client_gone": True,
    "bytes_in": 1,
    "bytes_out": 2,
    "sent_at": 10.5,
    "first_byte_at": 11.25,
}


def test_a_line_says_all_that_is_known_in_a_fixed_order() -> None:
    """Every fact of an exchange has its field; times are UTC and milliseconds."""
    assert list(_json(_request(**FULL)).items()) == [
        ("time", "2023-11-14T22:13:20.250Z"),
        ("request_id", "id"),
        ("method", "POST"),
        ("route", "/v1/chat/completions"),
        ("key", "team-a"),
        ("model_asked", "latest"),
        ("model_served", "served"),
        ("stream", True),
        ("engine", "http://engine:30000"),
        ("attempts", 2),
        ("status", 200),
        ("code", "upstream_incomplete"),
        ("rule", "sampling.params.top_p"),
        ("client_gone", True),
        ("bytes_in", 1),
        ("bytes_out", 2),
        ("to_engine_ms", 500.0),
        ("first_byte_ms", 750.0),
        ("total_ms", 2000.0),
    ]


def test_what_is_not_known_is_left_out() -> None:
    """A request of which nothing was learnt has a short line; a first attempt is not worth a field."""
    names = ["time", "request_id", "method", "status", "bytes_in", "bytes_out", "total_ms"]
    assert list(_json(_request(attempts=1))) == names


@pytest.mark.parametrize("method", ["PROPFIND", "\x1b[2J", "get"])
def test_a_method_of_a_clients_own_making_is_other(method: str) -> None:
    """Only methods that exist are named."""
    assert _json(_request(method=method))["method"] == "other"


def test_a_name_that_is_no_text_is_escaped() -> None:
    """Quotes, line breaks, control characters and half a surrogate pair leave a line that is one and is JSON."""
    assert _json(_request(model_asked=NASTY))["model_asked"] == NASTY.replace("\ud800", "\\ud800")


@pytest.mark.parametrize("character", ["x", "\x01", "\U0001f600", "\ud800", "\xff"])
def test_a_line_is_never_longer_than_one_write(character: str) -> None:
    """A name as long as a body is cut, so that no line can be torn apart by another worker's."""
    huge = character * 1_000_000
    line = as_json(_request(**{**FULL, "model_asked": huge, "model_served": huge}), CLOCK, 12.0)
    assert len(line) <= WRITE_BYTES
    assert len(str(json.loads(line)["model_asked"])) <= 200 * len("\\ud800")


def test_text_is_in_columns() -> None:
    """For people the same stands in columns, with what is not always there behind them by name."""
    assert _text(_request(**FULL)) == (
        "2023-11-14T22:13:20.250Z 200 POST   /v1/chat/completions         2000.0 ms request_id=id key=team-a"
        " model_asked=latest model_served=served stream=yes engine=http://engine:30000 attempts=2"
        " code=upstream_incomplete rule=sampling.params.top_p client_gone=yes bytes_in=1 bytes_out=2"
        " to_engine_ms=500.0 first_byte_ms=750.0\n"
    )


@pytest.mark.parametrize("name", [NASTY, "a code=forged", "a\tb", "\u200f", "\x7f", '"', ""])
def test_text_gives_no_orders_to_a_terminal(name: str) -> None:
    """What is not printable, or pretends to be a further field, is escaped."""
    line = _text(_request(model_asked=name))
    assert line.removesuffix("\n").isprintable()
    shown = line.partition("model_asked=")[2].removesuffix(" bytes_in=0 bytes_out=0\n")
    assert json.loads(f'"{shown}"' if not shown.startswith('"') else shown) == name


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe: the end to read from and the end to write to."""
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


def _fill(descriptor: int) -> int:
    """Write to a pipe until nothing more fits and return how many bytes that took."""
    os.set_blocking(descriptor, False)
    length = 0
    with suppress(BlockingIOError):
        while True:
            length += os.write(descriptor, b"x" * 4096)
    return length


def _read(descriptor: int, length: int) -> bytes:
    data = b""
    while len(data) < length:
        data += os.read(descriptor, length - len(data))
    return data


def _read_until(descriptor: int, lines: int) -> list[dict[str, object]]:
    """Read until so many requests are accounted for: by a line of their own, or as dropped."""
    data = b""
    while True:
        data += os.read(descriptor, 65536)
        found = [json.loads(line) for line in data.splitlines()] if data.endswith(b"\n") else []
        if sum(int(line.get("dropped_lines", 1)) for line in found) >= lines:
            return found


@pytest.mark.parametrize("blocking", [True, False])
def test_lines_that_nobody_takes_are_counted_not_waited_for(pipe: tuple[int, int], *, blocking: bool) -> None:
    """Where stdout takes nothing, requests go on; of the lines that find no place, a later one tells the number."""
    reader, writer = pipe
    filled = _fill(writer)
    os.set_blocking(writer, blocking)
    log = AccessLog(JSON, writer, max_queued=5)
    for number in range(50):
        log.note(_request(request_id=str(number)))
    _read(reader, filled)
    lines = _read_until(reader, 50)
    assert any("dropped_lines" in line for line in lines)
    own = [int(str(line["request_id"])) for line in lines if "request_id" in line]
    assert own == sorted(set(own))


def test_each_write_is_of_whole_lines_and_short() -> None:
    """However many lines wait, one write holds no more of them than the system keeps together beside other workers'."""
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with reader, writer:
        writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1024 * 1024)
        log = AccessLog(JSON, writer.fileno())
        for number in range(200):
            log.note(_request(request_id=str(number), **FULL))
        writes: list[bytes] = []
        while b"".join(writes).count(b"\n") < 200:
            writes.append(reader.recv(1024 * 1024))
    assert all(write.endswith(b"\n") and len(write) <= WRITE_BYTES for write in writes)
    assert len(writes) < 200


def test_a_stdout_that_is_gone_ends_the_log_alone(pipe: tuple[int, int], caplog: pytest.LogCaptureFixture) -> None:
    """When nobody reads any more that is said once, and nothing else happens."""
    reader, writer = pipe
    os.close(reader)
    log = AccessLog(JSON, writer)
    for _ in range(3):
        log.note(_request())
        log.flush()
    assert [record.getMessage() for record in caplog.records] == [
        "the access log is closed: stdout cannot be written: Broken pipe"
    ]


def test_a_full_disk_is_no_end(pipe: tuple[int, int]) -> None:
    """Lines that found no room are counted, and the log goes on when there is room again."""
    reader, writer = pipe
    full = os.open("/dev/full", os.O_WRONLY)
    log = AccessLog(JSON, full)
    log.note(_request())
    log.flush()
    os.dup2(writer, full)
    log.note(_request(request_id="later"))
    lines = _read_until(reader, 2)
    os.close(full)
    assert [line.get("request_id") or line["dropped_lines"] for line in lines] == ["later", 1]


@given(rooms=st.lists(st.integers(0, 3 * WRITE_BYTES), min_size=1, max_size=3), last=st.sampled_from([1, 20]))
@settings(max_examples=20, deadline=None)
def test_on_a_disk_that_gets_full_lines_are_whole_and_the_others_are_counted(rooms: list[int], last: int) -> None:
    """Wherever the room ends, and however often: a line that was begun is ended later, and no line is told of twice."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1024 * 1024)
    room = 0

    def write(descriptor: int, data: bytes) -> int:
        nonlocal room
        if descriptor != writer:
            return os_write(descriptor, data)
        if not room and data:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = os_write(descriptor, data[:room])
        room -= written
        return written

    os_write = os.write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.write", write)
        log = AccessLog(JSON, writer)
        count = 0
        for each in [*rooms, 10**6]:
            room += each
            for _ in range(last if each == 10**6 else 20):
                log.note(_request(request_id=str(count), **FULL))
                count += 1
            log.flush()
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        lines = [json.loads(line) for line in file]
    own = [int(str(line["request_id"])) for line in lines if "request_id" in line]
    assert own == sorted(set(own))
    assert len(own) + sum(int(str(line.get("dropped_lines", 0))) for line in lines) == count


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # a fork beside threads is the point
def test_a_forked_process_has_a_writer_of_its_own(pipe: tuple[int, int]) -> None:
    """A log that was made, and used, before a fork works on both sides of it."""
    reader, writer = pipe
    log = AccessLog(JSON, writer)
    log.note(_request(request_id="parent"))
    log.flush()
    child = os.fork()
    if child == 0:
        log.note(_request(request_id="child"))
        log.flush()
        os._exit(0)
    os.waitpid(child, 0)
    assert [line["request_id"] for line in _read_until(reader, 2)] == ["parent", "child"]


@pytest.mark.parametrize("route", ["/healthz", "/readyz"])
def test_probes_are_told_of_only_when_they_fail(pipe: tuple[int, int], route: str) -> None:
    """A probe each second that goes well would drown what matters."""
    reader, writer = pipe
    log = AccessLog(JSON, writer)
    log.note(_request(route=route, request_id="well"))
    log.note(_request(route=route, request_id="ill", status=503))
    assert [line["request_id"] for line in _read_until(reader, 1)] == ["ill"]


def test_flushing_waits_no_longer_than_it_is_told(pipe: tuple[int, int]) -> None:
    """A stdout that takes nothing does not keep a process from ending."""
    reader, writer = pipe
    filled = _fill(writer)
    os.set_blocking(writer, True)
    log = AccessLog(JSON, writer)
    log.note(_request())
    log.flush(0.01)
    _read(reader, filled)
    assert len(_read_until(reader, 1)) == 1
