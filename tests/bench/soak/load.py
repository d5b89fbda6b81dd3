"""The clients of the soak: threads of one process, each with one connection at a time.

`python -m tests.bench.soak.load JSON` with the fields of `Load`; stops on SIGTERM or after its time.
"""

import json
import random
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from tests.bench.soak.talk import CONTRACT, PATIENCE_SECONDS, REFUSED, WHOLE, WRONG, Verdict, drawn, leave, talk
from tests.router.rawclient import RawClient

KEEPS = 0.7
"""Share of requests after which a connection is kept."""
LATE_SECONDS = 1.0
"""A client that is later than this does not catch up."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """How one process asks; a `rate` of 0 means as fast as it goes."""

    name: str
    port: int
    threads: int
    rate: float
    seconds: float
    seed: int
    out: str


class Clients:
    """Threads that ask until their time is over, and one file of what became of each request."""

    def __init__(self, load: Load, out: IO[str]) -> None:
        self._load = load
        self._out = out
        self._lock = threading.Lock()
        self._over = threading.Event()

    def run(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: self._over.set())
        threads = [threading.Thread(target=self._client, args=(number,)) for number in range(self._load.threads)]
        for thread in threads:
            thread.start()
        self._over.wait(self._load.seconds)
        self._over.set()
        for thread in threads:
            thread.join()

    def _client(self, number: int) -> None:
        load = self._load
        chance = random.Random(f"{load.seed} {load.name} {number}")
        kept: RawClient | None = None
        due = time.monotonic()
        count = 0
        while not self._over.is_set():
            if load.rate:
                due = max(due, time.monotonic() - LATE_SECONDS) + chance.expovariate(load.rate / load.threads)
                if self._over.wait(max(0.0, due - time.monotonic())):
                    break
            count += 1
            kept = self._one(f"{load.name}-{number}-{count}", chance, kept)
        if kept is not None:
            kept.close()

    def _one(self, nonce: str, chance: random.Random, kept: RawClient | None) -> RawClient | None:
        plan = drawn(nonce, chance)
        started = time.monotonic_ns()
        client = None
        try:
            if plan.leaves:
                verdict = leave(plan, self._load.port, chance)
            else:
                client, kept = kept or RawClient(self._load.port, PATIENCE_SECONDS), None
                verdict = talk(plan, client, is_kept=client.is_kept)
        except Exception as error:  # noqa: BLE001 - whatever a client meets has to be seen
            verdict = Verdict(WRONG, repr(error))
        self._note(nonce, verdict, started)
        if client is None:
            return kept
        if verdict.kind in (WHOLE, CONTRACT, REFUSED) and client.is_kept and chance.random() < KEEPS:
            return client
        with suppress(OSError):
            client.close()
        return None

    def _note(self, nonce: str, verdict: Verdict, started: int) -> None:
        line = json.dumps([nonce, *verdict, started, time.monotonic_ns()])
        with self._lock:
            self._out.write(line + "\n")
            if verdict.kind == WRONG:
                print(f"WRONG {nonce}: {verdict.detail}", flush=True)


def main() -> None:
    """Run the load that the command line describes."""
    load = Load(**json.loads(sys.argv[1]))
    with open(load.out, "w", encoding="utf-8") as out:  # noqa: PTH123 - its name came as text
        Clients(load, out).run()


if __name__ == "__main__":
    main()
