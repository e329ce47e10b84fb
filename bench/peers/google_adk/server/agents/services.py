"""google-adk's own session services, filled with the sessions that the suite `server` lists before
the server listens. Their URIs are `filled-memory://` and `filled-sqlite:///FILE`."""

import asyncio
import os
import sqlite3
import threading
from urllib.parse import urlparse

from google.adk.cli.service_registry import get_service_registry
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService

SESSIONS = int(os.environ.get("BENCH_LISTED_SESSIONS", "0"))


def create(service, numbers):
    """Create sessions, on a separate event loop because the server's may already run."""

    async def work():
        for number in numbers:
            await service.create_session(
                app_name="mock", user_id="many", session_id=f"s{number}", state={"number": 1}
            )

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    thread.join()


def in_memory(uri, **_):
    service = InMemorySessionService()
    create(service, range(SESSIONS))
    return service


def sqlite(uri, **_):
    """Return a service that has created one session; the others are copies of its row."""
    file = urlparse(uri).path
    create(SqliteSessionService(file), range(1))
    with sqlite3.connect(file) as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(sessions)")]
        values = ["'s' || ?" if name == "id" else name for name in columns]
        insert = f"INSERT INTO sessions SELECT {', '.join(values)} FROM sessions WHERE id = 's0'"
        db.executemany(insert, [(number,) for number in range(1, SESSIONS)])
    db.close()
    return SqliteSessionService(file)


registry = get_service_registry()
registry.register_session_service("filled-memory", in_memory)
registry.register_session_service("filled-sqlite", sqlite)
