"""Hypothesis strategies: valid profiles, and profile-like trees full of nulls."""

from hypothesis import strategies as st

from router.contract.fields import SAMPLING_FIELDS

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


_SIZES = _WHOLE | st.builds("{}{}{}".format, _WHOLE, st.sampled_from(["", " "]), st.sampled_from(["B", "KiB", "MiB"]))
_BUDGETS = st.fixed_dictionaries(
    {"cap": st.integers(128, 10**6)}, optional={"default": _WHOLE, "on_exceed": st.sampled_from(["reject", "clamp"])}
)

profiles = _section(
    name=names,
    models=_section(
        aliases=st.lists(names, unique=True, max_size=4), answer_as=st.sampled_from(["requested", "served"])
    ),
    limits=_section(max_body_bytes=_SIZES, max_images=st.integers(0, 9)),
    output=_section(max_tokens=_BUDGETS),
    sampling=_section(
        conflict=st.just("reject"), params=_section(**{name: _parameter(name) for name in SAMPLING_FIELDS})
    ),
    errors=_section(bad_request_type=names),
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
