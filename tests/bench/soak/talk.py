"""One request of the soak and the judgement of what came back."""

import json
import random
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from tests.bench.soak.engine import Ask, completion, events
from tests.router.rawclient import RawClient, post_head
from tests.router.rawengine import reset
from tests.router.wire.chat import CHAT

ALIAS: Final = "kimi-latest"
PATIENCE_SECONDS: Final = 30.0

WHOLE: Final = "200, whole, its own"
HALF_CLOSED: Final = "200, whole, its own, to a client that had closed its sending half"
CONTRACT: Final = "400 of the contract"
REFUSED: Final = "429 or 503 of an engine, its own"
BROKE_OFF: Final = "stream that ended with an error event"
CUT: Final = "stream that was cut"
KEPT_CLOSED: Final = "kept connection that closed before a byte of an answer"
LEFT: Final = "client left"
WRONG: Final = "WRONG"


class Verdict(NamedTuple):
    """What became of a request. `must_not_run`: the answer says that no engine has taken it."""

    kind: str
    detail: str = ""
    must_not_run: bool = False


class Plan(NamedTuple):
    """What one client does: what it asks, how, and when it leaves, if it does."""

    ask: Ask
    stream: bool
    padding: int = 0
    breaks_contract: bool = False
    closes_half: bool = False
    leaves: str = ""

    def body(self) -> bytes:
        fields: dict[str, Any] = {"model": ALIAS, "ask": self.ask, "stream": self.stream}
        fields["messages"] = [{"role": "user", "content": self.ask.nonce.ljust(self.padding, "y")}]
        if self.breaks_contract:
            fields["top_p"] = 0.8
        return json.dumps(fields).encode()


def drawn(nonce: str, chance: random.Random) -> Plan:
    """Draw a plan: short and long answers, streamed and not, with and without delay; a tenth of the clients leave."""
    stream = chance.random() < 0.5
    delay = chance.choice((0.0, 0.0, 0.02, 0.3))
    pieces = chance.choice((1, 5, 20))
    ask = Ask(nonce, delay, pieces, chance.choice((0.0, 0.0, 0.02)), chance.choice((0, 0, 0, 100, 5000)))
    padding = 200_000 if chance.random() < 0.03 else 200
    draw = chance.random()
    if draw < 0.1:
        leaves = chance.choice(("in upload", "in silence", "in stream", "half-closed"))
        slow = ask._replace(delay=0.3 if leaves != "in stream" else 0.0, gap=0.02, pieces=20)
        return Plan(slow, leaves == "in stream" or stream, padding, leaves=leaves)
    return Plan(ask, stream, padding, breaks_contract=draw < 0.12, closes_half=0.12 <= draw < 0.15)


def leave(plan: Plan, port: int, chance: random.Random) -> Verdict:
    """Ask, and leave at some moment, with a reset now and then."""
    body = plan.body()
    with suppress(ConnectionError, EOFError, ValueError), RawClient(port, PATIENCE_SECONDS) as client:
        sent = body[: len(body) // 2] if plan.leaves == "in upload" else body
        client.send(post_head(CHAT, {"Content-Length": str(len(body))}) + sent)
        if plan.leaves == "in stream":
            status, _ = client.head()
            for _ in range(chance.randrange(10)):
                if status != 200 or not client.chunk():
                    break
        if plan.leaves == "half-closed":
            client.socket.shutdown(socket.SHUT_WR)
        time.sleep(chance.uniform(0, 0.2))
        if chance.random() < 0.3:
            reset(client.socket)
    return Verdict(LEFT, plan.leaves)


def talk(plan: Plan, client: RawClient, *, is_kept: bool) -> Verdict:
    """Ask over a connection and judge the answer."""
    body = plan.body()
    try:
        client.send(post_head(CHAT, {"Content-Length": str(len(body))}) + body)
        if plan.closes_half:
            client.socket.shutdown(socket.SHUT_WR)
        status, headers = client.head()
        while status == 100 and plan.closes_half:
            status, headers = client.head()
    except TimeoutError:
        return Verdict(WRONG, f"no answer within {PATIENCE_SECONDS} s")
    except (OSError, EOFError) as error:
        if is_kept:
            return Verdict(KEPT_CLOSED, must_not_run=True)
        return Verdict(WRONG, f"a new connection gave no answer: {error}")
    fields = {name.lower(): value for name, value in headers}
    client.is_kept = fields.get("connection") != "close"
    if status == 200 and fields.get("content-type", "").startswith("text/event-stream"):
        return _judged_stream(plan, client)
    try:
        said = client.body_behind(headers)
    except (OSError, EOFError, ValueError) as error:
        return Verdict(WRONG, f"{status} with a broken body: {error!r}")
    return _judged(plan, status, fields, said)


def _judged(plan: Plan, status: int, fields: dict[str, str], body: bytes) -> Verdict:
    try:
        said = json.loads(body)
    except ValueError:
        return Verdict(WRONG, f"{status} that is no JSON: {body[:200]!r}")
    if plan.breaks_contract and status == 400 and said["error"].get("code") == "sampling_contract_violation":
        return Verdict(CONTRACT, must_not_run=True)
    if status == 200 and not plan.stream and not plan.breaks_contract and said == completion(plan.ask, ALIAS):
        return Verdict(HALF_CLOSED if plan.closes_half else WHOLE)
    if status in (429, 503) and said == {"error": {"message": "busy", "nonce": plan.ask.nonce}}:
        return Verdict(REFUSED, str(status), must_not_run=True)
    code = fields.get("x-router-error-code")
    error = said.get("error") if isinstance(said, dict) else None
    in_shape = isinstance(error, dict) and set(error) == {"message", "type", "param", "code"} and error["code"] == code
    if status in (502, 503, 504) and in_shape and fields.get("x-request-id"):
        return Verdict(f"{status} {code}", must_not_run=fields.get("x-should-retry") != "false")
    return Verdict(WRONG, f"{status} {fields} {body[:300]!r}")


def _judged_stream(plan: Plan, client: RawClient) -> Verdict:
    pieces, ending = [], ""
    try:
        pieces.extend(iter(client.chunk, b""))
    except TimeoutError:
        return Verdict(WRONG, f"a stream that was silent for {PATIENCE_SECONDS} s")
    except (ConnectionError, EOFError) as error:
        ending = repr(error)
    # What follows the last line break was cut.
    lines = b"".join(pieces).split(b"\n")[:-1]
    said = [line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: ")]
    others = {line for line in lines if not line.startswith(b"data: ")} - {b"", b":"}
    wanted: Iterator[dict[str, Any]] = events(plan.ask, ALIAS)
    for number, event in enumerate(said):
        if event == b"[DONE]":
            is_whole = next(wanted, None) is None and number == len(said) - 1
            whole = Verdict(HALF_CLOSED if plan.closes_half else WHOLE)
            return whole if is_whole and not others and plan.stream else Verdict(WRONG, f"ends early: {said!r:.500}")
        try:
            content = json.loads(event)
        except ValueError:
            return Verdict(WRONG, f"no JSON in a stream: {event[:200]!r}")
        if "error" in content:
            is_ours = (
                number == len(said) - 1 and not ending and content["error"].get("code", "").startswith("upstream_")
            )
            return Verdict(BROKE_OFF, content["error"]["code"]) if is_ours else Verdict(WRONG, f"{event[:300]!r}")
        if content != next(wanted, None):
            return Verdict(WRONG, f"event {number} is not this request's: {event[:300]!r}")
    if others:
        return Verdict(WRONG, f"strange lines: {others!r:.300}")
    return Verdict(CUT, ending) if ending else Verdict(WRONG, "a stream that ends properly without [DONE]")
