"""The complete contract: its sections, the modes of requests, and the sections of every case."""

from functools import cached_property

import msgspec

from router.contract.schema.named_checks import Check
from router.contract.schema.rule_list import Const, Range, Rule, governed_by, rules_of
from router.contract.schema.sections import (
    Errors,
    Field,
    Limits,
    Mode,
    Models,
    Output,
    Response,
    Sampling,
    UnknownFields,
)
from router.contract.schema.types import Condition, Frozen, OmitDefaults


class Sections(Frozen, frozen=True, dict=True, kw_only=True):
    """What holds for the requests of one case, every default spelled out."""

    checks: dict[str, Check] = {}
    errors: Errors = Errors()
    fields: dict[str, Field] = {}
    limits: Limits = Limits()
    order: tuple[str, ...] = ()
    output: Output = Output()
    response: Response = Response()
    sampling: Sampling = Sampling()
    unknown_fields: UnknownFields = UnknownFields()


class When(OmitDefaults, frozen=True):
    """Which requests a case is for: each condition that is stated must hold.

    `model` are globs for the served id or the name asked for; one must match. So it is for each list in `also`, which
    combinations of cases have where several of them are for models.
    """

    model: tuple[str, ...] = ()
    also: tuple[tuple[str, ...], ...] = ()
    mode: tuple[str, ...] = ()
    fields: Condition = {}


class Case(Frozen, frozen=True, omit_defaults=True):
    """A case of a contract: its name, which requests it is for, and all that holds for them.

    group: of each group the first case that matches applies; "" is the group of cases without one.
    parts: the names of the cases that this one combines, one of each group; none for a case that a profile states.
    """

    name: str
    when: When
    sections: Sections
    group: str = ""
    parts: tuple[str, ...] = ()


class Contract(Sections, frozen=True, kw_only=True):
    """What a profile means once `extends` is resolved: its sections hold for every request that no case is for.

    cases: those that a profile states and, before them, the combinations of cases of several groups: the first one that
    matches applies. case_groups: the groups, in the order in which their cases are merged into the base.
    """

    models: Models = Models()
    mode: Mode = Mode()
    case_groups: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules in the order of their evaluation. The first violated rule rejects the request."""
        return rules_of(self, self._known_anywhere)

    @cached_property
    def case_rules(self) -> dict[str, tuple[Rule, ...]]:
        """The rules of each case, by its name."""
        return {case.name: rules_of(case.sections, self._known_anywhere) for case in self.cases}

    @cached_property
    def _known_anywhere(self) -> frozenset[str]:
        governed = (governed_by(sections) for sections in (self, *(case.sections for case in self.cases)))
        return self.read_by_conditions.union(*governed)

    @cached_property
    def read_by_conditions(self) -> frozenset[str]:
        """The paths of the request fields that determine the mode and the case."""
        readings = [path for reading in self.mode.match for path in reading.when]
        return frozenset(readings + [path for case in self.cases for path in case.when.fields])

    @cached_property
    def sampling_rules(self) -> tuple[Const | Range, ...]:
        """The rules of the section `sampling`."""
        return tuple(rule for rule in self.rules if isinstance(rule, Const | Range))

    def governs_beyond_body_size(self) -> bool:
        """Return whether the contract has any rule besides the limit of the body size."""
        return bool(self.models.aliases or self.cases or _says_more(self, self.rules))


def _says_more(sections: Sections, rules: tuple[Rule, ...]) -> bool:
    has_error_texts = msgspec.structs.replace(sections.errors, source=None) != Errors()
    return len(rules) > 1 or has_error_texts or sections.response.stream.usage != "as_asked"
