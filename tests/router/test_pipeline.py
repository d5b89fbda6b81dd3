"""The straight line on real sockets: what the client gets and what the engine got."""

from router.contract.schema.model import Contract
from router.contract.schema.sections import Sampling
from router.mock_engine import MockEngine
from tests.router.conftest import RouterOf
from tests.router.rawclient import RawClient

CHAT = "/v1/chat/completions"


def test_a_pin_is_injected_on_the_way_to_the_engine(router_of: RouterOf, engine: MockEngine) -> None:
    """A request that omits a pinned parameter reaches the engine with it."""
    router = router_of(Contract(sampling=Sampling(params={"temperature": 1})))
    with RawClient(router.port) as client:
        answer = client.post(CHAT, b'{"model":"served","messages":[{"role":"user","content":"hi"}]}')
    assert answer.status == 200
    assert engine.received[-1].body == b'{"model":"served","messages":[{"role":"user","content":"hi"}],"temperature":1}'
