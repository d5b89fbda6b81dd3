from hypothesis import given, settings

from compiler.diff.cases import compare
from router.artifact.format import digest_of
from tests.compiler.diff import grown, traffic

BODIES = list(grown.requests())


def outcomes(before, after):
    return [(traffic.outcome(body, before), traffic.outcome(body, after)) for body in BODIES]


@settings(max_examples=300)
@given(grown.pairs())
def test_what_no_change_does_no_request_sees(pair):
    """Where nothing tightens, or may, no request is newly rejected or its budget lowered; the same for what loosens."""
    changes = compare(*pair)
    safe = all(change.tightens is False for change in changes), all(change.loosens is False for change in changes)
    for before, after in outcomes(*pair):
        assert changes or before == after
        assert not (safe[0] and traffic.worse(before, after))
        assert not (safe[1] and traffic.worse(after, before))


@settings(max_examples=300)
@given(grown.pairs())
def test_changes_are_found_exactly_where_the_digests_differ(pair):
    """There is a change if and only if the two artifacts would not have the same digest."""
    before, after = pair
    assert (compare(before, after) == ()) == (digest_of(before) == digest_of(after))


@given(grown.pairs())
def test_the_other_way_round_is_the_reverse(pair):
    """From B to A the same settings change, and what was before is after."""
    there, back = compare(*pair), compare(*reversed(pair))
    assert sorted((str(c.before), str(c.after), str(c.tightens), str(c.loosens)) for c in there) == sorted(
        (str(c.after), str(c.before), str(c.loosens), str(c.tightens)) for c in back
    )
