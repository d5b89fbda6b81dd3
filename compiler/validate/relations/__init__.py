"""Check relations between values that are each valid by themselves."""

from collections.abc import Iterator
from itertools import chain

from compiler.validate.relations.cases import relations_of_cases
from compiler.validate.relations.checks import relations_of_checks
from compiler.validate.relations.fields import relations_of_fields
from compiler.validate.relations.names import relations_of_names
from compiler.validate.relations.order import relations_of_order
from compiler.validate.relations.patterns import relations_of_patterns
from compiler.validate.relations.sampling import relations_of_sampling
from compiler.validate.relations.scope import RelationProblem, RelationScope
from compiler.validate.relations.templates import relations_of_templates

__all__ = ["relations_of"]

_ALL = (
    relations_of_names,
    relations_of_sampling,
    relations_of_fields,
    relations_of_checks,
    relations_of_patterns,
    relations_of_templates,
    relations_of_order,
    relations_of_cases,
)


def relations_of(scope: RelationScope) -> Iterator[RelationProblem]:
    """Yield the errors between values, each with the paths that must be valid for it to be reported."""
    return chain.from_iterable(relations(scope) for relations in _ALL)
