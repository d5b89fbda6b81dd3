"""Engines that sent unsolicited bytes."""

import logging

import pytest

from router.upstream.connection import Endpoint
from router.upstream.quarantine import QUARANTINE_SECONDS, WHILE_IDLE, Quarantine

HERE = Endpoint.of("http://engine.example:1")
THERE = Endpoint.of("http://engine.example:2")


def test_quarantine_lasts_for_a_minute_from_the_last_time(caplog: pytest.LogCaptureFixture) -> None:
    """It is for one engine, begins anew each time, and each time is logged with its number."""
    now = [0.0]
    quarantine = Quarantine(lambda: now[0])
    with caplog.at_level(logging.ERROR, "router"):
        quarantine.add(HERE, WHILE_IDLE)
        now[0] = QUARANTINE_SECONDS - 1
        assert (quarantine.is_quarantined(HERE), quarantine.is_quarantined(THERE)) == (True, False)
        quarantine.add(HERE, WHILE_IDLE)
    now[0] = QUARANTINE_SECONDS + 1
    assert quarantine.is_quarantined(HERE)
    now[0] = 2 * QUARANTINE_SECONDS
    assert not quarantine.is_quarantined(HERE)
    assert quarantine.counts == {HERE: 2}
    assert "http://engine.example:1" in caplog.messages[1]
    assert caplog.messages[1].endswith("(count: 2)")


def test_an_engine_that_left_is_forgotten() -> None:
    """Another one may come to its address."""
    quarantine = Quarantine(lambda: 0.0)
    quarantine.add(HERE, WHILE_IDLE)
    quarantine.forget(HERE)
    assert not quarantine.is_quarantined(HERE)
