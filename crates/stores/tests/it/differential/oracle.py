"""Runs scripts of session operations on Google's ADK and prints what it answers.

Reads JSON Lines from stdin, one script per line: `{"script": 7, "ops": [...]}`. Each script runs on
the three session services that ADK has built in: in memory (`memory`), `SqliteSessionService`
(`sqlite`) and `DatabaseSessionService` on SQLite (`database`). Prints JSON Lines, one per script and
service: `{"script": 7, "service": "memory", "results": [...]}`, with one result per operation.

A result holds values in ADK's HTTP form (camelCase, no empty fields) or the name of the error
class. Ids and times come from the script: operation number N (from 0) makes the ids `opN-1`,
`opN-2`... and its clock stands at `now` (microseconds since 1970).
"""

import asyncio
import copy
import itertools
import json
import logging
import os
import sqlite3
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

import aiosqlite
from google.adk.agents import BaseAgent
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.events.event import Event
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService


# The databases are temporary and have one caller, so they need neither syncs nor threads: waiting
# for the disk and for threads would take most of the time. ADK's own code is unchanged.
_connect = sqlite3.connect


def connect_without_waiting(*args, **kwargs):
    connection = _connect(*args, **{**kwargs, "check_same_thread": False})
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = MEMORY")
    return connection


async def execute_here(self, function, *args, **kwargs):
    if not self._running or not self._connection:
        raise ValueError("Connection closed")
    return function(*args, **kwargs)


sqlite3.connect = connect_without_waiting
if hasattr(aiosqlite.Connection, "_execute"):
    aiosqlite.Connection._execute = execute_here


class Silent(BaseAgent):
    """An agent without output, because a runner needs an agent to rewind."""


def dump(model):
    """A model in ADK's HTTP form, or None."""
    return model and model.model_dump(mode="json", by_alias=True, exclude_none=True)


def read_event(value):
    return Event.model_validate_json(json.dumps(value))


class Play:
    """One script on one service."""

    def __init__(self, service):
        self.service = service
        self.named = {}  # alias -> keyword arguments that address the session
        self.slots = {}  # slot -> live session

    async def run(self, ops):
        results = []
        for number, op in enumerate(ops):
            count = itertools.count(1)
            platform_uuid.set_id_provider(lambda: f"op{number}-{next(count)}")
            platform_time.set_time_provider(lambda: op["now"] / 1e6)
            try:
                result = await getattr(self, op["op"])(op)
            except Exception as error:
                result = {"error": type(error).__name__}
            results.append(result)
        return results

    def address(self, op):
        return self.named[op["of"]]

    def keep(self, op, session):
        if session is not None and op.get("slot") is not None:
            self.slots[op["slot"]] = session

    async def create(self, op):
        session = await self.service.create_session(
            app_name=op["app"],
            user_id=op["user"],
            state=copy.deepcopy(op["state"]),
            session_id=op["id"],
        )
        if op.get("as") is not None:
            self.named[op["as"]] = {
                "app_name": op["app"], "user_id": op["user"], "session_id": session.id,
            }
        self.keep(op, session)
        return {"session": dump(session)}

    async def get(self, op):
        config = GetSessionConfig(num_recent_events=op["recent"], after_timestamp=op["after"])
        session = await self.service.get_session(**self.address(op), config=config)
        self.keep(op, session)
        return {"session": dump(session)}

    async def look(self, op):
        session = await self.service.get_session(
            app_name=op["app"], user_id=op["user"], session_id=op["id"]
        )
        return {"session": dump(session)}

    async def list(self, op):
        found = await self.service.list_sessions(app_name=op["app"], user_id=op["user"])
        return {"sessions": [dump(session) for session in found.sessions]}

    async def delete(self, op):
        await self.service.delete_session(**self.address(op))
        return {"done": True}

    async def user_state(self, op):
        state = await self.service.get_user_state(app_name=op["app"], user_id=op["user"])
        return {"state": state}

    async def append(self, op):
        live = self.slots[op["slot"]]
        if not op["stale"]:
            event = await self.service.append_event(live, read_event(op["event"]))
            return {"event": dump(event), "live": dump(live)}
        # ADK may reject an append to an old copy. The client then reads the session again and
        # appends to the fresh copy, as ADK's error advises. It always continues with a fresh copy.
        where = {"app_name": live.app_name, "user_id": live.user_id, "session_id": live.id}
        event = read_event(op["event"])
        again = event.model_copy(deep=True)
        try:
            event = await self.service.append_event(live, event)
            result = {"event": dump(event), "live": dump(live)}
        except StaleSessionError as error:
            fresh = await self.service.get_session(**where)
            event = await self.service.append_event(fresh, again)
            result = {"error": type(error).__name__, "retried": dump(event)}
        fresh = await self.service.get_session(**where)
        self.keep(op, fresh)
        result["fetched"] = dump(fresh)
        return result

    async def repeat(self, op):
        live = await self.service.get_session(**self.address(op))
        # The in-memory service may store the event a second time. Record that, then restore its data.
        held = ("sessions", "user_state", "app_state")
        in_memory = isinstance(self.service, InMemorySessionService)
        saved = copy.deepcopy([getattr(self.service, name) for name in held]) if in_memory else None
        try:
            event = await self.service.append_event(live, read_event(op["event"]))
            return {"event": dump(event), "live": dump(live)}
        finally:
            if saved:
                for name, value in zip(held, saved):
                    setattr(self.service, name, value)

    async def rewind(self, op):
        where = self.address(op)
        before = await self.service.get_session(**where)
        known = {event.id for event in before.events} if before else set()
        runner = Runner(
            app_name=where["app_name"],
            agent=Silent(name="silent"),
            session_service=self.service,
        )
        await runner.rewind_async(
            user_id=where["user_id"],
            session_id=where["session_id"],
            rewind_before_invocation_id=op["before"],
        )
        after = await self.service.get_session(**where)
        [event] = [event for event in after.events if event.id not in known]
        return {"event": dump(event), "session": dump(after)}

    async def probe(self, op):
        """Creates a session, appends an event and deletes the session; ADK may reject each step."""
        result = {}
        where = {"app_name": op["app"], "user_id": op["user"]}
        try:
            session = await self.service.create_session(**where, session_id=op["id"])
        except Exception as error:
            return {"created": type(error).__name__}
        result["created"] = "ok"
        if op["event"] is not None:
            try:
                await self.service.append_event(session, read_event(op["event"]))
                result["appended"] = "ok"
            except Exception as error:
                result["appended"] = type(error).__name__
        await self.service.delete_session(**where, session_id=session.id)
        return result


async def main():
    with tempfile.TemporaryDirectory() as folder:
        services = {
            "memory": None,
            "sqlite": SqliteSessionService(os.path.join(folder, "sqlite.db")),
            "database": DatabaseSessionService(
                "sqlite+aiosqlite:///" + os.path.join(folder, "database.db")
            ),
        }
        for line in sys.stdin:
            script = json.loads(line)
            services["memory"] = InMemorySessionService()
            for name, service in services.items():
                results = await Play(service).run(script["ops"])
                answer = {"script": script["script"], "service": name, "results": results}
                print(json.dumps(answer), flush=True)
        await services["database"].close()


if __name__ == "__main__":
    asyncio.run(main())
