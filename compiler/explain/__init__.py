"""`profilec explain`: show the router's decision on one request, or on many."""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from compiler.cli.exit_codes import FAILED, OK
from compiler.cli.loading import load_source
from compiler.cli.output import write
from compiler.cli.progress import Update, progress_bar
from compiler.diagnostics import CommandError
from compiler.explain.explanation import explain
from compiler.explain.origin import Origin
from compiler.explain.report import explanation_json, explanation_text, summary_json, summary_text
from compiler.explain.traffic import numbered, summarise
from compiler.resolve.selection import STANDARD_INPUT, UsageError
from router.artifact.format import Artifact
from router.contract.decide import Rejection, ServedIds
from router.contract.errors import ApiError
from router.contract.jsonbytes.parsing import parse

"""The exit code for a rejected request with --fail-on-rejected."""

_UPDATE_INTERVAL: Final = 500
"""Requests between two updates of the progress bar."""

Lines = Iterator[tuple[int, bytes]]


def run(arguments: Namespace) -> int:
    """Explain one request, or summarise many; return 1 where --fail-on-rejected is given and one is rejected, else 0.

    Raises CommandError when the requests cannot be read, UsageError when standard input is named twice.
    """
    if arguments.request == STANDARD_INPUT and STANDARD_INPUT in {arguments.source, arguments.api_profile_file}:
        raise UsageError("requests and profile cannot both be standard input")
    loaded = load_source(arguments)
    artifact = loaded if isinstance(loaded, Artifact) else loaded.artifact
    served = ServedIds(tuple(arguments.model)) if arguments.model else None
    in_json = arguments.format == "json"
    with ExitStack() as stack:
        most = artifact.contract.limits.max_body_bytes + 1
        body, lines = _requests(_open(arguments.request, stack), most, forced=arguments.lines)
        if body is not None:
            explanation = explain(body, artifact.contract, served)
            render: Callable[..., str] = explanation_json if in_json else explanation_text
            text = render(explanation, Origin.of(loaded))
            rejects = isinstance(explanation.decision, Rejection)
        else:
            summary = summarise(
                _counted(lines, stack.enter_context(progress_bar("explaining"))), artifact.contract, served
            )
            text = summary_json(summary) if in_json else summary_text(summary)
            rejects = summary.rejected > 0
    write(text.encode(), "-")
    return FAILED if rejects and arguments.fail_on_rejected else OK


def _counted(lines: Lines, update: Update) -> Lines:
    for number, line in enumerate(lines):
        if number % _UPDATE_INTERVAL == 0:
            update(number)
        yield line


def _open(name: str, stack: ExitStack) -> BinaryIO:
    if name == STANDARD_INPUT:
        return sys.stdin.buffer
    try:
        return stack.enter_context(Path(name).open("rb"))
    except (OSError, ValueError) as error:
        raise CommandError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _requests(file: BinaryIO, most: int, *, forced: bool) -> tuple[bytes | None, Lines]:
    """Return the body of the one request in a file, or else None and the numbered bodies of JSON Lines.

    A file is JSON Lines when its first line is a whole object and another line follows. Of one request at most `most`
    bytes are read, which is more than the contract allows: the rest does not matter.
    """
    lines = numbered(file)
    if forced:
        return None, lines
    head = b""
    while len(head) < most and (line := file.readline(most - len(head))):
        head += line
        if line.strip():
            break
    if not _is_request(head):
        return head + file.read(most - len(head)), lines
    skipped = head.count(b"\n")
    rest = numbered(file, after=skipped)
    second = next(rest, None)
    if second is None:
        return head, rest
    return None, chain([(skipped, head.strip()), second], rest)


def _is_request(line: bytes) -> bool:
    try:
        parse(line)
    except ApiError:
        return False
    return True
