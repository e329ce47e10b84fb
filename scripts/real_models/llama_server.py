#!/usr/bin/env python3
"""Run llama.cpp's own HTTP server with a generated model, so that no weights are downloaded.

    llama_server.py FOLDER NAME [chat|embed] [KEY]

The model is a table of word successors. Its one layer is all zeros and its embeddings are one-hot,
so the output weights are that table. The server renders the chat template, which ends the prompt with
a mark that depends on the conversation. The mark determines the answer. So the answers are known, and
everything else is the real server: templates, tokens, grammars, parsing of calls and thoughts,
streams, counts and errors.

Prints its address and the embedding dimension, and runs until its standard input ends.
"""

import sys
from pathlib import Path

import gguf
import numpy as np
import xllamacpp

BOS, EOS = "<s>", "</s>"

# The text that follows a mark. Each text is one token, so that the answer is deterministic.
CALL = '{"name": "get_user_choice", "arguments": {"options": ["tea", "coffee"]}}'
OTHER = '{"name": "get_user_choice", "arguments": {"options": ["milk", "sugar"]}}'
BOTH = f"<tool_call>{CALL}</tool_call>\n<tool_call>{OTHER}</tool_call>"
SENTENCES = {
    "<|say-hello|>": ["Grüß", "▁dich", "▁from", "▁Zürich", ".", EOS],
    "<|say-think|>": ["<think>", "The", "▁user", "▁greets", "▁me", "</think>",
                      "Good", "▁day", "!", EOS],
    "<|say-call|>": ["<tool_call>", CALL, "</tool_call>", EOS],
    "<|say-both|>": [BOTH, EOS],
    "<|say-answer|>": ["They", "▁chose", "▁it", ";", EOS],
    # Repeats until the context is full or the client disconnects.
    "<|say-long|>": ["Once", "▁upon", "▁a", "▁time;", "Once"],
}

# Weights of tokens under a JSON grammar, so that the answer names a place and ends.
PLACE = 'latitude":4,"longitude":7}'
ENDS = {EOS: 1.0, "</tool_call>": 0.9, "}": 0.8}
LIKELY = {
    # Used only if the grammar rejects the usual answer.
    "<|say-hello|>": {"{": 0.3},
    "<tool_call>": {"{": 0.3},
    **{opening: {'"': 1.0} for opening in "{ \n\t"},
    '"': {PLACE: 1.0},
    PLACE: ENDS,
    "}": ENDS,
}

TEMPLATE = """\
{%- for m in messages -%}
{{- '<|from|>' + m.role + '\\n' -}}
{%- if m.reasoning_content -%}{{- '<think>' + m.reasoning_content + '</think>' -}}{%- endif -%}
{%- if m.content is string -%}{{- m.content -}}{%- endif -%}
{%- if m.tool_calls -%}{%- for c in m.tool_calls -%}
{{- '<tool_call>{"name": "' + c.function.name + '", "arguments": ' -}}
{{- c.function.arguments if c.function.arguments is string else c.function.arguments | tojson -}}
{{- '}</tool_call>' -}}
{%- endfor -%}{%- endif -%}
{{- '<|over|>\\n' -}}
{%- endfor -%}
{%- if tools -%}{%- for t in tools -%}
{{- '<tools>' + (t | tojson) + '</tools>\\n' -}}
{%- endfor -%}{%- endif -%}
{%- if add_generation_prompt -%}
{%- set last = messages[-1] -%}
{%- set said = last.content if last.content is string else '' -%}
{{- '<|from|>assistant\\n' -}}
{%- if last.role == 'tool' -%}{{- '<|say-answer|>' -}}
{%- elif said.endswith('a long story') -%}{{- '<|say-long|>' -}}
{%- elif said.endswith('Please think') -%}{{- '<|say-think|>' -}}
{%- elif tools and said.endswith('Two things') -%}{{- '<|say-both|>' -}}
{%- elif tools -%}{{- '<|say-call|>' -}}
{%- else -%}{{- '<|say-hello|>' -}}
{%- endif -%}
{%- endif -%}
"""


def vocabulary():
    """Return tokens with their kinds: bytes and letters for input, words for output."""
    kinds = gguf.TokenType
    tokens = [("<unk>", kinds.UNKNOWN), (BOS, kinds.CONTROL), (EOS, kinds.CONTROL)]
    tokens += [(f"<0x{byte:02X}>", kinds.BYTE) for byte in range(256)]
    tokens += [(chr(letter), kinds.NORMAL) for letter in range(33, 127)] + [("▁", kinds.NORMAL)]
    tokens += [(mark, kinds.CONTROL) for mark in [*SENTENCES, "<|from|>", "<|over|>"]]
    tags = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
    tokens += [(tag, kinds.USER_DEFINED) for tag in tags]
    known = {text for text, _ in tokens}
    words = [word for sentence in SENTENCES.values() for word in sentence] + [PLACE]
    for word in dict.fromkeys(words):
        if word not in known:
            tokens.append((word.replace(" ", "▁"), kinds.NORMAL))
    return tokens


def table(tokens, width):
    """Return the weights of successors: the row is the next token, the column the token before it."""
    place = {text: number for number, (text, _) in enumerate(tokens)}
    follows = np.zeros((len(tokens), width), dtype=np.float32)
    for mark, sentence in SENTENCES.items():
        words = [word.replace(" ", "▁") for word in sentence]
        for before, after in zip([mark, *words], words):
            follows[place[after], place[before]] = 1.0
    for before, likely in LIKELY.items():
        # A letter may also be generated as its byte.
        spelled = [before.replace(" ", "▁")]
        spelled += [f"<0x{byte:02X}>" for byte in before.encode() if len(before) == 1]
        for column in [place[text] for text in spelled if text in place]:
            for after, weight in likely.items():
                follows[place[after], column] = weight
    return follows


def write_model(path, name):
    tokens = vocabulary()
    head = 64
    width = -(-len(tokens) // head) * head
    narrow = 32
    out = gguf.GGUFWriter(path, "llama")
    out.add_name(name)
    out.add_context_length(32768)
    out.add_embedding_length(width)
    out.add_block_count(1)
    out.add_feed_forward_length(narrow)
    out.add_head_count(width // head)
    out.add_head_count_kv(1)
    out.add_rope_dimension_count(head)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_vocab_size(len(tokens))
    out.add_tokenizer_model("llama")
    out.add_token_list([text.encode() for text, _ in tokens])
    out.add_token_scores([0.0] * len(tokens))
    out.add_token_types([int(kind) for _, kind in tokens])
    place = {text: number for number, (text, _) in enumerate(tokens)}
    out.add_bos_token_id(place[BOS])
    out.add_eos_token_id(place[EOS])
    out.add_unk_token_id(0)
    out.add_add_space_prefix(False)
    out.add_chat_template(TEMPLATE)

    def nothing(rows, columns):
        return np.zeros((rows, columns), dtype=np.float32)

    ones = np.ones(width, dtype=np.float32)
    out.add_tensor("token_embd.weight", np.eye(len(tokens), width, dtype=np.float32))
    out.add_tensor("output_norm.weight", ones)
    out.add_tensor("output.weight", table(tokens, width))
    out.add_tensor("blk.0.attn_norm.weight", ones)
    out.add_tensor("blk.0.ffn_norm.weight", ones)
    out.add_tensor("blk.0.attn_q.weight", nothing(width, width))
    out.add_tensor("blk.0.attn_k.weight", nothing(head, width))
    out.add_tensor("blk.0.attn_v.weight", nothing(head, width))
    out.add_tensor("blk.0.attn_output.weight", nothing(width, width))
    out.add_tensor("blk.0.ffn_gate.weight", nothing(narrow, width))
    out.add_tensor("blk.0.ffn_up.weight", nothing(narrow, width))
    out.add_tensor("blk.0.ffn_down.weight", nothing(width, narrow))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return width


def main():
    folder, name, kind, *key = sys.argv[1:]
    path = Path(folder) / f"{name}.gguf"
    width = write_model(path, name)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {name}
    params.n_ctx = 65536
    params.n_parallel = 2
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.use_jinja = True
    params.endpoint_slots = True
    params.endpoint_metrics = True
    params.api_keys = key
    if kind == "embed":
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    server = xllamacpp.Server(params)
    print(server.listening_address, width, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
