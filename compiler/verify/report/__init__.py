"""The reports on a run. Each format is a function from the run to bytes."""

from collections.abc import Callable
from typing import Final

from compiler.verify.report.as_json import json_of
from compiler.verify.report.as_junit import junit_of
from compiler.verify.report.as_page import page_of
from compiler.verify.report.as_text import text_of
from compiler.verify.run import VerifyRun

RENDERED_BY: Final[dict[str, Callable[[VerifyRun], bytes]]] = {
    "text": text_of,
    "json": json_of,
    "junit": junit_of,
    "html": page_of,
}
"""The function that renders a run, by the name of the format."""
