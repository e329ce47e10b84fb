"""Concurrent tasks, threads and processes lose no events."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict

import pytest
from backends import Backend, Server, run_python
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

import retain_adk

pytestmark = pytest.mark.anyio

WRITER = """
import asyncio, sys
from test_concurrency import write
from retain_adk import RetainSessionService

url, app, writer, count = sys.argv[1:]
asyncio.run(write(RetainSessionService(url), app, writer, int(count)))
"""


def event_of(writer: str, n: int) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=f"{writer} {n}")])
    delta = {
        f"own-{writer}-{n}": n,
        f"user:{writer}-{n}": n,
        f"app:{writer}-{n}": n,
        "last": writer,
    }
    return Event(author="user", content=content, actions=EventActions(state_delta=delta))


async def write(
    service: retain_adk.RetainSessionService, app: str, writer: str, count: int
) -> None:
    """Append `count` events through one copy of the session."""
    key = {"app_name": app, "user_id": "ada", "session_id": "s"}
    session = await service.get_session(**key)
    assert session is not None
    known = len(session.events)
    for n in range(count):
        await service.append_event(session, event_of(writer, n))
    assert len(session.events) == known + count


def check(session, writers: list[str], count: int) -> None:
    """Check that each event is stored once, in the order of its writer, with its state."""
    order = defaultdict(list)
    for event in session.events:
        writer, _, n = event.content.parts[0].text.rpartition(" ")
        order[writer].append(int(n))
    assert dict(order) == {writer: list(range(count)) for writer in writers}
    for writer in writers:
        for n in range(count):
            for prefix in ("own-", "user:", "app:"):
                assert session.state[f"{prefix}{writer}-{n}"] == n
    last = session.events[-1].content.parts[0].text.rpartition(" ")[0]
    assert session.state["last"] == last


async def test_tasks_with_own_session_copies_lose_nothing(retain: Backend) -> None:
    await retain.create(session_id="s")
    writers = [f"task{n}" for n in range(40)]
    await asyncio.gather(*(write(retain.sessions, retain.app, writer, 5) for writer in writers))
    check(await retain.get("s"), writers, 5)


async def test_tasks_with_a_shared_session_object_lose_nothing(retain: Backend) -> None:
    session = await retain.create(session_id="s")

    async def append(writer: str) -> None:
        for n in range(5):
            await retain.sessions.append_event(session, event_of(writer, n))

    writers = [f"task{n}" for n in range(40)]
    await asyncio.gather(*map(append, writers))
    stored = await retain.get("s")
    check(stored, writers, 5)
    assert sorted(e.id for e in session.events) == sorted(e.id for e in stored.events)
    assert {k for k in session.state} == {k for k in stored.state}


async def test_threads_with_a_shared_service_lose_nothing(retain: Backend) -> None:
    await retain.create(session_id="s")
    failures: list[BaseException] = []

    def run(writer: str) -> None:
        try:
            asyncio.run(write(retain.sessions, retain.app, writer, 10))
        except BaseException as error:
            failures.append(error)

    writers = [f"thread{n}" for n in range(6)]
    threads = [threading.Thread(target=run, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert failures == []
    check(await retain.get("s"), writers, 10)


async def test_processes_lose_nothing(servers: dict[str, Server]) -> None:
    url = servers["retain-sqlite"].url
    retain = Backend("retain", retain_adk.RetainSessionService(url))
    await retain.create(session_id="s")
    writers = [f"process{n}" for n in range(3)]
    processes = [run_python(WRITER, url, retain.app, writer, "25") for writer in writers]
    for process in processes:
        out, _ = await asyncio.to_thread(process.communicate, timeout=100)
        assert process.returncode == 0, out
    check(await retain.get("s"), writers, 25)


async def test_concurrent_sessions_lose_no_user_or_app_state(retain: Backend) -> None:
    async def append(n: int) -> None:
        session = await retain.create(session_id=f"s{n}", user=f"u{n % 2}")
        for m in range(4):
            delta = {f"user:{n}-{m}": m, f"app:{n}-{m}": m}
            event = Event(author="user", actions=EventActions(state_delta=delta))
            await retain.sessions.append_event(session, event)

    await asyncio.gather(*map(append, range(20)))
    for user in range(2):
        state = (await retain.get(f"s{user}", user=f"u{user}")).state
        assert len([k for k in state if k.startswith("app:")]) == 80
        assert len([k for k in state if k.startswith("user:")]) == 40


async def test_exactly_one_of_concurrent_creates_succeeds(retain: Backend) -> None:
    from google.adk.errors.already_exists_error import AlreadyExistsError

    made = await asyncio.gather(
        *(retain.create(session_id="s", state={"n": n}) for n in range(20)), return_exceptions=True
    )
    won = [s for s in made if not isinstance(s, BaseException)]
    assert len(won) == 1
    assert all(isinstance(s, AlreadyExistsError) for s in made if s is not won[0])
    assert (await retain.get("s")).state == won[0].state
