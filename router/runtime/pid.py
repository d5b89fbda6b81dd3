"""The id of this process, which what must not outlive a fork compares with that of the process that made it."""

import os

_ID = [os.getpid()]


def own_id() -> int:
    """Return this process's id without asking the system, which takes ten times as long: each request asks often."""
    return _ID[0]


def _learn() -> None:
    _ID[0] = os.getpid()


os.register_at_fork(after_in_child=_learn)
