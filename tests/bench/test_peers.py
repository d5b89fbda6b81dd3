"""The pure parts of the bench beside peers: what is read, how it is kept, how it is told."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from gunicorn.config import Config
from gunicorn.http.parser import RequestParser

from router.artifact import format as artifact_format
from router.artifact.release import shipped_folder
from router.contract.decide import Forward, ServedIds, decide
from tests.bench import check
from tests.bench.peers import bare, bodies, cache, plot, processes, report, table
from tests.bench.peers.record import SETUP, WHOLE, Key, Record
from tests.bench.peers.run import ENGINE
from tests.bench.peers.subjects import BARE, CONTRACT_OFF, CONTRACT_ON, OURS, largest_preset, most_rules
from tests.bench.steps import Cost

OURS_ON, OURS_OFF = OURS + CONTRACT_ON, OURS + CONTRACT_OFF


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """A record of two subjects and the engine, in two rounds."""
    made = Record(tmp_path / "record.jsonl")
    made.tell(versions={"sglang-router": "1", OURS_OFF: "a", OURS_ON: "a"}, load_at_start=0.5)
    for number, (theirs, off, on) in enumerate([(50.0, 90.0, 97.0), (60.0, 94.0, 103.0)]):
        for subject, value in (("sglang-router", theirs), (OURS_OFF, off), (OURS_ON, on)):
            made.add(Key("cpu", "1 KB", subject, number), {"cpu_us": value})
            made.add(Key("latency", "100/s", subject, number), {"p50_us": value * 10, "p99_us": value * 20})
        made.add(Key("latency", "100/s", ENGINE, number), {"p50_us": 100.0, "p99_us": 150.0})
    made.add(Key("leaving", "in a stream", "sglang-router", 0), {"median_ms": float("inf")})
    made.add(Key("memory", "two workers", OURS_ON, 0), {"idle_rss": 41.5e6})
    made.fail("rate", WHOLE, "sglang-router", "ended with 1")
    made.fail("streams", "1000", OURS_ON, "saturated by 256 streams")
    made.fail(SETUP, WHOLE, "smg", "pip install: no such package")
    return made


@pytest.mark.parametrize("name", ["cat", "a b", "(x) y", ") 1 2 3 ("])
def test_the_parent_is_read_whatever_a_process_is_called(name: str) -> None:
    """The parent stands behind the name of a process, which may hold spaces and brackets."""
    assert processes.parent_in(f"12 ({name}) S 7 12 12 0 -1") == 7


def test_memory_is_read_from_the_rollup() -> None:
    """Rss and Pss are read, and not the parts of Pss."""
    rollup = "5555-7777 ---p 0 00:00 0 [rollup]\nRss:   2048 kB\nPss:   1024 kB\nPss_Dirty:  512 kB\n"
    assert processes.memory_in(rollup) == (2 << 20, 1 << 20)


def test_the_tree_of_a_process_is_found() -> None:
    """Children and grandchildren belong to the tree, and the workers are those without children."""
    parents = {1: 0, 10: 1, 11: 10, 12: 10, 13: 12, 20: 1}
    assert sorted(processes.tree_in(parents, 10)) == [10, 11, 12, 13]
    assert sorted(processes.leaves_in(parents, 10)) == [11, 13]
    assert processes.leaves_in(parents, 20) == [20]


def test_the_cpu_time_of_a_child_is_seen() -> None:
    """A busy child's CPU time grows, is found through its parent, and is none once it has ended."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        try:
            assert child.pid in processes.tree_of(os.getpid())
            deadline = time.monotonic() + 30
            while processes.cpu_seconds([child.pid]) < 0.01:
                assert time.monotonic() < deadline
            assert processes.memory_of([child.pid]).rss >= processes.memory_of([child.pid]).pss > 0
            assert processes.resident_of([child.pid]) > 0
        finally:
            child.kill()
    assert processes.cpu_seconds([child.pid]) == 0
    assert processes.memory_of([child.pid]) == (0, 0)


@pytest.mark.parametrize("size", bodies.CPU_BODIES)
def test_bodies_have_their_size_and_pass_the_contracts_of_the_bench(size: str) -> None:
    """A body is within 4 % of its size and goes to the engine under each contract that is measured."""
    body = bodies.chat_body(size)
    assert len(body) == pytest.approx(bodies.SIZES[size.removesuffix(bodies.ONE_TEXT)], rel=0.04)
    for preset in (CONTRACT_OFF, CONTRACT_ON, largest_preset()):
        contract = artifact_format.read(shipped_folder("build") / f"{preset}.json").contract
        assert isinstance(decide(body, contract, ServedIds((bodies.MODEL,))), Forward)


def test_a_request_on_the_wire_is_whole() -> None:
    """Head and body are parted by a blank line, and the length is the body's."""
    head, _, body = bodies.on_the_wire(bodies.directed_body(7, chunks=3), {"X-Own": "1"}).partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"X-Own: 1" in head
    assert json.loads(body)["stream"] is True
    assert "@bench 7 3 0 0@" in json.loads(body)["messages"][0]["content"]


def test_the_largest_preset_has_the_most_rules_for_one_request() -> None:
    """No shipped artifact holds a request to more rules than the largest preset's."""
    folder = shipped_folder("build")
    found = {
        path.stem: most_rules(artifact_format.read(path))
        for path in folder.glob("*.json")
        if ".schema" not in path.name
    }
    assert found[largest_preset()] == max(found.values())


def test_a_record_is_read_again(record: Record, tmp_path: Path) -> None:
    """A run that was cut short finds its samples, infinite ones too, and its failures."""
    again = Record(tmp_path / "record.jsonl")
    assert again.samples == record.samples
    assert again.failures == record.failures
    assert again.about == record.about


def test_a_sample_forgets_an_earlier_failure(record: Record) -> None:
    """What failed and then went well is no failure; what could be set up later is available."""
    record.add(Key("rate", "1 KB", "sglang-router", 0), {"rate": 1.0})
    record.tell(versions={"smg": "1.13"})
    assert list(record.failures) == [("streams", "1000", OURS_ON)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (0.0042, "0.004"),
        (0.1234, "0.123"),
        (1.5, "1.50"),
        (-1.5, "-1.50"),
        (54.321, "54.3"),
        (6384.2, "6,380"),
        (13612.7, "13,600"),
        (float("inf"), "over 3 s"),
    ],
)
def test_numbers_have_three_digits(value: float, expected: str) -> None:
    """A number is told in three significant digits, without a power of ten."""
    assert table.number(value) == expected


def test_the_table_tells_medians_ranges_and_failures(record: Record) -> None:
    """A cell is the median and the range, what the engine alone takes is taken off, and a failure is a word."""
    rows = {line.split(" | ")[0].strip("| "): line.split(" | ")[1:] for line in table.table(record).splitlines()}
    assert rows["CPU per request, 1 KB (µs)"] == ["55.0 (50.0 to 60.0)", "92.0 (90.0 to 94.0)", "100 (97.0 to 103) |"]
    assert rows["added latency at 100/s, p50 (ms)"][0] == "0.450 (0.400 to 0.500)"
    assert rows["client gone in a stream, median (ms)"][0] == "over 3 s"
    assert rows["requests/s, two workers, 1 KB"][0] == "failed"
    assert rows["1000 streams: CPU per chunk (µs)"][2] == "saturated |"
    assert "CPU per request, 32 KB (µs)" not in rows


def test_failures_are_told_with_their_reasons(record: Record) -> None:
    """What is not available or failed is named with its reason; being saturated is a result."""
    assert table.failures(record) == [
        "sglang-router, rate: ended with 1",
        "smg is not available: pip install: no such package",
    ]


def test_aims_are_ratios_of_medians(record: Record) -> None:
    """An aim tells what was measured and whether that meets it, or that nothing was."""
    lines = table.aims(record).splitlines()
    assert "| CPU, 1 KB, to sglang-router | ≤ 1.15 | 1.82 | no, by 58% |" in lines
    assert "| memory of a worker, idle, RSS (MB) | ≤ 42 | 41.5 | yes |" in lines
    assert "| requests/s, two workers, to sglang-router | ≥ 0.85 | not measured |  |" in lines


def test_what_a_form_costs_by_itself_is_taken_off(record: Record) -> None:
    """Chunks are compared as they are; of TLS and of a new connection what a bare loop pays is taken off."""
    for subject, plain, chunked, closing, tls in (
        (OURS_ON, 100.0, 120.0, 160.0, 150.0),
        (BARE, 10.0, 11.0, 45.0, 20.0),
    ):
        for form, value in ((bodies.KEPT, plain), (bodies.CHUNKED, chunked), (bodies.CLOSING, closing)):
            record.add(Key("forms", form, subject, 0), {"cpu_us": value})
        record.add(Key("tls", bodies.TLS, subject, 0), {"cpu_us": tls})
    aims = {line.split(" | ")[0]: line.split(" | ")[2:] for line in table.aims(record).splitlines()}
    assert aims["| CPU, 1 KB, chunked, to plain"] == ["1.20", "yes |"]
    assert aims["| CPU, 1 KB, HTTP/1.0 with close, to plain"] == ["1.25", "yes |"]
    assert aims["| CPU, 1 KB, TLS without its own cost, to plain"] == ["1.40", "no, by 8% |"]


@pytest.mark.parametrize("form", bodies.FORMS)
def test_every_form_is_one_request_with_the_same_body(form: str) -> None:
    """Gunicorn's parser and the bare loop read each form as one whole request with the body of the plain one."""
    sent = bodies.in_form(bodies.on_the_wire(bodies.chat_body("1 KB"), {}), form)
    parser = RequestParser(Config(), iter([sent]), ("127.0.0.1", 1))
    request = next(parser)
    assert request.body.read() == bodies.chat_body("1 KB")
    assert request.should_close() == (form == bodies.CLOSING)
    assert bare.is_whole(sent)
    assert not bare.is_whole(sent[:-1])


def test_a_kept_connection_is_counted_once_at_its_process() -> None:
    """Only accepted connections of the port count: no client's end, no listener, none that was closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), listener.accept()[0]:
            assert processes.connections_of(os.getpid(), port) == 1
        assert processes.connections_of(os.getpid(), port) == 0


def test_streams_that_were_not_borne_meet_no_aim(record: Record) -> None:
    """Where chunks did not come, the delay of those that came is not compared."""
    for subject, share, delay in (("sglang-router", 1.0, 4000.0), (OURS_ON, 0.34, 900.0)):
        record.add(Key("streams", "1000", subject, 0), {"share_of_chunks": share, "p99_us": delay})
    (line,) = [line for line in table.aims(record).splitlines() if "chunk delay" in line]
    assert line.endswith("| 0.225 | not comparable: 34.0 % of the chunks of ours, moonshot-kimi came |")


def test_the_report_stands_between_its_markers(record: Record) -> None:
    """A section is put at the end once, and replaced afterwards, with what stands around it kept."""
    once = report.placed("# Benches\n", report.report(record))
    assert once.startswith("# Benches\n")
    later = report.placed(once.replace("# Benches", "# Other"), "short\n")
    assert later == f"# Other\n\n### Beside other gateways\n\n{report.BEGIN}\nshort\n{report.END}\n"


def test_the_costs_are_medians_of_those_that_were_measured(record: Record) -> None:
    """The README gets medians alone, without rows and subjects that nothing was taken of."""
    assert report.costs(record).splitlines()[2:] == [
        "|  | sglang-router | ours, moonshot-kimi |",
        "| --- | --: | --: |",
        "| CPU per request, 1 KB (µs) | 55.0 | 100 |",
        "| memory of a worker, idle, RSS (MB) |  | 41.5 |",
    ]
    readme = report.COSTS.read_text()
    assert readme.count(report.COSTS_BEGIN) == readme.count(report.COSTS_END) == 1


def test_the_plot_is_a_drawing_of_the_bars_that_there_are(record: Record) -> None:
    """The plot is well-formed, names each subject, and leaves out panels without figures."""
    texts = ["".join(node.itertext()) for node in ET.fromstring(plot.drawing(record)).iter() if node.text]
    assert {"sglang-router", OURS_ON, OURS_OFF} <= set(texts)
    assert any(text.startswith("CPU per request, 1 KB") for text in texts)
    assert not any("32 KB" in text for text in texts)


def test_a_logarithmic_axis_has_room_for_all() -> None:
    """The axis begins and ends with whole decades around the least and the most."""
    scale = plot.scale_of([plot.Bar("a", 15, 12, 18), plot.Bar("b", 6400, 6000, 7000)])
    assert (scale.first, scale.last) == (0, 4)
    assert plot.LABEL_WIDTH < scale.at(15) < scale.at(6400) < plot.WIDTH


@pytest.mark.parametrize(
    ("now", "verdict"),
    [
        (Cost(2.0, 1.9, 2.1, 1), "as before"),
        (Cost(2.4, 2.1, 2.6, 1), "as before"),
        (Cost(2.4, 2.3, 2.6, 1), "slower"),
        (Cost(3.0, 2.8, 3.1, 1), "much slower"),
        (Cost(1.5, 1.4, 1.7, 1), "faster"),
    ],
)
def test_what_moved_is_told_beyond_the_noise(now: Cost, verdict: str) -> None:
    """A step moved when its range lies apart from the one before and its median by more than a tenth."""
    move = check.judge("parse", (1.8, 2.0, 2.2), now)
    assert move.verdict == verdict
    assert move.is_fault == (verdict == "much slower")


def test_a_step_without_a_ratio_is_a_fault() -> None:
    """A step that is not in the file makes the check fail, so that the file is kept up."""
    assert check.judge("parse", None, Cost(2, 1, 3, 1)).is_fault


def test_a_reason_of_a_setup_is_one_line(tmp_path: Path) -> None:
    """A command that fails gives the line that says why."""
    with pytest.raises(cache.SetupError, match=r"there is no no-such-tool"):
        cache._tool("no-such-tool")
    with pytest.raises(cache.SetupError) as caught:
        cache._run(sys.executable, "-c", "raise SystemExit('an error of its own')")
    assert str(caught.value).endswith("an error of its own")
    assert cache.Cache(tmp_path / "new").folder.is_dir()
