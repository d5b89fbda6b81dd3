"""The table of all settings, as the README has it."""

from dataclasses import MISSING, Field, fields
from typing import Any, Final

from router.request.routes import CONFIGURABLE
from router.settings.declarations import Settings, name_of
from router.settings.numbers import byte_size

MIB: Final = 2**20


def reference() -> str:
    """Return the settings as a Markdown table."""
    rows = ["| variable | default | meaning |", "|---|---|---|"]
    rows += [f"| `{name_of(item)}` | {_default(item)} | {_cell(item.metadata['help'])} |" for item in fields(Settings)]
    return "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _default(item: Field[Any]) -> str:
    if item.default is MISSING:
        return "required"
    if item.default in (None, ()):
        return "none"
    if item.default == CONFIGURABLE:
        return "all"
    if isinstance(item.default, bool):
        return "`on`" if item.default else "`off`"
    if item.metadata["parse"] is byte_size:
        return f"`{item.default // MIB}MiB`"
    return f"`{item.default}`" if isinstance(item.default, str) else f"`{item.default:g}`"
