"""Runs turns with artifacts on google-adk: the real runner, agents, tools and plugin, with models that
follow a script.

Reads JSON Lines from stdin, one script per line, which `script.rs` describes. Prints one line per
script: the stored events, the requests of the models, and the final state and artifacts.
"""

import asyncio
import json
import logging
import os
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

# The folder of the modules that several oracles share.
sys.dont_write_bytecode = True
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from google.adk.agents.llm_agent import LlmAgent
from google.adk.artifacts.file_artifact_service import FileArtifactService
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.plugins.save_files_as_artifacts_plugin import SaveFilesAsArtifactsPlugin
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.load_artifacts_tool import load_artifacts_tool
from google.genai import types
from scripted_model import ScriptedModel, dump

SESSION = {"user_id": "ada", "session_id": "s1"}
OWNER = {"app_name": "app", **SESSION}


def scripted_model(replies, requests):
    def describe(config):
        return {"tools": [dump(tool) for tool in config.tools]}

    contents = [{"role": "model", "parts": parts} for parts in replies]
    replies = [{"responses": [{"content": content}]} for content in contents]
    return ScriptedModel(replies, requests, describe, "Done.")


class SaveTool(BaseTool):
    """Saves a file and returns its metadata."""

    def __init__(self):
        super().__init__(name="save", description="Saves a file.")

    def _get_declaration(self):
        return types.FunctionDeclaration(name=self.name, description=self.description)

    async def run_async(self, *, args, tool_context):
        part = types.Part(text=args["text"])
        version = await tool_context.save_artifact(args["name"], part, {"by": "save"})
        saved = await tool_context.get_artifact_version(args["name"], version)
        first = await tool_context.load_artifact(args["name"], 0)
        return {
            "version": version,
            "metadata": saved.custom_metadata,
            "first": dump(first) if first else None,
            "names": await tool_context.list_artifacts(),
        }


def agent(name, replies, requests, tools):
    return LlmAgent(
        name=name,
        description=f"Is {name}.",
        model=scripted_model(replies, requests),
        instruction="Note: {artifact.note.txt?}",
        tools=[load_artifacts_tool, SaveTool(), *tools],
    )


async def run(script):
    with tempfile.TemporaryDirectory() as folder:
        in_folder = script["folder"]
        artifacts = FileArtifactService(folder) if in_folder else InMemoryArtifactService()
        return await play(script, artifacts)


async def play(script, artifacts):
    requests, helper_requests = [], []
    helper = agent("helper", script["helperReplies"], helper_requests, [])
    root = agent("agent", script["replies"], requests, [AgentTool(helper)])
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
        "requests": requests,
        "helperRequests": helper_requests,
        "state": dict(session.state),
        "files": files,
    }


for line in sys.stdin:
    print(json.dumps(asyncio.run(run(json.loads(line)))), flush=True)
