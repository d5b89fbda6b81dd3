"""What outlives a worker: the lists of engines, each bounded, without what nobody needs of them."""

import pytest

from router.runtime.shared_memory import SharedRecord
from router.upstream import shared_cache

A, B = "http://a", "http://b"


@pytest.fixture(autouse=True)
def _own_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_cache, "_LISTS", SharedRecord(2 * shared_cache.MAX_LIST_BYTES))


def _card(number: int, **members: object) -> dict[str, object]:
    return {"id": f"m{number}", **members}


def test_lists_are_kept_by_engine_until_they_are_forgotten() -> None:
    """The last list of each engine is found again, an empty one too, with the members that are shown of a model."""
    assert shared_cache.load_model_lists() == {}
    shared_cache.store_model_list(A, [_card(1)])
    shared_cache.store_model_list(A, [_card(2, created=3, max_model_len=4, root="/weights", created_by=[7])])
    shared_cache.store_model_list(B, [])
    assert shared_cache.load_model_lists() == {A: (_card(2, created=3, max_model_len=4),), B: ()}
    for _ in range(2):
        shared_cache.delete_model_list(A)
        assert shared_cache.load_model_lists() == {B: ()}


def test_a_list_without_room_leaves_no_older_one() -> None:
    """A list that is too long, or for which no room is left, is not remembered, and an older one would be wrong."""
    long = [_card(number) for number in range(shared_cache.MAX_LIST_BYTES // 16)]
    for engine in (A, B):
        shared_cache.store_model_list(engine, long)
    full = {A: tuple(long), B: tuple(long)}
    assert shared_cache.load_model_lists() == full
    shared_cache.store_model_list("http://c", long)
    assert shared_cache.load_model_lists() == full
    shared_cache.store_model_list(A, [*long, *long])
    assert shared_cache.load_model_lists() == {B: tuple(long)}
