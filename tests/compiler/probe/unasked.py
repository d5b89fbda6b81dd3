"""Requests of kinds that a probe does not ask: a seed gives the same ones again."""

import random
from typing import Any

from compiler.verify.check import ChatRequest

COUNT = 500

FRACTIONS = ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
WHOLE = ("seed", "top_k", "n", "min_tokens", "top_logprobs", "random_seed", "thinking_budget", "truncate_prompt_tokens")
BUDGETS = ("max_tokens", "max_completion_tokens")
EXTRAS: dict[str, tuple[Any, ...]] = {
    "ignore_eos": (True, "no", 0),
    "best_of": (1, 2),
    "n_predict": (3, 7),
    "repeat_penalty": (1.1, 1.3),
    "cache_prompt": (True, False),
    "echo": (False, True),
    "add_generation_prompt": (True, False),
    "skip_special_tokens": (True, False),
    "stop_token_ids": ([], [7], [7, 11]),
    "include_stop_str_in_output": (True,),
    "mirostat": (0, 2),
    "typical_p": (0.9, 1),
    "dynatemp_range": (0, 0.3),
    "samplers": (["top_k", "temperature"], "kt"),
    "return_token_ids": (True,),
    "priority": (0, 1),
    "request_id": ("abc",),
    "client_metadata": ({"a": "b"},),
    "store": (True, "false", 1),
    "service_tier": ("auto", "scale", "batch", 3),
    "verbosity": ("low", "terse"),
    "metadata": ({"a": "b"}, {"a": 1}, {}),
    "user": ("", "Ünï", "a b/c", "u" * 700, 17),
    "user_id": ("a b!", "u" * 600),
    "safety_identifier": ("s" * 90, "ß"),
    "prompt_cache_key": ("k" * 90, "é/é"),
    "reasoning_effort": ("low", "high", "none", "minimal", "xhigh", "max", "deep"),
    "reasoning_format": ("none", "auto", "deepseek"),
    "reasoning": ({"effort": "low"}, {}),
    "enable_thinking": (True, "true", 0, "off"),
    "thinking": ({"type": "enabled"}, {"type": "adaptive", "budget": 3}, {}),
    "chat_template_kwargs": ({}, {"thinking": False}, {"enable_thinking": True, "style": "b"}, {"thinking": "yes"}),
    "parallel_tool_calls": (True, False, "true", 1),
    "modalities": (["text"], ["text", "image"], []),
    "prediction": ({"type": "content", "content": "OK"},),
    "logit_bias": ({}, {"7": 5}, {"7": -100, "11": 1.5}),
    "stream_options": (None,),
    "functions": ([], None),
    "do_sample": (True, 1),
}
WORDS = ("wake", "dusk", "Fill it.", "checks é", "long\nrequest", "a  b", "")


def requests(model: str, seed: int = 1) -> list[ChatRequest]:
    """Return requests, each made of one to four kinds at random."""
    chance = random.Random(seed)
    return [ChatRequest.of(_request(model, chance)) for _ in range(COUNT)]


def _request(model: str, chance: random.Random) -> dict[str, Any]:
    fields: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "Hello."}], "max_tokens": 2}
    for kind in chance.sample(KINDS, chance.choice((1, 1, 2, 3, 4))):
        fields |= kind(chance)
    return fields


def _number(chance: random.Random, number: float) -> Any:
    """Return a number as clients write it: mostly as one, now and then as a text or with a point."""
    return chance.choice((number, number, number, number, str(number), f" {number}", float(number)))


def _fraction(chance: random.Random) -> dict[str, Any]:
    number = chance.choice((round(chance.uniform(0, 2), chance.choice((1, 3, 9))), chance.uniform(-3, 30), 1, True))
    return {chance.choice(FRACTIONS): _number(chance, number)}


def _whole(chance: random.Random) -> dict[str, Any]:
    number = chance.choice((chance.randrange(1, 60), chance.randrange(-9, 2**31), chance.randrange(2**33), 42, 7))
    return {chance.choice(WHOLE): _number(chance, number)}


def _many(chance: random.Random) -> dict[str, Any]:
    return {"n": chance.randrange(1, 7), "temperature": chance.choice((0, 0.7, 1.2))}


def _budget(chance: random.Random) -> dict[str, Any]:
    return {chance.choice(BUDGETS): _number(chance, chance.choice((3, 5, 7, 100, 333, chance.randrange(1, 900))))}


def _flag(chance: random.Random) -> dict[str, Any]:
    value = chance.choice((True, False, "true", "false", "yes", "1", 0, 1, 1.0, None, "on"))
    return {chance.choice(("logprobs", "parallel_tool_calls", "store", "enable_thinking", "do_sample")): value}


def _logprobs(chance: random.Random) -> dict[str, Any]:
    return {"logprobs": True, "top_logprobs": _number(chance, chance.randrange(0, 21))}


def _stop(chance: random.Random) -> dict[str, Any]:
    texts = [chance.choice(WORDS) or "x" for _ in range(chance.choice((0, 1, 2, 6, 11)))]
    return {"stop": chance.choice((texts, texts, "zz", "zzz" * 60, None))}


def _extra(chance: random.Random) -> dict[str, Any]:
    name = chance.choice(list(EXTRAS))
    return {name: chance.choice(EXTRAS[name])}


def _unheard_of(chance: random.Random) -> dict[str, Any]:
    name = "".join(chance.choice("abcdefgh_") for _ in range(7))
    return {name: chance.choice((1, "x", None, [], {"a": 1}))}


def _content(chance: random.Random) -> Any:
    text = " ".join(chance.choice(WORDS) for _ in range(chance.choice((1, 3, 9))))
    parts = [{"type": "text", "text": text}, {"type": "text", "text": "OK"}]
    return chance.choice((text, text, text, parts, parts[:1]))


def _message(chance: random.Random) -> dict[str, Any]:
    role = chance.choice(
        ("system", "user", "user", "assistant", "assistant", "developer", "tool", "function", "critic")
    )
    message: dict[str, Any] = {"role": role, "content": _content(chance)}
    if role == "tool":
        message["tool_call_id"] = chance.choice(("call_a1", "x", "call_77"))
    if chance.random() < 0.2:
        message["name"] = "somebody"
    if role == "assistant" and chance.random() < 0.4:
        call = {"name": "lookup", "arguments": chance.choice(("{}", '{"a": 1}'))}
        message["tool_calls"] = [{"id": "call_a1", "type": "function", "function": call}]
        message["content"] = chance.choice((None, "", "Well."))
    if role == "assistant" and chance.random() < 0.3:
        message["reasoning_content"] = chance.choice(("Hm.", "", None))
    return message


def _conversation(chance: random.Random) -> dict[str, Any]:
    return {"messages": [_message(chance) for _ in range(chance.choice((1, 2, 3, 4, 5, 7)))]}


def _long_conversation(chance: random.Random) -> dict[str, Any]:
    turns = chance.randrange(20, 90)
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[turn % 2], "content": "a"} for turn in range(turns | 1)]}


def _tool(chance: random.Random, name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function: dict[str, Any] = {"name": name}
    function |= chance.choice(({}, {"parameters": schema}, {"description": "Looks.", "parameters": schema}))
    function |= chance.choice(({}, {}, {"strict": True}))
    return {"type": "function", "function": function}


def _tools(chance: random.Random) -> dict[str, Any]:
    names = chance.sample(("look_up", "get-weather", "Find2", "a", "n" * 70, "x.y"), chance.choice((1, 1, 2, 3)))
    named = {"type": "function", "function": {"name": names[0]}}
    choice = chance.choice(("auto", "none", "none", "required", named, {"type": "auto"}, "sometimes", None))
    fields: dict[str, Any] = {"tools": [_tool(chance, name) for name in names]}
    return fields if chance.random() < 0.3 else {**fields, "tool_choice": choice}


def _choice_alone(chance: random.Random) -> dict[str, Any]:
    return {"tool_choice": chance.choice(("auto", "none", "required", "sometimes", {"type": "none"}))}


def _format(chance: random.Random) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    held = {"name": "thing", "schema": schema, **chance.choice(({}, {"strict": True}, {"strict": False}))}
    formats: tuple[Any, ...] = (
        {"type": "text"},
        {"type": "json_object"},
        {"type": "json_object", "schema": schema},
        {"type": "json_schema", "json_schema": held},
        {"type": "json_schema", "json_schema": {"name": "thing", "schema": {}}},
        {"type": "json_schema", "json_schema": {"schema": schema}},
        {"type": "grammar"},
        {},
        None,
    )
    return {"response_format": chance.choice(formats)}


def _stream(chance: random.Random) -> dict[str, Any]:
    options = chance.choice((None, {}, {"include_usage": True}, {"include_usage": False, "chunk": 1}))
    return {"stream": chance.choice((True, True, False)), **({} if options is None else {"stream_options": options})}


KINDS = (
    *(_fraction, _fraction, _whole, _whole, _many, _budget, _budget, _flag, _logprobs, _stop, _extra, _extra, _extra),
    *(_unheard_of, _conversation, _conversation, _long_conversation, _tools, _choice_alone, _format, _stream),
)
