"""A progress bar over many requests, where standard error is a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

EVERY = 500
"""Requests between two looks at the bar."""


@contextmanager
def watched(requests: Iterator[tuple[int, bytes]]) -> Iterator[Iterator[tuple[int, bytes]]]:
    """Yield the requests on; while they are taken, a bar on a terminal says how many there were."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield requests
        return
    from rich.console import Console  # noqa: PLC0415 - slow to import, and wanted on a terminal alone
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} requests"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("requests", total=None)

        def counted() -> Iterator[tuple[int, bytes]]:
            for number, request in enumerate(requests):
                if number % EVERY == 0:
                    progress.update(task, completed=number)
                yield request

        yield counted()
