"""`profilec probe`: learn the contract of a live endpoint from its responses and write it as a profile."""

import sys
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from compiler.cli.exit_codes import OK
from compiler.cli.output import write
from compiler.cli.overwrite import reject_replacing_profile
from compiler.cli.progress import progress_bar
from compiler.diagnostics import printable
from compiler.probe.draft import DRAFT_MARK, ProbeRun, ProfileDraft, draft_of
from compiler.probe.learner import LearnedContract, ProbeGoal, learn
from compiler.probe.runner import RequestSender, run_learner
from compiler.probe.sections import known_rules
from compiler.resolve.selection import UsageError
from compiler.verify.assertion import UNWELL
from compiler.verify.cassette import open_record, read_record
from compiler.verify.client import EndpointClient, Target, api_key, chat_url


def today() -> str:
    """Return the day of a probe, as 2026-11-30."""
    return datetime.now(UTC).date().isoformat()


def run(arguments: Namespace, day: Callable[[], str] = today) -> int:
    """Probe an endpoint and write the profile that was learned; return 0.

    Raises UsageError, and CommandError if the endpoint cannot be reached or accepts no request at all.
    """
    _reject_contradictions(arguments)
    reject_replacing_profile(arguments.output, DRAFT_MARK, force=arguments.force)
    address = chat_url(arguments.url)
    begun = time.monotonic()
    with ExitStack() as open_things:
        sender = _request_sender(arguments, address, open_things)
        aims = ProbeGoal(arguments.model, arguments.max_body, tuple(arguments.only or ()))
        learned = run_learner(learn(aims), sender.responses)
    sent = 0 if sender.client is None else sender.client.requests_sent
    draft = draft_of(learned, ProbeRun(arguments.model, arguments.model, address, day(), sent))
    write(draft.data, arguments.output)
    _say(_summary(arguments, draft, learned, sent, time.monotonic() - begun))
    return OK


def _reject_contradictions(arguments: Namespace) -> None:
    if arguments.record is not None and arguments.replay is not None:
        raise UsageError("--record and --replay exclude each other")
    if arguments.replay is not None and not Path(arguments.replay).exists():
        raise UsageError(f"--replay: there is no file {arguments.replay}")
    known = known_rules()
    for name in arguments.only or ():
        if not any(f"{rule}.".startswith(f"{name}.") for rule in known):
            raise UsageError(f"--only {name}: nothing is asked about it; there are {', '.join(known)}")


def _request_sender(arguments: Namespace, address: str, open_things: ExitStack) -> RequestSender:
    """Return the sender of requests, after reporting the most requests that it may send."""
    if arguments.replay is not None:
        _say(f"probing {arguments.model} by the record {arguments.replay}: no request is sent")
        return RequestSender(None, read_record(arguments.replay), None, 0, lambda _sent: None)
    pace = (arguments.rps, arguments.concurrency, arguments.timeout)
    client = EndpointClient(Target(address, api_key(arguments.api_key_env), *pace))
    record, known = (None, {}) if arguments.record is None else open_record(arguments.record)
    if record is not None:
        open_things.callback(record.close)
    # Responses that show the endpoint's own state are left out: the requests may succeed now.
    known = {key: response for key, response in known.items() if response.status not in UNWELL}
    _say(
        f"probing {arguments.model} at {address}: at most {arguments.max_requests:,} requests, "
        f"bodies of at most {arguments.max_body:,} bytes"
    )
    update = open_things.enter_context(progress_bar("probing, at most", arguments.max_requests))
    return RequestSender(client, known, record, arguments.max_requests, update)


def _summary(arguments: Namespace, draft: ProfileDraft, learned: LearnedContract, sent: int, seconds: float) -> str:
    unasked = sum(result.kind == "unasked" for result in learned.results)
    words = [f"{'a draft' if arguments.output == '-' else arguments.output}: {sent:,} requests in {seconds:.0f} s"]
    if unasked:
        words.append(f"{unasked:,} questions were not asked, see its head")
    if draft.mismatches:
        words.append(f"{len(draft.mismatches):,} responses that the draft would not reproduce, see its header")
    return "; ".join(words)


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{printable(text)}\n")
