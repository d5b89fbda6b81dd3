"""A compiled contract: how cases are found, and a rule set for each."""

from router.contract.rules.cases import CaseMatcher
from router.contract.rules.plan import KnownEvaluators, RuleSet
from router.contract.schema.conditions import path_of
from router.contract.schema.model import Case, Contract, Sections


class CompiledContract:
    """A contract prepared for evaluation: computed once, so that a request only looks it up."""

    def __init__(self, contract: Contract) -> None:
        self.has_conditions = bool(contract.cases or contract.mode.default is not None)
        self.case_matcher = CaseMatcher(contract)
        self.read_by_conditions = tuple(path_of(path) for path in sorted(contract.read_by_conditions))
        known: KnownEvaluators = {}
        self._base = (RuleSet(contract.rules, known), contract)
        self._of_cases = {
            case.name: (RuleSet(contract.case_rules[case.name], known), case.sections) for case in contract.cases
        }

    def rule_set_of(self, case: Case | None) -> tuple[RuleSet, Sections]:
        """Return the plan and the sections of a case, or of requests that no case is for."""
        return self._base if case is None else self._of_cases[case.name]


def compiled_contract_of(contract: Contract) -> CompiledContract:
    """Return the compiled of a contract, made the first time that it is asked for."""
    compiled: CompiledContract | None = contract.__dict__.get(_COMPILED)
    if compiled is None:
        compiled = contract.__dict__[_COMPILED] = CompiledContract(contract)
    return compiled


_COMPILED = "compiled"
"""The attribute that caches the compiled contract, like the other cached properties of a contract."""
