"""Colours of diagnostics on a terminal."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TextIO

_RESET: Final = "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Style:
    """How each part of a diagnostic is painted: the terminal's code for it, or nothing at all."""

    message: str = ""
    error: str = ""
    warning: str = ""

    def paint(self, part: str, text: str) -> str:
        """Return a text painted as one of the parts is."""
        code: str = getattr(self, part)
        return f"{code}{text}{_RESET}" if code else text


PLAIN: Final = Style()
COLOURED: Final = Style(message="\x1b[1m", error="\x1b[1;31m", warning="\x1b[1;33m")


def style_for(stream: TextIO | None, environment: Mapping[str, str]) -> Style:
    """Return the style for a stream: colour on a terminal that has it, unless NO_COLOR is set and not empty."""
    disabled = environment.get("NO_COLOR") or environment.get("TERM") == "dumb"
    return COLOURED if stream is not None and stream.isatty() and not disabled else PLAIN
