"""Runs the agents of the test on google-adk and prints their spans as JSON.

The spans have the older schema of ADK 2.13, with `invocation` and `call_llm`.
"""

import asyncio
import json
import logging
import os
import sys
import warnings

os.environ["ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN"] = "1"
os.environ["ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS"] = sys.argv[1]
for name in ("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI"):
    os.environ.pop(name, None)
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

from google.adk.agents import LlmAgent, ParallelAgent, SequentialAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import AgentTool
from google.genai import types


class ScriptedModel(BaseLlm):
    """Answers with its replies, or raises those that are exceptions."""

    replies: list = []

    async def generate_content_async(self, llm_request, stream=False):
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        yield reply


def model(name, *replies):
    return ScriptedModel(model=name, replies=list(replies))


def text(words):
    return LlmResponse(
        content=types.Content(role="model", parts=[types.Part(text=words)]),
        finish_reason="STOP",
        usage_metadata=types.GenerateContentResponseUsageMetadata(
            prompt_token_count=7, candidates_token_count=3, thoughts_token_count=2,
            cached_content_token_count=1, tool_use_prompt_token_count=4,
        ),
    )


def calls(*made):
    parts = [types.Part(function_call=types.FunctionCall(id=id, name=name, args=args))
             for id, name, args in made]
    return LlmResponse(content=types.Content(role="model", parts=parts))


def add(a: int, b: int) -> dict:
    """Adds."""
    return {"sum": a + b}


def refuse() -> dict:
    """Refuses."""
    return {"error": "no"}


def fail() -> dict:
    """Fails."""
    raise ValueError("the secret of the tool")


def desk():
    helper = LlmAgent(name="helper", description="Helps.", model=model("gemini-x", text("Helped.")))
    other = LlmAgent(name="other", description="Takes over.", model=model(
        "openai/gpt", calls(("c5", "nothing", {})), text("Done.")))
    return LlmAgent(name="desk", description="A desk.", tools=[add, refuse, AgentTool(helper)],
                    sub_agents=[other],
                    generate_content_config=types.GenerateContentConfig(
                        top_p=0.5, max_output_tokens=99,
                        thinking_config=types.ThinkingConfig(thinking_budget=11)),
                    model=model("scripted",
                                calls(("c1", "add", {"a": 1, "b": 2}), ("c2", "refuse", {}),
                                      ("c3", "helper", {"request": "Help!"})),
                                calls(("c4", "transfer_to_agent", {"agent_name": "other"}))))


def line():
    pair = ParallelAgent(name="pair", sub_agents=[
        LlmAgent(name="one", model=model("claude-x", text("One."))),
        LlmAgent(name="two", model=model("m", text("Two.")))])
    last = LlmAgent(name="last", model=model("m", calls(("c1", "fail", {}))), tools=[fail])
    return SequentialAgent(name="line", sub_agents=[pair, last])


def broken():
    return LlmAgent(name="broken", model=model("m", RuntimeError("the secret of the model")))


async def play(agent):
    exporter.clear()
    runner = InMemoryRunner(agent=agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="ada",
                                                          session_id="s1")
    events = []
    message = types.Content(role="user", parts=[types.Part(text="Hello!")])
    try:
        async for event in runner.run_async(user_id="ada", session_id=session.id,
                                            new_message=message):
            events.append(event.id)
    except Exception:
        pass
    spans = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time)
    return {"events": events, "spans": [
        {"id": str(span.context.span_id), "parent": span.parent and str(span.parent.span_id),
         "name": span.name, "failed": not span.status.is_ok,
         "attributes": {key: list(value) if isinstance(value, tuple) else value
                        for key, value in span.attributes.items()}}
        for span in spans]}


agents = {"desk": desk, "line": line, "broken": broken}
for name in sys.stdin:
    print(json.dumps(asyncio.run(play(agents[json.loads(name)]()))), flush=True)
