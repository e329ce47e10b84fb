"""The peer google-adk: its session services, in Python.

Variant "sqlite" is SqliteSessionService, variant "database" is
DatabaseSessionService on sqlite+aiosqlite, variant "postgres" the same service on
postgresql+asyncpg, with the URL of a database. Variants that begin with "turns" are in
turns.py, the variant "memory" is in memory.py. Serves the protocol of bench/README.md.
"""

import asyncio
import ctypes
import json
import logging
import os
import platform
import resource
import sqlite3
import struct
import sys
import time
import uuid
import warnings

from common import APP, USER, text

COUNTER = "counter"


class WindowOver(Exception):
    """The window ended during the retry of an append."""


class Instructions:
    """Counts instructions of this process and of later threads, if the machine permits it."""

    def __init__(self):
        self.fd = -1
        number = {"x86_64": 298, "aarch64": 241}.get(platform.machine())
        if number is None or not sys.platform.startswith("linux"):
            return
        libc = ctypes.CDLL(None, use_errno=True)
        for flags in (1 << 1, (1 << 1) | (1 << 5) | (1 << 6)):
            attr = struct.pack("IIQQQQQIIQ", 0, 64, 1, 0, 0, 0, flags, 0, 0, 0)
            self.fd = libc.syscall(number, ctypes.c_char_p(attr), 0, -1, -1, 0)
            if self.fd >= 0:
                return

    def read(self):
        if self.fd < 0:
            return None
        return struct.unpack("Q", os.read(self.fd, 8))[0]


INSTRUCTIONS = Instructions()


def cpu_us():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return int((usage.ru_utime + usage.ru_stime) * 1e6)


class Meter:
    """Measures one window and knows its deadline."""

    def __init__(self, max_ms):
        self.max_ms = max_ms
        self.end = None

    def start(self):
        self.before = INSTRUCTIONS.read()
        self.cpu = cpu_us()
        self.wall = time.perf_counter()
        self.end = self.wall + self.max_ms / 1000 if self.max_ms else None

    def passed(self):
        return self.end is not None and time.perf_counter() >= self.end

    def stop(self):
        self.result = {
            "wall_us": (time.perf_counter() - self.wall) * 1e6,
            "cpu_us": cpu_us() - self.cpu,
        }
        after = INSTRUCTIONS.read()
        if after is not None:
            self.result["instructions"] = after - self.before


def make_event(n):
    return Event(
        author="agent",
        invocation_id=f"e-{uuid.uuid4()}",
        content=types.Content(role="model", parts=[types.Part(text=text(n))]),
        actions=EventActions(state_delta={COUNTER: n}),
    )


class Store:
    """One open store of either service."""

    def __init__(self, directory, variant):
        self.variant = variant
        self.file = os.path.join(directory, "google-adk.db")
        if variant == "database":
            self.service = DatabaseSessionService(f"sqlite+aiosqlite:///{self.file}")
        else:
            self.service = SqliteSessionService(self.file)
        self.live = {}
        self.state_rows = False

    async def open(self):
        # Creates the tables. Neither service sets a pragma for durability, so a
        # connection of the same SQLite shows the same defaults.
        await self.service.list_sessions(app_name=APP, user_id=USER)
        with sqlite3.connect(self.file) as db:
            mode = db.execute("PRAGMA journal_mode").fetchone()[0]
            sync = db.execute("PRAGMA synchronous").fetchone()[0]
        return f"journal={mode} synchronous={sync}"

    async def close(self):
        await self.service.close()

    async def new(self, session):
        await self.service.create_session(
            app_name=APP, user_id=USER, session_id=session, state={COUNTER: 0}
        )

    async def get(self, session, newest=None):
        config = GetSessionConfig(num_recent_events=newest) if newest else None
        found = await self.service.get_session(
            app_name=APP, user_id=USER, session_id=session, config=config
        )
        if found is None:
            raise LookupError(f"session {session!r} not found")
        return found

    async def load(self, sessions, events):
        """Write sessions directly into the tables, in one transaction."""
        if not self.state_rows:
            await self.new("first")  # creates the state rows that an append expects
            self.state_rows = True
        database = self.variant == "database"
        # The body of one real event with placeholders for id, time and text.
        sample = make_event(0)
        sample.id, sample.timestamp = "<id>", 0.5
        sample.content.parts[0].text = "<text>"
        sample.actions.state_delta[COUNTER] = "<n>"
        body = sample.model_dump_json(exclude_none=True)
        if database:
            body = json.dumps(sample.model_dump(exclude_none=True, mode="json"))
        now = time.time()

        def stamp(at):
            if not database:
                return at
            return timestamp_to_utc_datetime(at).strftime("%Y-%m-%d %H:%M:%S.%f")

        def rows(session):
            for n in range(1, events + 1):
                event_id, at = str(uuid.uuid4()), now - (events - n) * 0.001
                filled = (
                    body.replace("<id>", event_id)
                    .replace("<text>", text(n))
                    .replace('"<n>"', str(n))
                    .replace('"timestamp":0.5', f'"timestamp":{at!r}')
                    .replace('"timestamp": 0.5', f'"timestamp": {at!r}')
                )
                yield event_id, session, sample.invocation_id, stamp(at), filled

        with sqlite3.connect(self.file) as db:
            db.executemany(
                "INSERT INTO sessions (app_name, user_id, id, state, create_time,"
                f" update_time) VALUES ('{APP}', '{USER}', ?, ?, ?, ?)",
                ((s, json.dumps({COUNTER: events}), stamp(now), stamp(now)) for s in sessions),
            )
            for session in sessions:
                db.executemany(
                    "INSERT INTO events (id, app_name, user_id, session_id, invocation_id,"
                    f" timestamp, event_data) VALUES (?, '{APP}', '{USER}', ?, ?, ?, ?)",
                    rows(session),
                )
        db.close()

    async def create(self, meter, prefix, count):
        ops = 0
        meter.start()
        for i in range(count):
            await self.new(f"{prefix}-{i}")
            ops += 1
            if meter.passed():
                break
        meter.stop()
        return {"ops": ops}

    async def append(self, meter, sessions, count):
        for name in sessions:
            if name not in self.live:
                # The cost of an append does not depend on how many events the live
                # session holds, so one is enough.
                self.live[name] = await self.get(name, 1)
        ops = 0
        meter.start()
        for name in sessions:
            session = self.live[name]
            for _ in range(count):
                await self.service.append_event(
                    session, make_event(session.state[COUNTER] + 1)
                )
                ops += 1
                if meter.passed():
                    break
            if meter.passed():
                break
        meter.stop()
        return {"ops": ops}

    async def read(self, meter, session, newest, repeat):
        ops = events = 0
        meter.start()
        for _ in range(repeat):
            events = len((await self.get(session, newest)).events)
            ops += 1
            if meter.passed():
                break
        meter.stop()
        return {"ops": ops, "events": events}

    async def writers(self, meter, prefix, writers, each, own):
        names = [f"{prefix}-{w}" for w in range(writers)] if own else [prefix]
        await self.load(names, 0)
        handles = [await self.get(names[w if own else 0]) for w in range(writers)]
        total = {"ops": 0, "attempted": 0, "errors": 0, "retries": 0}

        async def append(session):
            # Shared session: load, append, and load again after a stale-session error.
            while True:
                if not own:
                    session = await self.get(session.id, 1)
                try:
                    value = session.state[COUNTER] + 1
                    return await self.service.append_event(session, make_event(value))
                except StaleSessionError:
                    if own:
                        raise
                    total["retries"] += 1
                    if meter.passed():
                        raise WindowOver() from None

        async def writer(session):
            for _ in range(each):
                total["attempted"] += 1
                try:
                    await append(session)
                    total["ops"] += 1
                except WindowOver:
                    # The window ended during a retry: the append is neither stored nor lost.
                    total["attempted"] -= 1
                except Exception as e:  # the driver prints the first one
                    total["errors"] += 1
                    reason = str(e).split("\n")[0]
                    total.setdefault("first_error", f"{type(e).__name__}: {reason}")
                if meter.passed():
                    break

        meter.start()
        await asyncio.gather(*(writer(h) for h in handles))
        meter.stop()
        total["kept"] = total["counter"] = 0
        for name in names:
            session = await self.get(name)
            total["kept"] += len(session.events)
            total["counter"] += session.state[COUNTER]
        return total


class PostgresStore(Store):
    """DatabaseSessionService on PostgreSQL."""

    def __init__(self, url):
        self.url = url.replace("postgresql://", "postgresql+asyncpg://", 1)
        self.service = DatabaseSessionService(self.url)
        self.live = {}

    async def open(self):
        await self.service.list_sessions(app_name=APP, user_id=USER)  # creates the tables
        return ""

    async def load(self, sessions, events):
        """Load through the service. The driver has turned the server's fsync off for this."""
        for name in sessions:
            await self.new(name)
            session = await self.get(name) if events else None
            for n in range(1, events + 1):
                await self.service.append_event(session, make_event(n))

    async def list(self, meter, repeat):
        ops = found = 0
        meter.start()
        for _ in range(repeat):
            answer = await self.service.list_sessions(app_name=APP, user_id=USER)
            found = len(answer.sessions)
            ops += 1
            if meter.passed():
                break
        meter.stop()
        return {"ops": ops, "events": found}


def make_store(directory, variant):
    if variant == "postgres":
        return PostgresStore(directory)
    if variant == "memory":
        from memory import MemoryStore

        return MemoryStore()
    if not variant.startswith("turns"):
        return Store(directory, variant)
    from turns import RunnerStore

    return RunnerStore(directory, variant)


async def answer(stores, command):
    kind, name = command.pop("cmd"), command.pop("store", None)
    if kind == "open":
        variant = command.get("variant") or "sqlite"
        store = make_store(command["dir"], variant)
        durability = await store.open()
        stores[name] = store
        return {"ok": True, "version": adk_version, "durability": durability}
    store = stores[name]
    if kind == "load":
        await store.load(**command)
        return {"ok": True}
    if kind == "close":
        await stores.pop(name).close()
        return {"ok": True}
    meter = Meter(command.pop("max_ms", None))
    if not hasattr(store, kind):
        return {"unsupported": f"unsupported command {kind!r}"}
    result = await getattr(store, kind)(meter, **command)
    return result | meter.result


def main():
    loop, stores = asyncio.new_event_loop(), {}
    for line in sys.stdin:
        if not line.strip():
            continue
        command = json.loads(line)
        if command.get("cmd") == "quit":
            break
        try:
            result = loop.run_until_complete(answer(stores, command))
        except Exception as e:
            result = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    from google.adk.errors._stale_session_error import StaleSessionError
    from google.adk.events.event import Event
    from google.adk.events.event_actions import EventActions
    from google.adk.sessions.base_session_service import GetSessionConfig
    from google.adk.sessions.database_session_service import DatabaseSessionService
    from google.adk.sessions.schemas.shared import timestamp_to_utc_datetime
    from google.adk.sessions.sqlite_session_service import SqliteSessionService
    from google.adk.version import __version__ as adk_version
    from google.genai import types

    main()
