"""The schedule of looks: who is next, how many at a time, and what silent engines may hold up."""

from concurrent.futures import ThreadPoolExecutor

from router.upstream.scheduler import MAX_CHECKS, MAX_FAILED_CHECKS, MAX_SUSPECT_CHECKS, CheckScheduler
from tests.router.serving import wait_until


class _Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _engines(count: int, kind: str = "e") -> list[str]:
    return [f"http://{kind}{number}" for number in range(count)]


def _begin(schedule: CheckScheduler, count: int) -> list[str]:
    return [schedule.wait_for_next() for _ in range(count)]


def _put_all(schedule: CheckScheduler, engines: list[str], *, is_doubtful: bool) -> None:
    """Have engines looked at for the first time, after which they are due once more, at once."""
    schedule.add(engines)
    for _ in engines:
        schedule.finish(schedule.wait_for_next(), 0.0, is_suspect=is_doubtful)


def test_those_that_join_are_due_at_once_and_then_in_time() -> None:
    """An engine's first turn comes at once, the next ones in the order in which they are due."""
    clock = _Clock()
    schedule = CheckScheduler(clock)
    schedule.add(["a", "b"])
    assert _begin(schedule, 2) == ["a", "b"]
    schedule.finish("a", 5.0, is_suspect=False)
    schedule.finish("b", 3.0, is_suspect=True)
    clock.now += 5.0
    assert _begin(schedule, 2) == ["b", "a"]


def test_a_turn_that_is_asked_for_comes_before_its_time() -> None:
    """Who is hastened is due at once, and once only however often it was asked for."""
    clock = _Clock()
    schedule = CheckScheduler(clock)
    schedule.add(["a", "b"])
    for engine in _begin(schedule, 2):
        schedule.finish(engine, 5.0, is_suspect=False)
    for _ in range(3):
        schedule.schedule_now("b", is_suspect=False)
    assert schedule.wait_for_next() == "b"
    schedule.finish("b", 60.0, is_suspect=False)
    clock.now += 5.0
    assert schedule.wait_for_next() == "a"


def test_a_turn_that_is_asked_for_meanwhile_comes_again_at_once() -> None:
    """What happens while an engine is looked at may be news: it is looked at once more."""
    schedule = CheckScheduler(_Clock())
    schedule.add(["a"])
    assert schedule.wait_for_next() == "a"
    schedule.schedule_now("a", is_suspect=False)
    schedule.finish("a", 60.0, is_suspect=False)
    assert schedule.wait_for_next() == "a"


def test_those_that_left_have_no_turn() -> None:
    """Whoever left gets no turn, whether it waited, was looked at or was never there."""
    schedule = CheckScheduler(_Clock())
    schedule.add(["a", "b"])
    assert schedule.wait_for_next() == "a"
    schedule.remove(["a", "b", "never there"])
    schedule.schedule_now("b", is_suspect=True)
    schedule.finish("a", 0.0, is_suspect=False)
    schedule.add(["c"])
    assert schedule.wait_for_next() == "c"
    assert schedule._runnable_queues() == []


def test_who_comes_back_while_it_is_looked_at_is_looked_at_anew() -> None:
    """A look that was begun before an engine left is not the first of its new life."""
    schedule = CheckScheduler(_Clock())
    schedule.add(["a"])
    assert schedule.wait_for_next() == "a"
    schedule.remove(["a"])
    schedule.add(["a"])
    schedule.finish("a", 60.0, is_suspect=False)
    assert schedule.wait_for_next() == "a"


def test_silent_engines_delay_no_other() -> None:
    """However many failed engines keep their checks waiting, healthy ones and one that joins are checked at once."""
    clock = _Clock()
    schedule = CheckScheduler(clock)
    healthy, failed = _engines(MAX_CHECKS), _engines(10 * MAX_CHECKS, "failed")
    _put_all(schedule, healthy, is_doubtful=False)
    _put_all(schedule, failed, is_doubtful=True)
    clock.now += 1.0
    for engine in _begin(schedule, MAX_CHECKS):
        schedule.finish(engine, 0.0, is_suspect=engine in failed)
    begun = _begin(schedule, MAX_CHECKS)
    assert len(set(begun) & set(failed)) <= MAX_FAILED_CHECKS
    last = next(engine for engine in reversed(begun) if engine in healthy)
    schedule.finish(last, 0.0, is_suspect=False)
    schedule.add(["joining"])
    assert schedule.wait_for_next() == "joining"
    schedule.schedule_now(last, is_suspect=True)
    schedule.finish("joining", 0.0, is_suspect=False)
    for _ in range(100):
        engine = schedule.wait_for_next()
        assert engine not in failed
        schedule.finish(engine, 0.0, is_suspect=False)


def test_those_that_join_last_are_checked_first() -> None:
    """An engine that joins does not wait for the first checks of many others, of which some places stay free."""
    schedule = CheckScheduler(_Clock())
    schedule.add(_engines(10 * MAX_CHECKS))
    begun = _begin(schedule, MAX_SUSPECT_CHECKS)
    assert begun == _engines(MAX_SUSPECT_CHECKS)
    assert schedule._runnable_queues() == []
    schedule.add(["joining"])
    assert schedule.is_first(begun[0])
    schedule.finish(begun[0], 0.0, is_suspect=True, is_checked=False)
    assert _begin(schedule, 1) == ["joining"]


def test_who_waits_is_woken_by_what_becomes_due() -> None:
    """A thread that waits for a turn gets one as soon as an engine joins."""
    schedule = CheckScheduler()
    with ThreadPoolExecutor(1) as pool:
        turn = pool.submit(schedule.wait_for_next)
        wait_until(turn.running)
        schedule.add(["a"])
        assert turn.result(20) == "a"


def test_nothing_is_kept_of_those_that_left() -> None:
    """After a thousand engines came and went, the schedule holds nothing of them."""
    schedule = CheckScheduler(_Clock())
    for engine in _engines(1000):
        schedule.add([engine])
        schedule.finish(schedule.wait_for_next(), 10.0, is_suspect=False)
        schedule.schedule_now(engine, is_suspect=True)
        schedule.remove([engine])
    assert (schedule._scheduled, schedule._running) == ({}, {})
    assert schedule._engines | schedule._unchecked | schedule._failed == set()
    assert len(schedule._runnable_queues()) == 0
    assert sum(map(len, schedule._queues.values())) == 0
