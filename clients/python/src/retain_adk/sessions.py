"""Sessions and state: `RetainSessionService`."""

from __future__ import annotations

import uuid
from types import TracebackType
from typing import Any

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session

from . import _wire
from ._client import DEFAULT_TIMEOUT, Client, path, require_name
from ._errors import RetainConflictError, RetainError, RetainRequestError, SessionNotFoundError

# The server's error code for a missing session.
SESSION_NOT_FOUND = "session_not_found"
# Page size of a list: the server's maximum.
_PAGE = 1000


class RetainSessionService(BaseSessionService):
    """ADK sessions on a Retain server.

    The server stores concurrent appends of several tasks or processes in the order of their
    arrival, so a session is never stale. If an answer is lost, the client retries the append; the
    server stores the event once.

    `append_event` updates the caller's session like ADK's own services: with the event, its state
    and `temp:` keys. If it raises, the session does not change.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        uri: str | None = None,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        **_options: Any,
    ) -> None:
        """Create the service; it connects at the first use.

        Args:
            url: http://HOST:PORT, https://HOST:PORT or retain://HOST:PORT.
            uri: Like `url`; the argument of ADK's service registry.
            api_key: The server's API key; RETAIN_API_KEY by default.
            timeout: Seconds to wait for an answer.
            _options: Ignored arguments of ADK's registry, such as agents_dir.
        """
        self._client = Client(url, uri, api_key=api_key, timeout=timeout)

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session; raise `AlreadyExistsError` if the id exists."""
        # The client generates the id, so that it can repeat a request after a lost answer.
        given = session_id if session_id and session_id.strip() else None
        id = given or str(uuid.uuid4())
        body = _wire.json_object(
            session_id=_wire.json_value(id),
            state=_wire.state_json(_wire.without_temp(state or {})),
        )
        try:
            answer = await self._client.call(
                "POST", app_name, _sessions_of(user_id), body=body, repeatable=given is None
            )
        except RetainConflictError as error:
            if given is None:  # a retry: an earlier attempt has created the session
                created = await self.get_session(app_name=app_name, user_id=user_id, session_id=id)
                if created is not None:
                    return created
            raise AlreadyExistsError(f"Session with id {id} already exists.") from error
        return _wire.parse(_wire.StoredSession, answer).to_session()

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return the session with all its events, or those that `config` selects."""
        recent = config.num_recent_events if config else None
        if recent is not None and recent < 0:
            raise RetainRequestError("num_recent_events must not be negative")
        answer = await self._client.find(
            app_name,
            _session(user_id, session_id),
            params={"recent": recent, "afterTime": config.after_timestamp if config else None},
            absent=SESSION_NOT_FOUND,
        )
        if answer is None:
            return None
        return _wire.parse(_wire.StoredSession, answer).to_session()

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """List the sessions of a user, or of all users, with state and without events."""
        below = "sessions" if user_id is None else _sessions_of(user_id)
        found: dict[tuple[str, str], Session] = {}
        after: str | None = None
        while True:
            answer = await self._client.call(
                "GET", app_name, below, params={"state": "true", "limit": _PAGE, "after": after}
            )
            page = _wire.parse(_wire.SessionPage, answer)
            # A session that changes during the listing may be on two pages; the later page wins.
            found.update(((s.user_id, s.id), s.to_session()) for s in page.sessions)
            if page.next is None:
                break
            after = page.next
        in_order = sorted(found.values(), key=lambda s: (s.last_update_time, s.user_id, s.id))
        return ListSessionsResponse(sessions=in_order)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete the session with its events; do nothing if it does not exist."""
        await self._client.call("DELETE", app_name, _session(user_id, session_id))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the user's shared state, without the `user:` prefix."""
        below = f"users/{path(require_name('user id', user_id))}/state"
        answer = await self._client.call("GET", app_name, below)
        return _wire.parse(_wire.UserState, answer).state

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store the event and update `session`. A partial event is not stored.

        Raises `SessionNotFoundError` if the session no longer exists.
        """
        if event.partial:
            return event
        if not event.id:
            event.id = str(uuid.uuid4())
        try:
            answer = await self._client.call(
                "POST",
                session.app_name,
                f"{_session(session.user_id, session.id)}/events",
                body=_wire.json_object(events=_wire.json_array([_wire.event_json(event)])),
            )
        except RetainError as error:
            if error.code == SESSION_NOT_FOUND:
                raise SessionNotFoundError(f"Session {session.id} not found.") from error
            raise
        _apply_append(session, event, _wire.parse(_wire.AppendReceipt, answer))
        return event

    async def close(self) -> None:
        """Close the connections of this event loop; otherwise they end with the loop."""
        await self._client.close()

    async def __aenter__(self) -> RetainSessionService:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _sessions_of(user_id: str) -> str:
    return f"users/{path(require_name('user id', user_id))}/sessions"


def _session(user_id: str, session_id: str) -> str:
    return f"{_sessions_of(user_id)}/{path(require_name('session id', session_id))}"


def _apply_append(session: Session, event: Event, appended: _wire.AppendReceipt) -> None:
    if any(known.id == event.id for known in reversed(session.events)):
        return  # a repeated append: the session already contains the event
    session.last_update_time = appended.last_update_time
    if event.actions and event.actions.state_delta:
        delta = event.actions.state_delta
        session.state.update(delta)
        # `temp:` keys stay in the session object. The event keeps only the stored keys.
        event.actions.state_delta = _wire.without_temp(delta)
    session.events.append(event)
