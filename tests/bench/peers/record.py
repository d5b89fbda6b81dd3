"""What was measured, kept in a file as it comes, so that a run which was cut short goes on where it was."""

import json
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

Figures = Mapping[str, float]

SETUP: Final = "setup"
"""Stands for a measure where a subject cannot be set up."""
WHOLE: Final = ""
"""Stands for all cases of a measure."""


class Key(NamedTuple):
    """What a sample is of."""

    measure: str
    case: str
    subject: str
    round: int


class Spread(NamedTuple):
    """Of the rounds the median, the least and the most."""

    median: float
    least: float
    most: float


class Record:
    """Samples and remarks by their keys; of what was taken twice the last counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.samples: dict[Key, Figures] = {}
        self.failures: dict[tuple[str, str, str], str] = {}
        """Why a subject has no figures, by measure, case and subject; `SETUP` is the measure where it cannot be had."""
        self.about: dict[str, Any] = {}
        """Of the machine, the versions and the day."""
        if path.exists():
            for line in path.read_text().splitlines():
                self._take(json.loads(line))

    def add(self, key: Key, figures: Figures) -> None:
        """Keep a sample."""
        self._keep({**key._asdict(), "figures": dict(figures)})

    def fail(self, measure: str, case: str, subject: str, reason: str) -> None:
        """Keep why there is no sample."""
        self._keep({"measure": measure, "case": case, "subject": subject, "failure": reason})

    def tell(self, **about: object) -> None:
        """Keep what is to be said of the whole run."""
        self._keep({"about": about})

    def has(self, key: Key) -> bool:
        """Tell whether a sample was taken."""
        return key in self.samples

    def spread(
        self, measure: str, case: str, subject: str, value: Callable[[Key, Figures], float | None]
    ) -> Spread | None:
        """Return how a value of the figures lies over the rounds; None where no round has one."""
        found = [
            number
            for key, figures in sorted(self.samples.items())
            if key[:3] == (measure, case, subject) and (number := value(key, figures)) is not None
        ]
        return Spread(statistics.median(found), min(found), max(found)) if found else None

    def _keep(self, entry: dict[str, Any]) -> None:
        self._take(entry)
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def _take(self, entry: dict[str, Any]) -> None:
        if "about" in entry:
            self.about |= entry["about"]
            for name in self.about.get("versions", {}):
                self.failures.pop((SETUP, "", name), None)
        elif "figures" in entry:
            self.samples[Key(entry["measure"], entry["case"], entry["subject"], entry["round"])] = entry["figures"]
            for case in (entry["case"], WHOLE):
                self.failures.pop((entry["measure"], case, entry["subject"]), None)
        else:
            self.failures[entry["measure"], entry["case"], entry["subject"]] = entry["failure"]
