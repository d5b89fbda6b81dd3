"""A progress bar over the requests of a run, where standard error is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[int, int], None]
"""Is told how many requests are answered, and how many checks have failed so far."""


@contextmanager
def watched(total: int) -> Iterator[Tell]:
    """Yield what is to be told of progress; on a terminal a bar shows it."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _done, _failed: None
        return
    from rich.console import Console  # noqa: PLC0415 - slow to import, and wanted on a terminal alone
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (
        TextColumn("verifying"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("requests", total=total, failed="")

        def tell(done: int, failed: int) -> None:
            progress.update(task, completed=done, failed=f"[red]{failed} failed" if failed else "none failed")

        yield tell
