"""What outlives a worker: the lists of engines, each bounded, without what nobody needs of them."""

import pytest

from router.engines import remembered
from router.shared_record import SharedRecord

A, B = "http://a", "http://b"


@pytest.fixture(autouse=True)
def _own_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "_LISTS", SharedRecord(2 * remembered.MOST_LIST_BYTES))


def _card(number: int, **members: object) -> dict[str, object]:
    return {"id": f"m{number}", **members}


def test_lists_are_kept_by_engine_until_they_are_forgotten() -> None:
    """The last list of each engine is found again, an empty one too, with the members that are shown of a model."""
    assert remembered.lists() == {}
    remembered.remember_list(A, [_card(1)])
    remembered.remember_list(A, [_card(2, created=3, max_model_len=4, root="/weights", created_by=[7])])
    remembered.remember_list(B, [])
    assert remembered.lists() == {A: (_card(2, created=3, max_model_len=4),), B: ()}
    for _ in range(2):
        remembered.forget_list(A)
        assert remembered.lists() == {B: ()}


def test_a_list_without_room_leaves_no_older_one() -> None:
    """A list that is too long, or for which no room is left, is not remembered, and an older one would be wrong."""
    long = [_card(number) for number in range(remembered.MOST_LIST_BYTES // 16)]
    for engine in (A, B):
        remembered.remember_list(engine, long)
    full = {A: tuple(long), B: tuple(long)}
    assert remembered.lists() == full
    remembered.remember_list("http://c", long)
    assert remembered.lists() == full
    remembered.remember_list(A, [*long, *long])
    assert remembered.lists() == {B: tuple(long)}
