"""The request fields that a contract can govern, and the other names engines know them by.

Sources: OpenAI's chat completions reference for the standard names; what vLLM, SGLang and llama.cpp read was measured
on running engines (vLLM 0.32, llama.cpp b10434) or read from their source (SGLang 0.5.23).
"""

from typing import Final

SAMPLING_FIELDS: Final = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "n",
)
"""The sampling parameters in the order in which they are checked, injected and reported."""

WHOLE_NUMBER_FIELDS: Final = frozenset({"top_k", "n"})
"""Sampling parameters that engines declare as integers."""

BUDGET_FIELDS: Final = ("max_completion_tokens", "max_tokens")
"""Spellings of the output-token budget, in the precedence of vLLM and SGLang."""

REASONING_EFFORT: Final = "reasoning_effort"
"""The one field with other spellings whose values are words."""

OTHER_SPELLINGS: Final = {
    "n_predict": "max_tokens",  # llama.cpp: overrides both budget fields
    "n_cmpl": "n",  # llama.cpp
    "best_of": "n",  # the OpenAI completions API and older vLLM: multiplies the output like n
    "repeat_penalty": "repetition_penalty",  # llama.cpp
    "n_probs": "top_logprobs",  # llama.cpp, where logprobs is not true
    "chat_template_kwargs.reasoning_effort": "reasoning_effort",  # SGLang and vLLM: overrides the field
    "reasoning.effort": "reasoning_effort",  # SGLang: overrides the field
    "reasoning.reasoning_effort": "reasoning_effort",  # SGLang: the same, where there is no `effort` beside it
}
"""Other spelling, by its dotted path → the standard field whose rule applies to it."""

BOUND_TO_BUDGET: Final = {
    "min_tokens": 0,  # vLLM and SGLang: at most the budget
    "min_new_tokens": 0,  # SGLang's own name for it
    "thinking.budget_tokens": 1,  # Anthropic: less than max_tokens
    "thinking_token_budget": 0,  # vLLM: thinking counts as output
}
"""Field whose value the output-token budget bounds → by how much it has to stay below the budget, in tokens."""

PART_TYPES: Final = {
    "image": frozenset({"image_url", "input_image", "image", "image_embeds", "image_pil"}),
    "video": frozenset({"video_url", "input_video", "video", "video_embeds"}),
    "audio": frozenset({"audio_url", "input_audio", "audio", "audio_embeds"}),
    "file": frozenset({"file", "input_file", "file_url", "document", "document_url"}),
}
"""Modality → the values of `type` of a content part that carries it; also the keys that hold it.

OpenAI: image_url, input_audio, file. Qwen: video. Mistral: document_url. Z.ai: video_url, file_url. Anthropic: image,
document. vLLM (mm_parser_map): the *_url, *_embeds, image_pil, input_image, input_audio. llama.cpp: input_video.
"""

MODALITY_OF: Final = {kind: modality for modality, kinds in PART_TYPES.items() for kind in kinds}
"""Type of a content part → what it carries, where that is no text."""

PART_KEYS: Final = frozenset({*MODALITY_OF, "prompt_embeds", "tool_reference"})
"""Keys by which vLLM finds the type of a content part without `type`, or with a `uuid`."""

IMAGE_PART_TYPES: Final = PART_TYPES["image"]
"""Values of `type` that make a content part an image; also the keys that carry it."""

ONCE_ONLY_FIELDS: Final = frozenset({"model", "stream", "messages"})
"""Fields that a request may not repeat under any contract."""


_SPELLINGS: Final = {
    field: tuple(other for other, standard in OTHER_SPELLINGS.items() if standard == field)
    for field in OTHER_SPELLINGS.values()
}


def spellings_of(field: str) -> tuple[str, ...]:
    """Return the dotted paths by which some engine knows a standard field besides its own name."""
    return _SPELLINGS.get(field, ())


def standard_name(field: str) -> str:
    """Return the standard name of a field that may be another spelling."""
    return OTHER_SPELLINGS.get(field, field)
