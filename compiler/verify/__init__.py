"""`profilec verify`: whether an endpoint keeps a contract, shown by requests that are derived from it."""

import shutil
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from compiler.cli.loading import load_source
from compiler.cli.output import write
from compiler.cli.progress import progress_bar
from compiler.cli.version import release
from compiler.diagnostics import printable
from compiler.explain.origin import Origin
from compiler.resolve.selection import UsageError
from compiler.verify.assertion import UNWELL, Answer, judge
from compiler.verify.cassette import About, Record, RecordError, about_record, open_record, replayed
from compiler.verify.check import Acceptance, Check, Derived, Untried, written
from compiler.verify.exchange import EndpointError, Exchange, Target, api_key, chat_url
from compiler.verify.generation import Options, derive, shuffled
from compiler.verify.generation.names import Deployment
from compiler.verify.harness import staged
from compiler.verify.report import RENDERED_BY
from compiler.verify.report.as_text import text_of
from compiler.verify.report.formatting import caution_of, counted, shortened, verdict_of
from compiler.verify.rule_descriptions import Sayings
from compiler.verify.run import Judged, Run
from compiler.verify.untestable import unprovoked
from router.artifact.format import Artifact

_NOT_RECORDED = Answer(0, "", b"", failure="the record holds no answer to it")
_OWN_ROUTER: Final = "profilec's own router, in front of an engine that shows what it gets"

_MOST_UNANSWERED: Final = 20
"""So many requests that the contract lets pass are rejected in words that name the model before a run is given up."""

_MOST_UNWELL: Final = 5
"""So many requests are answered by the endpoint's own state, and no other, before a run is given up."""


def run(arguments: Namespace) -> int:
    """Verify an endpoint; return 0 if every check passes, else 1.

    Raises UsageError, CommandError where the endpoint cannot be asked, and what loading a profile raises.
    """
    _refuse_contradictions(arguments)
    loaded = load_source(arguments)
    artifact = loaded if isinstance(loaded, Artifact) else loaded.artifact
    derived, deployment = _derived(arguments, artifact)
    begun = time.monotonic()
    with _asker(arguments, artifact, deployment) as asker:
        _say(f"{len(derived.checks):,} checks of {artifact.name} against {asker.in_words()}")
        answers = _answers(derived, asker, deployment.asked)
    sayings = Sayings(artifact.contract, Origin.of(loaded))
    judged = tuple(_judged(check, answers, sayings) for check in derived.checks)
    done = Run(
        artifact.name,
        artifact.digest,
        asker.about.target or f"the endpoint of the record {arguments.replay}, which does not name it",
        deployment.asked,
        judged,
        derived.untried,
        asker.requests_sent(),
        time.monotonic() - begun,
        asker.about.begun,
        release(),
        asker.record_name,
        sum(check.ask.key() in asker.known for check in derived.checks),
    )
    if (arguments.format, arguments.output) != ("text", "-") and (caution := caution_of(done)) is not None:
        _say(caution)
    write(_rendered(done, arguments), arguments.output)
    if arguments.output != "-":
        _say(f"{arguments.output}: {verdict_of(done)}")
    return 1 if done.failed or not done.is_telling else 0


def _rendered(run: Run, arguments: Namespace) -> bytes:
    if arguments.format == "text" and arguments.output == "-" and sys.stdout is not None and sys.stdout.isatty():
        return text_of(run, shutil.get_terminal_size().columns)
    return RENDERED_BY[arguments.format](run)


def _refuse_contradictions(arguments: Namespace) -> None:
    if arguments.through_engine and arguments.url is not None and arguments.source is None:
        # With a router of its own the only argument is the profile.
        arguments.url, arguments.source = None, arguments.url
    if arguments.replay is not None and arguments.source is None and "://" not in (arguments.url or "://"):
        # The record says itself what was asked.
        arguments.url, arguments.source = None, arguments.url
    if arguments.through_engine and arguments.url is not None:
        raise UsageError("--through-engine starts a router of its own: name no URL")
    if not arguments.through_engine and arguments.url is None and arguments.replay is None:
        raise UsageError("name the URL of an endpoint, or --through-engine")
    if not arguments.through_engine and not arguments.model:
        raise UsageError("name a model that the endpoint serves with --model")
    if arguments.record is not None and arguments.replay is not None:
        raise UsageError("--record and --replay exclude each other")
    if arguments.replay is not None and not Path(arguments.replay).exists():
        raise UsageError(f"--replay: there is no file {arguments.replay}")


def _derived(arguments: Namespace, artifact: Artifact) -> tuple[Derived, Deployment]:
    """Return the checks to make, in their order, for the models that there are."""
    models = tuple(arguments.model or ())
    if arguments.through_engine:
        deployment = Deployment.for_contract(artifact.contract, models)
    else:
        deployment = Deployment.of(models)
    options = Options(is_own=arguments.through_engine, max_body=arguments.max_body)
    derived = derive(artifact.contract, deployment, options)
    derived = derived._replace(untried=(*derived.untried, *unprovoked(artifact.contract)))
    if arguments.only:
        unknown = set(arguments.only) - {check.rule for check in derived.checks} - {u.rule for u in derived.untried}
        if unknown:
            known = ", ".join(dict.fromkeys(check.rule for check in derived.checks))
            raise UsageError(f"--only {min(unknown)}: the contract has no such rule; there are {known}")
        derived = derived.only(arguments.only)
    if arguments.seed is not None:
        derived = shuffled(derived, arguments.seed)
    return _at_most(derived, arguments.max_requests), deployment


def _at_most(derived: Derived, most: int | None) -> Derived:
    """Return the checks that so many requests answer, and the others as untried."""
    if most is None:
        return derived
    left_out = (
        Untried(check.rule, check.case, check.shows, f"--max-requests {most} was reached")
        for check in derived.checks[most:]
    )
    return Derived(derived.checks[:most], (*derived.untried, *left_out))


class _Asker(NamedTuple):
    """Who answers: an endpoint, or a record of what it answered once.

    known: the answers that the record `record_name` has. exchange: what asks for the others; None: nobody does.
    record: where new ones are written.
    """

    about: About
    known: dict[str, Answer]
    record_name: str | None = None
    exchange: Exchange | None = None
    record: Record | None = None

    def in_words(self) -> str:
        if self.exchange is not None:
            return f"{self.about.target}"
        return f"{self.about.target or 'an endpoint without a name'}, from the record {self.record_name}"

    def requests_sent(self) -> int:
        return 0 if self.exchange is None else self.exchange.requests_sent


@contextmanager
def _asker(arguments: Namespace, artifact: Artifact, deployment: Deployment) -> Iterator[_Asker]:
    if arguments.replay is not None:
        yield _Asker(about_record(arguments.replay), replayed(arguments.replay), arguments.replay)
        return
    pace = (arguments.rps, arguments.concurrency, arguments.timeout)
    with ExitStack() as open_things:
        if arguments.through_engine:
            open_things.enter_context(_ended_by_signals())
            stage = open_things.enter_context(staged(artifact, deployment.served))
            exchange = Exchange(Target(chat_url(stage.url), None, *pace), stage.engine.taken)
            target = _OWN_ROUTER
        else:
            target = chat_url(arguments.url)
            exchange = Exchange(Target(target, api_key(arguments.api_key_env), *pace))
        about = About(target, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        if arguments.record is None:
            yield _Asker(about, {}, exchange=exchange)
            return
        record, known = open_record(arguments.record, about)
        open_things.callback(record.close)
        # An endpoint that was not well may be so by now.
        known = {key: answer for key, answer in known.items() if answer.status not in UNWELL}
        about = about_record(arguments.record) if known else about
        yield _Asker(about._replace(target=target), known, arguments.record if known else None, exchange, record)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let a closed terminal or a plain kill end what is started here, like Ctrl-C does."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _answers(derived: Derived, asker: _Asker, models: tuple[str, ...]) -> dict[str, Answer]:
    """Return the answers to all requests by their keys."""
    return _remembered(derived, asker, models) if asker.exchange is None else _ask_all(derived, asker, asker.exchange)


def _remembered(derived: Derived, asker: _Asker, models: tuple[str, ...]) -> dict[str, Answer]:
    """Return the answers of a record. Raises RecordError where it has none to any check that names one of the models.

    Requests without a model, or for one that nobody serves, are alike in all records.
    """
    naming = [check for check in derived.checks if check.ask.text is None and _names_one(check, models)]
    if derived.checks and not any(check.ask.key() in asker.known for check in naming or derived.checks):
        held = f"{counted(len(asker.known), 'answer')} of {asker.about.target or 'some endpoint'}"
        raise RecordError(
            f"{asker.record_name}: holds {held}, and none to a check of this contract: "
            "name the profile and the models that it was recorded with"
        )
    return asker.known


def _names_one(check: Check, models: tuple[str, ...]) -> bool:
    return dict(check.ask.members).get("model") in {written(model) for model in models}


def _ask_all(derived: Derived, asker: _Asker, exchange: Exchange) -> dict[str, Answer]:
    """Return all answers after asking for those that are not known."""
    answers = dict(asker.known)
    left = [check for check in derived.checks if check.ask.key() not in answers]
    failed, unwell, due = 0, 0, _Due()
    with progress_bar("verifying", len(left), remaining_time=True) as update:
        by_key = {check.ask.key(): check for check in left}
        asks = [(check.ask, _status(check)) for check in left]
        for done, (ask, answer) in enumerate(exchange.answers(asks), start=1):
            answers[ask.key()] = answer
            if asker.record is not None:
                asker.record.add(ask, answer)
            failed += judge(by_key[ask.key()], answer).result == "fail"
            unwell += answer.status in UNWELL
            _give_up_if_unwell(asker.about, answer, done, unwell)
            due.hear(by_key[ask.key()], answer, asker.about)
            update(done, f"[red]{failed} failed" if failed else "none failed")
    return answers


def _give_up_if_unwell(about: About, answer: Answer, done: int, unwell: int) -> None:
    """Raise EndpointError where an endpoint has told of nothing but its own state, as one does that still loads."""
    if done == unwell == _MOST_UNWELL:
        raise EndpointError(
            f"{about.target} answered {answer.status} to each of the first {done} requests: it is not ready, or too "
            "busy; ask it again once it is, or more gently with --rps and --concurrency"
        )


class _Due:
    """Watches what comes of the requests that the contract lets pass."""

    def __init__(self) -> None:
        self._rejected = 0
        self._is_over = False

    def hear(self, check: Check, answer: Answer, about: About) -> None:
        """Raise EndpointError where, from the first on, each is rejected with words that name the model."""
        if self._is_over or not isinstance(check.expected, Acceptance):
            return
        self._rejected += 1
        self._is_over = answer.status not in _REJECTING or check.model.encode() not in answer.body
        if not self._is_over and self._rejected == _MOST_UNANSWERED:
            said = shortened(" ".join(answer.body.decode("utf-8", "replace").split()), _MOST_SAID)
            raise EndpointError(
                f"{about.target} answered {answer.status} to each of the first {self._rejected} requests that the "
                f"contract lets pass: {said}. See that it serves --model {check.model}"
            )


_REJECTING: Final = range(400, 500)
_MOST_SAID: Final = 300


def _status(check: Check) -> int:
    return getattr(check.expected, "status", 200)


def _judged(check: Check, answers: dict[str, Answer], sayings: Sayings) -> Judged:
    answer = answers.get(check.ask.key(), _NOT_RECORDED)
    return Judged(
        check, answer, judge(check, answer), sayings.says(check), sayings.declared(check), sayings.source(check)
    )


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{printable(text)}\n")
