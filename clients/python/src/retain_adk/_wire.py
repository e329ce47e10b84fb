"""Converts ADK's objects to the JSON of the server and back, without loss.

The JSON has the form of ADK's HTTP API: camelCase, and nulls only in maps with arbitrary keys.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticSerializationError, to_json

from ._errors import RetainRequestError

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=BaseModel)


class _Response(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


class StoredEvent(_Response):
    """An event and its position in the log."""

    position: int
    event: Event


class StoredSession(_Response):
    """A session as the server returns it."""

    id: str
    app_name: str
    user_id: str
    state: dict[str, Any] = Field(default_factory=dict)
    last_update_time: float = 0.0
    events: list[StoredEvent] = Field(default_factory=list)

    def to_session(self) -> Session:
        """Return the session as ADK's object."""
        return Session(
            id=self.id,
            app_name=self.app_name,
            user_id=self.user_id,
            state=self.state,
            events=[stored.event for stored in self.events],
            last_update_time=self.last_update_time,
        )


class AppendReceipt(_Response):
    """The result of an append."""

    last_update_time: float


class SessionPage(_Response):
    """A page of a session list; `next` is the cursor of the next page."""

    sessions: list[StoredSession]
    next: str | None = None


class UserState(_Response):
    """The state of a user, without key prefixes."""

    state: dict[str, Any]


class MemoryHit(_Response):
    """One memory of a search result."""

    memory: MemoryEntry


class MemoryHits(_Response):
    """The result of a memory search, best first."""

    memories: list[MemoryHit]


def parse(model: type[M], text: bytes) -> M:
    """Parse an answer.

    A newer ADK may have written fields that the installed version rejects. The result omits them,
    so that the rest of the session can be read; the store keeps them.
    """
    while True:
        try:
            return model.model_validate_json(text)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            unknown = [e["loc"] for e in found if e["type"] == "extra_forbidden"]
            value = json.loads(text)
            if not sum(_drop_field(value, where) for where in unknown):
                raise
            text = json.dumps(value).encode()


def _drop_field(value: Any, where: tuple[int | str, ...]) -> bool:
    """Remove the field at this location; return whether it existed."""
    *parents, last = where
    for step in parents:
        # Pydantic's location also names branches of unions, which are not in the data: skip them.
        if isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        elif isinstance(value, dict) and step in value:
            value = value[step]
    if not isinstance(value, dict) or last not in value:
        return False
    del value[last]
    return True


def without_temp(delta: dict[str, Any]) -> dict[str, Any]:
    """Return a delta or an initial state without `temp:` keys, which are not stored."""
    return {key: value for key, value in delta.items() if not key.startswith(State.TEMP_PREFIX)}


def event_json(event: Event) -> bytes:
    """Return the event as JSON, as it is stored: without `temp:` keys."""
    with _serialization_errors("the event"):
        stored = without_temp(event.actions.state_delta) if event.actions else {}
        if event.actions and event.actions.state_delta:
            # ADK writes bytes as base64 in an event's state delta, but as text in the session's
            # state. Retain stores one value for both. Send text, because agents read the state.
            event = _with_delta(event, _with_text_for_bytes(stored))
        try:
            return _object_json(event)
        except PydanticSerializationError:
            # As newer versions of ADK do, store values without a JSON form as text.
            return _object_json(_with_delta(event, json.loads(state_json(stored))))


def _with_delta(event: Event, delta: dict[str, Any]) -> Event:
    actions = event.actions.model_copy(update={"state_delta": delta})
    return event.model_copy(update={"actions": actions})


def state_json(state: dict[str, Any]) -> bytes:
    """Return a state as JSON. As in ADK, values without a JSON form become text."""
    with _serialization_errors("the state"):
        plain_state = _with_text_for_bytes(state)
        try:
            return to_json(plain_state, inf_nan_mode="null")
        except PydanticSerializationError:
            text = to_json(plain_state, inf_nan_mode="null", serialize_unknown=True)
            logger.warning("some values of the state have no JSON form and are stored as text")
            return text


def _with_text_for_bytes(value: Any) -> Any:
    """Return the value with text instead of bytes, as in ADK's states.

    Bytes that are not UTF-8 become base64, as in ADK's events. ADK's services raise for them.
    """
    if isinstance(value, (bytes, bytearray)):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.urlsafe_b64encode(value).decode()
    if isinstance(value, dict):
        return {
            _with_text_for_bytes(key) if isinstance(key, bytes) else key: _with_text_for_bytes(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_with_text_for_bytes(item) for item in value]
    return value


@contextmanager
def _serialization_errors(what: str) -> Iterator[None]:
    """Convert an error of serialization to a `RetainRequestError`."""
    try:
        yield
    except RetainRequestError:
        raise
    except (ValueError, RecursionError) as error:
        # Pydantic's error is a ValueError; circular and deeply nested values raise the others.
        message = f"{what} cannot be written as JSON, so nothing was sent: {error}"
        raise RetainRequestError(message) from error


def object_json(model: BaseModel) -> bytes:
    """Return an object of ADK or of the API as JSON."""
    with _serialization_errors(f"the {type(model).__name__}"):
        return _object_json(model)


def _object_json(model: BaseModel) -> bytes:
    return model.model_dump_json(by_alias=True, exclude_none=True).encode()


def json_object(**members: bytes | None) -> bytes:
    """Return a JSON object of members that are already JSON, without those that are None."""
    encoded = [
        json.dumps(to_camel(name)).encode() + b":" + value
        for name, value in members.items()
        if value is not None
    ]
    return b"{" + b",".join(encoded) + b"}"


def json_array(items: list[bytes]) -> bytes:
    """Return a JSON array of items that are already JSON."""
    return b"[" + b",".join(items) + b"]"


def json_value(value: object) -> bytes | None:
    """Return a plain value as JSON, or None for None."""
    if value is None:
        return None
    with _serialization_errors("a value"):
        return to_json(value, inf_nan_mode="null", by_alias=True)
