"""The error response to a rejection, as far as a contract fixes it."""

import re
from collections.abc import Mapping
from typing import Any, Final

from compiler.verify.check import ANY_TEXT, WILDCARD, TextPattern, Wildcard
from compiler.verify.oracle.fields import Fault
from compiler.verify.oracle.values import display
from router.contract.errors import STATUS_OF
from router.contract.schema.sections import Errors
from router.contract.schema.types import ErrorText

_TOKEN: Final = re.compile(r"(\{\{|\}\}|\{[a-z_]+\})")
_BAD_REQUEST: Final = 400
_SERVER_ERROR: Final = 500

_OWN_ENVELOPE: Final = {"error": {"message": "{message}", "type": "{type}", "param": "{param}", "code": "{code}"}}
_USUAL_ENVELOPE: Final = {"error": {"message": "{message}"}}


class ErrorRenderer:
    """The error responses under a contract's `errors`.

    own_id: the id of the request, if the endpoint is this project's router: it has its own defaults for what the
        contract leaves open. None: the endpoint is unknown.
    """

    def __init__(self, errors: Errors, own_id: str | None) -> None:
        self._errors = errors
        self._id = own_id
        self._is_own = own_id is not None

    def rendered(self, fault: Fault) -> tuple[int, Any, bool]:
        """Return the status, the body with placeholders for open parts, and whether it has no other members."""
        layers = [*fault.words, self._errors.codes.get(fault.code)]
        if STATUS_OF[fault.code] == _BAD_REQUEST:
            layers.append(self._errors.codes.get("bad_request"))
        return self.rendered_with([words for words in layers if words is not None], fault)

    def rendered_with(self, layers: list[ErrorText], fault: Fault, said: str | None = None) -> tuple[int, Any, bool]:
        """Return the error response under these texts; of several layers the first that sets a member wins.

        said: the message that they replace or repeat; None: any message.
        """
        status = _first(layers, "status") or STATUS_OF[fault.code]
        details = {**fault.details, "status": status, "null": None}
        if self._id is not None:
            details["request_id"] = self._id
        details |= {"code": _first(layers, "code"), "type": _first(layers, "type"), "param": fault.param}
        self._fill_in(details, fault, status)
        if _first(layers, "param") is not None:
            details["param"] = _filled(_first(layers, "param"), details)
        message = _first(layers, "message")
        details["message"] = ANY_TEXT if said is None else said
        if message is not None:
            details["message"] = _filled(message, details)
        stated = _first(layers, "body") or self._errors.body
        envelope = stated or (_OWN_ENVELOPE if self._is_own else self._usual(details))
        return status, _filled_body(envelope, details, omit_null=self._errors.omit_null), bool(stated) or self._is_own

    def _fill_in(self, details: dict[str, Any], fault: Fault, status: int) -> None:
        """Return the router's default where the contract sets nothing, or leave the member open."""
        if status == _BAD_REQUEST and self._errors.bad_request_type is not None:
            details["type"] = self._errors.bad_request_type
        if details["type"] is None:
            own = "server_error" if status >= _SERVER_ERROR else "invalid_request_error"
            details["type"] = own if self._is_own else WILDCARD
        if details["code"] is None:
            details["code"] = fault.code if self._is_own else WILDCARD

    def _usual(self, details: Mapping[str, Any]) -> dict[str, Any]:
        """Return the default envelope, which is OpenAI's, with the members that are fixed."""
        fixed = {name: f"{{{name}}}" for name in ("type", "code") if not isinstance(details[name], Wildcard)}
        return {"error": {**_USUAL_ENVELOPE["error"], **fixed}}


def may_be_alike(one: Any, other: Any) -> bool:  # noqa: ANN401 - any JSON
    """Return whether one response may match two expected bodies, given the parts that both leave open."""
    if isinstance(one, Wildcard) or isinstance(other, Wildcard):
        return True
    if isinstance(one, TextPattern) or isinstance(other, TextPattern):
        # Two texts with open parts can differ for certain only in how they begin.
        heads = [each.pieces[0] if isinstance(each, TextPattern) else each for each in (one, other)]
        return all(isinstance(each, str) for each in heads) and (heads[0][:1] == heads[1][:1] or "" in heads)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(may_be_alike(one[name], other[name]) for name in one)
    return bool(one == other)


def _first(layers: list[ErrorText], name: str) -> Any:  # noqa: ANN401 - any member of words
    return next((value for words in layers if (value := getattr(words, name)) is not None), None)


def _filled(template: str, details: Mapping[str, Any]) -> TextPattern | str | Wildcard:
    """Return a text with its placeholders filled; unknown values stay open."""
    pieces = [""]
    for token in _TOKEN.split(template):
        if token in {"{{", "}}"}:
            pieces[-1] += token[0]
        elif not _TOKEN.fullmatch(token):
            pieces[-1] += token
        else:
            _add(pieces, details.get(token[1:-1], WILDCARD))
    if len(pieces) == 1:
        return pieces[0]
    return TextPattern(tuple(pieces)) if any(pieces) else ANY_TEXT


def _add(pieces: list[str], value: object) -> None:
    if isinstance(value, TextPattern):
        pieces[-1] += value.pieces[0]
        pieces.extend(value.pieces[1:])
        return
    text = None if isinstance(value, Wildcard) else "" if value is None else display(value)
    if text is None:
        pieces.append("")
    else:
        pieces[-1] += text


def _filled_body(template: Any, details: Mapping[str, Any], *, omit_null: bool) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(template, str):
        alone = re.fullmatch(r"\{([a-z_]+)\}", template)
        return _bare(details.get(alone[1], WILDCARD)) if alone else _filled(template, details)
    if isinstance(template, list | tuple):
        return [_filled_body(item, details, omit_null=omit_null) for item in template]
    if not isinstance(template, dict):
        return template
    members = {name: _filled_body(value, details, omit_null=omit_null) for name, value in template.items()}
    return {name: value for name, value in members.items() if not (omit_null and value is None)}


def _bare(value: object) -> object:
    return (
        value if isinstance(value, TextPattern | Wildcard) or value is None or display(value) is not None else WILDCARD
    )
