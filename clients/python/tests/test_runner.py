"""ADK's own Runner on Retain has the same results as on ADK's in-memory services."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import agents
import pytest
from backends import ADK_MAJOR
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.events.event import Event
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types

import retain_adk

pytestmark = pytest.mark.anyio


@dataclass
class Conversation:
    """A runner with its services, and one session."""

    runner: Runner
    where: dict[str, str]

    async def say(self, text: str, **more: Any) -> list[Event]:
        message = types.Content(role="user", parts=[types.Part(text=text)])
        place = {"user_id": self.where["user_id"], "session_id": self.where["session_id"]}
        return [
            event async for event in self.runner.run_async(**place, new_message=message, **more)
        ]

    async def session(self) -> Any:
        return await self.runner.session_service.get_session(**self.where)


async def start_conversation(agent: Any, url: str | None) -> Conversation:
    sessions: Any = InMemorySessionService()
    memory: Any = InMemoryMemoryService()
    artifacts: Any = InMemoryArtifactService()
    if url is not None:
        sessions = retain_adk.RetainSessionService(url)
        memory = retain_adk.RetainMemoryService(url)
        artifacts = retain_adk.RetainArtifactService(url)
    where = {"app_name": f"app_{uuid.uuid4().hex}", "user_id": "ada", "session_id": "s"}
    await sessions.create_session(**where, state={"started": True})
    runner = Runner(
        app_name=where["app_name"],
        agent=agent,
        session_service=sessions,
        memory_service=memory,
        artifact_service=artifacts,
    )
    return Conversation(runner, where)


def normalize(value: Any, names: dict[str, str]) -> Any:
    """Make the values of two runs equal: number generated ids and remove times."""
    if isinstance(value, dict):
        return {
            names.setdefault(key, key) if key not in names else names[key]: normalize(item, names)
            for key, item in value.items()
            if key not in ("timestamp", "last_update_time")
        }
    if isinstance(value, (list, tuple)):
        return [normalize(item, names) for item in value]
    if isinstance(value, set):
        return sorted(str(normalize(item, names)) for item in value)
    made = re.compile(
        r"(?:e-|adk-|p-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    )
    if isinstance(value, str) and made.search(value):
        return made.sub(lambda m: names.setdefault(m.group(), f"id {len(names)}"), value)
    return value


def normalized_events(events: list[Event]) -> list[Any]:
    names: dict[str, str] = {}
    return [normalize(event.model_dump(exclude_none=True), names) for event in events]


def by_author(events: list[Event]) -> list[Event]:
    """Sort the events of parallel agents, which come in any order, by agent."""
    return sorted(events, key=lambda event: (event.branch or "", event.author))


CASES: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "shop": (agents.shop, ["hello", "an apple", "a pear, a plum and the receipt"]),
    "transferring": (agents.transferring, ["my bill?", "again?", "back, please"]),
    "pipeline": (agents.pipeline, ["write"]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("streaming", [False, True])
async def test_runs_equal_those_on_in_memory_services(url: str, case: str, streaming: bool) -> None:
    make, turns = CASES[case]
    mode = StreamingMode.SSE if streaming else StreamingMode.NONE
    both = [await start_conversation(make(), None), await start_conversation(make(), url)]
    yielded: list[list[Event]] = [[], []]
    for text in turns:
        for n, one in enumerate(both):
            yielded[n] += await one.say(text, run_config=RunConfig(streaming_mode=mode))
    sort = by_author if case == "pipeline" else list
    assert normalized_events(sort(yielded[0])) == normalized_events(sort(yielded[1]))
    in_memory, stored = [await one.session() for one in both]
    assert normalized_events(sort(in_memory.events)) == normalized_events(sort(stored.events))
    assert in_memory.state == stored.state
    assert not any(event.partial for event in stored.events)
    assert any(event.partial for event in yielded[1]) == streaming
    # The runner yields exactly the stored events.
    final = [event.id for event in yielded[1] if not event.partial]
    assert [event.id for event in stored.events if event.author != "user"] == final
    for key in ("artifact_service", "session_service", "memory_service"):
        await getattr(both[1].runner, key).close()


async def test_model_receives_the_same_requests(url: str) -> None:
    seen = []
    for place in (None, url):
        agent = agents.shop()
        one = await start_conversation(agent, place)
        for text in CASES["shop"][1]:
            await one.say(text)
        names: dict[str, str] = {}
        seen.append(
            [
                normalize([c.model_dump(exclude_none=True) for c in r], names)
                for r in agent.model.seen
            ]
        )
    assert seen[0] == seen[1]
    assert len(seen[0]) == 6


async def test_tools_store_state_and_files(url: str) -> None:
    one = await start_conversation(agents.shop(), url)
    for text in CASES["shop"][1]:
        await one.say(text)
    session = await one.session()
    assert session.state["cart"] in (["apple", "pear", "plum"], ["apple", "plum"])
    assert session.state["user:items"] in (2, 3)
    assert session.state["last_answer"] == "Here is your receipt."
    assert session.state["started"] is True
    assert not [key for key in session.state if key.startswith("temp:")]
    files = one.runner.artifact_service
    assert await files.list_artifact_keys(**one.where) == ["receipt.txt", "user:last_receipt.txt"]
    deltas = [event.actions.artifact_delta for event in session.events]
    assert {"receipt.txt": 0, "user:last_receipt.txt": 0} in deltas
    loaded = await files.load_artifact(**one.where, filename="receipt.txt")
    assert loaded.inline_data.data.decode().startswith("apple")


async def test_conversation_continues_with_a_new_runner(url: str) -> None:
    """All data is on the server: a new runner with new services continues the session."""
    first = await start_conversation(agents.transferring(), url)
    await first.say("my bill?")
    agent = agents.transferring()
    billing = agent.sub_agents[0]
    billing.model = agents.script("It is still 3.")
    second = Conversation(
        Runner(
            app_name=first.where["app_name"],
            agent=agent,
            session_service=retain_adk.RetainSessionService(url),
        ),
        first.where,
    )
    (answer,) = [e for e in await second.say("again?") if e.is_final_response()]
    assert answer.author == "billing"  # the events determine the active agent
    received = [
        part.text for content in billing.model.seen[0] for part in content.parts if part.text
    ]
    assert received[0] == "my bill?"
    assert received[-1] == "again?"


async def test_memory_of_one_session_is_found_in_another(url: str) -> None:
    agent = agents.recalling()
    one = await start_conversation(agent, url)
    earlier = {**one.where, "session_id": "earlier"}
    sessions, memory = one.runner.session_service, one.runner.memory_service
    session = await sessions.create_session(**earlier)
    content = types.Content(role="user", parts=[types.Part(text="I like apples most.")])
    await sessions.append_event(session, Event(author="user", content=content))
    await memory.add_session_to_memory(session)
    await one.say("what fruit do I like?")
    (answer,) = [
        part.function_response.response
        for content in agent.model.seen[1]
        for part in content.parts
        if part.function_response
    ]
    assert "I like apples most." in str(answer)


async def test_rewind_restores_state_and_keeps_events(url: str) -> None:
    one = await start_conversation(agents.shop(), url)
    for text in CASES["shop"][1][:2]:
        await one.say(text)
    before = await one.session()
    assert before.state["cart"] == ["apple"]
    second = before.events[-1].invocation_id
    place = {"user_id": "ada", "session_id": "s"}
    await one.runner.rewind_async(**place, rewind_before_invocation_id=second)
    after = await one.session()
    assert len(after.events) == len(before.events) + 1
    assert after.events[-1].actions.rewind_before_invocation_id == second
    assert after.state.get("cart") is None
    assert after.state["last_answer"] == "Welcome."
    assert after.state["user:items"] == 1
    # ADK loses the initial state of the session; Retain restores it.
    assert after.state["started"] is True


def test_synchronous_runner_uses_an_event_loop_per_call(url: str) -> None:
    """`Runner.run` starts an event loop for each call."""
    import asyncio

    async def make() -> Conversation:
        return await start_conversation(agents.shop(), url)

    one = asyncio.run(make())
    for text in CASES["shop"][1][:2]:
        message = types.Content(role="user", parts=[types.Part(text=text)])
        events = list(one.runner.run(user_id="ada", session_id="s", new_message=message))
        assert events[-1].is_final_response()
    assert asyncio.run(one.session()).state["cart"] == ["apple"]


async def test_concurrent_runs_of_one_session_succeed(url: str) -> None:
    """ADK's database services fail here, because the session is stale."""
    import asyncio

    one = await start_conversation(agents.shop(), url)
    runners = []
    for n in range(6):
        agent = agents.LlmAgent(name="shop", model=agents.script(f"answer {n}"))
        sessions = one.runner.session_service
        runners.append(
            Runner(app_name=one.where["app_name"], agent=agent, session_service=sessions)
        )
    await asyncio.gather(
        *(Conversation(runner, one.where).say(f"question {n}") for n, runner in enumerate(runners))
    )
    events = (await one.session()).events
    texts = [event.content.parts[0].text for event in events if event.content]
    assert sorted(texts) == sorted([f"{w} {n}" for w in ("question", "answer") for n in range(6)])
    for n in range(6):
        assert texts.index(f"question {n}") < texts.index(f"answer {n}")


if ADK_MAJOR >= 2:

    async def test_compaction_stores_summaries(url: str) -> None:
        """ADK's compaction appends its summaries through the session service."""
        from google.adk.apps import App
        from google.adk.apps.app import EventsCompactionConfig
        from google.adk.apps.llm_event_summarizer import LlmEventSummarizer

        agent = agents.LlmAgent(name="talker", model=agents.script("1", "2", "3", "4"))
        summarizer = LlmEventSummarizer(llm=agents.script("the sum", "the second sum"))
        name = f"app_{uuid.uuid4().hex}"
        config = EventsCompactionConfig(
            summarizer=summarizer, compaction_interval=2, overlap_size=0
        )
        app = App(name=name, root_agent=agent, events_compaction_config=config)
        sessions = retain_adk.RetainSessionService(url)
        where = {"app_name": name, "user_id": "ada", "session_id": "s"}
        await sessions.create_session(**where)
        one = Conversation(Runner(app=app, session_service=sessions), where)
        for n in range(4):
            await one.say(f"question {n}")
        sums = [e.actions.compaction for e in (await one.session()).events if e.actions.compaction]
        assert [s.compacted_content.parts[0].text for s in sums] == ["the sum", "the second sum"]
