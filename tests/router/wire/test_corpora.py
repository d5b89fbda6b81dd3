"""Requests that others collected against their parsers, sent to a running router.

gunicorn's source distribution carries some hundred valid and invalid ones. They are fetched once, into a folder that
does not travel, and the tests are skipped where that cannot be done.
"""

import fcntl
import re
import socket
import subprocess
import sys
import tarfile
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest

from router.mock_engine import MockEngine
from tests.checkout import CHECKOUT
from tests.router.conftest import RouterOf
from tests.router.rawclient import RawAnswer, RawClient
from tests.router.serving import RunningRouter
from tests.router.wire.chat import assert_error

CORPORA = CHECKOUT / ".corpora"
FETCH_SECONDS = 120
ROUTE = b"/v1/embeddings"
_TARGET = re.compile(rb"\A((?:\r\n)?[A-Z]+ )[!-~]+")
_MEMBER = re.compile(r"[^/]+/tests/requests/(in)?valid/[^/]+\.http")
_ESCAPES = ((b"\n", b""), (b"\\r\\n", b"\r\n"), (b"\\0", b"\0"), (b"\\n", b"\n"), (b"\\t", b"\t"))


def _fetched() -> Path:
    """Return the source distribution of the gunicorn that runs."""
    CORPORA.mkdir(exist_ok=True)
    archive = CORPORA / f"gunicorn-{version('gunicorn')}.tar.gz"
    with (CORPORA / "lock").open("w") as lock:
        # Several test processes may get here at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            wanted = f"gunicorn=={version('gunicorn')}"
            command = ["-m", "pip", "download", "-q", "--no-binary", "gunicorn", "--no-deps", "-d", CORPORA, wanted]
            try:
                subprocess.run([sys.executable, *command], check=True, capture_output=True, timeout=FETCH_SECONDS)
            except (OSError, subprocess.SubprocessError) as error:
                pytest.skip(f"gunicorn's source distribution cannot be fetched: {type(error).__name__}")
    return archive


def _requests(archive: Path) -> dict[str, bytes]:
    """Return the requests by their names; line breaks and control characters are spelt out in the files."""
    found = {}
    with tarfile.open(archive) as members:
        for member in members:
            if _MEMBER.fullmatch(member.name):
                data = members.extractfile(member).read()  # type: ignore[union-attr]
                for spelt, meant in _ESCAPES:
                    data = data.replace(spelt, meant)
                found[member.name.partition("/requests/")[2]] = data
    return found


def _answers(router: RunningRouter, sent: bytes) -> list[RawAnswer]:
    """Return all that is answered to some bytes, the sending of which ends with them."""
    answers = []
    with RawClient(router.port) as client, suppress(EOFError):
        client.send(sent)
        client.socket.shutdown(socket.SHUT_WR)
        while True:
            answers.append(client.answer())
    return [answer for answer in answers if answer.status >= 200]


@pytest.mark.parametrize("target", ["its own", "a route"])
def test_a_corpus_of_requests_is_answered_or_refused(router_of: RouterOf, engine: MockEngine, target: str) -> None:
    """Nothing that was collected makes the router fail, and an engine hears once of each request that it answers."""
    router = router_of()
    corpus = _requests(_fetched())
    assert len(corpus) > 100
    read = 0
    for name, sent in corpus.items():
        engine.clear()
        bytes_sent = _TARGET.sub(rb"\1" + ROUTE, sent) if target == "a route" else sent
        answers = _answers(router, bytes_sent)
        own = [answer for answer in answers if answer.header("x-router-error-code")]
        for answer in own:
            assert answer.status < 500 or answer.status == 505, (name, answer)
            assert_error(answer, answer.status, answer.header("x-router-error-code") or "")
        assert len(engine.received) == len(answers) - len(own), name
        # On a route even a body that is no JSON was read whole.
        read += len(engine.received) + sum(b"not valid JSON" in answer.body for answer in own)
    assert bool(read) is (target == "a route")
