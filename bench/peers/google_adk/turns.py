"""The peer google-adk in the suite `turns`: its Runner with one LlmAgent.

Variant "turns-memory" is InMemorySessionService, "turns-sqlite" SqliteSessionService,
"turns-database" DatabaseSessionService on sqlite+aiosqlite. SQLite history is written
directly into the tables; in memory it is appended event by event.
"""

import json
import os
import sqlite3
import time
import uuid

from common import APP, USER, text
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.schemas.shared import timestamp_to_utc_datetime
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from pydantic import PrivateAttr

ANSWER = "Yes: two quiet rooms on a high floor are free on both dates."
# The session with one real turn, whose two events are the template of all history.
PATTERN = "pattern"


class MockModel(BaseLlm):
    """Answers immediately and records the number of contents in each request."""

    _seen: list = PrivateAttr(default_factory=list)

    async def generate_content_async(self, llm_request, stream=False):
        self._seen.append(len(llm_request.contents))
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=ANSWER)]))


class RunnerStore:
    """A runner on one store."""

    def __init__(self, directory, variant):
        self.database = variant == "turns-database"
        self.file = os.path.join(directory, "google-adk.db")
        if self.database:
            self.service = DatabaseSessionService(f"sqlite+aiosqlite:///{self.file}")
        elif variant == "turns-sqlite":
            self.service = SqliteSessionService(self.file)
        else:
            self.service, self.file = InMemorySessionService(), None
        self.model = MockModel(model="mock")
        agent = LlmAgent(name="assistant", model=self.model, instruction="Be brief.")
        self.runner = Runner(app_name=APP, agent=agent, session_service=self.service)

    async def open(self):
        if self.file is None:
            return "in memory"
        # Creates the tables. Neither service sets a pragma for durability, so a
        # connection of the same SQLite shows the same defaults.
        await self.service.list_sessions(app_name=APP, user_id=USER)
        with sqlite3.connect(self.file) as db:
            mode = db.execute("PRAGMA journal_mode").fetchone()[0]
            sync = db.execute("PRAGMA synchronous").fetchone()[0]
        db.close()
        return f"journal={mode} synchronous={sync}"

    async def close(self):
        await self.runner.close()
        if self.database:
            await self.service.close()

    async def turns(self, meter, prefix, sessions, history, warm, count):
        await self.new(PATTERN)
        await self.turn(PATTERN, 1)
        names = [f"{prefix}-{i}" for i in range(sessions)]
        await self.fill(names, history)
        for name in names:
            for n in range(1, warm + 1):
                await self.turn(name, history + n)
        self.model._seen.clear()
        ops = 0
        meter.start()
        for name in names:
            for n in range(1, count + 1):
                await self.turn(name, history + warm + n)
                ops += 1
                if meter.passed():
                    break
            if meter.passed():
                break
        meter.stop()
        stored = [len((await self.get(name)).events) for name in names]
        return {"ops": ops, "seen": list(self.model._seen), "stored": stored}

    async def turn(self, session, n):
        message = types.Content(role="user", parts=[types.Part(text=text(n))])
        async for _ in self.runner.run_async(
            user_id=USER, session_id=session, new_message=message
        ):
            pass

    async def new(self, session):
        return await self.service.create_session(app_name=APP, user_id=USER, session_id=session)

    async def get(self, session):
        return await self.service.get_session(app_name=APP, user_id=USER, session_id=session)

    async def fill(self, names, turns):
        """Create sessions with `turns` turns each: copies of the two events of `PATTERN`."""
        found = len((await self.get(PATTERN)).events)
        if found != 2:
            raise ValueError(f"a turn stored {found} events, expected 2")
        sessions = [await self.new(name) for name in names]
        if not turns:
            return
        if self.file is None:
            await self._append(sessions, turns)
        else:
            self._insert(names, turns)

    async def _append(self, sessions, turns):
        pattern = (await self.get(PATTERN)).events
        for session in sessions:
            for n in range(2 * turns):
                # A deep copy, because the events of real turns share no objects.
                event = pattern[n % 2].model_copy(deep=True)
                event.id = str(uuid.uuid4())
                event.invocation_id = f"e-{n // 2}-{event.invocation_id}"
                if n % 2 == 0:
                    event.content.parts[0].text = text(n // 2 + 1)
                await self.service.append_event(session, event)

    def _insert(self, names, turns):
        now = time.time()
        db = sqlite3.connect(self.file)
        pattern = db.execute(
            "SELECT invocation_id, event_data FROM events WHERE session_id = ?"
            " ORDER BY timestamp",
            (PATTERN,),
        ).fetchall()
        pattern = [(invocation, json.loads(body)) for invocation, body in pattern]
        separators = (", ", ": ") if self.database else (",", ":")

        def rows(name):
            for n in range(2 * turns):
                invocation, body = pattern[n % 2]
                at = now - (2 * turns - n) * 0.001
                body["id"], body["timestamp"] = str(uuid.uuid4()), at
                body["invocation_id"] = f"e-{n // 2}-{invocation}"
                if n % 2 == 0:
                    body["content"]["parts"][0]["text"] = text(n // 2 + 1)
                if self.database:
                    at = timestamp_to_utc_datetime(at).strftime("%Y-%m-%d %H:%M:%S.%f")
                filled = json.dumps(body, separators=separators)
                yield body["id"], name, body["invocation_id"], at, filled

        with db:
            for name in names:
                db.executemany(
                    "INSERT INTO events (id, app_name, user_id, session_id, invocation_id,"
                    f" timestamp, event_data) VALUES (?, '{APP}', '{USER}', ?, ?, ?, ?)",
                    rows(name),
                )
        db.close()
