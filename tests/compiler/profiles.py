"""Hypothesis strategies: valid profiles, and profile-like trees full of nulls."""

from hypothesis import strategies as st

from compiler.language.constraints import CONSTRAINTS
from router.contract.schema.fields import SAMPLING_FIELDS
from tests.compiler.constraint_values import VALUES

_PRINTABLE = st.characters(exclude_categories=["Cc", "Cs"])
names = st.text(_PRINTABLE, min_size=1, max_size=12)
_WHOLE = st.integers(1, 128)
_NUMBERS = st.sampled_from([1, 1.0, 0.95, 0.5, 1e-7])


def _parameter(name):
    number = _WHOLE if name in {"top_k", "n"} else _NUMBERS
    band = st.tuples(number, number).map(lambda pair: {"min": min(pair), "max": max(pair)})
    return number | band


def _section(**keys):
    return st.fixed_dictionaries({}, optional=keys)


def _section_with(needed, **keys):
    return st.fixed_dictionaries(needed, optional=keys)


_SIZES = _WHOLE | st.builds("{}{}{}".format, _WHOLE, st.sampled_from(["", " "]), st.sampled_from(["B", "KiB", "MiB"]))
_BUDGETS = st.fixed_dictionaries(
    {"cap": st.integers(128, 10**6)}, optional={"default": _WHOLE, "on_exceed": st.sampled_from(["reject", "clamp"])}
)

_PATHS = st.lists(st.sampled_from(["a", "b", "thinking"]), min_size=1, max_size=3).map(".".join)
_SCALARS = st.booleans() | _NUMBERS | _WHOLE | st.sampled_from(["on", "a b", "1", "no"])
_TEXT_OR_LIST = names | st.lists(names, min_size=1, max_size=2)
_MESSAGES = st.sampled_from(["no", "{param} must be {allowed}, not {value}", "{{}}", "two\nlines"])
_BODIES = st.dictionaries(names, st.recursive(_MESSAGES | _SCALARS, st.lists, max_leaves=3), max_size=2)
_WORDS = _MESSAGES | _section(
    status=st.integers(400, 599), type=names, code=names | _WHOLE, param=names, message=_MESSAGES, body=_BODIES
)
_CONDITIONS = st.dictionaries(_PATHS, _SCALARS | st.lists(_SCALARS, min_size=1, max_size=2), min_size=1, max_size=2)
_ELSEWHERE = ("reject", "allowed", "fixed", "above", "max")
"""Constraints that are not beside all others: those of other fields, and what would contradict another."""
_SAID_OF_OTHERS = _PATHS | st.lists(_PATHS, min_size=1, max_size=2) | _CONDITIONS
_CHECKED = {
    **{each.key: st.sampled_from(VALUES[each.key]) for each in CONSTRAINTS if each.part and each.key not in _ELSEWHERE},
    "min": st.sampled_from([-1, 0.5]),
    "below": st.sampled_from([2, 3.5]),
    "min_length": st.integers(0, 1),
    "min_items": st.integers(0, 1),
    "max_bytes": _SIZES,
    "pattern": st.sampled_from(["[a-z]+", "a|b"]),
    "requires": _SAID_OF_OTHERS,
    "excludes": _SAID_OF_OTHERS,
    "required": st.booleans(),
    "error": _WORDS | _section(message=_MESSAGES, range=_WORDS, required=_WORDS),
    "source": names,
}
_MAPPED = st.dictionaries(names, _SCALARS, max_size=2)
# Each field has one kind of rule, so that profiles laid over each other stay valid.
_RULES = {
    "a": _section(**_CHECKED, map=_MAPPED, floor=_NUMBERS, drop=st.booleans()),
    "a.b": _section(**_CHECKED),
    "b": _section(fixed=_SCALARS, source=names),
    "thinking.type": _section(allowed=_SCALARS | st.lists(_SCALARS, min_size=1, max_size=3), reject=st.booleans()),
    "c": _section(default=_SCALARS, ceiling=st.sampled_from([1, 2.5])),
    "d": _section(force=_SCALARS, **{"from": st.just("e") | st.just(["f", "g.h"])}),
}
_CHECKS = _section(
    roles=_section_with({"allowed": _TEXT_OR_LIST}, error=_WORDS),
    system_messages=_section_with({"max": st.sampled_from([0, 1, 2.0])}),
    alternation=_section(source=names),
    content_parts=_section_with({"allowed": _TEXT_OR_LIST}, by_role=st.dictionaries(names, _TEXT_OR_LIST, max_size=2)),
    tool_results=_section(known_call=st.booleans()),
    tools=_section(types=_TEXT_OR_LIST, name_pattern=st.just("[a-z]+"), error=_section(name=_WORDS)),
    tool_choice=_section_with({"allowed": st.just(["auto", "named"])}, requires_tools=st.just("named")),
    images=_section(sources=st.sampled_from(["data", ["http", "file"]]), max_bytes=_SIZES),
    prompt_contains=_section_with({"word": names}, when=_CONDITIONS),
)
_SECTIONS = {
    "output": _section(max_tokens=_BUDGETS),
    "sampling": _section(
        conflict=st.just("reject"), params=_section(**{name: _parameter(name) for name in SAMPLING_FIELDS})
    ),
    "fields": _section(**_RULES),
    "checks": _CHECKS,
    "unknown_fields": _section(policy=st.sampled_from(["pass", "drop", "reject"]), known=st.lists(names, max_size=2)),
    "response": _section(stream=_section(usage=st.sampled_from(["as_asked", "end_frame", "tail_frame"]))),
    "errors": _section(
        bad_request_type=names,
        body=_BODIES,
        omit_null=st.booleans(),
        codes=_section(bad_request=_WORDS, model_not_found=_WORDS),
        engine_400=_WORDS,
    ),
    "order": st.just([]) | st.just(["limits.max_body_bytes"]),
}
_IMAGES = st.integers(0, 9)
_IDS = names.map(lambda name: f"id: {name[:100]}")  # No alias may be routed as another one.
_ALIASES = st.dictionaries(
    names,
    _section(model=_IDS, implies=st.dictionaries(_PATHS, _SCALARS, max_size=2), source=names),
    max_size=3,
)
_READINGS = st.fixed_dictionaries({"mode": names}, optional={"model": _TEXT_OR_LIST, "when": _CONDITIONS})


def _case(number):
    """A case that no other covers, by a field of its own."""
    when = st.fixed_dictionaries(
        {"fields": st.just({f"case{number}": number})}, optional={"model": st.just("kimi*") | names}
    )
    return st.fixed_dictionaries({"when": when}, optional={**_SECTIONS, "limits": _section(max_images=_IMAGES)})


profiles = _section(
    name=names,
    models=_section(
        aliases=st.lists(names, unique=True, max_size=4) | _ALIASES, respond_as=st.sampled_from(["requested", "served"])
    ),
    mode=st.fixed_dictionaries(
        {"default": names}, optional={"match": st.lists(_READINGS, max_size=2), "source": names}
    ),
    limits=_section(max_body_bytes=_SIZES, max_images=_IMAGES, max_files=_IMAGES, source=names),
    **_SECTIONS,
    cases=_section(first=_case(1), second=_case(2)),
)
"""Valid profiles, as bare values."""

trees = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        st.none() | st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=2),
        lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)
"""Small mappings of few keys, so that they overlap, with nulls at every depth."""
