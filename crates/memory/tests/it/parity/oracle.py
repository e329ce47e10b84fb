"""Runs scripts on google-adk's InMemoryMemoryService.

Reads a JSON line for each script, {"script": seed, "ops": [...]}, and runs the operations on a new
service. Prints a line {"script": seed, "results": [...]} with one result per operation: the text of
the memories that a search found, or null for any other operation.
"""

import asyncio
import json
import logging
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

from google.adk.events.event import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.sessions.session import Session


def events_of(op):
    return [Event.model_validate(event) for event in op["events"]]


async def play(memory, op):
    names = {"app_name": op["app"], "user_id": op["user"]}
    match op["op"]:
        case "add_session":
            session = Session(id=op["id"], events=events_of(op), **names)
            await memory.add_session_to_memory(session)
        case "add_events":
            await memory.add_events_to_memory(
                events=events_of(op), session_id=op["session"], **names
            )
        case "delete":
            await memory.delete_memory(memory_id=op["id"], **names)
        case "search":
            found = await memory.search_memory(query=op["query"], **names)
            return found.model_dump_json(by_alias=True, exclude_none=True)


async def main():
    for line in sys.stdin:
        script = json.loads(line)
        memory = InMemoryMemoryService()
        results = [await play(memory, op) for op in script["ops"]]
        print(json.dumps({"script": script["script"], "results": results}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
