"""Long-term memory: the same tests on ADK's own service and on Retain."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from backends import ADK_MAJOR, RETAIN_BACKENDS, Server
from google.adk.events.event import Event
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

import retain_adk
from retain_adk import memory as retain_memory

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Memory:
    """A memory service, and an app name that no other test uses."""

    name: str
    service: Any
    app: str

    @property
    def is_retain(self) -> bool:
        return self.name in RETAIN_BACKENDS

    @property
    def has_methods_of_adk_2(self) -> bool:
        return self.is_retain or ADK_MAJOR >= 2

    async def search(self, query: str, user: str = "ada") -> list[MemoryEntry]:
        found = await self.service.search_memory(app_name=self.app, user_id=user, query=query)
        return found.memories

    async def texts(self, query: str, user: str = "ada") -> set[str]:
        return {memory.content.parts[0].text for memory in await self.search(query, user)}

    def session(self, id: str, *events: Event, user: str = "ada") -> Session:
        return Session(id=id, app_name=self.app, user_id=user, events=list(events))


@pytest.fixture(params=["adk", *RETAIN_BACKENDS])
async def memory(
    request: pytest.FixtureRequest, servers: dict[str, Server], anyio_backend: str
) -> AsyncIterator[Memory]:
    app = f"app-{uuid.uuid4()}"
    if request.param == "adk":
        yield Memory("adk", InMemoryMemoryService(), app)
        return
    async with retain_adk.RetainMemoryService(servers[request.param].url) as service:
        yield Memory(request.param, service, app)


def event_with_text(text: str, author: str = "user", **fields: Any) -> Event:
    return Event(
        author=author, content=types.Content(role="user", parts=[types.Part(text=text)]), **fields
    )


async def test_ingested_event_is_found_with_author_and_time(memory: Memory) -> None:
    apples = event_with_text("The apples are in the cellar", timestamp=1_700_000_000.25)
    await memory.service.add_session_to_memory(memory.session("s", apples))
    (found,) = await memory.search("apples")
    assert found.content == apples.content
    assert found.author == "user"
    assert found.timestamp.startswith("2023-11-1")
    assert found.timestamp.endswith(".250000")
    if memory.has_methods_of_adk_2:
        assert found.id == apples.id
    assert await memory.search("zeppelin") == []


async def test_search_is_isolated_by_user_and_app(memory: Memory) -> None:
    await memory.service.add_session_to_memory(
        memory.session("s", event_with_text("secret apples"))
    )
    assert await memory.search("apples", user="bob") == []
    other = Memory(memory.name, memory.service, memory.app + "2")
    assert await other.search("apples") == []
    assert await memory.texts("apples") == {"secret apples"}


async def test_ingesting_a_grown_session_adds_only_new_events(memory: Memory) -> None:
    events = [event_with_text("red apples")]
    await memory.service.add_session_to_memory(memory.session("s", *events))
    events.append(event_with_text("green apples"))
    await memory.service.add_session_to_memory(memory.session("s", *events))
    await memory.service.add_session_to_memory(memory.session("s", *events))
    assert len(await memory.search("apples")) == 2
    assert await memory.texts("apples") == {"red apples", "green apples"}


async def test_events_without_text_are_ignored(memory: Memory) -> None:
    blob = types.Part(inline_data=types.Blob(data=b"\x00\xff", mime_type="image/png"))
    empty = [
        Event(author="user"),
        Event(author="user", content=types.Content(role="user", parts=[])),
        Event(author="user", content=types.Content(role="user", parts=[blob])),
    ]
    await memory.service.add_session_to_memory(
        memory.session("s", *empty, event_with_text("one apple"))
    )
    await memory.service.add_session_to_memory(memory.session("empty"))
    assert await memory.texts("apple") == {"one apple"}


async def test_content_is_returned_unchanged(memory: Memory) -> None:
    parts = [
        types.Part(text="apples ä 日本 🙂"),
        types.Part(inline_data=types.Blob(data=bytes(range(256)), mime_type="image/png")),
        types.Part(function_call=types.FunctionCall(name="f", args={"snake_arg": {"x": None}})),
    ]
    content = types.Content(role="model", parts=parts)
    event = Event(author="agent", content=content)
    await memory.service.add_session_to_memory(memory.session("s", event))
    (found,) = await memory.search("apples")
    assert found.content == content
    assert found.author == "agent"


async def test_unusual_names_are_stored_exactly(memory: Memory) -> None:
    user = "ü/?#% ..%2F"
    await memory.service.add_session_to_memory(
        memory.session("a/b ?", event_with_text("apples"), user=user)
    )
    assert await memory.texts("apples", user=user) == {"apples"}


async def test_added_events_extend_the_memories_of_a_session(memory: Memory) -> None:
    if not memory.has_methods_of_adk_2:
        assert not hasattr(memory.service, "add_events_to_memory")
        return
    where = {"app_name": memory.app, "user_id": "ada"}
    first, second = event_with_text("red apples"), event_with_text("green apples")
    await memory.service.add_events_to_memory(**where, events=[first], session_id="s")
    await memory.service.add_events_to_memory(
        **where, events=[first, second], session_id="s", custom_metadata={"a_key": 1}
    )
    await memory.service.add_events_to_memory(**where, events=[event_with_text("blue apples")])
    await memory.service.add_events_to_memory(**where, events=[])
    assert len(await memory.search("apples")) == 3
    assert await memory.texts("apples") == {"red apples", "green apples", "blue apples"}


async def test_deleted_memory_is_not_ingested_again(memory: Memory) -> None:
    if not memory.has_methods_of_adk_2:
        assert not hasattr(memory.service, "delete_memory")
        return
    where = {"app_name": memory.app, "user_id": "ada"}
    session = memory.session("s", event_with_text("red apples"), event_with_text("green apples"))
    await memory.service.add_session_to_memory(session)
    red = next(m for m in await memory.search("apples") if m.content.parts[0].text == "red apples")
    await memory.service.delete_memory(**where, memory_id=red.id)
    await memory.service.add_session_to_memory(session)
    assert await memory.texts("apples") == {"green apples"}
    await memory.service.delete_memory(**where, memory_id="nothing")
    await memory.service.delete_memory(**where)
    assert await memory.texts("apples") == {"green apples"}


async def test_added_memories_are_stored_unchanged(memory: Memory) -> None:
    where = {"app_name": memory.app, "user_id": "ada"}
    entry = MemoryEntry(
        id="m/1",
        author="user",
        timestamp="2024-05-06T07:08:09.250000",
        custom_metadata={"snake_key": {"camelKey": None}},
        content=types.Content(role="user", parts=[types.Part(text="I like apples")]),
    )
    without_id = MemoryEntry(content=types.Content(parts=[types.Part(text="and apples like me")]))
    if memory.name != "retain-sqlite":  # ADK's own service does not support it
        if memory.has_methods_of_adk_2:
            with pytest.raises(NotImplementedError):
                await memory.service.add_memory(**where, memories=[entry])
        return
    await memory.service.add_memory(**where, memories=[entry, without_id])
    found = {m.content.parts[0].text: m for m in await memory.search("apples")}
    assert set(found) == {"I like apples", "and apples like me"}
    assert found["I like apples"] == entry
    assert without_id.id is None
    assert found["and apples like me"].id
    await memory.service.delete_memory(**where, memory_id="m/1")
    assert await memory.texts("apples") == {"and apples like me"}


async def test_long_session_is_sent_in_several_requests(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retain_memory, "_BYTES_PER_REQUEST", 2000)
    words = [f"{a}{b}fruit" for a in "abcdefgh" for b in "lmnop"]
    events = [event_with_text(f"{word} " + "x" * 300) for word in words]
    await memory.service.add_session_to_memory(memory.session("s", *events))
    for word in words:
        (found, *_) = await memory.search(word)
        assert found.content.parts[0].text.startswith(f"{word} ")
