"""A contract made ready to run: how cases are found, and a plan for each."""

from router.contract.rules.cases import CaseFinder
from router.contract.rules.plan import Plan
from router.contract.schema.conditions import path_of
from router.contract.schema.model import Case, Contract, Sections


class Machine:
    """What is worked out once for a contract, so that a request only looks it up."""

    def __init__(self, contract: Contract) -> None:
        self.has_conditions = bool(contract.cases or contract.mode.default is not None)
        self.finder = CaseFinder(contract)
        self.read_by_conditions = tuple(path_of(path) for path in sorted(contract.read_by_conditions))
        self._base = (Plan(contract.rules), contract)
        self._of_cases = {case.name: (Plan(contract.case_rules[case.name]), case.sections) for case in contract.cases}

    def plan_of(self, case: Case | None) -> tuple[Plan, Sections]:
        """Return the plan and the sections of a case, or of requests that no case is for."""
        return self._base if case is None else self._of_cases[case.name]


def machine_of(contract: Contract) -> Machine:
    """Return the machine of a contract, made the first time that it is asked for."""
    machine: Machine | None = contract.__dict__.get(_MADE)
    if machine is None:
        machine = contract.__dict__[_MADE] = Machine(contract)
    return machine


_MADE = "machine"
"""Where a contract keeps its machine, beside its other values that are worked out once."""
