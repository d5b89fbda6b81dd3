"""Writes a tiny llama as a GGUF file: `python make_tiny_model.py OUT.gguf`. Needs numpy, tokenizers and gguf.

Its weights are random but for the output layer, which is wired as a chain: after a chat prompt the model says WORDS,
one token a word, and stops. So a real engine gives a known text.
"""

import json
import sys
from itertools import pairwise
from pathlib import Path

import gguf
import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

TEXT = "a contract is what two sides can hold each other to without asking the vendor again"
WORDS = TEXT.split()
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for p in m['content'] %}{{ p['text'] }}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
DIM, LAYERS, HEADS, FEED_FORWARD, CONTEXT = 64, 2, 2, 128, 2048
PULL = 25.0  # how strongly a token's output points to its successor; far above the noise of the random weights


def train_tokenizer() -> Tokenizer:
    """Return a byte-level tokenizer in which each word is one token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    corpus = [f" {word}" for word in sorted(set(WORDS))] * 4 + ["system user assistant hello " * 3] * 4
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        min_frequency=2,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL],
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def only_id(tokenizer: Tokenizer, text: str) -> int:
    """Return the id of a text that must be a single token."""
    (token,) = tokenizer.encode(text, add_special_tokens=False).ids
    return token


def write(path: Path) -> None:
    """Write the model."""
    tokenizer = train_tokenizer()
    size = tokenizer.get_vocab_size()
    noise = np.random.default_rng(1)

    def random(*shape: int) -> np.ndarray:
        return (noise.standard_normal(shape) * 0.02).astype(np.float32)

    embedding = noise.standard_normal((size, DIM)).astype(np.float32)
    output = random(size, DIM)
    end = tokenizer.token_to_id("<|im_end|>")
    words = [only_id(tokenizer, f" {word}") for word in WORDS]
    chain = [only_id(tokenizer, "\n"), *words, end, words[0]]
    for token, successor in pairwise(chain):
        output[successor] += embedding[token] * (PULL / DIM)

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(DIM)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(DIM // HEADS)
    writer.add_vocab_size(size)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    add_tokenizer(writer, tokenizer, end)
    ones = np.ones(DIM, np.float32)
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output_norm.weight", ones)
    writer.add_tensor("output.weight", output)
    for layer in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", random(DIM, DIM))
        writer.add_tensor(f"blk.{layer}.ffn_gate.weight", random(FEED_FORWARD, DIM))
        writer.add_tensor(f"blk.{layer}.ffn_up.weight", random(FEED_FORWARD, DIM))
        writer.add_tensor(f"blk.{layer}.ffn_down.weight", random(DIM, FEED_FORWARD))
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", ones.copy())
        writer.add_tensor(f"blk.{layer}.ffn_norm.weight", ones.copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_tokenizer(writer: "gguf.GGUFWriter", tokenizer: Tokenizer, end: int) -> None:
    """Write the tokenizer and the chat template into the model."""
    tokens = [tokenizer.id_to_token(number) for number in range(tokenizer.get_vocab_size())]
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if t in SPECIAL else gguf.TokenType.NORMAL for t in tokens])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(end)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
