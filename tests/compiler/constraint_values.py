"""Values of every constraint of a field, as a profile writes them: what the tests of all phases and commands try."""

from compiler.artifact.from_profile import field_of
from compiler.language.constraints import BY_KEY, CONSTRAINTS

VALUES = {
    "required": (True,),
    "reject": (True,),
    "type": ("string", ["number", "boolean"], "integer", ["string", "array"]),
    "allowed": ([0, 1, 0.5, "a", True], "a", [1]),
    "fixed": (1, "a", True),
    "min": (0, 0.5, -1),
    "above": (0, 0.5),
    "max": (1, 1.5),
    "below": (2, 1.5),
    "multiple_of": (0.5, 2, 0.1),
    "min_length": (1, 2, 0),
    "max_length": (1, 2, 64),
    "min_items": (1, 2, 0),
    "max_items": (2, 1),
    "max_bytes": (1, 2, "1 KiB"),
    "pattern": ("a+", "[ab]", ".?"),
    "items": ({"type": "string", "max_length": 1}, {"min": 0, "multiple_of": 0.5}, {"allowed": ["a", 1]}),
    "requires": ({"q": 1}, {"q": [1, 2]}, ["q"]),
    "excludes": ({"q": 1}, ["q"]),
    "from": ("q", ["q", "o.z"]),
    "map": ({"a": "b"}, {"1": 0.5}),
    "floor": (0.5, 1),
    "ceiling": (1, 0.5),
    "force": (1, "a", 0.5),
    "drop": (True,),
    "default": (1, "a", 0.5),
}
"""The first value of each is one that a request can violate, or that changes one."""


def members_of(key):
    """Return the values of a constraint as the artifact has them."""
    return [getattr(field_of({key: value}), BY_KEY[key].member) for value in VALUES[key]]


def member_values():
    """Return the members of a field's rule, each with values that it may have."""
    return {each.member: members_of(each.key) for each in CONSTRAINTS if each.form != "fixed"}
