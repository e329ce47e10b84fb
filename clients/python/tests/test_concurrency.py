"""Several tasks, threads and processes write at once, and nothing is lost."""

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

url, app, who, count = sys.argv[1:]
asyncio.run(write(RetainSessionService(url), app, who, int(count)))
"""


def event_of(who: str, n: int) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=f"{who} {n}")])
    delta = {f"own-{who}-{n}": n, f"user:{who}-{n}": n, f"app:{who}-{n}": n, "last": who}
    return Event(author="user", content=content, actions=EventActions(state_delta=delta))


async def write(service: retain_adk.RetainSessionService, app: str, who: str, count: int) -> None:
    """Appends `count` events through one copy of the session."""
    key = {"app_name": app, "user_id": "ada", "session_id": "s"}
    session = await service.get_session(**key)
    assert session is not None
    known = len(session.events)
    for n in range(count):
        await service.append_event(session, event_of(who, n))
    assert len(session.events) == known + count


def check(session, writers: list[str], count: int) -> None:
    """Every event is there once, those of each writer in their order, and so is the state."""
    order = defaultdict(list)
    for event in session.events:
        who, _, n = event.content.parts[0].text.rpartition(" ")
        order[who].append(int(n))
    assert dict(order) == {who: list(range(count)) for who in writers}
    for who in writers:
        for n in range(count):
            for prefix in ("own-", "user:", "app:"):
                assert session.state[f"{prefix}{who}-{n}"] == n
    last = session.events[-1].content.parts[0].text.rpartition(" ")[0]
    assert session.state["last"] == last


async def test_many_tasks_with_copies_of_their_own(retain: Backend) -> None:
    await retain.create(session_id="s")
    writers = [f"task{n}" for n in range(40)]
    await asyncio.gather(*(write(retain.sessions, retain.app, who, 5) for who in writers))
    check(await retain.get("s"), writers, 5)


async def test_many_tasks_with_one_session_object(retain: Backend) -> None:
    session = await retain.create(session_id="s")

    async def append(who: str) -> None:
        for n in range(5):
            await retain.sessions.append_event(session, event_of(who, n))

    writers = [f"task{n}" for n in range(40)]
    await asyncio.gather(*map(append, writers))
    stored = await retain.get("s")
    check(stored, writers, 5)
    assert sorted(e.id for e in session.events) == sorted(e.id for e in stored.events)
    assert {k for k in session.state} == {k for k in stored.state}


async def test_threads_share_one_service(retain: Backend) -> None:
    await retain.create(session_id="s")
    failures: list[BaseException] = []

    def run(who: str) -> None:
        try:
            asyncio.run(write(retain.sessions, retain.app, who, 10))
        except BaseException as error:
            failures.append(error)

    writers = [f"thread{n}" for n in range(6)]
    threads = [threading.Thread(target=run, args=(who,)) for who in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert failures == []
    check(await retain.get("s"), writers, 10)


async def test_several_processes(servers: dict[str, Server]) -> None:
    url = servers["retain-sqlite"].url
    retain = Backend("retain", retain_adk.RetainSessionService(url))
    await retain.create(session_id="s")
    writers = [f"process{n}" for n in range(3)]
    processes = [run_python(WRITER, url, retain.app, who, "25") for who in writers]
    for process in processes:
        out, _ = await asyncio.to_thread(process.communicate, timeout=100)
        assert process.returncode == 0, out
    check(await retain.get("s"), writers, 25)


async def test_user_and_app_state_of_many_sessions(retain: Backend) -> None:
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


async def test_one_of_many_creators_wins(retain: Backend) -> None:
    from google.adk.errors.already_exists_error import AlreadyExistsError

    made = await asyncio.gather(
        *(retain.create(session_id="s", state={"n": n}) for n in range(20)), return_exceptions=True
    )
    won = [s for s in made if not isinstance(s, BaseException)]
    assert len(won) == 1
    assert all(isinstance(s, AlreadyExistsError) for s in made if s is not won[0])
    assert (await retain.get("s")).state == won[0].state
