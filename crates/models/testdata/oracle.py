"""Prints the requests that Google's ADK sends to Claude and to OpenAI's API.

Reads one JSON object per line from stdin: the provider, contents and settings. Prints one per line:
the arguments that ADK passes to the provider's client library, or `{"error": ...}` if it raised.
"""

import asyncio
import json
import logging
import os
import sys
import warnings

# Prevent LiteLLM from downloading its table of models.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

import litellm
from anthropic import AsyncAnthropic
from anthropic._types import NotGiven, Omit
from google.adk.models.anthropic_llm import AnthropicLlm
from google.adk.models.lite_llm import LiteLlm, LiteLLMClient
from google.adk.models.llm_request import LlmRequest
from google.genai import types

litellm.suppress_debug_info = True


class Sent(Exception):
    pass


CLIENT = AsyncAnthropic(api_key="key")


def claude(sent):
    async def create(**fields):
        sent.update(fields)
        raise Sent

    CLIENT.messages.create = create
    return AnthropicLlm(model="claude-test", client=CLIENT)


class Client(LiteLLMClient):
    def __init__(self, sent):
        self.sent = sent

    async def acompletion(self, model, messages, tools, **fields):
        self.sent.update(model=model, messages=messages, tools=tools, **fields)
        raise Sent


def openai(sent, model):
    return LiteLlm(model=model, llm_client=Client(sent))


def plain(value):
    """The value as JSON, without unset fields."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(exclude_none=True)
    if isinstance(value, dict):
        unsaid = lambda item: item is None or isinstance(item, (NotGiven, Omit))
        return {name: plain(item) for name, item in value.items() if not unsaid(item)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


async def answer(case):
    sent = {}
    config = types.GenerateContentConfig.model_validate(case["config"])
    declared = [d.name for tool in config.tools or [] for d in tool.function_declarations or []]
    request = LlmRequest(
        model=case["model"],
        contents=[types.Content.model_validate(content) for content in case["contents"]],
        config=config,
    )
    request.tools_dict = {name: None for name in declared}
    model = claude(sent) if case["provider"] == "claude" else openai(sent, case["model"])
    try:
        async for _ in model.generate_content_async(request):
            pass
    except Sent:
        return plain(sent)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"error": "nothing was sent"}


async def main():
    for line in sys.stdin:
        print(json.dumps(await answer(json.loads(line))), flush=True)


asyncio.run(main())
