"""The budget of retries, and the pauses before them."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from router.upstream.retry import MAX_BACKOFF_SECONDS, RATIO, RESERVE, RetryBudget, backoff_seconds


def _spend_all(budget: RetryBudget) -> int:
    count = 0
    while budget.withdraw():
        count += 1
    return count


def test_a_reserve_can_be_spent_at_once() -> None:
    """A short trouble after quiet times is bridged whole."""
    assert _spend_all(RetryBudget()) == RESERVE


def test_requests_earn_retries() -> None:
    """Behind the reserve there is a retry for every so many requests."""
    budget = RetryBudget()
    _spend_all(budget)
    for _ in range(round(5 / RATIO) + 1):  # one more for what decimals lose
        budget.deposit()
    assert _spend_all(budget) == 5


def test_quiet_times_save_up_no_more_than_the_reserve() -> None:
    """A million good requests do not allow a storm."""
    budget = RetryBudget()
    for _ in range(1000):
        budget.deposit()
    assert _spend_all(budget) == RESERVE


def test_threads_do_not_overdraw() -> None:
    """Many threads together spend the budget once."""
    budget = RetryBudget()
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: budget.withdraw(), range(1000))) == RESERVE


@pytest.mark.parametrize("retries", [0, 1, 2, 5, 10_000])
def test_a_pause_is_random_and_bounded(retries: int) -> None:
    """Pauses differ, so that clients do not come back in step, and none is longer than the longest."""
    pauses = [backoff_seconds(retries) for _ in range(100)]
    assert len(set(pauses)) > 90
    assert min(pauses) >= 0
    assert max(pauses) <= MAX_BACKOFF_SECONDS
