"""Runs scripts on Google's ADK: real runner and agent, a model and tools that do what they are told.

Reads JSON Lines from stdin, one script a line. Prints one line a script:
what every turn gave, what the models were asked, and the session in the end. `script.rs` says what
a script is, `tree_script.rs` what one with several agents is.
"""

import asyncio
import json
import logging
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.loop_agent import LoopAgent
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.models.base_llm import BaseLlm
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
from pydantic import BaseModel, PrivateAttr

USER = "ada"


def dump(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Told(BaseLlm):
    """Says what the script says, and keeps what it was asked."""

    # Not fields of the model: those are copied.
    _replies: list = PrivateAttr()
    _asked: list = PrivateAttr()

    def __init__(self, replies, asked):
        super().__init__(model="gemini-told")
        self._replies = replies
        self._asked = asked

    async def generate_content_async(self, llm_request, stream=False):
        config = llm_request.config
        self._asked.append({
            "contents": [dump(content) for content in llm_request.contents],
            "instruction": config.system_instruction,
            "temperature": config.temperature,
        })
        reply = self._replies.pop(0) if self._replies else {"responses": [text("Nothing more.")]}
        for response in reply["responses"]:
            if stream or not response.get("partial"):
                yield LlmResponse.model_validate_json(json.dumps(response))
        if "error" in reply:
            raise RuntimeError(reply["error"])


def text(words):
    return {"content": {"role": "model", "parts": [{"text": words}]}}


class Doing(BaseTool):
    """A tool that does what its arguments say."""

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
            return {"said": args["text"]}
        if self.name == "later":
            return args["result"]
        if self.name == "leave":
            tool_context.actions.escalate = True
            return {"left": True}
        raise NotImplementedError(self.name)


TOOLS = ["note", "nest", "add", "say", "fail", "quiet", "later", "leave"]


class Hooks:
    """The agent's callbacks, each of which follows its plan."""

    def __init__(self, plans):
        self.plans = plans

    def next(self, hook, context):
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
    """What the user says: words, or an answer to a call that is open. `turns.rs` says which."""

    def __init__(self):
        self.open = {kind: [] for kind in KINDS}
        self.answered = []

    def saw(self, event):
        if not event.partial:
            for call in event.get_function_calls():
                self.open.get(call.name, []).append((event.author, call.id))

    def message(self, said):
        how = said["answers"]
        if how == "again":
            parts = self.answered
        elif how == "unknown":
            parts = [self.answer("no-such-call", LATER, said)]
        else:
            open_ = [(kind, self.open[kind]) for kind in ANSWERED.get(how, []) if self.open[kind]]
            for _, calls in open_:
                calls.sort(key=lambda call: call[0])
            newest = -1 if how == "newest" else 0
            parts = [self.answer(calls.pop(newest)[1], kind, said) for kind, calls in open_]
        text = types.Part(text=said["text"])
        if not parts:
            return types.Content(role="user", parts=[text])
        self.answered = parts
        return types.Content(role="user", parts=parts + [text] if how == "with words" else parts)

    def answer(self, id, kind, said):
        if kind == CONFIRM:
            result = {"confirmed": said["answers"] != "reject"}
        elif kind == LATER:
            result = {"late": said["text"]}
        else:
            result = {"result": "that"}
        return types.Part(function_response=types.FunctionResponse(id=id, name=kind, response=result))


def single_agent(script, asked):
    hooks = Hooks(script["hooks"])
    return LlmAgent(
        name="agent",
        description="Acts.",
        model=Told(script["replies"], asked),
        instruction=script["instruction"],
        static_instruction=script["staticInstruction"],
        include_contents=script["includeContents"],
        output_key=script["outputKey"],
        tools=[Doing(name) for name in TOOLS],
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
    """What an agent that is a tool is given."""

    topic: str
    count: int | None = None


class Titled(BaseModel):
    """What it returns."""

    title: str


WORKFLOWS = {"sequential": SequentialAgent, "loop": LoopAgent, "parallel": ParallelAgent}


def tree_agent(node, asked):
    """An agent of a tree with those below it. What its model is asked is kept under its name."""
    hooks = Hooks(node["hooks"])
    fields = {
        "name": node["name"],
        "description": f"Is {node['name']}.",
        "sub_agents": [tree_agent(child, asked) for child in node["below"]],
        "before_agent_callback": hooks.before_agent,
        "after_agent_callback": hooks.after_agent,
    }
    if node["kind"] == "loop":
        fields["max_iterations"] = node["maxIterations"]
    if node["kind"] != "llm":
        return WORKFLOWS[node["kind"]](**fields)
    if node["ownModel"]:
        fields["model"] = Told(node["replies"], asked.setdefault(node["name"], []))
    tools = [Doing(name) for name in TOOLS]
    tools += [FunctionTool(pay, require_confirmation=True), exit_loop]
    tools += [get_user_choice_tool, request_input]
    if node["helper"] is not None:
        tools.append(AgentTool(tree_agent(node["helper"], asked)))
    return LlmAgent(
        instruction=node["instruction"],
        include_contents=node["includeContents"],
        output_key=node["outputKey"],
        disallow_transfer_to_parent=node["notToParent"],
        disallow_transfer_to_peers=node["notToPeers"],
        input_schema=Order if node["hasInputSchema"] else None,
        output_schema=Titled if node["hasOutputSchema"] else None,
        tools=tools,
        **fields,
    )


async def run(script):
    is_tree = "tree" in script
    asked = {} if is_tree else []
    agent = tree_agent(script["tree"], asked) if is_tree else single_agent(script, asked)
    sessions = InMemorySessionService()
    resumability = ResumabilityConfig(is_resumable=script.get("resumable", False))
    app = App(name="app", root_agent=agent, resumability_config=resumability)
    runner = Runner(app=app, session_service=sessions)
    session = await sessions.create_session(
        app_name="app", user_id=USER, session_id="s1", state=script["state"]
    )
    turns, user = [], User()
    for said in script["turns"]:
        config = RunConfig(streaming_mode=StreamingMode.SSE if said["streaming"] else StreamingMode.NONE)
        if said["maxLlmCalls"] is not None:
            config.max_llm_calls = said["maxLlmCalls"]
        if said["metadata"] is not None:
            config.custom_metadata = said["metadata"]
        events, failed = [], None
        try:
            async for event in runner.run_async(
                user_id=USER,
                session_id="s1",
                new_message=user.message(said),
                state_delta=said["stateDelta"],
                run_config=config,
            ):
                events.append(dump(event))
                user.saw(event)
        except Exception as error:
            failed = type(error).__name__
        session = await sessions.get_session(app_name="app", user_id=USER, session_id="s1")
        turns.append({"events": events, "failed": failed, "state": dict(session.state)})
    stored = [dump(event) for event in session.events]
    return {"turns": turns, "asked": asked, "stored": stored}


for line in sys.stdin:
    print(json.dumps(asyncio.run(run(json.loads(line)))), flush=True)
