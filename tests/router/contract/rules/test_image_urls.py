import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.decide import Forward, ServedIds, decide
from router.contract.schema.model import Contract
from router.contract.schema.named_checks import Images

CONTRACT = Contract(checks={"images": Images(wrap_bare_url=True)})
BARE = '{"type": "image_url", "image_url" :  "data:,%s"}'
WRAPPED = '{"type": "image_url", "image_url" :  {"url":"data:,%s"}}'


def forwarded(messages):
    decision = decide(f'{{"messages": {messages} ,"model": "m"}}'.encode(), CONTRACT, ServedIds(("m",)))
    assert isinstance(decision, Forward)
    return decision.body.decode()


TEXT = '{"type":"text","text":"a]"}'
SENT = {
    "one": ('[{"role": "user", "content": [ %s ]}]', 1),
    "several, beside brackets in texts": (
        '[ {"role":"user","content":"[{"} , {"content" : [' + TEXT + ',%s,%s],"role":"user"}]',
        2,
    ),
    "in the last of repeated keys, which engines read": ('[{"role": "user", "content": [], "content": [%s]}]', 1),
}


@pytest.mark.parametrize(("messages", "count"), SENT.values(), ids=SENT)
def test_a_bare_url_becomes_an_object_and_all_other_bytes_stay(messages, count):
    """The string itself is wrapped as it was written; whatever stands around it is untouched."""
    escaped = "\\ud83d\\ude00 \\u0041"
    got = forwarded(messages % ((BARE % escaped,) * count))
    assert got == f'{{"messages": {messages % ((WRAPPED % escaped,) * count)} ,"model": "m"}}'


def test_of_a_repeated_key_the_last_url_is_wrapped():
    """Engines read the last of repeated keys, and so does the router."""
    part = '{"image_url": 1, "type": "image_url", "image_url": %s}'
    sent, wanted = (f'[{{"content": [{part % url}]}}]' for url in ('"x"', '{"url":"x"}'))
    assert forwarded(sent) == f'{{"messages": {wanted} ,"model": "m"}}'


PARTS = st.sampled_from(
    [
        {"type": "text", "text": 'a "]}'},
        {"type": "image_url", "image_url": {"url": "data:,A", "detail": "low"}},
        {"type": "image_url", "image_url": "data:,é"},
        {"type": "input_image", "image_url": "data:,B"},
        {"type": "image_url"},
    ]
)
CONTENTS = st.lists(PARTS, max_size=4) | st.text(max_size=4) | st.none()


@given(st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": CONTENTS}), max_size=4), st.booleans())
def test_only_bare_image_urls_change(messages, is_compact):
    """An engine gets every message as it was sent, but for strings as `image_url` of a part of that type."""
    separators = (",", ":") if is_compact else (" , ", " : ")
    got = json.loads(forwarded(json.dumps(messages, separators=separators, ensure_ascii=is_compact)))["messages"]
    for message in messages:
        for part in message["content"] if isinstance(message["content"], list) else ():
            if part["type"] == "image_url" and isinstance(part.get("image_url"), str):
                part["image_url"] = {"url": part["image_url"]}
    # Sampled parts are shared objects: what is wrapped once is wrapped in all messages.
    assert got == json.loads(json.dumps(messages))
