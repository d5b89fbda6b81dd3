"""Watches the sources of a contract, and loads it again when one of them has changed."""

import sys
from typing import Final

from compiler.cli.loading import render_error
from compiler.diagnostics import CommandError, ProfileError, printable
from compiler.serve.contract import ServedContract, version_of
from router.artifact.format import ArtifactError

POLL_SECONDS: Final = 0.3
"""Seconds between two checks of the sources."""


class SourceWatcher:
    """Remembers which version of each source was loaded last, and what was wrong with the newest."""

    def __init__(self, contract: ServedContract) -> None:
        self._contract = contract
        self._tried = self._seen = contract.versions
        self._problem = ""

    def poll(self) -> bool:
        """Load the contract again if a source has changed; return whether a new one is there for the router to read.

        A change counts after two polls with the same content, because an editor may still be writing. After an error
        each poll tries again, because a file that was not read yet may fix it; each error is printed once.
        """
        now = {path: version_of(path) for path in self._contract.versions}
        has_settled, self._seen = now == self._seen, now
        if not has_settled or (now == self._tried and not self._problem):
            return False
        self._tried = now
        try:
            loaded = self._contract.load()
        except (ProfileError, ArtifactError, CommandError) as error:
            self._note(render_error(error) if isinstance(error, ProfileError) else f"profilec: error: {error}\n")
            return False
        self._problem = ""
        self._tried = self._seen = self._contract.versions
        _report(f"{self._contract.name} has changed: {loaded.artifact.name} ({loaded.artifact.digest})")
        return True

    def _note(self, problem: str) -> None:
        if problem != self._problem:
            sys.stderr.write(problem)
            _report(f"{self._contract.name} is invalid: the last valid contract stays active")
        self._problem = problem


def _report(text: str) -> None:
    sys.stderr.write(f"profilec serve: {printable(text)}\n")
    sys.stderr.flush()
