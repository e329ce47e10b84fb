"""Runs turns that are about artifacts on Google's ADK: real runner, agents, tools and plugin, and
models that say what they are told.

Reads a JSON list of scripts from stdin, which `script.rs` describes. Prints one line: for each
script what was stored, what the models were asked, the state, and the artifacts in the end.
"""

import asyncio
import json
import logging
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

from google.adk.agents.llm_agent import LlmAgent
from google.adk.artifacts.file_artifact_service import FileArtifactService
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.save_files_as_artifacts_plugin import SaveFilesAsArtifactsPlugin
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.load_artifacts_tool import load_artifacts_tool
from google.genai import types
from pydantic import PrivateAttr

SESSION = {"user_id": "ada", "session_id": "s1"}
OWNER = {"app_name": "app", **SESSION}


def dump(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Told(BaseLlm):
    """Says what the script says, and keeps what it was asked."""

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
            "tools": [dump(tool) for tool in config.tools],
        })
        parts = self._replies.pop(0) if self._replies else [{"text": "Done."}]
        content = {"role": "model", "parts": parts}
        yield LlmResponse.model_validate_json(json.dumps({"content": content}))


class Keep(BaseTool):
    """Saves a file and says what is known of it then."""

    def __init__(self):
        super().__init__(name="keep", description="Keeps a file.")

    def _get_declaration(self):
        return types.FunctionDeclaration(name=self.name, description=self.description)

    async def run_async(self, *, args, tool_context):
        part = types.Part(text=args["text"])
        version = await tool_context.save_artifact(args["name"], part, {"by": "keep"})
        known = await tool_context.get_artifact_version(args["name"], version)
        first = await tool_context.load_artifact(args["name"], 0)
        return {
            "version": version,
            "notes": known.custom_metadata,
            "first": dump(first) if first else None,
            "names": await tool_context.list_artifacts(),
        }


def agent(name, replies, asked, tools):
    return LlmAgent(
        name=name,
        description=f"Is {name}.",
        model=Told(replies, asked),
        instruction="Note: {artifact.note.txt?}",
        tools=[load_artifacts_tool, Keep(), *tools],
    )


async def run(script):
    with tempfile.TemporaryDirectory() as folder:
        in_folder = script["folder"]
        artifacts = FileArtifactService(folder) if in_folder else InMemoryArtifactService()
        return await play(script, artifacts)


async def play(script, artifacts):
    asked, helper_asked = [], []
    helper = agent("helper", script["helperReplies"], helper_asked, [])
    root = agent("agent", script["replies"], asked, [AgentTool(helper)])
    sessions = InMemorySessionService()
    runner = Runner(
        app_name="app",
        agent=root,
        session_service=sessions,
        artifact_service=artifacts,
        plugins=[SaveFilesAsArtifactsPlugin()],
    )
    await sessions.create_session(**OWNER)
    for file in script["files"]:
        owner = {**OWNER, "session_id": None} if file["name"] == "shared.txt" else OWNER
        await artifacts.save_artifact(filename=file["name"], artifact=file["part"], **owner)
    for parts in script["turns"]:
        message = {"role": "user", "parts": parts}
        message = types.Content.model_validate_json(json.dumps(message))
        async for _ in runner.run_async(new_message=message, **SESSION):
            pass
    session = await sessions.get_session(**OWNER)
    invocations = list(dict.fromkeys(event.invocation_id for event in session.events))
    before = invocations[script["rewind"]]
    await runner.rewind_async(rewind_before_invocation_id=before, **SESSION)
    session = await sessions.get_session(**OWNER)
    files = {}
    for name in await artifacts.list_artifact_keys(**OWNER):
        loaded = await artifacts.load_artifact(filename=name, **OWNER)
        versions = await artifacts.list_versions(filename=name, **OWNER)
        files[name] = [versions, dump(loaded) if loaded else None]
    return {
        "stored": [dump(event) for event in session.events],
        "asked": asked,
        "helperAsked": helper_asked,
        "state": dict(session.state),
        "files": files,
    }


for line in sys.stdin:
    print(json.dumps(asyncio.run(run(json.loads(line)))), flush=True)
