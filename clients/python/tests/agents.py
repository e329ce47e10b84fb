"""Agents whose model follows a script, so that all runs are equal."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools import exit_loop
from google.adk.tools.load_memory_tool import load_memory_tool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import Field

# google-adk 2 tries to import this module in every run. Without a2a the import fails, which is slow
# and triggers a race in the import lock of Python before 3.11.8.
if importlib.util.find_spec("a2a") is None:
    sys.modules.setdefault("google.adk.agents.remote_a2a_agent", None)  # type: ignore[arg-type]


class ScriptedModel(BaseLlm):
    """A model that returns its replies in order: a text, or calls as (name, arguments).

    `seen` has the contents of each request.
    """

    model: str = "script"
    replies: list[Any] = Field(default_factory=list)
    seen: list[list[types.Content]] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.seen.append([content.model_copy(deep=True) for content in llm_request.contents])
        reply = self.replies[len(self.seen) - 1]
        calls = reply if isinstance(reply, list) else [reply]
        if stream and isinstance(reply, str):
            for piece in reply.split():
                part = types.Part(text=piece)
                yield LlmResponse(content=types.Content(role="model", parts=[part]), partial=True)
        parts = [
            types.Part(text=call)
            if isinstance(call, str)
            else types.Part(function_call=types.FunctionCall(name=call[0], args=call[1]))
            for call in calls
        ]
        usage = types.GenerateContentResponseUsageMetadata(total_token_count=len(self.seen))
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=usage)


def script(*replies: Any) -> ScriptedModel:
    return ScriptedModel(replies=list(replies))


async def add_to_cart(item: str, tool_context: ToolContext) -> dict[str, Any]:
    """Puts an item into the cart."""
    cart = [*tool_context.state.get("cart", []), item]
    tool_context.state["cart"] = cart
    tool_context.state["user:items"] = tool_context.state.get("user:items", 0) + 1
    tool_context.state["app:sold"] = item
    tool_context.state["temp:last"] = item
    return {"cart": cart, "last": tool_context.state["temp:last"]}


async def write_receipt(tool_context: ToolContext) -> dict[str, Any]:
    """Writes a receipt as a file."""
    text = ", ".join(tool_context.state.get("cart", []))
    part = types.Part(inline_data=types.Blob(data=text.encode(), mime_type="text/plain"))
    version = await tool_context.save_artifact("receipt.txt", part)
    await tool_context.save_artifact("user:last_receipt.txt", part)
    loaded = await tool_context.load_artifact("receipt.txt")
    return {"version": version, "bytes": len(loaded.inline_data.data)}


def shop() -> LlmAgent:
    """Return an agent with several turns, tools, state in all scopes, and files."""
    return LlmAgent(
        name="shop",
        model=script(
            "Welcome.",
            ("add_to_cart", {"item": "apple"}),
            "An apple it is.",
            [("add_to_cart", {"item": "pear"}), ("add_to_cart", {"item": "plum"})],
            ("write_receipt", {}),
            "Here is your receipt.",
        ),
        instruction="The cart has {cart?}.",
        tools=[add_to_cart, write_receipt],
        output_key="last_answer",
    )


def transferring() -> LlmAgent:
    """Return a root agent that transfers to another agent, which also gets the next messages."""
    billing = LlmAgent(
        name="billing",
        description="bills",
        model=script(
            "Your bill is 3.", "It was 3, as I said.", ("transfer_to_agent", {"agent_name": "root"})
        ),
    )
    model = script(("transfer_to_agent", {"agent_name": "billing"}), "Back at the desk.")
    return LlmAgent(name="root", model=model, sub_agents=[billing])


def pipeline() -> SequentialAgent:
    """Return sequential, parallel and looping agents that read each other's state."""
    draft = LlmAgent(name="draft", model=script("A draft."), output_key="temp:draft")
    parallel = ParallelAgent(
        name="parallel",
        sub_agents=[
            LlmAgent(name=f"critic_{n}", model=script(f"Critique {n}."), output_key=f"critique_{n}")
            for n in range(3)
        ],
    )
    polish = LoopAgent(
        name="polish",
        max_iterations=5,
        sub_agents=[
            LlmAgent(
                name="polisher",
                model=script("Better.", "Still better.", ("exit_loop", {}), "Done."),
                instruction="Improve {temp:draft?}: {critique_0} {critique_1} {critique_2}",
                tools=[exit_loop],
                output_key="final",
            )
        ],
    )
    return SequentialAgent(name="pipeline", sub_agents=[draft, parallel, polish])


def recalling() -> LlmAgent:
    """Return an agent that searches memory."""
    return LlmAgent(
        name="recalling",
        model=script(("load_memory", {"query": "apples"}), "You like them."),
        tools=[load_memory_tool],
    )
