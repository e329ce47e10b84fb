"""Streams random pieces through google-adk's aggregator.

Reads one seed per line from stdin. Prints one line of JSON per seed: the pieces as LlmResponse
objects, the output of the aggregator for each piece, and its final response. All ids that ADK
generates are `adk-0`.
"""

import asyncio
import json
import random
import sys

from google.adk.flows.llm_flows import functions
from google.adk.models.llm_response import LlmResponse
from google.adk.utils.streaming_utils import StreamingResponseAggregator
from google.genai import types

functions.generate_client_function_call_id = lambda: "adk-0"

PATHS = ["$.a", "$.b", "$.a.x", "$.list[0]", "$.list[1].n", "$['k v']", "$.b\\.c", "$", "", "$.m[2]"]


def text_part(rng):
    part = {"text": rng.choice(["Hel", "lo ", "wörld", " ", "", "x" * 40])}
    kind = rng.random()
    if kind < 0.3:
        part["thought"] = True
    elif kind < 0.4:
        part["thought"] = False
    if rng.random() < 0.15:
        part["thought_signature"] = rng.choice([b"sig1", b"sig2", b""])
    return part


def call_part(rng):
    call = {}
    if rng.random() < 0.7:
        call["name"] = rng.choice(["f", "g", "f"])
    if rng.random() < 0.3:
        call["id"] = rng.choice(["c1", "c2", ""])
    kind = rng.random()
    if kind < 0.3:
        call["args"] = rng.choice([{}, {"a": 1}, {"b": {"c": [1, 2]}}])
    elif kind < 0.9:
        call["partial_args"] = [partial_arg(rng) for _ in range(rng.randrange(4))]
    if rng.random() < 0.6:
        call["will_continue"] = rng.random() < 0.7
    part = {"function_call": call}
    if rng.random() < 0.2:
        part["thought_signature"] = b"sig3"
    return part


def partial_arg(rng):
    arg = {"json_path": rng.choice(PATHS)}
    kind = rng.random()
    if kind < 0.5:
        arg["string_value"] = rng.choice(["par", "tial", "", "é"])
    elif kind < 0.7:
        arg["number_value"] = rng.choice([1.0, 2.5, 0.0])
    elif kind < 0.85:
        arg["bool_value"] = rng.random() < 0.5
    elif kind < 0.95:
        arg["null_value"] = "NULL_VALUE"
    return arg


def other_part(rng):
    return rng.choice(
        [
            {"inline_data": {"data": b"\x00\xff", "mime_type": "image/png"}},
            {"executable_code": {"code": "print(1)", "language": "PYTHON"}},
            {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "1"}},
        ]
    )


def piece(rng, is_last):
    parts = []
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        kind = rng.random()
        make = text_part if kind < 0.55 else call_part if kind < 0.9 else other_part
        parts.append(make(rng))
    response = {"model_version": rng.choice(["m-1", "m-2", None])}
    if rng.random() < 0.3:
        response["usage_metadata"] = {"prompt_token_count": rng.randrange(99)}
    if rng.random() < 0.05:
        reason = rng.choice(["SAFETY", "OTHER"])
        response["prompt_feedback"] = {"block_reason": reason, "block_reason_message": "no"}
        return response
    candidate = {}
    if parts or rng.random() < 0.5:
        candidate["content"] = {"role": "model", "parts": parts}
    if is_last or rng.random() < 0.1:
        candidate["finish_reason"] = rng.choice(["STOP", "STOP", "STOP", "SAFETY", "MAX_TOKENS"])
        # An LlmResponse cannot have both content and a finish message.
        if not parts and rng.random() < 0.3:
            candidate["finish_message"] = "why"
    if rng.random() < 0.1:
        candidate["grounding_metadata"] = {"web_search_queries": [rng.choice("ab")]}
    if rng.random() < 0.1:
        candidate["citation_metadata"] = {"citations": [{"title": rng.choice("ab")}]}
    response["candidates"] = [candidate]
    return response


def dump(response):
    if response is None:
        return None
    return response.model_dump(mode="json", exclude_none=True, by_alias=True)


async def stream(rng):
    aggregator = StreamingResponseAggregator()
    count = rng.randrange(7)
    created, outputs = [], []
    for number in range(count):
        response = types.GenerateContentResponse.model_validate(piece(rng, number == count - 1))
        created.append(dump(LlmResponse.create(response.model_copy(deep=True))))
        async for out in aggregator.process_response(response):
            outputs.append(dump(out))
    return {"created": created, "outputs": outputs, "whole": dump(aggregator.close())}


for line in sys.stdin:
    seed = int(line)
    print(json.dumps({"seed": seed, **asyncio.run(stream(random.Random(seed)))}), flush=True)
