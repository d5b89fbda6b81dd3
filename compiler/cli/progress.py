"""A progress bar over the requests of a command, shown when standard error is a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Update(Protocol):
    """Sets how many requests are completed, and a note beside the count, in rich's markup."""

    def __call__(self, completed: int, note: str = "") -> None:
        """Set the count and the note."""


@contextmanager
def progress_bar(label: str, total: int | None = None, *, remaining_time: bool = False) -> Iterator[Update]:
    """Yield the function that updates the bar; without a terminal it does nothing.

    `total` is the number of requests, or None when it is unknown. `remaining_time` shows the estimated remaining time
    instead of the elapsed time; it needs an exact total.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _completed, _note="": None
        return
    from rich import progress  # noqa: PLC0415 - slow to import, and needed only on a terminal
    from rich.console import Console  # noqa: PLC0415

    columns = (
        progress.TextColumn(label),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[note]}"),
        progress.TimeRemainingColumn() if remaining_time else progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("requests", total=total, note="")

        def update(completed: int, note: str = "") -> None:
            bar.update(task, completed=completed, note=note)

        yield update
