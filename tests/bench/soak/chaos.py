"""Engines as processes, and what happens to them: killed, told to stop, frozen, and brought back on the same port."""

import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.checkout import CHECKOUT
from tests.router.serving import status_of

PORTS = range(20_000, 32_000)
"""Below those that the system gives to outgoing connections, so that none takes the port of an engine that is down."""
GENTLE_SECONDS = 5.0
"""How long an engine that was told to stop may take."""


class EngineProcess:
    """One engine on a fixed port, and when it was disturbed: pairs of nanoseconds on the monotonic clock."""

    def __init__(self, folder: Path, number: int, chance: random.Random) -> None:
        self.port = _port(chance)
        self.url = f"http://127.0.0.1:{self.port}"
        self.record = folder / f"engine-{number}.txt"
        self.disturbed: list[tuple[int, int]] = []
        self._chance = chance
        self._process = self._launched()

    def _launched(self) -> "subprocess.Popen[bytes]":
        command = ["tests.bench.soak.engine", str(self.port), str(self.record), str(self._chance.randrange(1 << 30))]
        return subprocess.Popen([sys.executable, "-m", *command], cwd=CHECKOUT)

    def wait_until_up(self) -> None:
        while status_of(f"{self.url}/health") != 200:
            if self._process.poll() is not None:
                self._process = self._launched()
            time.sleep(0.05)

    def suffer(self, what: str, seconds: float) -> None:
        """Let something happen to the engine; it is back when this returns."""
        began = time.monotonic_ns()
        if what == "SIGSTOP":
            self._process.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            self._process.send_signal(signal.SIGCONT)
        else:
            self._process.send_signal(signal.Signals[what])
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GENTLE_SECONDS)
            time.sleep(seconds)
            self.kill()
            self._process = self._launched()
        self.wait_until_up()
        self.disturbed.append((began, time.monotonic_ns()))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Chaos:
    """Something happens to some engine every few seconds; now and then to all of them at once."""

    def __init__(self, engines: list[EngineProcess], mean_seconds: float, chance: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self._engines = engines
        self._mean = mean_seconds
        self._chance = chance
        self._busy: dict[EngineProcess, threading.Thread] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let nothing more happen, and wait until all engines are back."""
        self._over.set()
        self._thread.join()
        for thread in self._busy.values():
            thread.join()

    def _run(self) -> None:
        while not self._over.wait(min(3 * self._mean, self._chance.expovariate(1 / self._mean))):
            up = [engine for engine in self._engines if engine not in self._busy or not self._busy[engine].is_alive()]
            if not up:
                continue
            everybody = self._chance.random() < 0.04
            self.counts["all at once"] += everybody
            for engine in up if everybody else [self._chance.choice(up)]:
                what = self._chance.choice(("SIGKILL", "SIGTERM", "SIGSTOP"))
                seconds = self._chance.uniform(1, 6) if what == "SIGSTOP" else self._chance.uniform(0, 3)
                self.counts[what] += 1
                self._busy[engine] = threading.Thread(target=engine.suffer, args=(what, seconds))
                self._busy[engine].start()


def _port(chance: random.Random) -> int:
    while True:
        port = chance.choice(PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
