"""The peer google-adk in the suite `memory`: its InMemoryMemoryService with defaults."""

from google.adk.events.event import Event
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.sessions.session import Session
from google.genai import types

from common import APP


def event(turn, time):
    content = types.Content(role="user", parts=[types.Part(text=turn["text"])])
    return Event(id=turn["id"], author=turn["author"], timestamp=time, content=content)


class MemoryStore:
    """Ingests sessions and runs searches. The driver ignores the measured times."""

    async def open(self):
        self.service = InMemoryMemoryService()
        return "in memory"

    async def close(self):
        pass

    async def remember(self, meter, user, sessions):
        meter.start()
        for saved in sessions:
            events = [event(turn, saved["time"]) for turn in saved["turns"]]
            session = Session(app_name=APP, user_id=user, id=saved["id"], events=events)
            await self.service.add_session_to_memory(session)
        meter.stop()
        return {"ok": True}

    async def ask(self, meter, user, time, questions, limit):
        """Search for each question. The service ignores `time` and returns at most ten memories."""
        meter.start()
        found = []
        for question in questions:
            answer = await self.service.search_memory(app_name=APP, user_id=user, query=question)
            found.append([memory.id for memory in answer.memories][:limit])
        meter.stop()
        return {"found": found}
