"""Long-term memory: `RetainMemoryService`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session

from . import _wire
from ._client import DEFAULT_TIMEOUT, Client, path, require_name

# Maximum size of a request in bytes, because servers limit it. A single event may be larger.
_BYTES_PER_REQUEST = 4 * 1024 * 1024


class RetainMemoryService(BaseMemoryService):
    """Long-term memory on a Retain server."""

    def __init__(
        self,
        url: str | None = None,
        *,
        uri: str | None = None,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        **_options: Any,
    ) -> None:
        """Create the service; the arguments are those of `RetainSessionService`."""
        self._client = Client(url, uri, api_key=api_key, timeout=timeout)

    async def add_session_to_memory(self, session: Session) -> None:
        """Ingest the session's events. The server need not have the session.

        Ingesting a session again adds only its new events.
        """
        batches = _batches(session.events)
        first = _wire.json_object(
            id=_wire.json_value(session.id),
            app_name=_wire.json_value(session.app_name),
            user_id=_wire.json_value(session.user_id),
            events=next(batches, b"[]"),
            last_update_time=_wire.json_value(session.last_update_time),
        )
        user = (session.app_name, session.user_id)
        await self._post(*user, "sessions", _wire.json_object(session=first))
        for events in batches:
            more = _wire.json_object(events=events, session_id=_wire.json_value(session.id))
            await self._post(*user, "events", more)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Ingest these events. Memories of the session's other events stay."""
        for batch in _batches(events):
            body = _wire.json_object(
                events=batch,
                session_id=_wire.json_value(session_id),
                custom_metadata=_wire.json_value(custom_metadata),
            )
            await self._post(app_name, user_id, "events", body)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add memories unchanged."""
        # The client sets ids, so that it can repeat a request after a lost answer.
        with_ids = [
            memory if memory.id else memory.model_copy(update={"id": str(uuid.uuid4())})
            for memory in memories
        ]
        body = _wire.json_object(
            memories=_wire.json_array([_wire.object_json(memory) for memory in with_ids]),
            custom_metadata=_wire.json_value(custom_metadata),
        )
        await self._post(app_name, user_id, "entries", body)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Search the user's memories, best first."""
        body = _wire.json_object(query=_wire.json_value(query))
        found = await self._post(app_name, user_id, "search", body)
        memories = _wire.parse(_wire.MemoryHits, found).memories
        return SearchMemoryResponse(memories=[found.memory for found in memories])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forget the memory with this id permanently; do nothing if it does not exist."""
        if memory_id:
            below = f"{_memory_of(user_id)}/entries/{path(memory_id)}"
            await self._client.call("DELETE", app_name, below)

    async def close(self) -> None:
        """Close the connections of this event loop; otherwise they end with the loop."""
        await self._client.close()

    async def __aenter__(self) -> RetainMemoryService:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _post(self, app: str, user: str, below: str, body: bytes) -> bytes:
        return await self._client.call("POST", app, f"{_memory_of(user)}/{below}", body=body)


def _memory_of(user_id: str) -> str:
    return f"users/{path(require_name('user id', user_id))}/memory"


def _batches(events: Sequence[Event]) -> Iterator[bytes]:
    """Yield the events as JSON arrays, each small enough for one request."""
    batch: list[bytes] = []
    size = 0
    for event in events:
        text = _wire.event_json(event)
        if batch and size + len(text) > _BYTES_PER_REQUEST:
            yield _wire.json_array(batch)
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield _wire.json_array(batch)
