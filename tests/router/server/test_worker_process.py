"""The threads of a worker, and the options of gunicorn that it does not honour."""

import threading

import pytest
from gunicorn.config import Config

from router.server.worker_process import BaseWorker, Threads


def test_work_waits_for_the_threads_that_are_there(monkeypatch):
    """When the system starts no further thread, a running one does the work."""
    with Threads(8) as threads:
        threads.submit(int).result()
        gate = threading.Event()
        held = threads.submit(gate.wait)

        def fail(*_):
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", fail)
        waiting = threads.submit(int, 7)
        gate.set()
        assert (held.result(20), waiting.result(20)) == (True, 7)


@pytest.mark.parametrize(
    ("name", "value", "option"),
    [("proxy_protocol", "v1", "--proxy-protocol"), ("http2_cleartext", "upgrade", "--http2-cleartext")],
)
def test_an_option_that_is_not_honoured_stops_the_start(name, value, option):
    """It is named, and not ignored: a router that misreads its clients would be worse than none."""
    config = Config()
    BaseWorker.check_config(config, None)
    config.set(name, value)
    with pytest.raises(SystemExit, match=f"router: {option} cannot be used"):
        BaseWorker.check_config(config, None)
