"""The run: everything is set up and started, and the measures are taken in turns, round by round."""

import contextlib
import itertools
import os
import platform
import shutil
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from tests.bench.peers.bodies import chat_body
from tests.bench.peers.cache import Cache, SetupError
from tests.bench.peers.measures import Bench, Measure, load_average
from tests.bench.peers.record import SETUP, WHOLE, Key, Record
from tests.bench.peers.running import Running, SubjectError, cores, paused, running, task_for
from tests.bench.peers.subjects import BARE, EDITED, OURS, largest_preset
from tests.bench.peers.tasks import Certificate, Command, Installed, Subject
from tests.bench.peers.tools import Engine, Tools, make_tools, run_load, running_engine
from tests.bench.steps import enforcement
from tests.router.wire.tls import make_certificate

ENGINE: Final = "the engine alone"
QUICK_ROUNDS: Final = 2
WARM_RATE, WARM_SECONDS = 200, 1.0


class Plan(NamedTuple):
    """What is measured, how thoroughly, and how many minutes it may take, setting up and the first round apart."""

    subjects: Sequence[Subject]
    measures: Sequence[Measure]
    quick: bool
    minutes: float


def run(plan: Plan, cache: Cache, record: Record) -> None:
    """Take what is missing in a record. Raises SetupError when there is nothing to measure with."""
    with TemporaryDirectory(prefix="run-", dir=cache.folder) as name:
        tools = make_tools(cache, Path(name))
        installed = dict(_installed(plan, cache, record))
        _tell_about(record, tools, installed, quick=plan.quick)
        whole = sum(measure.share for measure in plan.measures)
        for _, group in itertools.groupby(plan.measures, key=_setup_of):
            measures = [measure for measure in group if _missing(measure, plan, record, installed)]
            if measures:
                group_run = GroupRun(plan, measures, tools, record, installed, plan.minutes * 60 / whole)
                group_run.take_fresh() if measures[0].fresh else group_run.take_together()
        record.tell(load_at_end=load_average())


def _setup_of(measure: Measure) -> tuple[object, ...]:
    return measure.workers, measure.most_streams, measure.apart, measure.fresh, measure.speaks_tls


def rounds_of(measure: Measure, *, quick: bool) -> int:
    """Return how many rounds are taken."""
    return min(measure.rounds, QUICK_ROUNDS) if quick else measure.rounds


def is_taken(measure: Measure, subject: str) -> bool:
    """Tell whether a measure is for a subject."""
    if measure.subjects:
        return subject in measure.subjects
    return subject not in {EDITED, BARE} and (measure.every_preset or subject != OURS + largest_preset())


def _missing(measure: Measure, plan: Plan, record: Record, installed: dict[str, Installed]) -> list[str]:
    """Return the subjects that have not all of a measure's samples."""
    numbers = range(rounds_of(measure, quick=plan.quick))
    return [
        name
        for name in installed
        if is_taken(measure, name)
        and not all(record.has(Key(measure.name, case, name, number)) for number in numbers for case in measure.cases)
    ]


def _installed(plan: Plan, cache: Cache, record: Record) -> Iterator[tuple[str, Installed]]:
    for subject in plan.subjects:
        say(f"set up {subject.name}")
        try:
            yield subject.name, subject.install(cache)
        except (SetupError, OSError) as error:
            say(f"{subject.name} is not available: {error}")
            record.fail(SETUP, WHOLE, subject.name, str(error))


def _tell_about(record: Record, tools: Tools, installed: dict[str, Installed], *, quick: bool) -> None:
    versions = record.about.get("versions", {}) | {name: subject.version for name, subject in installed.items()}
    record.tell(
        versions=versions | {"wrk": tools.version_of_wrk()},
        machine=f"{_processor()}, {os.cpu_count()} cores, {_memory_gib():.0f} GiB",
        system=f"{platform.system()} {platform.release()}",
        python=f"{sys.version}, built with {sysconfig.get_config_var('CONFIG_ARGS') or 'unknown flags'}",
        niceness=os.getpriority(os.PRIO_PROCESS, 0),
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        quick=quick,
    )
    if "load_at_start" not in record.about:
        record.tell(load_at_start=load_average(), enforcement=enforcement())


def _processor() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)


class GroupRun:
    """The measures that want the same setup of the subjects."""

    def __init__(  # noqa: PLR0913, PLR0917 - a run has many sides
        self,
        plan: Plan,
        measures: Sequence[Measure],
        tools: Tools,
        record: Record,
        installed: dict[str, Installed],
        seconds_a_share: float,
    ) -> None:
        self._plan = plan
        self._measures = measures
        self._tools = tools
        self._record = record
        self._installed = installed
        self._seconds_a_share = seconds_a_share
        self._cores = cores(apart=measures[0].apart)

    def take_together(self) -> None:
        """Run all subjects at once and measure them in turns."""
        with running_engine(self._tools, self._cores.rest) as engine, contextlib.ExitStack() as stack:
            bench = self._bench(engine)
            wanted = {name for each in self._measures for name in self._names(each)}
            at_work = {name: found for name in wanted if (found := self._start(stack, name, engine))}
            at_work = {name: at_work[name] for name in self._installed if name in at_work}
            if not self._measures[0].most_streams and not self._measures[0].speaks_tls:
                for subject in at_work.values():
                    self._warm(subject)
            if any(measure.with_engine for measure in self._measures):
                at_work[ENGINE] = _engine_as_subject(engine, at_work)
            for measure in self._measures:
                self._take_rounds(measure, bench, at_work)

    def take_fresh(self) -> None:
        """Start one subject at a time, anew for each sample."""
        for measure in self._measures:
            for number in self._rounds(measure):
                for name in self._names(measure):
                    key = Key(measure.name, measure.cases[0], name, number)
                    if self._record.has(key) or self._has_failed(measure, name):
                        continue
                    with running_engine(self._tools, self._cores.rest) as engine, contextlib.ExitStack() as stack:
                        subject = self._start(stack, name, engine)
                        if subject:
                            self._take(measure, self._bench(engine), subject, key)

    def _names(self, measure: Measure) -> list[str]:
        return _missing(measure, self._plan, self._record, self._installed)

    def _bench(self, engine: Engine) -> Bench:
        return Bench(self._tools, engine, self._cores, self._plan.quick)

    def _start(self, stack: contextlib.ExitStack, name: str, engine: Engine) -> Running | None:
        first = self._measures[0]
        folder = self._tools.folder / name.replace(" ", "-").replace(",", "")
        try:
            certificate = self._certificate() if first.speaks_tls else None
            task = task_for(
                engine.url,
                folder,
                workers=first.workers,
                most_streams=first.most_streams,
                certificate=certificate,
            )
            found = stack.enter_context(running(name, self._installed[name], task, self._cores.subject))
        except (SubjectError, OSError) as error:
            say(f"{name} does not start: {error}")
            for measure in self._measures:
                self._record.fail(measure.name, WHOLE, name, str(error))
            return None
        for measure in self._measures:
            self._record.failures.pop((measure.name, WHOLE, name), None)
        say(f"{name} is ready after {found.start_seconds:.1f} s")
        return found

    def _certificate(self) -> Certificate:
        if not shutil.which("openssl"):
            raise SubjectError("there is no openssl on this machine, which makes the certificate")
        folder = self._tools.folder / "certificate"
        found = Certificate(folder / "certificate.pem", folder / "key.pem")
        if not found.chain.exists():
            folder.mkdir()
            make_certificate(folder)
        return found

    def _warm(self, subject: Running) -> None:
        request = subject.wire(chat_body("1 KB"))
        with contextlib.suppress(SubjectError):  # it will say so again
            run_load(self._tools, subject.port, request, WARM_RATE, WARM_SECONDS, on=self._cores.rest)

    def _rounds(self, measure: Measure) -> Iterator[int]:
        """Yield the rounds, the first in any case and others while there is time for one more like the last."""
        begun = last = time.monotonic()
        for number in range(rounds_of(measure, quick=self._plan.quick)):
            took = time.monotonic() - last
            if number and time.monotonic() + took > begun + measure.share * self._seconds_a_share:
                say(f"{measure.name}: no time for round {number + 1}")
                return
            last = time.monotonic()
            yield number

    def _take_rounds(self, measure: Measure, bench: Bench, at_work: dict[str, Running]) -> None:
        names = [*self._names(measure), *([ENGINE] if measure.with_engine else [])]
        for number in self._rounds(measure):
            for case in measure.cases:
                for name in names:
                    key = Key(measure.name, case, name, number)
                    if name in at_work and not self._record.has(key) and not self._has_failed(measure, name):
                        with paused(other for other in at_work.values() if other.process is not at_work[name].process):
                            self._take(measure, bench, at_work[name], key)

    def _take(self, measure: Measure, bench: Bench, subject: Running, key: Key) -> None:
        try:
            figures = measure.take(bench, subject, key.case, key.round)
        except (SubjectError, OSError, AssertionError) as error:
            say(f"{measure.name} {key.case} {key.subject}: {error}")
            self._record.fail(measure.name, key.case, key.subject, str(error) or type(error).__name__)
            return
        self._record.add(key, figures)
        shown = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
        say(f"{measure.name} {key.case} {key.subject}, round {key.round + 1}: {shown}")

    def _has_failed(self, measure: Measure, name: str) -> bool:
        return (measure.name, WHOLE, name) in self._record.failures


def _engine_as_subject(engine: Engine, at_work: dict[str, Running]) -> Running:
    some = next(iter(at_work.values()))
    return some._replace(name=ENGINE, port=int(engine.url.rpartition(":")[2]), command=Command([]))


def say(line: str) -> None:
    """Tell how far the run is."""
    print(f"[{time.strftime('%H:%M:%S')}] {line}", file=sys.stderr, flush=True)
