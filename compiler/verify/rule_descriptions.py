"""The text of the rule that a check is about, its position in the profile, and its evidence."""

from typing import Final

from compiler.docs.enforced import words_of
from compiler.explain.origin import Origin
from compiler.verify.check import Check, ExpectedAcceptance, ExpectedRejection
from router.contract.schema.model import Contract, Sections
from router.contract.schema.rule_list import Rule

_ALWAYS: Final = {
    "request": "a request is one strict JSON object with a model, and its stream is a boolean",
    "models": "the served ids and their aliases are accepted, any other name is rejected",
    "mode": "the mode of a request is read from its model and its fields",
    "cases": "what holds depends on the model and the mode of a request",
    "order": "if a request violates several rules, the first one in the order rejects it",
    "errors": "an engine's rejection is returned with the contract's error text",
    "response.stream.usage": "where a streamed response reports its usage",
}


_UNDECLARED: Final = {
    "always": "nowhere: it holds under every contract",
    "default": "nowhere: it holds where a profile says nothing else",
}
"""The evidence of a rule that no profile declares."""


class RuleDescriptions:
    """Returns the text of the rule for each check."""

    def __init__(self, contract: Contract, origin: Origin) -> None:
        self._contract = contract
        self._origin = origin
        self._cases = {case.name: case for case in contract.cases}

    def rule_description(self, check: Check) -> str:
        """Return the text of the rule for a check's request."""
        rule = self._rule(check.rule, check.case)
        words = words_of(rule) if rule is not None else _ALWAYS.get(check.rule)
        return f"{words}; so {_due(check)}" if words else _due(check)

    def declared(self, check: Check) -> str:
        """Return where the rule of a check was declared, or why it holds if no profile declares it."""
        if check.rule == "cases" and check.case is not None:
            return self._origin.declared_case(check.case)
        case_match = self._origin.declared(check.rule, check.case)
        return _UNDECLARED.get(case_match, case_match)

    def source(self, check: Check) -> str | None:
        """Return the evidence for the rule of a check."""
        rule = self._rule(check.rule, check.case)
        return None if rule is None else rule.evidence(self._sections(check.case))

    def _rule(self, name: str, case: str | None) -> Rule | None:
        rules = self._contract.rules if case is None else self._contract.case_rules[case]
        return next((rule for rule in rules if rule.rule == name), None)

    def _sections(self, case: str | None) -> Sections:
        return self._contract if case is None else self._cases[case].sections


def _due(check: Check) -> str:
    expected = check.expected
    if isinstance(expected, ExpectedRejection):
        return f"it is rejected with {expected.status}"
    if not isinstance(expected, ExpectedAcceptance):
        return f"the client gets a {expected.status} in the contract's words"
    if expected.untouched:
        return "it is answered, and the engine gets the bytes that were sent"
    changed = ", ".join(expected.changed)
    return f"it is answered, and the engine gets {changed} as the contract has it" if changed else "it is answered"
