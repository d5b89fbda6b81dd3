"""The routes that exist. Everything else is 404."""

from collections.abc import Mapping
from typing import Any, Final

from router.contract import protocols
from router.contract.protocols import Protocol

CHAT: Final = "/v1/chat/completions"
"""The route that is under the whole contract."""

COMPLETIONS: Final = "/v1/completions"
RESPONSES: Final = "/v1/responses"
MESSAGES: Final = "/v1/messages"
EMBEDDINGS: Final = "/v1/embeddings"
PASS_THROUGH: Final = (
    COMPLETIONS,
    EMBEDDINGS,
    RESPONSES,
    MESSAGES,
    f"{MESSAGES}/count_tokens",
    "/v1/rerank",
    "/rerank",
    "/v1/score",
    "/v1/classify",
    "/generate",
    "/tokenize",
    "/detokenize",
)
"""Inference routes on which only the body limit holds."""

INFERENCE: Final = (CHAT, *PASS_THROUGH)
MODELS: Final = "/v1/models"
MODEL_DETAIL: Final = "/v1/models/{model}"
"""Stands in logs for the routes of all models."""
HEALTHZ: Final = "/healthz"
READYZ: Final = "/readyz"

METRICS: Final = "/metrics"
"""Exists where ROUTER_METRICS says so."""

HEALTH_ROUTES: Final = (HEALTHZ, READYZ)
"""Routes that need no API key: orchestrators ask them."""

CONFIGURABLE: Final = (*INFERENCE, MODELS)
"""Routes that ROUTER_ROUTES chooses from; the probes always exist."""


_PROTOCOLS: Final = {
    CHAT: protocols.CHAT,
    COMPLETIONS: protocols.COMPLETIONS,
    RESPONSES: protocols.RESPONSES,
    MESSAGES: protocols.MESSAGES,
}


def protocol_of(path: str | None) -> Protocol:
    """Return the protocol that clients of a path speak, be it a route or not; None: of a request without a target."""
    found = _PROTOCOLS.get(path or "")
    if found is None and path is not None and path.startswith(f"{MESSAGES}/"):
        return protocols.MESSAGES
    return found or protocols.OTHER


def raw_path(environ: Mapping[str, Any]) -> str:
    """Return the path of a request's target as it was sent: servers tidy up what they put into PATH_INFO."""
    return str(environ.get("RAW_URI", environ["PATH_INFO"])).partition("?")[0]
