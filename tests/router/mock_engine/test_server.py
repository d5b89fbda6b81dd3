"""The mock engine is what every wire test rests on, so its own wire is tested with nothing but sockets."""

import gzip
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from dataclasses import replace

import pytest

from router.mock_engine import EVENT_STREAM, MockEngine, MockResponse, RawResponse
from router.mock_engine.behaviour import INFERENCE_ROUTES, TEXT

CHAT = "/v1/chat/completions"
WORDS = TEXT.split()
SAMPLE = b'{"model":"served","messages":[{"role":"user","content":"say two words"}]}'
DEADLINE = 5.0  # seconds; reached only by a failing test

# Whatever proxy the environment names, the engine is on loopback.
fetch = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


@pytest.fixture
def engine():
    with MockEngine() as running:
        yield running


@pytest.fixture
def client(engine):
    connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=DEADLINE)
    yield connection
    connection.close()


@pytest.fixture
def wire(engine):
    with dial(engine) as sock:
        yield sock


def dial(engine):
    return socket.create_connection(("127.0.0.1", engine.port), timeout=DEADLINE)


def ask(client, method, target, body=None, headers=None):
    client.request(method, target, body, headers or {})
    response = client.getresponse()
    return response, response.read()


def post(client, **fields):
    _, body = ask(client, "POST", CHAT, json.dumps(json.loads(SAMPLE) | fields))
    return body


def request_bytes(body=SAMPLE, *fields, method="POST", target=CHAT):
    head = [f"{method} {target} HTTP/1.1", "Host: engine", *(fields or (f"Content-Length: {len(body)}",)), "\r\n"]
    return "\r\n".join(head).encode() + body


def read_to_end(sock):
    return b"".join(iter(lambda: sock.recv(65536), b""))


def read_until(sock, end):
    data = b""
    while not data.endswith(end):
        got = sock.recv(1)
        assert got, data
        data += got
    return data


def events_of(stream):
    return [json.loads(event.removeprefix("data: ")) for event in stream.decode().split("\n\n")[:-2]]


# What it says by itself


def test_health_follows_the_switch(client, engine):
    """GET /health is 200 while the engine is healthy and 503 once it is switched off."""
    response, body = ask(client, "GET", "/health")
    assert (response.status, json.loads(body)) == (200, {"status": "ok"})
    engine.healthy = False
    assert ask(client, "GET", "/health")[0].status == 503


def test_models_are_listed_with_their_cards():
    """GET /v1/models lists a card per served name, with the context length."""
    with MockEngine(models=("org/one", "two"), max_model_len=99) as engine:
        listed = json.load(fetch(f"{engine.url}/v1/models"))
    assert listed["object"] == "list"
    assert [(card["id"], card["object"], card["max_model_len"]) for card in listed["data"]] == [
        ("org/one", "model", 99),
        ("two", "model", 99),
    ]


@pytest.mark.parametrize("spelling", ["org/one", "org%2Fone"])
def test_one_card_is_found_by_its_name(spelling):
    """GET /v1/models/ID takes a name with a slash, plain or encoded."""
    with MockEngine(models=("org/one",)) as engine:
        assert json.load(fetch(f"{engine.url}/v1/models/{spelling}"))["id"] == "org/one"


def test_an_unknown_card_is_not_found(client):
    """GET /v1/models/ID answers 404 for a name that is not served."""
    assert ask(client, "GET", "/v1/models/nope")[0].status == 404


def test_chat_says_its_text_under_its_own_name():
    """A chat answer carries the first served name, the whole text and the tokens counted as words."""
    with MockEngine(models=("served", "other")) as engine:
        body = SAMPLE.replace(b'"served"', b'"other"')
        answer = json.load(fetch(f"{engine.url}{CHAT}", body))
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "served"
    assert answer["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
    ]
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": len(WORDS), "total_tokens": 3 + len(WORDS)}


@pytest.mark.parametrize(
    ("budget", "words", "reason"),
    [
        ({"max_tokens": 2}, 2, "length"),
        ({"max_completion_tokens": 3, "max_tokens": 2}, 3, "length"),
        ({"max_completion_tokens": None, "max_tokens": "2"}, 2, "length"),
        ({"max_tokens": len(WORDS)}, len(WORDS), "stop"),
        ({"max_tokens": 0}, len(WORDS), "stop"),
        ({"max_tokens": [1]}, len(WORDS), "stop"),
    ],
)
def test_the_budget_ends_the_text(client, budget, words, reason):
    """A budget smaller than the text cuts it at that many words and says so in finish_reason."""
    [choice] = json.loads(post(client, **budget))["choices"]
    assert choice["message"]["content"].split() == WORDS[:words]
    assert choice["finish_reason"] == reason


def test_n_multiplies_the_choices(client):
    """N choices are answered and counted when n is asked."""
    answer = json.loads(post(client, n=3, max_tokens=2))
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert answer["usage"]["completion_tokens"] == 6


def test_the_last_of_equal_keys_wins(client):
    """A repeated key is read as engines read it: the last one counts."""
    doubled = SAMPLE.replace(b"{", b'{"model":"nope","max_tokens":1,"max_tokens":2,', 1)
    _, body = ask(client, "POST", CHAT, doubled)
    assert json.loads(body)["usage"]["completion_tokens"] == 2


def test_a_stream_says_the_same_text_word_by_word(client):
    """A stream opens with the role, says one word per event, then finish_reason, usage when asked, and [DONE]."""
    client.request("POST", CHAT, SAMPLE.replace(b"{", b'{"stream":true,"stream_options":{"include_usage":true},', 1))
    response = client.getresponse()
    assert response.headers["Content-Type"].startswith("text/event-stream")
    assert response.headers["Transfer-Encoding"] == "chunked"
    stream = response.read()
    assert stream.endswith(b"\n\ndata: [DONE]\n\n")
    *chunks, last, usage = events_of(stream)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert [delta["content"].strip() for delta in deltas[1:]] == WORDS
    assert "".join(delta["content"] for delta in deltas) == TEXT
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], len(WORDS))
    assert {chunk["object"] for chunk in (*chunks, last, usage)} == {"chat.completion.chunk"}


def test_a_stream_of_completions_carries_text(client):
    """/v1/completions streams the text in `text`, without usage when nobody asked."""
    _, stream = ask(client, "POST", "/v1/completions", '{"prompt":"x","stream":true,"max_tokens":2}')
    choices = [choice for event in events_of(stream) for choice in event["choices"]]
    assert "".join(choice["text"] for choice in choices).split() == WORDS[:2]
    assert choices[-1]["finish_reason"] == "length"


@pytest.mark.parametrize("path", INFERENCE_ROUTES)
def test_every_inference_route_answers_json(client, path):
    """Every POST route of an inference server gives a 200 with a JSON object."""
    fields = {"messages": [{"role": "user", "content": "x"}], "prompt": "x", "input": ["x"], "tokens": [0, 1]}
    response, body = ask(client, "POST", path, json.dumps({"model": "served"} | fields))
    assert response.status == 200
    assert isinstance(json.loads(body), dict)


@pytest.mark.parametrize(
    ("body", "status", "kind", "param"),
    [
        (SAMPLE.replace(b'"served"', b'"nope"'), 404, "NotFoundError", "model"),
        (SAMPLE.replace(b'"served"', rb'"\ud800"'), 404, "NotFoundError", "model"),
        (b"{", 400, "BadRequestError", None),
        (b"\xff", 400, "BadRequestError", None),
        (b"[" * 100_000, 400, "BadRequestError", None),
        (b"[]", 400, "BadRequestError", None),
        (b'{"messages":[]}', 400, "BadRequestError", "messages"),
    ],
)
def test_errors_have_the_shape_of_vllm(client, body, status, kind, param):
    """An unknown model is a 404 and a body that cannot be read is a 400, nested under `error`, the code a number."""
    response, answer = ask(client, "POST", CHAT, body)
    error = json.loads(answer)["error"]
    assert response.status == status
    assert error == {"message": error["message"], "type": kind, "param": param, "code": status}


@pytest.mark.parametrize(("method", "target", "status"), [("GET", CHAT, 405), ("GET", "/x", 404), ("PUT", "/x", 404)])
def test_other_routes_do_not_exist(client, method, target, status):
    """A wrong method on a known route is 405 and an unknown route is 404."""
    assert ask(client, method, target)[0].status == status


def test_head_gets_no_body(client):
    """HEAD is answered with the head alone, and the connection goes on."""
    assert ask(client, "HEAD", "/health")[1] == b""
    assert ask(client, "GET", "/health")[1] != b""


# What it remembers


def test_what_came_over_the_wire_is_remembered(engine, wire):
    """Method, target, header spelling and order, repeated fields, the body's bytes and the client's port are kept."""
    fields = ["X-One:  a ", "x-two: b", "X-One: c", f"CONTENT-length: {len(SAMPLE)}"]
    wire.sendall(request_bytes(SAMPLE, *fields, target=f"{CHAT}?q=%2F"))
    [received] = engine.wait_for(1)
    assert (received.method, received.target, received.version) == ("POST", f"{CHAT}?q=%2F", "HTTP/1.1")
    assert received.headers[1:4] == (("X-One", "a"), ("x-two", "b"), ("X-One", "c"))
    assert received.values("x-one") == ["a", "c"]
    assert received.body == SAMPLE
    assert received.json()["model"] == "served"
    assert received.peer_port == wire.getsockname()[1]
    assert received.complete


def test_keys_are_remembered_but_not_shown(client, engine):
    """Authorization is kept in `headers`, yet neither repr nor GET /received prints its value."""
    ask(client, "POST", CHAT, SAMPLE, {"Authorization": "Bearer secret"})
    _, shown = ask(client, "GET", "/received")
    [received] = engine.received
    assert received.values("Authorization") == ["Bearer secret"]
    assert "secret" not in repr(received)
    assert b"secret" not in shown


def test_control_routes_show_and_forget(client, engine):
    """GET /received lists what came as JSON, DELETE forgets it, and neither is recorded."""
    ask(client, "POST", CHAT, SAMPLE)
    [shown] = json.loads(ask(client, "GET", "/received")[1])
    assert (shown["method"], shown["target"], shown["body"]) == ("POST", CHAT, SAMPLE.decode())
    assert ["Host", f"127.0.0.1:{engine.port}"] in shown["headers"]
    assert ask(client, "DELETE", "/received")[0].status == 204
    assert json.loads(ask(client, "GET", "/received")[1]) == []
    assert ask(client, "PUT", "/received")[0].status == 405


def test_probes_are_kept_apart(client, engine):
    """What routers ask in the background stands in `probes` and uses up no scripted answer."""
    engine.answer_next(MockResponse(418))
    assert ask(client, "GET", "/v1/models")[0].status == 200
    assert ask(client, "POST", CHAT, SAMPLE)[0].status == 418
    assert [probe.target for probe in engine.wait_for_health_checks(1)] == ["/v1/models"]
    assert [received.target for received in engine.received] == [CHAT]


def test_recording_can_be_switched_off(client, engine):
    """Under load nothing is kept, and everything is answered all the same."""
    engine.recording = False
    assert ask(client, "POST", CHAT, SAMPLE)[0].status == 200
    assert engine.received == []


def test_waiting_ends_when_a_request_comes_or_time_runs_out(client, engine):
    """wait_for returns what was received, and raises TimeoutError when nothing comes."""
    with pytest.raises(TimeoutError, match="1 requests"):
        engine.wait_for(1, timeout=0.01)
    sender = threading.Thread(target=ask, args=(client, "POST", CHAT, SAMPLE))
    sender.start()
    assert len(engine.wait_for(1)) == 1
    sender.join()
    engine.clear()
    assert engine.received == []


def test_connections_are_told_apart(client, engine, wire):
    """Two requests on one connection share its number; another connection has another."""
    ask(client, "POST", CHAT, SAMPLE)
    ask(client, "POST", CHAT, SAMPLE)
    wire.sendall(request_bytes())
    first, second, third = [received.connection for received in engine.wait_for(3)]
    assert first == second != third
    assert engine.connections_accepted == 2


# How it reads


def test_chunked_bodies_are_joined(engine, wire):
    """A chunked body, with extensions and trailers, arrives whole, and the next request is read from its end."""
    chunks = b'7;ext="x"\r\n{"model\r\n' + b"%X\r\n" % len(SAMPLE[7:]) + SAMPLE[7:] + b"\r\n0\r\nX-Trailer: t\r\n\r\n"
    wire.sendall(request_bytes(chunks, "Transfer-Encoding: chunked") + request_bytes())
    assert [received.body for received in engine.wait_for(2)] == [SAMPLE, SAMPLE]


def test_a_body_is_asked_for_when_expected(wire):
    """Expect: 100-continue is answered before the body is sent."""
    wire.sendall(request_bytes(b"", f"Content-Length: {len(SAMPLE)}", "Expect: 100-continue"))
    assert read_until(wire, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    wire.sendall(SAMPLE)
    assert read_until(wire, b"\r\n").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("field", "sent", "read"),
    [
        ("Content-Length: 10", b"half", b"half"),
        ("Transfer-Encoding: chunked", b"4\r\nhalf\r\n8\r\nha", b"halfha"),
        ("Transfer-Encoding: chunked", b"4\r\nhalf\r\n", b"half"),
        ("Transfer-Encoding: chunked", b"4\r\nhalf\r\n0\r\n", b"half"),
    ],
)
def test_a_body_cut_short_is_marked_and_not_answered(engine, wire, field, sent, read):
    """A body that ends before its promised end is recorded as incomplete and gets no answer."""
    wire.sendall(request_bytes(sent, field))
    wire.shutdown(socket.SHUT_WR)
    assert read_to_end(wire) == b""
    [received] = engine.wait_for(1)
    assert (received.body, received.complete) == (read, False)


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        request_bytes(b"x", "Content-Length: -1"),
        request_bytes(b"0x1\r\nx\r\n0\r\n\r\n", "Transfer-Encoding: chunked"),
        request_bytes(b"1\r\nxy\r\n0\r\n\r\n", "Transfer-Encoding: chunked"),
    ],
)
def test_what_is_not_http_is_refused(engine, wire, sent):
    """Malformed bytes get a readable 400, the end of the connection, and no record."""
    wire.sendall(sent)
    assert read_to_end(wire).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert engine.received == []


@pytest.mark.parametrize(("version", "field"), [("HTTP/1.1", "Connection: close"), ("HTTP/1.0", "X: y")])
def test_the_client_may_end_the_connection(wire, version, field):
    """Connection: close and HTTP/1.0 end the connection after the answer."""
    wire.sendall(f"GET /health {version}\r\n{field}\r\n\r\n".encode())
    assert read_to_end(wire).endswith(b'{"status": "ok"}')


def test_pipelined_requests_are_answered_in_order(engine, wire):
    """Two requests sent at once get two answers in their order."""
    engine.answer_next(MockResponse(body=b"one"), MockResponse(body=b"two", then="close"))
    wire.sendall(request_bytes() * 2)
    first, second = read_to_end(wire).split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert first.endswith(b"one")
    assert second.endswith(b"two")


# What it can be told to say


def test_queued_answers_are_given_once_each_in_order(client, engine):
    """Queued answers are used up one by one, then the mock engine speaks for itself again."""
    engine.answer_next(MockResponse.json({"a": 1}, status=418), MockResponse(302, headers=[("Location", "/x")]))
    response, body = ask(client, "POST", CHAT, SAMPLE)
    assert (response.status, response.headers["Content-Type"], json.loads(body)) == (418, "application/json", {"a": 1})
    response, _ = ask(client, "POST", CHAT, SAMPLE)
    assert (response.status, response.headers["Location"]) == (302, "/x")
    assert ask(client, "POST", CHAT, SAMPLE)[0].status == 200


def test_a_script_sees_every_request(client, engine):
    """A script answers what it wants, also health checks; the mock engine answers the rest until it is restored."""
    engine.script(lambda received: MockResponse(404) if received.path == "/health" else None)
    engine.answer_next(MockResponse(500))
    assert ask(client, "GET", "/health")[0].status == 404
    engine.restore_behaviour()
    assert ask(client, "GET", "/health")[0].status == 200
    assert ask(client, "POST", CHAT, SAMPLE)[0].status == 200


def test_headers_are_sent_as_written(client, engine):
    """Repeated fields such as Set-Cookie, connection-nominated ones and an encoded body leave as they stand."""
    fields = [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Connection", "X-Hop"), ("X-Hop", "1")]
    packed = gzip.compress(b"hello")
    engine.answer_next(MockResponse(headers=[*fields, ("Content-Encoding", "gzip")], body=packed))
    response, body = ask(client, "POST", CHAT, SAMPLE)
    assert response.getheaders()[:4] == fields
    assert body == packed


def test_an_answer_leaves_in_one_write(engine, wire):
    """Head and body of a plain answer arrive in one segment."""
    engine.answer_next(MockResponse(body=b"whole"))
    wire.sendall(request_bytes())
    assert wire.recv(65536) == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole"


def test_a_pause_lasts_until_its_event(engine, wire):
    """Pieces before a pause are on the wire before the event is set, those after it only then."""
    gate = threading.Event()
    engine.answer_next(MockResponse.sse(b"data: 1\n\n", gate, b"data: 2\n\n"))
    wire.sendall(request_bytes())
    assert read_until(wire, b"1\n\n\r\n").endswith(b"\r\n\r\n9\r\ndata: 1\n\n\r\n")
    gate.set()
    assert read_until(wire, b"0\r\n\r\n") == b"9\r\ndata: 2\n\n\r\n0\r\n\r\n"


def test_a_held_answer_sends_nothing_before_its_event(engine, wire):
    """Under `hold` not even the status line leaves before the event is set."""
    gate = threading.Event()
    engine.answer_next(MockResponse(hold=gate, body=b"late"))
    wire.sendall(request_bytes())
    engine.wait_for(1)
    wire.setblocking(False)
    with pytest.raises(BlockingIOError):
        wire.recv(1)
    wire.settimeout(DEADLINE)
    gate.set()
    assert read_until(wire, b"late").startswith(b"HTTP/1.1 200")


PIECES = [b"data: 1\n\n", b"", b"data: 2\n\n"]
JOINED = b"data: 1\n\ndata: 2\n\n"
CHUNKED = b"9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n"


@pytest.mark.parametrize(
    ("answer", "field", "sent"),
    [
        (MockResponse(body=PIECES, then="close"), b"Content-Length: 18", JOINED),
        (MockResponse(body=PIECES, framing="close"), b"Connection: close", JOINED),
        (
            MockResponse(body=PIECES, framing="chunked", then="close"),
            b"Transfer-Encoding: chunked",
            CHUNKED + b"0\r\n\r\n",
        ),
        (
            MockResponse(body=JOINED, framing="chunked", last_chunk=False, then="close"),
            b"Transfer-Encoding: chunked",
            b"12\r\n" + JOINED + b"\r\n",
        ),
        (MockResponse(body=PIECES, framing="chunked", cut_after=5), b"Transfer-Encoding: chunked", CHUNKED[:5]),
        (MockResponse(body=JOINED, cut_after=10), b"Content-Length: 18", JOINED[:10]),
        (MockResponse(body=JOINED, cut_after=0), b"Content-Length: 18", b""),
        (
            MockResponse(headers=[("Content-Length", "99")], body=JOINED, then="close"),
            b"Content-Length: 99",
            JOINED,
        ),
    ],
)
def test_framings_and_cuts_are_exact(engine, wire, answer, field, sent):
    """Each framing, cut and lie puts exactly the promised bytes on the wire and then ends the connection."""
    engine.answer_next(replace(answer, headers=[*EVENT_STREAM, *answer.headers]))
    wire.sendall(request_bytes())
    head, _, body = read_to_end(wire).partition(b"\r\n\r\n")
    assert field in head.split(b"\r\n")
    assert b"Content-Type: text/event-stream; charset=utf-8" in head.split(b"\r\n")
    assert body == sent


def test_a_generator_can_stream_without_end(engine, wire):
    """An endless generator streams until the client leaves, which the engine notices."""

    def endless():
        while True:
            yield b"data: more\n\n"

    engine.answer_next(MockResponse.sse(), MockResponse(body=endless(), framing="chunked"))
    wire.sendall(request_bytes())
    assert read_until(wire, b"\r\n\r\n0\r\n\r\n")
    wire.sendall(request_bytes())
    assert read_until(wire, b"more\n\n\r\nc\r\ndata: more\n\n\r\n")
    wire.close()
    engine.wait_closed(engine.received[0].connection)


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", b"not http at all"])
def test_raw_bytes_are_the_whole_answer(engine, wire, data):
    """A raw answer is sent as it stands and the connection is closed behind it."""
    engine.answer_next(RawResponse(data))
    wire.sendall(request_bytes())
    assert read_to_end(wire) == data


def test_a_raw_answer_may_keep_the_connection(client, engine):
    """A raw answer with a proper end leaves the connection usable for the next request."""
    engine.answer_next(RawResponse([b"HTTP/1.1 299 Odd\r\nContent-Le", b"ngth: 1\r\n\r\nx"], then="keep"))
    response, body = ask(client, "POST", CHAT, SAMPLE)
    assert (response.status, response.reason, body) == (299, "Odd", b"x")
    assert ask(client, "POST", CHAT, SAMPLE)[0].status == 200
    assert engine.connections_accepted == 1


def test_a_connection_can_be_reset_before_the_status_line(engine, wire):
    """`reset` without a byte gives the client a reset connection, not an end of file."""
    engine.answer_next(RawResponse(then="reset"))
    wire.sendall(request_bytes())
    with pytest.raises(ConnectionResetError):
        wire.recv(1)


def test_a_stream_can_be_reset_in_its_middle(engine, wire):
    """`reset` after a pause lets the client read what came before and then see the reset."""
    gate = threading.Event()
    engine.answer_next(MockResponse(body=[b"data: 1\n\n", gate], framing="chunked", last_chunk=False, then="reset"))
    wire.sendall(request_bytes())
    assert read_until(wire, b"data: 1\n\n\r\n")
    gate.set()
    with pytest.raises(ConnectionResetError):
        wire.recv(1)


def test_an_early_answer_leaves_the_body_unread(engine, wire):
    """An answer given before the body is still readable after the client has sent all of it."""
    engine.answer_next(MockResponse(413, before_body=True, body=b"too much"))
    size = 4 * 1024 * 1024
    wire.sendall(request_bytes(b"", f"Content-Length: {size}"))
    [received] = engine.wait_for(1)
    wire.sendall(bytes(size))
    assert read_to_end(wire).endswith(b"too much")
    assert (received.body, received.complete) == (b"", False)


# How it lives


def test_a_leaving_client_ends_a_pause(engine, wire):
    """A client that leaves during a pause is noticed, and its connection is closed."""
    engine.answer_next(MockResponse.sse(b"data: 1\n\n", threading.Event()))
    wire.sendall(request_bytes())
    read_until(wire, b"data: 1\n\n\r\n")
    wire.close()
    engine.wait_closed(1)
    assert engine.open_connections == 0


@pytest.mark.parametrize("reset", [False, True])
def test_idle_connections_can_be_dropped(engine, wire, reset):
    """drop_connections ends kept connections, by end of file or by reset, and the engine goes on serving."""
    wire.sendall(request_bytes(b"", "X: y", method="GET", target="/health"))
    read_until(wire, b"}")
    engine.drop_connections(reset=reset)
    if reset:
        with pytest.raises(ConnectionResetError):
            wire.recv(1)
    else:
        assert wire.recv(1) == b""
    assert fetch(f"{engine.url}/health").status == 200


def test_it_stops_and_comes_back_on_its_port(engine, wire):
    """A stopped engine refuses connections and has ended the old ones; started again it serves on the same port."""
    engine.answer_next(MockResponse.sse(b"data: 1\n\n", threading.Event()))
    wire.sendall(request_bytes() * 2)  # the second request must not hide the end from the pausing first
    read_until(wire, b"data: 1\n\n\r\n")
    url = engine.url
    engine.stop()
    engine.stop()
    with pytest.raises(ConnectionRefusedError):
        dial(engine)
    engine.start()
    assert engine.url == url
    assert fetch(f"{url}/health").status == 200


def test_no_thread_is_left_behind():
    """After the engine stopped, none of its threads lives."""
    before = set(threading.enumerate())
    with MockEngine() as engine, dial(engine) as wire:
        wire.sendall(request_bytes())
        engine.wait_for(1)
    assert set(threading.enumerate()) <= before


def test_many_clients_are_served_at_once(engine):
    """Every one of many simultaneous clients gets its own connection and the answer to its own request."""
    engine.script(lambda received: MockResponse(body=received.body))
    answers = {}
    ready = threading.Barrier(32)

    def chat(number):
        with dial(engine) as wire:
            ready.wait(DEADLINE)
            wire.sendall(request_bytes(b"%d" % number, f"Content-Length: {len(str(number))}", "Connection: close"))
            answers[number] = read_to_end(wire).rpartition(b"\r\n\r\n")[2]

    threads = [threading.Thread(target=chat, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: b"%d" % number for number in range(32)}
    assert engine.connections_accepted == 32


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_as_a_program_it_prints_its_url_and_stops_when_told(stop):
    """`python -m router.mock_engine` says its URL once it is ready, serves, and ends with status 0 on a signal."""
    command = [sys.executable, "-W", "error", "-m", "router.mock_engine", "--port", "0", "--model", "a-model"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        url = program.stdout.readline().strip()
        listed = json.load(fetch(f"{url}/v1/models"))
        program.send_signal(stop)
        rest, errors = program.communicate(timeout=DEADLINE)
    assert [card["id"] for card in listed["data"]] == ["a-model"]
    assert (program.returncode, rest, errors) == (0, "", "")
