"""What outlives a worker: the lists of engines, each bounded, without what nobody needs of them."""

import pytest

from router.runtime.shared_memory import SharedRecord
from router.upstream import shared_cache

A, B = "http://a", "http://b"


@pytest.fixture
def record() -> SharedRecord:
    """A record of the test's own, with room for two lists: health checks of other tests may still end."""
    return SharedRecord(2 * shared_cache.MAX_LIST_BYTES)


def _card(number: int, **members: object) -> dict[str, object]:
    return {"id": f"m{number}", **members}


def test_lists_are_kept_by_engine_until_they_are_forgotten(record: SharedRecord) -> None:
    """The last list of each engine is found again, an empty one too, with the members that are shown of a model."""
    assert shared_cache.load_model_lists(record) == {}
    shared_cache.store_model_lists({A: [_card(1)]}, record)
    shared_cache.store_model_lists({A: [_card(2, created=3, max_model_len=4, root="/weights", created_by=[7])]}, record)
    shared_cache.store_model_lists({B: []}, record)
    assert shared_cache.load_model_lists(record) == {A: (_card(2, created=3, max_model_len=4),), B: ()}
    for _ in range(2):
        shared_cache.delete_model_list(A, record)
        assert shared_cache.load_model_lists(record) == {B: ()}


def test_a_list_without_room_leaves_no_older_one(record: SharedRecord) -> None:
    """A list that is too long, or for which no room is left, is not remembered, and an older one would be wrong."""
    long = [_card(number) for number in range(shared_cache.MAX_LIST_BYTES // 16)]
    for engine in (A, B):
        shared_cache.store_model_lists({engine: long}, record)
    full = {A: tuple(long), B: tuple(long)}
    assert shared_cache.load_model_lists(record) == full
    shared_cache.store_model_lists({"http://c": long}, record)
    assert shared_cache.load_model_lists(record) == full
    shared_cache.store_model_lists({A: [*long, *long]}, record)
    assert shared_cache.load_model_lists(record) == {B: tuple(long)}
