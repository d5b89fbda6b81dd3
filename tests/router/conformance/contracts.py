"""The contracts that bodies are judged by."""

from msgspec.structs import replace

from router.artifact.format import read
from router.artifact.release import shipped_folder
from router.contract.schema.model import Contract
from router.contract.schema.sections import Field, Interval, MaxTokens, Models, Output, Sampling, plain_aliases

OPEN = read(shipped_folder("build") / "openai-compatible.json").contract
KIMI = replace(
    read(shipped_folder("build") / "moonshot-kimi.json").contract, output=Output(MaxTokens(cap=100, default=50))
)
"""Moonshot's sampling, with a cap: rejects."""
PARAMS = {
    "temperature": 0.6,
    "top_p": Interval(0.5, 1),
    "top_k": Interval(1, 1000),
    "min_p": 0,
    "repetition_penalty": 1.05,
    "presence_penalty": Interval(-1, 1),
    "n": Interval(1, 4),
}
CLAMPING = Contract(
    models=Models(aliases=plain_aliases("vendor-latest")),
    output=Output(MaxTokens(cap=100, default=100, on_exceed="clamp")),
    sampling=Sampling(params=PARAMS),
)
ALLOWING = Contract(
    output=Output(MaxTokens(cap=1000, default=1)),
    sampling=Sampling(conflict="allow", params={"temperature": 1, "top_p": 0.95, "top_k": 5, "n": 1}),
)
OF_FIELDS = Contract(
    fields={
        "temperature": Field(min=0, below=1.5, default=1.0),
        "top_p": Field(allowed=(0.95, 1), default=0.95),
        "top_k": Field(min=1, max=1000),
        "min_p": Field(floor=0, ceiling=0.5),
        "repetition_penalty": Field(above=0, max=2),
        "presence_penalty": Field(force=0.0),
        "frequency_penalty": Field(min=-2, max=2, drop=True),
        "n": Field(min=1, max=4, default=1),
    },
    output=Output(MaxTokens(cap=100, default=100, on_exceed="clamp")),
)
"""Rules of single fields: ranges, values, defaults, and what is changed silently."""
