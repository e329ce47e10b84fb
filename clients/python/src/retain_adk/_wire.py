"""Between ADK's objects and the JSON of the server, without loss.

Objects are written in ADK's HTTP form: camelCase, no nulls in fields, nulls in free maps kept.
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


class _Answer(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


class StoredEvent(_Answer):
    """An event and where it stands in the log."""

    position: int
    event: Event


class StoredSession(_Answer):
    """A session as the server has it."""

    id: str
    app_name: str
    user_id: str
    state: dict[str, Any] = Field(default_factory=dict)
    last_update_time: float = 0.0
    events: list[StoredEvent] = Field(default_factory=list)

    def to_session(self) -> Session:
        """The object that ADK works with."""
        return Session(
            id=self.id,
            app_name=self.app_name,
            user_id=self.user_id,
            state=self.state,
            events=[stored.event for stored in self.events],
            last_update_time=self.last_update_time,
        )


class Appended(_Answer):
    """What an append came to."""

    last_update_time: float


class SessionPage(_Answer):
    """Some of the sessions, and where the others begin."""

    sessions: list[StoredSession]
    next: str | None = None


class UserState(_Answer):
    """A user's state, without prefixes."""

    state: dict[str, Any]


class FoundMemory(_Answer):
    """A memory that answers a question."""

    memory: MemoryEntry


class FoundMemories(_Answer):
    """What answers a question, the best first."""

    memories: list[FoundMemory]


def read(model: type[M], text: bytes) -> M:
    """Reads an answer.

    A newer ADK may have written fields that the installed one refuses. They are left out here and
    stay in the store; the rest of the session can still be read.
    """
    while True:
        try:
            return model.model_validate_json(text)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            unknown = [e["loc"] for e in found if e["type"] == "extra_forbidden"]
            value = json.loads(text)
            if not sum(_drop(value, where) for where in unknown):
                raise
            text = json.dumps(value).encode()


def _drop(value: Any, where: tuple[int | str, ...]) -> bool:
    """Takes the field out that an error names; true if it was there."""
    *above, last = where
    for step in above:
        # Steps outside the data name a branch of a union.
        if isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        elif isinstance(value, dict) and step in value:
            value = value[step]
    if not isinstance(value, dict) or last not in value:
        return False
    del value[last]
    return True


def without_temp(delta: dict[str, Any]) -> dict[str, Any]:
    """What is stored of a delta or of the state of a new session."""
    return {key: value for key, value in delta.items() if not key.startswith(State.TEMP_PREFIX)}


def event_json(event: Event) -> bytes:
    """The event as it is stored: without `temp:` keys."""
    with _writing("the event"):
        kept = without_temp(event.actions.state_delta) if event.actions else {}
        if event.actions and event.actions.state_delta:
            # ADK has base64 in the event and text in the state that comes of it. Here there is one
            # value for both, and the state is what agents read.
            event = _with_delta(event, _with_text_for_bytes(kept))
        try:
            return _object_json(event)
        except PydanticSerializationError:
            # Newer ADKs do this themselves: what has no JSON form is stored as its text.
            return _object_json(_with_delta(event, json.loads(state_json(kept))))


def _with_delta(event: Event, delta: dict[str, Any]) -> Event:
    actions = event.actions.model_copy(update={"state_delta": delta})
    return event.model_copy(update={"actions": actions})


def state_json(state: dict[str, Any]) -> bytes:
    """A state as JSON; as ADK does it, what has no JSON form is stored as its text."""
    with _writing("the state"):
        plain_state = _with_text_for_bytes(state)
        try:
            return to_json(plain_state, inf_nan_mode="null")
        except PydanticSerializationError:
            text = to_json(plain_state, inf_nan_mode="null", serialize_unknown=True)
            logger.warning("some values of the state have no JSON form and are stored as text")
            return text


def _with_text_for_bytes(value: Any) -> Any:
    """The value with text in the place of bytes, as ADK has it in its states.

    ADK's services raise for bytes that are not text. They are encoded as ADK encodes bytes in
    events.
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
def _writing(what: str) -> Iterator[None]:
    """Tells who called, in this package's words, that something cannot be sent."""
    try:
        yield
    except RetainRequestError:
        raise
    except (ValueError, RecursionError) as error:
        # Pydantic's error is a ValueError too; circles and great depth are told by the others.
        message = f"{what} cannot be written as JSON, so nothing was sent: {error}"
        raise RetainRequestError(message) from error


def object_json(model: BaseModel) -> bytes:
    """One of ADK's or the API's objects as JSON."""
    with _writing(f"the {type(model).__name__}"):
        return _object_json(model)


def _object_json(model: BaseModel) -> bytes:
    return model.model_dump_json(by_alias=True, exclude_none=True).encode()


def body(**members: bytes | None) -> bytes:
    """A JSON object of members that are JSON already; those that are None are left out."""
    given = [
        json.dumps(to_camel(name)).encode() + b":" + value
        for name, value in members.items()
        if value is not None
    ]
    return b"{" + b",".join(given) + b"}"


def array(items: list[bytes]) -> bytes:
    """A JSON array of items that are JSON already."""
    return b"[" + b",".join(items) + b"]"


def plain(value: object) -> bytes | None:
    """A plain value as JSON; None stays None."""
    if value is None:
        return None
    with _writing("a value"):
        return to_json(value, inf_nan_mode="null", by_alias=True)
