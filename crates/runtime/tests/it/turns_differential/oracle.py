"""Runs scripts on google-adk: the real runner and agents, with a model, tools and callbacks that follow
the script.

Reads JSON Lines from stdin, one script per line. Prints one line per script: the results of each
turn, the requests of the models, and the final session. `script.rs` and `tree_script.rs` describe
the scripts.
"""

import asyncio
import json
import logging
import os
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

# The folder of the modules that several oracles share.
sys.dont_write_bytecode = True
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.loop_agent import LoopAgent
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.exit_loop_tool import exit_loop
from google.adk.tools.get_user_choice_tool import get_user_choice_tool
from google.adk.tools._request_input_tool import request_input
from google.adk.tools.function_tool import FunctionTool
from google.genai import types
from pydantic import BaseModel
from scripted_model import ScriptedModel, dump

USER = "ada"


def scripted_model(replies, requests):
    def describe(config):
        return {"temperature": config.temperature}

    return ScriptedModel(replies, requests, describe, "Nothing more.")


class ScriptedTool(BaseTool):
    """A tool that writes the state, fails or returns a result, as its name and arguments say."""

    def __init__(self, name):
        super().__init__(name=name, description=name, is_long_running=name == "later")

    def _get_declaration(self):
        return types.FunctionDeclaration(name=self.name, description=self.description)

    async def run_async(self, *, args, tool_context):
        state = tool_context.state
        if self.name == "note":
            state[args["key"]] = args["value"]
            return {"noted": args["key"]}
        if self.name == "nest":
            inside = state.get(args["key"])
            inside = dict(inside) if isinstance(inside, dict) else {}
            inside[args["inner"]] = args["value"]
            state[args["key"]] = inside
            return {"size": len(inside)}
        if self.name == "add":
            items = state.get(args["key"])
            items = list(items) if isinstance(items, list) else []
            state[args["key"]] = items + [args["value"]]
            return {"size": len(items) + 1}
        if self.name == "say":
            return args["result"]
        if self.name == "fail":
            raise ValueError(args["message"])
        if self.name == "quiet":
            tool_context.actions.skip_summarization = True
            return {"text": args["text"]}
        if self.name == "later":
            return args["result"]
        if self.name == "leave":
            tool_context.actions.escalate = True
            return {"left": True}
        raise NotImplementedError(self.name)


TOOLS = ["note", "nest", "add", "say", "fail", "quiet", "later", "leave"]


class Hooks:
    """The agent's callbacks. Each follows its list of steps."""

    def __init__(self, plans):
        self.plans = plans

    def next(self, hook, context):
        """Write the state keys of the next step, and return the step."""
        plan = self.plans.get(hook)
        step = plan.pop(0) if plan else None
        if step is None:
            return {}
        for key, value in step.get("write", {}).items():
            context.state[key] = value
        if step.get("fail"):
            raise ValueError("a callback is broken")
        return step

    def content(self, hook, context):
        answer = self.next(hook, context).get("answer")
        if answer is not None:
            return types.Content(role="model", parts=[types.Part(text=answer)])

    def response(self, hook, context):
        answer = self.next(hook, context).get("answer")
        if answer is not None:
            return LlmResponse.model_validate_json(json.dumps(answer))

    def before_agent(self, callback_context):
        return self.content("before_agent", callback_context)

    def after_agent(self, callback_context):
        return self.content("after_agent", callback_context)

    def before_model(self, callback_context, llm_request):
        step = self.next("before_model", callback_context)
        if step.get("change"):
            llm_request.append_instructions(["Changed."])
            llm_request.config.temperature = 0.5
        if step.get("answer") is not None:
            return LlmResponse.model_validate_json(json.dumps(step["answer"]))

    def after_model(self, callback_context, llm_response):
        return self.response("after_model", callback_context)

    def on_model_error(self, callback_context, llm_request, error):
        return self.response("on_model_error", callback_context)

    def before_tool(self, tool, args, tool_context):
        step = self.next("before_tool", tool_context)
        if step.get("change"):
            args["value"] = "changed"
        return step.get("answer")

    def after_tool(self, tool, args, tool_context, tool_response):
        return self.next("after_tool", tool_context).get("answer")

    def on_tool_error(self, tool, args, tool_context, error):
        return self.next("on_tool_error", tool_context).get("answer")


LATER = "later"
CONFIRM = "adk_request_confirmation"
CHOICE = "get_user_choice"
INPUT = "adk_request_input"
KINDS = [LATER, CONFIRM, CHOICE, INPUT]
ANSWERED = {
    "later": [LATER],
    "newest": [LATER],
    "with words": [LATER],
    "approve": [CONFIRM],
    "reject": [CONFIRM],
    "choice": [CHOICE],
    "input": [INPUT],
    "all": KINDS,
}


class User:
    """The user's messages: text, or an answer to a pending call. `turns.rs` describes them."""

    def __init__(self):
        self.open = {kind: [] for kind in KINDS}
        self.answered = []

    def record_calls(self, event):
        if not event.partial:
            for call in event.get_function_calls():
                self.open.get(call.name, []).append((event.author, call.id))

    def message(self, turn):
        how = turn["answers"]
        if how == "again":
            parts = self.answered
        elif how == "unknown":
            parts = [self.answer("no-such-call", LATER, turn)]
        else:
            open_ = [(kind, self.open[kind]) for kind in ANSWERED.get(how, []) if self.open[kind]]
            for _, calls in open_:
                calls.sort(key=lambda call: call[0])
            newest = -1 if how == "newest" else 0
            parts = [self.answer(calls.pop(newest)[1], kind, turn) for kind, calls in open_]
        text = types.Part(text=turn["text"])
        if not parts:
            return types.Content(role="user", parts=[text])
        self.answered = parts
        return types.Content(role="user", parts=parts + [text] if how == "with words" else parts)

    def answer(self, id, kind, turn):
        if kind == CONFIRM:
            result = {"confirmed": turn["answers"] != "reject"}
        elif kind == LATER:
            result = {"late": turn["text"]}
        else:
            result = {"result": "that"}
        return types.Part(function_response=types.FunctionResponse(id=id, name=kind, response=result))


def single_agent(script, requests):
    hooks = Hooks(script["hooks"])
    return LlmAgent(
        name="agent",
        description="Acts.",
        model=scripted_model(script["replies"], requests),
        instruction=script["instruction"],
        static_instruction=script["staticInstruction"],
        include_contents=script["includeContents"],
        output_key=script["outputKey"],
        tools=[ScriptedTool(name) for name in TOOLS],
        before_agent_callback=hooks.before_agent,
        after_agent_callback=hooks.after_agent,
        before_model_callback=hooks.before_model,
        after_model_callback=hooks.after_model,
        on_model_error_callback=hooks.on_model_error,
        before_tool_callback=hooks.before_tool,
        after_tool_callback=hooks.after_tool,
        on_tool_error_callback=hooks.on_tool_error,
    )


def pay(amount: int):
    """Pays."""
    return {"paid": amount}


class Order(BaseModel):
    """The input of an agent tool."""

    topic: str
    count: int | None = None


class TitleOutput(BaseModel):
    """The output of an agent tool."""

    title: str


WORKFLOWS = {"sequential": SequentialAgent, "loop": LoopAgent, "parallel": ParallelAgent}


def tree_agent(node, requests):
    """An agent with its sub-agents. `requests` has the requests of each model by the agent's name."""
    hooks = Hooks(node["hooks"])
    fields = {
        "name": node["name"],
        "description": f"Is {node['name']}.",
        "sub_agents": [tree_agent(child, requests) for child in node["below"]],
        "before_agent_callback": hooks.before_agent,
        "after_agent_callback": hooks.after_agent,
    }
    if node["kind"] == "loop":
        fields["max_iterations"] = node["maxIterations"]
    if node["kind"] != "llm":
        return WORKFLOWS[node["kind"]](**fields)
    if node["ownModel"]:
        fields["model"] = scripted_model(node["replies"], requests.setdefault(node["name"], []))
    tools = [ScriptedTool(name) for name in TOOLS]
    tools += [FunctionTool(pay, require_confirmation=True), exit_loop]
    tools += [get_user_choice_tool, request_input]
    if node["helper"] is not None:
        tools.append(AgentTool(tree_agent(node["helper"], requests)))
    return LlmAgent(
        instruction=node["instruction"],
        include_contents=node["includeContents"],
        output_key=node["outputKey"],
        disallow_transfer_to_parent=node["notToParent"],
        disallow_transfer_to_peers=node["notToPeers"],
        input_schema=Order if node["hasInputSchema"] else None,
        output_schema=TitleOutput if node["hasOutputSchema"] else None,
        tools=tools,
        **fields,
    )


async def run(script):
    is_tree = "tree" in script
    requests = {} if is_tree else []
    agent = tree_agent(script["tree"], requests) if is_tree else single_agent(script, requests)
    sessions = InMemorySessionService()
    resumability = ResumabilityConfig(is_resumable=script.get("resumable", False))
    app = App(name="app", root_agent=agent, resumability_config=resumability)
    runner = Runner(app=app, session_service=sessions)
    session = await sessions.create_session(
        app_name="app", user_id=USER, session_id="s1", state=script["state"]
    )
    turns, user = [], User()
    for turn in script["turns"]:
        config = RunConfig(streaming_mode=StreamingMode.SSE if turn["streaming"] else StreamingMode.NONE)
        if turn["maxLlmCalls"] is not None:
            config.max_llm_calls = turn["maxLlmCalls"]
        if turn["metadata"] is not None:
            config.custom_metadata = turn["metadata"]
        events, failed = [], None
        try:
            async for event in runner.run_async(
                user_id=USER,
                session_id="s1",
                new_message=user.message(turn),
                state_delta=turn["stateDelta"],
                run_config=config,
            ):
                events.append(dump(event))
                user.record_calls(event)
        except Exception as error:
            failed = type(error).__name__
        session = await sessions.get_session(app_name="app", user_id=USER, session_id="s1")
        turns.append({"events": events, "failed": failed, "state": dict(session.state)})
    stored = [dump(event) for event in session.events]
    return {"turns": turns, "requests": requests, "stored": stored}


for line in sys.stdin:
    print(json.dumps(asyncio.run(run(json.loads(line)))), flush=True)
