"""What a client sees of one request under a contract: acceptance, or the error of a rejection."""

import json
from typing import Any, NamedTuple

import msgspec

from compiler.verify.check import ChatRequest
from router.contract.decide import BODY_SIZE, Forward, Rejection, ServedIds, decide
from router.contract.errors import ApiError, build_error_response, error_text_of, request_too_large
from router.contract.schema.model import Contract, Sections
from router.contract.schema.rule_list import Rule
from router.contract.schema.sections import Errors


class VisibleResponse(NamedTuple):
    """The result of a request, as its client sees it.

    rule: the rule that rejects it; None: it is accepted. response_text: the status and body of the rejection, or the
    model in the response. unworded: the same without the router's default message, which adds nothing to the rule.
    case: the name of the case that matches the request.
    """

    rule: str | None
    response_text: str
    unworded: str
    case: str | None
    sections: Sections
    rules: tuple[Rule, ...]

    def is_as(self, other: "VisibleResponse") -> bool:
        """Return whether a client sees the same; two sentences of the router's own for one rejection are the same."""
        if (self.rule is None) != (other.rule is None):
            return False
        return self.response_text == other.response_text or self.unworded == other.unworded

    def members(self) -> dict[str, Any]:
        """Return the members of a rejection's body, by dotted path."""
        return dict(_flat(json.loads(self.response_text), ""))


class ClientView:
    """Sends requests to a contract in front of engines that serve these models, and sees what comes back."""

    def __init__(self, contract: Contract, served: tuple[str, ...], *, reads_messages: bool = True) -> None:
        self.contract = contract
        self.served = served
        self._reads_messages = reads_messages
        self._cases = {case.name: case.sections for case in contract.cases}

    def response_to(self, request: ChatRequest, body: bytes) -> VisibleResponse:
        """Return what a client sees of a request; `body` is the request's body without padding."""
        if request.size() > self.contract.limits.max_body_bytes:
            too_large = request_too_large(self.contract.limits.max_body_bytes)
            return self._rejection(Rejection(too_large, BODY_SIZE, errors=self.contract.errors))
        decision = decide(body, self.contract, ServedIds(self.served))
        return self._acceptance(decision) if isinstance(decision, Forward) else self._rejection(decision)

    def _acceptance(self, decision: Forward) -> VisibleResponse:
        name = json.dumps(decision.respond_as or decision.model_served)
        return self._visible_response(None, name, name, decision)

    def _rejection(self, decision: Rejection) -> VisibleResponse:
        error, errors = decision.error, decision.errors
        if not self._reads_messages:
            words = msgspec.structs.replace(error_text_of(error, errors), message=None)
            error = _saying("", error, words=words)
            errors = msgspec.structs.replace(errors, codes={})
        response_text, unworded = _rejection_text(error, errors), _rejection_text(_saying("", error), errors)
        return self._visible_response(decision.rule, response_text, unworded, decision)

    def _visible_response(
        self, rule: str | None, response_text: str, unworded: str, decision: Forward | Rejection
    ) -> VisibleResponse:
        case = decision.case_selection.case
        name = None if case is None else case.name
        sections = self.contract if name is None else self._cases[name]
        rules = self.contract.rules if name is None else self.contract.case_rules[name]
        return VisibleResponse(rule, response_text, unworded, name, sections, rules)


def _saying(message: str, error: ApiError, **changed: Any) -> ApiError:  # noqa: ANN401 - any member of an error
    known = {"part": error.part, "words": error.words, "details": error.details, **changed}
    return ApiError(error.code, message, error.param, **known)


def _rejection_text(error: ApiError, errors: Errors) -> str:
    """Return the status and body of a rejection in one way of writing, so that only what differs differs."""
    response_text = build_error_response(error, errors)
    return json.dumps({"status": response_text.status, "body": json.loads(response_text.body)}, sort_keys=True)


def _flat(value: Any, path: str) -> list[tuple[str, Any]]:  # noqa: ANN401 - any JSON
    if not isinstance(value, dict) or not value:
        return [(path.removeprefix("body."), value)]
    return [pair for key, inner in value.items() for pair in _flat(inner, f"{path}.{key}" if path else key)]
