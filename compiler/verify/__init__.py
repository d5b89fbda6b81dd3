"""`profilec verify`: test whether an endpoint follows a contract, with requests that are derived from the contract."""

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

from compiler.cli.exit_codes import FAILED, OK
from compiler.cli.loading import load_source
from compiler.cli.output import write
from compiler.cli.progress import progress_bar
from compiler.cli.version import release
from compiler.diagnostics import printable
from compiler.explain.origin import Origin
from compiler.resolve.selection import UsageError
from compiler.verify.assertion import UNWELL, EndpointResponse, evaluate
from compiler.verify.cassette import Record, RecordError, RecordHeader, open_record, record_header, recorded_responses
from compiler.verify.check import Check, CheckSuite, ExpectedAcceptance, SkippedCheck, written
from compiler.verify.client import EndpointClient, EndpointError, Target, api_key, chat_url
from compiler.verify.generation import Options, derive, shuffled
from compiler.verify.generation.names import Deployment
from compiler.verify.harness import router_under_test
from compiler.verify.report import RENDERED_BY
from compiler.verify.report.as_text import text_of
from compiler.verify.report.formatting import caution_of, counted, shortened, verdict_of
from compiler.verify.rule_descriptions import RuleDescriptions
from compiler.verify.run import CompletedCheck, VerifyRun
from compiler.verify.untestable import untestable_rules
from router.artifact.format import Artifact

_NOT_RECORDED = EndpointResponse(0, "", b"", failure="the record holds no response to it")
_OWN_ROUTER: Final = "profilec's own router, in front of an engine that shows what it gets"

_MOST_UNANSWERED: Final = 20
"""Number of valid requests, rejected with messages that name the model, after which a run is aborted."""

_MOST_UNWELL: Final = 5
"""Number of responses that show only the endpoint's own state after which a run is aborted."""


def run(arguments: Namespace) -> int:
    """Verify an endpoint; return 0 if every check passes, else 1.

    Raises UsageError, CommandError if the endpoint is unreachable, and the errors of loading a profile.
    """
    _reject_contradictions(arguments)
    loaded = load_source(arguments)
    artifact = loaded if isinstance(loaded, Artifact) else loaded.artifact
    suite, deployment = _suite(arguments, artifact)
    begun = time.monotonic()
    with _response_source(arguments, artifact, deployment) as source:
        _say(f"{len(suite.checks):,} checks of {artifact.name} against {source.in_words()}")
        responses = _responses(suite, source, deployment.asked)
    descriptions = RuleDescriptions(artifact.contract, Origin.of(loaded))
    completed = tuple(_completed(check, responses, descriptions) for check in suite.checks)
    done = VerifyRun(
        artifact.name,
        artifact.digest,
        source.header.target or f"the endpoint of the record {arguments.replay}, which does not name it",
        deployment.asked,
        completed,
        suite.skipped,
        source.requests_sent(),
        time.monotonic() - begun,
        source.header.begun,
        release(),
        source.record_name,
        sum(check.request.key() in source.known for check in suite.checks),
    )
    if (arguments.format, arguments.output) != ("text", "-") and (caution := caution_of(done)) is not None:
        _say(caution)
    write(_rendered(done, arguments), arguments.output)
    if arguments.output != "-":
        _say(f"{arguments.output}: {verdict_of(done)}")
    return FAILED if done.failed or not done.is_telling else OK


def _rendered(run: VerifyRun, arguments: Namespace) -> bytes:
    if arguments.format == "text" and arguments.output == "-" and sys.stdout is not None and sys.stdout.isatty():
        return text_of(run, shutil.get_terminal_size().columns)
    return RENDERED_BY[arguments.format](run)


def _reject_contradictions(arguments: Namespace) -> None:
    if arguments.through_engine and arguments.url is not None and arguments.source is None:
        # With a router of its own the only argument is the profile.
        arguments.url, arguments.source = None, arguments.url
    if arguments.replay is not None and arguments.source is None and "://" not in (arguments.url or "://"):
        # The record itself says which target it is of.
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


def _suite(arguments: Namespace, artifact: Artifact) -> tuple[CheckSuite, Deployment]:
    """Return the checks to make, in their order, for the models that there are."""
    models = tuple(arguments.model or ())
    if arguments.through_engine:
        deployment = Deployment.for_contract(artifact.contract, models)
    else:
        deployment = Deployment.of(models)
    options = Options(is_own=arguments.through_engine, max_body=arguments.max_body)
    suite = derive(artifact.contract, deployment, options)
    suite = suite._replace(skipped=(*suite.skipped, *untestable_rules(artifact.contract)))
    if arguments.only:
        unknown = set(arguments.only) - {check.rule for check in suite.checks} - {u.rule for u in suite.skipped}
        if unknown:
            known = ", ".join(dict.fromkeys(check.rule for check in suite.checks))
            raise UsageError(f"--only {min(unknown)}: the contract has no such rule; there are {known}")
        suite = suite.only(arguments.only)
    if arguments.seed is not None:
        suite = shuffled(suite, arguments.seed)
    return _at_most(suite, arguments.max_requests), deployment


def _at_most(suite: CheckSuite, most: int | None) -> CheckSuite:
    """Return the checks that the recorded responses cover, and the other checks as skipped."""
    if most is None:
        return suite
    left_out = (
        SkippedCheck(check.rule, check.case, check.description, f"--max-requests {most} was reached")
        for check in suite.checks[most:]
    )
    return CheckSuite(suite.checks[:most], (*suite.skipped, *left_out))


class _ResponseSource(NamedTuple):
    """The source of responses: an endpoint, or a record of its responses.

    known: the responses in the record `record_name`. client: sends the other requests; None: none are sent.
    record: the file to which new responses are written.
    """

    header: RecordHeader
    known: dict[str, EndpointResponse]
    record_name: str | None = None
    client: EndpointClient | None = None
    record: Record | None = None

    def in_words(self) -> str:
        if self.client is not None:
            return f"{self.header.target}"
        return f"{self.header.target or 'an endpoint without a name'}, from the record {self.record_name}"

    def requests_sent(self) -> int:
        return 0 if self.client is None else self.client.requests_sent


@contextmanager
def _response_source(arguments: Namespace, artifact: Artifact, deployment: Deployment) -> Iterator[_ResponseSource]:
    if arguments.replay is not None:
        yield _ResponseSource(record_header(arguments.replay), recorded_responses(arguments.replay), arguments.replay)
        return
    pace = (arguments.rps, arguments.concurrency, arguments.timeout)
    with ExitStack() as open_things:
        if arguments.through_engine:
            open_things.enter_context(_ended_by_signals())
            router = open_things.enter_context(router_under_test(artifact, deployment.served))
            client = EndpointClient(Target(chat_url(router.url), None, *pace), router.engine.take_capture)
            target = _OWN_ROUTER
        else:
            target = chat_url(arguments.url)
            client = EndpointClient(Target(target, api_key(arguments.api_key_env), *pace))
        header = RecordHeader(target, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        if arguments.record is None:
            yield _ResponseSource(header, {}, client=client)
            return
        record, known = open_record(arguments.record, header)
        open_things.callback(record.close)
        # An endpoint that was not well may be so by now.
        known = {key: response for key, response in known.items() if response.status not in UNWELL}
        header = record_header(arguments.record) if known else header
        yield _ResponseSource(
            header._replace(target=target), known, arguments.record if known else None, client, record
        )


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End started processes also when the terminal closes or on SIGTERM, as on Ctrl-C."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _responses(suite: CheckSuite, source: _ResponseSource, models: tuple[str, ...]) -> dict[str, EndpointResponse]:
    """Return the responses to all requests by their keys."""
    if source.client is None:
        return _from_record(suite, source, models)
    return _ask_all(suite, source, source.client)


def _from_record(suite: CheckSuite, source: _ResponseSource, models: tuple[str, ...]) -> dict[str, EndpointResponse]:
    """Return the responses of a record. Raises RecordError if it has none for a check on one of the models.

    Requests without a model, or for an unknown one, are equal in all records.
    """
    naming = [check for check in suite.checks if check.request.text is None and _names_one(check, models)]
    if suite.checks and not any(check.request.key() in source.known for check in naming or suite.checks):
        held = f"{counted(len(source.known), 'response')} of {source.header.target or 'some endpoint'}"
        raise RecordError(
            f"{source.record_name}: holds {held}, and none to a check of this contract: "
            "name the profile and the models that it was recorded with"
        )
    return source.known


def _names_one(check: Check, models: tuple[str, ...]) -> bool:
    return dict(check.request.members).get("model") in {written(model) for model in models}


def _ask_all(suite: CheckSuite, source: _ResponseSource, client: EndpointClient) -> dict[str, EndpointResponse]:
    """Return all responses; send the requests that have none yet."""
    responses = dict(source.known)
    left = [check for check in suite.checks if check.request.key() not in responses]
    failed, unwell, due = 0, 0, _RejectionMonitor()
    with progress_bar("verifying", len(left), remaining_time=True) as update:
        by_key = {check.request.key(): check for check in left}
        chat_requests = [(check.request, _status(check)) for check in left]
        for done, (request, response) in enumerate(client.responses(chat_requests), start=1):
            responses[request.key()] = response
            if source.record is not None:
                source.record.add(request, response)
            failed += evaluate(by_key[request.key()], response).result == "fail"
            unwell += response.status in UNWELL
            _give_up_if_unwell(source.header, response, done, unwell)
            due.watch(by_key[request.key()], response, source.header)
            update(done, f"[red]{failed} failed" if failed else "none failed")
    return responses


def _give_up_if_unwell(header: RecordHeader, response: EndpointResponse, done: int, unwell: int) -> None:
    """Raise EndpointError if every response shows only the endpoint's own state, such as that it still loads."""
    if done == unwell == _MOST_UNWELL:
        raise EndpointError(
            f"{header.target} answered {response.status} to each of the first {done} requests: it is not ready, or too "
            "busy; ask it again once it is, or more gently with --rps and --concurrency"
        )


class _RejectionMonitor:
    """Watches the responses to the valid requests."""

    def __init__(self) -> None:
        self._rejected = 0
        self._is_over = False

    def watch(self, check: Check, response: EndpointResponse, header: RecordHeader) -> None:
        """Raise EndpointError if every valid request so far was rejected with a message that names the model."""
        if self._is_over or not isinstance(check.expected, ExpectedAcceptance):
            return
        self._rejected += 1
        self._is_over = response.status not in _REJECTING or check.model.encode() not in response.body
        if not self._is_over and self._rejected == _MOST_UNANSWERED:
            said = shortened(" ".join(response.body.decode("utf-8", "replace").split()), _MOST_SAID)
            raise EndpointError(
                f"{header.target} answered {response.status} to each of the first {self._rejected} requests that the "
                f"contract lets pass: {said}. See that it serves --model {check.model}"
            )


_REJECTING: Final = range(400, 500)
_MOST_SAID: Final = 300


def _status(check: Check) -> int:
    return getattr(check.expected, "status", 200)


def _completed(check: Check, responses: dict[str, EndpointResponse], descriptions: RuleDescriptions) -> CompletedCheck:
    response = responses.get(check.request.key(), _NOT_RECORDED)
    return CompletedCheck(
        check,
        response,
        evaluate(check, response),
        descriptions.rule_description(check),
        descriptions.declared(check),
        descriptions.source(check),
    )


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{printable(text)}\n")
