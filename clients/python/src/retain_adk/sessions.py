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
from ._client import DEFAULT_TIMEOUT, Client, named, path
from ._errors import RetainConflictError, RetainError, RetainRequestError, SessionNotFoundError

# What the server calls a session that is not there.
SESSION_NOT_FOUND = "session_not_found"
# How many sessions of a list come at once: as many as the server gives.
_PAGE = 1000


class RetainSessionService(BaseSessionService):
    """ADK's sessions, kept by a Retain server.

    Appends of several tasks or processes to one session are all stored, in the order in which they
    arrive; there are no stale sessions. An append whose answer is lost is repeated and stored once.

    The caller's session is updated as by ADK's own services: an event, its state and `temp:` keys
    are in it when `append_event` returns. If that raises, the session is as it was.
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
        """Makes the service; the server is asked at the first use.

        Args:
            url: http://HOST:PORT, https://HOST:PORT or retain://HOST:PORT.
            uri: The same, by the name that ADK's service registry calls it.
            api_key: The server's key; by default what RETAIN_API_KEY has.
            timeout: How many seconds to wait for an answer.
            _options: What ADK's registry adds, such as agents_dir; not used.
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
        """Makes a session. Raises `AlreadyExistsError` if there is one of this id."""
        # A new id is made here, so that a request whose answer was lost can be repeated.
        given = session_id if session_id and session_id.strip() else None
        id = given or str(uuid.uuid4())
        body = _wire.body(
            session_id=_wire.plain(id),
            state=_wire.state_json(_wire.without_temp(state or {})),
        )
        try:
            answer = await self._client.call(
                "POST", app_name, _sessions_of(user_id), body=body, repeatable=given is None
            )
        except RetainConflictError as error:
            if given is None:  # nobody else knows the id: it was made by the first attempt
                made = await self.get_session(app_name=app_name, user_id=user_id, session_id=id)
                if made is not None:
                    return made
            raise AlreadyExistsError(f"Session with id {id} already exists.") from error
        return _wire.read(_wire.StoredSession, answer).to_session()

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """The session, with all of its events or those that `config` asks for."""
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
        return _wire.read(_wire.StoredSession, answer).to_session()

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """The sessions of a user, or of all users, with their state and without events."""
        below = "sessions" if user_id is None else _sessions_of(user_id)
        found: dict[tuple[str, str], Session] = {}
        after: str | None = None
        while True:
            answer = await self._client.call(
                "GET", app_name, below, params={"state": "true", "limit": _PAGE, "after": after}
            )
            page = _wire.read(_wire.SessionPage, answer)
            # One that is written meanwhile may turn up on two pages: the later one counts.
            found.update(((s.user_id, s.id), s.to_session()) for s in page.sessions)
            if page.next is None:
                break
            after = page.next
        in_order = sorted(found.values(), key=lambda s: (s.last_update_time, s.user_id, s.id))
        return ListSessionsResponse(sessions=in_order)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Deletes the session with its events; nothing happens if there is none."""
        await self._client.call("DELETE", app_name, _session(user_id, session_id))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The user's state over all sessions, without the `user:` prefix."""
        below = f"users/{path(named('user id', user_id))}/state"
        answer = await self._client.call("GET", app_name, below)
        return _wire.read(_wire.UserState, answer).state

    async def append_event(self, session: Session, event: Event) -> Event:
        """Stores the event and brings `session` up to date. A partial event is not stored.

        Raises `SessionNotFoundError` if the session is not there any more.
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
                body=_wire.body(events=_wire.array([_wire.event_json(event)])),
            )
        except RetainError as error:
            if error.code == SESSION_NOT_FOUND:
                raise SessionNotFoundError(f"Session {session.id} not found.") from error
            raise
        _bring_up_to_date(session, event, _wire.read(_wire.Appended, answer))
        return event

    async def close(self) -> None:
        """Closes the connections of this event loop; without it they end with the loop."""
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
    return f"users/{path(named('user id', user_id))}/sessions"


def _session(user_id: str, session_id: str) -> str:
    return f"{_sessions_of(user_id)}/{path(named('session id', session_id))}"


def _bring_up_to_date(session: Session, event: Event, appended: _wire.Appended) -> None:
    if any(known.id == event.id for known in reversed(session.events)):
        return  # a repeat: it was stored before, and the session is further on
    session.last_update_time = appended.last_update_time
    if event.actions and event.actions.state_delta:
        delta = event.actions.state_delta
        session.state.update(delta)
        # `temp:` keys live in the session object, and the event says what was stored.
        event.actions.state_delta = _wire.without_temp(delta)
    session.events.append(event)
