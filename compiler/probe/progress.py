"""How many requests were sent, shown while a probe runs, where standard error is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def watched(most: int) -> Iterator[Callable[[int], None]]:
    """Yield what is to be told how many requests were sent; on a terminal it is shown beside the most that may be."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _sent: None
        return
    from rich.console import Console  # noqa: PLC0415 - slow to import, and wanted on a terminal alone
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("probing, at most"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("requests", total=most)
        yield lambda sent: progress.update(task, completed=sent)
