"""The schedule of looks: who is next, how many at a time, and what silent engines may hold up."""

from concurrent.futures import ThreadPoolExecutor

from router.upstream.scheduler import MOST_DOUBTFUL_LOOKS, MOST_LOOKS, Schedule
from tests.router.serving import wait_until


class _Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _engines(count: int, kind: str = "e") -> list[str]:
    return [f"http://{kind}{number}" for number in range(count)]


def _begin(schedule: Schedule, count: int) -> list[str]:
    return [schedule.begin() for _ in range(count)]


def _put_all(schedule: Schedule, engines: list[str], *, is_doubtful: bool) -> None:
    """Have engines looked at for the first time, after which they are due once more, at once."""
    schedule.join(engines)
    for _ in engines:
        schedule.end(schedule.begin(), 0.0, is_doubtful=is_doubtful)


def test_those_that_join_are_due_at_once_and_then_in_time() -> None:
    """An engine's first turn comes at once, the next ones in the order in which they are due."""
    clock = _Clock()
    schedule = Schedule(clock)
    schedule.join(["a", "b"])
    assert _begin(schedule, 2) == ["a", "b"]
    schedule.end("a", 5.0, is_doubtful=False)
    schedule.end("b", 3.0, is_doubtful=True)
    clock.now += 5.0
    assert _begin(schedule, 2) == ["b", "a"]


def test_a_turn_that_is_asked_for_comes_before_its_time() -> None:
    """Who is hastened is due at once, and once only however often it was asked for."""
    clock = _Clock()
    schedule = Schedule(clock)
    schedule.join(["a", "b"])
    for engine in _begin(schedule, 2):
        schedule.end(engine, 5.0, is_doubtful=False)
    for _ in range(3):
        schedule.hasten("b", is_doubtful=False)
    assert schedule.begin() == "b"
    schedule.end("b", 60.0, is_doubtful=False)
    clock.now += 5.0
    assert schedule.begin() == "a"


def test_a_turn_that_is_asked_for_meanwhile_comes_again_at_once() -> None:
    """What happens while an engine is looked at may be news: it is looked at once more."""
    schedule = Schedule(_Clock())
    schedule.join(["a"])
    assert schedule.begin() == "a"
    schedule.hasten("a", is_doubtful=False)
    schedule.end("a", 60.0, is_doubtful=False)
    assert schedule.begin() == "a"


def test_those_that_left_have_no_turn() -> None:
    """Whoever left gets no turn, whether it waited, was looked at or was never there."""
    schedule = Schedule(_Clock())
    schedule.join(["a", "b"])
    assert schedule.begin() == "a"
    schedule.leave(["a", "b", "never there"])
    schedule.hasten("b", is_doubtful=True)
    schedule.end("a", 0.0, is_doubtful=False)
    schedule.join(["c"])
    assert schedule.begin() == "c"
    assert schedule._open_queues() == []


def test_who_comes_back_while_it_is_looked_at_is_looked_at_anew() -> None:
    """A look that was begun before an engine left is not the first of its new life."""
    schedule = Schedule(_Clock())
    schedule.join(["a"])
    assert schedule.begin() == "a"
    schedule.leave(["a"])
    schedule.join(["a"])
    schedule.end("a", 60.0, is_doubtful=False)
    assert schedule.begin() == "a"


def test_silent_engines_delay_no_other() -> None:
    """However many engines in doubt keep their looks waiting, the others have their turns."""
    schedule = Schedule(_Clock())
    sure, doubtful = _engines(MOST_LOOKS), _engines(2 * MOST_LOOKS, "doubtful")
    _put_all(schedule, sure, is_doubtful=False)
    schedule.join(doubtful)
    begun = _begin(schedule, MOST_LOOKS)
    assert begun == sure
    assert schedule._open_queues() == []
    for engine in begun:
        schedule.end(engine, 0.0, is_doubtful=False)
    begun = _begin(schedule, MOST_LOOKS)
    assert len(set(begun) & set(doubtful)) == MOST_DOUBTFUL_LOOKS
    assert len(set(begun) & set(sure)) == MOST_LOOKS - MOST_DOUBTFUL_LOOKS
    for _ in range(100):
        schedule.end(begun[-1], 0.0, is_doubtful=False)
        begun[-1] = schedule.begin()
        assert begun[-1] in sure


def test_who_waits_is_woken_by_what_becomes_due() -> None:
    """A thread that waits for a turn gets one as soon as an engine joins."""
    schedule = Schedule()
    with ThreadPoolExecutor(1) as pool:
        turn = pool.submit(schedule.begin)
        wait_until(turn.running)
        schedule.join(["a"])
        assert turn.result(20) == "a"


def test_nothing_is_kept_of_those_that_left() -> None:
    """After a thousand engines came and went, the schedule holds nothing of them."""
    schedule = Schedule(_Clock())
    for engine in _engines(1000):
        schedule.join([engine])
        schedule.end(schedule.begin(), 10.0, is_doubtful=False)
        schedule.hasten(engine, is_doubtful=True)
        schedule.leave([engine])
    assert (schedule._turns, schedule._running, schedule._members, schedule._done) == ({}, {}, set(), set())
    assert len(schedule._open_queues()) == 0
    assert sum(map(len, schedule._queues.values())) == 0
