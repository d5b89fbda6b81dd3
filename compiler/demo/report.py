"""What the demo prints: a table people can read."""

from collections.abc import Sequence
from typing import Final, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from compiler.demo.harness import Engine, Router
from compiler.demo.scenes import DemoRow, Overlay
from router.artifact.format import Artifact

WIDTH: Final = 120
"""Columns of the table where the output is not a terminal, and the most on one."""

_COLUMNS: Final = {"": 17, "sent": 16, "the engine got": 21, "came back": 25, "decided by": 27}


class DemoReport:
    """Prints the demo as it goes."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False)
        self._console.width = min(WIDTH, self._console.width) if self._console.is_terminal else WIDTH

    def introduce(self, artifact: Artifact, engine: Engine) -> None:
        """Say which contract stands in front of which engine."""
        which = (
            f"the mock engine (model {engine.model})" if engine.mock_engine else f"{engine.url} (model {engine.model})"
        )
        self._report(f"{artifact.name} ({artifact.digest[:19]}…) in front of {which}:\n")

    def introduce_overlay(self, overlay: Overlay) -> None:
        """Show the deployment file that adds what the profile itself does not say."""
        self._report("\nA deployment file extends it:\n")
        self._report("".join(f"    {line}\n" for line in overlay.yaml().splitlines()))

    def show(self, rows: Sequence[DemoRow]) -> None:
        """Show what was sent, what the engine got, what came back and which rule decided."""
        if self._console.width < WIDTH:
            self._show_stacked(rows)
            return
        table = Table(box=box.HORIZONTALS, show_lines=True, show_edge=False)
        for heading, width in _COLUMNS.items():
            table.add_column(heading, overflow="fold", width=width)
        for row in rows:
            cells = (row.title + _mark(row), row.sent, row.engine_received, row.response, row.rule)
            table.add_row(*(Text(cell) for cell in cells), style="" if row.as_expected else "red")
        self._console.print(table)

    def _show_stacked(self, rows: Sequence[DemoRow]) -> None:
        for row in rows:
            self._console.print(Text(row.title + _mark(row), style="bold" if row.as_expected else "bold red"))
            cells = (row.sent, row.engine_received, row.response, row.rule)
            for heading, cell in zip(list(_COLUMNS)[1:], cells, strict=True):
                self._report(f"  {heading:14}  " + cell.replace("\n", ", "))
            self._report("")

    def conclude(self, *, as_expected: bool) -> None:
        """Say whether all went as the contracts say."""
        verdict = (
            "Every response is what the contract says."
            if as_expected
            else "Some responses are not what the contract says."
        )
        self._report(f"\n{verdict}")

    def invite(self, router: Router) -> None:
        """Give a line to try the router that stays up."""
        model = router.state()["models"][0]
        self._report(f"\nThe router with {router.artifact.name} stays up until Ctrl-C. Try:\n")
        request = f'{{"model": "{model}", "top_p": 0.8, "messages": [{{"role": "user", "content": "hi"}}]}}'
        self._report(f"curl {router.url}/v1/chat/completions -H 'Content-Type: application/json' -d '{request}'")
        self._console.file.flush()

    def _report(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


def _mark(row: DemoRow) -> str:
    return "" if row.as_expected else "  ✗ differs from the contract"
