"""What is wrong between values that are each right by themselves."""

from collections.abc import Iterator

from compiler.relations.judged import Judged, Related
from compiler.relations.names import relations_of_names
from compiler.relations.sampling import relations_of_sampling

__all__ = ["relations_of"]


def relations_of(judged: Judged) -> Iterator[Related]:
    """Yield what is wrong between values of a profile or a case, with the places that must be right before it is told."""
    for relations in (relations_of_names, relations_of_sampling):
        yield from relations(judged)
