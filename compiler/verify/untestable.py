"""The rules for responses that no request of `profilec verify` can bring about; reports list them as untested."""

from collections.abc import Iterator
from typing import Final

from compiler.verify.check import SkippedCheck
from router.contract.errors import STATUS_OF
from router.contract.schema.model import Contract

_BY_LOAD: Final = "it takes too much load, or engines that are gone, and verify causes neither"
_BY_ENGINES: Final = "it takes an engine that fails, and verify breaks none"
_BY_FORM: Final = "verify sends nothing but posts of JSON to chat completions"

_REASONS: Final = {
    "invalid_api_key": "it takes a wrong API key, and verify sends none, as that may lock its user out",
    "overloaded": _BY_LOAD,
    "no_healthy_engines": _BY_LOAD,
    "internal_error": _BY_ENGINES,
    "upstream_unreachable": _BY_ENGINES,
    "upstream_incomplete": _BY_ENGINES,
    "upstream_timeout": _BY_ENGINES,
    "not_found": _BY_FORM,
    "method_not_allowed": _BY_FORM,
    "uri_too_long": _BY_FORM,
    "unsupported_media_type": _BY_FORM,
    "expectation_failed": _BY_FORM,
    "headers_too_large": _BY_FORM,
}
"""Why an error cannot be provoked, by its code; the other codes can."""


def untestable_rules(contract: Contract) -> Iterator[SkippedCheck]:
    """Yield the errors that a contract has texts for and that no check can bring about."""
    responses = {**contract.errors.codes}
    for case in contract.cases:
        responses |= case.sections.errors.codes
    for code, words in responses.items():
        if code in _REASONS:
            status = words.status or STATUS_OF[code]
            yield SkippedCheck("errors", None, f"the words of {code} ({status})", _REASONS[code])
