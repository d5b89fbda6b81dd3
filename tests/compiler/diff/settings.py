"""Pairs of contracts that differ in one member alone, for every member of every section, as their types say."""

import itertools
import typing

import msgspec

from router.contract.schema.fields import SAMPLING_FIELDS
from router.contract.schema.model import Contract
from router.contract.schema.named_checks import CHECK_TYPES

SCALARS = (True, 1, 1.0, "a")
"""Values that are equal to each other in Python as far as can be, and not in an artifact."""


def pairs():
    """Yield the name of each member, and two contracts that differ in it alone."""
    yield from _of_struct(Contract, "contract")


def _pairs(kind, name):
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        yield from _pairs(arguments[0], name)
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield from _of_struct(kind, name)
    elif origin is dict:
        yield from _of_dict(arguments[1], name)
    elif origin is tuple:
        yield f"{name}[]", (), (_value(arguments[0]),)
        yield from ((path, (old,), (new,)) for path, old, new in _pairs(arguments[0], f"{name}[]"))
    elif origin is typing.Literal:
        yield from ((name, *pair) for pair in _neighbours(arguments))
    elif arguments:
        yield from ((name, *pair) for pair in _neighbours([_value(each) for each in arguments]))
        yield from (pair for each in arguments for pair in _pairs(each, name))
    else:
        yield from ((name, *pair) for pair in _neighbours(_SIMPLE[kind]))


def _of_struct(kind, name):
    for member, hint in typing.get_type_hints(kind, include_extras=True).items():
        if member in kind.__struct_fields__:
            for path, old, new in _pairs(hint, f"{name}.{member}"):
                yield path, *(_value(kind, **{member: value}) for value in (old, new))


def _of_dict(kind, name):
    if name.endswith(".checks"):
        for key, check in CHECK_TYPES.items():
            yield f"{name}.{key}", {}, {key: _value(check)}
            yield from ((path, {key: old}, {key: new}) for path, old, new in _of_struct(check, f"{name}.{key}"))
        return
    key = SAMPLING_FIELDS[0] if name.endswith(".params") else "a"
    yield f"{name}.{key}", {}, {key: _value(kind)}
    yield from ((path, {key: old}, {key: new}) for path, old, new in _pairs(kind, f"{name}.{key}"))


def _value(kind, **members):
    """Return one value of a type; of a structure, with these members and as little else as may be."""
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) in {dict, tuple}:
        return typing.get_origin(kind)()
    if arguments:
        return arguments[0] if typing.get_origin(kind) is typing.Literal else _value(arguments[0])
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind, include_extras=True)
        needed = {field.name: _value(hints[field.name]) for field in msgspec.structs.fields(kind) if field.required}
        return kind(**{**needed, **members})
    return _SIMPLE[kind][0]


def _neighbours(values):
    return itertools.pairwise(values)


_SIMPLE = {
    bool: (False, True),
    int: (400, 401),
    float: (0.5, 0.75),
    str: ("a", "b"),
    type(None): (None,),
    typing.Any: SCALARS,
}
