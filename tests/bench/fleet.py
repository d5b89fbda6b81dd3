"""A fleet at work: `python -m tests.bench.fleet`.

Two router replicas that know nothing of each other, of two workers each, in front of eight engines behind a DNS name.
For a minute engines join, leave and die while clients hold conversations of several turns and send what the contract
refuses. Every answer carries a nonce and is judged; afterwards `/metrics` of both replicas has to tell exactly what was
sent, as the clients counted it. Exit code 1 when anything differs.
"""

import argparse
import json
import random
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from compiler.pipeline import compile_profile
from compiler.resolve.selection import Selection
from router.artifact.format import serialise
from router.mock_engine import EVENT_STREAM, MockEngine, MockResponse
from router.mock_engine.request import ReceivedRequest
from router.mock_engine.response import ScriptedResponse
from tests.router.dnsserver import DnsServer
from tests.router.rawclient import RawAnswer, RawClient
from tests.router.serving import RunningRouter, free_port, running_router, wait_until
from tests.router.wire.chat import CHAT

ENGINES = 8
CLIENTS = 8
NAME = "engines.test"
PRESET = "moonshot-kimi"
TURNS = 6
STEPS = ("leave", "join", "die", "return")
GRACE_SECONDS = 1.0
LOST = (502, 504)


class Tally:
    """What the clients saw, counted as they see it."""

    def __init__(self) -> None:
        self.statuses: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[str] = Counter()
        self.lost = 0
        """Requests that were at an engine when it died."""
        self.wrong: list[str] = []
        self._lock = threading.Lock()

    def note(self, path: str, answer: RawAnswer, fault: str) -> None:
        with self._lock:
            self.statuses[path, str(answer.status)] += 1
            if answer.status == 400:
                self.refused[answer.json()["error"]["param"]] += 1
            if answer.status in LOST and answer.header("x-should-retry") == "false":
                self.lost += 1
            elif fault:
                self.wrong.append(fault)


class Engines:
    """Engines at 127.0.0.2 and on, and the name server that knows them."""

    def __init__(self, stack: ExitStack) -> None:
        self.port = free_port()
        self.server = stack.enter_context(DnsServer())
        self.asked: Counter[int] = Counter()
        self.met: defaultdict[str, set[int]] = defaultdict(set)
        """Which engines each conversation met."""
        self.all = [stack.enter_context(self._engine(number)) for number in range(ENGINES)]
        self.named = set(range(ENGINES))
        self.dead: set[int] = set()
        self.say()

    def _engine(self, number: int) -> MockEngine:
        engine = MockEngine(host=f"127.0.0.{2 + number}", port=self.port)
        engine.recording = False

        def answer(received: ReceivedRequest) -> ScriptedResponse | None:
            if received.method != "POST":
                return None
            body = received.json()
            if "nonce" not in body:  # a trial of the router's own
                return None
            self.asked[number] += 1
            self.met[body["messages"][0]["content"]].add(number)
            said = {"id": "1", "object": "chat.completion", "model": body["model"], "nonce": body.get("nonce")}
            if not body.get("stream"):
                return MockResponse.json(said)
            event = b"data: " + json.dumps(said).encode() + b"\n\n"
            return MockResponse(200, EVENT_STREAM, [event] * 5 + [b"data: [DONE]\n\n"], framing="chunked")

        engine.script(answer)
        return engine

    def say(self) -> None:
        self.server.set(NAME, *(f"127.0.0.{2 + number}" for number in sorted(self.named)))

    def change(self, step: str, chance: random.Random) -> None:
        """Let an engine leave the name or join it again, die without a word or come back."""
        alive = sorted(self.named - self.dead)
        if step == "leave" and len(alive) > ENGINES // 2:
            self.named.discard(chance.choice(alive))
        elif step == "join":
            self.named |= set(range(ENGINES)) - self.named
        elif step == "die" and len(alive) > ENGINES // 2:
            number = chance.choice(alive)
            self.dead.add(number)
            self.all[number].stop()
        elif step == "return":
            for number in self.dead:
                self.all[number].start()
            self.dead.clear()
        self.say()


class Talk(NamedTuple):
    """What one client talks with: nonces of its own, its chance, and where it counts."""

    nonces: "count[int]"
    chance: random.Random
    tally: Tally


def converse(port: int, talk: Talk, over: threading.Event) -> None:
    """Hold conversations, and now and then ask for what is refused."""
    while not over.is_set():
        session = str(next(talk.nonces))
        with suppress(EOFError, OSError), RawClient(port) as client:
            for turn in range(TURNS):
                ask(client, session, turn, talk)


def ask(client: RawClient, session: str, turn: int, talk: Talk) -> None:
    """Send one request of a conversation and judge its answer."""
    nonce, chance = str(next(talk.nonces)), talk.chance
    messages = [{"role": "user", "content": f"{session} turn {each}"} for each in range(turn + 1)]
    body = {"model": "served", "messages": messages, "nonce": nonce, "stream": chance.random() < 0.3}
    expected = 200
    if chance.random() < 0.1:
        body |= chance.choice([{"top_p": 0.5}, {"temperature": 7, "n": 2}, {"model": "no-such-model"}])
        expected = 404 if body["model"] != "served" else 400
    answer = client.post(CHAT, json.dumps(body).encode(), {"X-Session-Id": session})
    fault = ""
    if answer.status != expected:
        fault = f"{answer.status} for {expected}: {answer.body[:200]!r}"
    elif expected == 200 and f'"nonce": "{nonce}"'.encode() not in answer.body:
        fault = f"not the answer to {nonce}: {answer.body[:200]!r}"
    talk.tally.note(CHAT, answer, fault)


def told(routers: Sequence[RunningRouter]) -> dict[str, Counter[tuple[str, ...]]]:
    """Return the counters of all replicas together, by name and label values."""
    sums: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for router in routers:
        with RawClient(router.port) as client:
            text = client.get("/metrics").body.decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                sums[sample.name][tuple(value for _, value in sorted(sample.labels.items()))] += int(sample.value)
    return sums


@contextmanager
def replicas(folder: Path, engines: Engines) -> Iterator[list[RunningRouter]]:
    """Run two routers in front of the name."""
    artifact = folder / "profile.json"
    artifact.write_bytes(serialise(compile_profile(Selection("preset", PRESET, "bench")).artifact))
    settings = {
        "ROUTER_DNS_SERVER": engines.server.address,
        "ROUTER_DNS_REFRESH_INTERVAL_SECONDS": "0.5",
        "ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "0.5",
        "ROUTER_METRICS": "on",
        "ROUTER_POLICY": "prefix_affinity",
        "ROUTER_ACCESS_LOG": "off",
    }
    arguments = ("-c", "python:router.gunicorn_conf", "--workers", "2")
    with ExitStack() as stack:
        urls = [f"dns://{NAME}:{engines.port}"]
        yield [stack.enter_context(running_router(artifact, urls, settings, arguments)) for _ in range(2)]


def run(engines: Engines, routers: Sequence[RunningRouter], seconds: float, seed: int) -> Tally:
    """Let clients ask while engines come and go, and return what they saw."""
    chance = random.Random(seed)
    nonces, tally, over = count(), Tally(), threading.Event()
    clients = [
        threading.Thread(
            target=converse, args=(routers[at % 2].port, Talk(nonces, random.Random(seed + at), tally), over)
        )
        for at in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    end = time.monotonic() + seconds
    for step in (STEPS[number % len(STEPS)] for number in count()):
        if time.monotonic() + GRACE_SECONDS > end:
            break
        time.sleep(GRACE_SECONDS)
        engines.change(step, chance)
    over.set()
    for client in clients:
        client.join()
    return tally


def differences(tally: Tally, metrics: dict[str, Counter[tuple[str, ...]]]) -> list[str]:
    """Return where the metrics tell something else than the clients counted."""
    requests = {labels: number for labels, number in metrics["router_requests_total"].items() if labels[0] == CHAT}
    seen = dict(tally.statuses)
    found = [] if requests == seen else [f"requests: told {requests}, seen {seen}"]
    violations = metrics["router_violations_total"]
    # Of two values that are wrong the clients are told the first; both are counted.
    twice = violations["n",]
    if violations["top_p",] + violations["temperature",] != sum(tally.refused.values()):
        found.append(f"violations: told {dict(violations)}, seen {dict(tally.refused)}")
    if twice != violations["temperature",]:
        found.append(f"second violations: told {twice}")
    if any(metrics["router_requests_in_flight"].values()):
        found.append(f"in flight: {dict(metrics['router_requests_in_flight'])}")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and print; exit with 1 when anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder, ExitStack() as stack:
        engines = Engines(stack)
        with replicas(Path(folder), engines) as routers:
            tally = run(engines, routers, options.seconds, options.seed)
            # Workers tell what is over a tenth of a second later at most.
            wait_until(lambda: not differences(tally, told(routers)), lambda: str(differences(tally, told(routers))), 5)
            metrics = told(routers)
            faults = tally.wrong + differences(tally, metrics)
        print("| | |\n|---|---|")
        print(f"| requests, by status | {dict(sorted((status, n) for (_, status), n in tally.statuses.items()))} |")
        print(f"| requests that each engine got | {[engines.asked[number] for number in range(ENGINES)]} |")
        alone = sum(len(met) == 1 for met in engines.met.values())
        print(f"| conversations that met one engine alone | {alone} of {len(engines.met)} |")
        again = {reason: n for (reason,), n in metrics["router_retries_total"].items() if n}
        print(f"| sent once more, by reason | {again} |")
        print(f"| lost with an engine that died | {tally.lost} |")
        print(f"| faults, differences to `/metrics` included | {len(faults)} |")
        for fault in faults[:20]:
            print(fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
