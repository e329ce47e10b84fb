"""Runs operations on google-adk's artifact services.

Reads one JSON line per operation. "service" names the service: "memory:KEY" for an in-memory service
that is kept under KEY, or "file:PATH" for the folder PATH. Answers each with a line: {"ok": value},
or {"error": text}. File URIs begin with ROOT instead of the folder; times are omitted.

"event" and "rewind" use a session that a runner has beside the service: an event records new
versions, and a rewind returns the pairs of its event's artifact_delta, in order.
"""

import asyncio
import json
import logging
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

from google.adk.artifacts.file_artifact_service import FileArtifactService
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService

services = {}
runners = {}


def service_of(name):
    if name not in services:
        kind, place = name.split(":", 1)
        services[name] = FileArtifactService(place) if kind == "file" else InMemoryArtifactService()
    return services[name]


async def runner_of(op):
    name = op["service"]
    if name not in runners:
        runners[name] = Runner(
            app_name=op["app"],
            agent=LlmAgent(name="agent", model="none"),
            session_service=InMemorySessionService(),
            artifact_service=service_of(name),
        )
        await runners[name].session_service.create_session(
            app_name=op["app"], user_id=op["user"], session_id=op["session"]
        )
    return runners[name]


async def session_of(runner, op):
    return await runner.session_service.get_session(
        app_name=op["app"], user_id=op["user"], session_id=op["session"]
    )


async def tell(op):
    runner = await runner_of(op)
    actions = EventActions(artifact_delta=op["delta"])
    event = Event(invocation_id=op["invocation"], author="agent", actions=actions)
    await runner.session_service.append_event(await session_of(runner, op), event)


async def rewind(op):
    runner = await runner_of(op)
    await runner.rewind_async(
        user_id=op["user"],
        session_id=op["session"],
        rewind_before_invocation_id=op["invocation"],
    )
    session = await session_of(runner, op)
    return list(map(list, session.events[-1].actions.artifact_delta.items()))


def told(version, name):
    value = version.model_dump(by_alias=True, exclude_none=True, mode="json")
    del value["createTime"]
    kind, place = name.split(":", 1)
    if kind == "file":
        root = pathlib.Path(place).resolve().as_uri()
        value["canonicalUri"] = value["canonicalUri"].replace(root, "ROOT")
    return value


async def play(op):
    if op["op"] == "event":
        return await tell(op)
    if op["op"] == "rewind":
        return await rewind(op)
    service = service_of(op["service"])
    owner = {"app_name": op["app"], "user_id": op["user"], "session_id": op["session"]}
    if op["op"] == "list":
        return await service.list_artifact_keys(**owner)
    key = {**owner, "filename": op["file"]}
    match op["op"]:
        case "save":
            return await service.save_artifact(
                artifact=op["part"], custom_metadata=op["notes"], **key
            )
        case "load":
            part = await service.load_artifact(version=op["version"], **key)
            return part and part.model_dump(by_alias=True, exclude_none=True, mode="json")
        case "delete":
            await service.delete_artifact(**key)
            return None
        case "versions":
            return await service.list_versions(**key)
        case "tell_all":
            known = await service.list_artifact_versions(**key)
            return [told(version, op["service"]) for version in known]
        case "tell":
            known = await service.get_artifact_version(version=op["version"], **key)
            return known and told(known, op["service"])


async def main():
    for line in sys.stdin:
        try:
            answer = {"ok": await play(json.loads(line))}
        except Exception as error:
            answer = {"error": repr(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
