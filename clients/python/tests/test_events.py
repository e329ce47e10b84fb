"""Events keep all fields, whichever versions of ADK write and read them."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from backends import ADK_MAJOR, Backend
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

pytestmark = pytest.mark.anyio

BYTES = bytes(range(256))

# A value for each field. If ADK adds a field, a test fails until this event has a value for it.
EVENT: dict[str, Any] = {
    "id": "event-1",
    "timestamp": 1_700_000_000.123456,
    "author": "agent",
    "invocation_id": "e-1",
    "branch": "root.agent",
    "partial": False,
    "turn_complete": True,
    "interrupted": False,
    "error_code": "SAFETY",
    "error_message": "no",
    "finish_reason": "STOP",
    "model_version": "m-1",
    "avg_logprobs": -0.25,
    "interaction_id": "inter-1",
    "long_running_tool_ids": ["call-1", "call-2"],
    "custom_metadata": {"snake_key": {"camelKey": None}, "list": [1, 1.0, "x"]},
    "usage_metadata": {
        "prompt_token_count": 3,
        "candidates_token_count": 4,
        "total_token_count": 7,
        "prompt_tokens_details": [{"modality": "TEXT", "token_count": 3}],
    },
    "grounding_metadata": {
        "web_search_queries": ["q"],
        "grounding_chunks": [{"web": {"uri": "https://e.example", "title": "t"}}],
        "grounding_supports": [{"segment": {"start_index": 1, "end_index": 2, "text": "x"}}],
        "search_entry_point": {"rendered_content": "<b>", "sdk_blob": "_-8="},
    },
    "citation_metadata": {"citations": [{"uri": "u", "start_index": 1, "title": "t"}]},
    "logprobs_result": {
        "chosen_candidates": [{"token": "a", "token_id": 5, "log_probability": -1.5}]
    },
    "cache_metadata": {
        "cache_name": "c",
        "expire_time": 1.5,
        "fingerprint": "f",
        "invocations_used": 1,
        "contents_count": 2,
        "created_at": 0.5,
    },
    "live_session_resumption_update": {"new_handle": "h", "resumable": True},
    "input_transcription": {"text": "in", "finished": True},
    "output_transcription": {"text": "out", "finished": False},
    # since google-adk 2
    "turn_complete_reason": "TURN_COMPLETE_REASON_UNSPECIFIED",
    "interaction_status": "STATUS",
    "live_session_id": "live-1",
    "go_away": {"time_left": "10s"},
    "voice_activity": {},
    "environment_id": "env-1",
    "output": {"any": [None, 1]},
    "node_info": {"path": "root/a@1", "output_for": ["x"], "message_as_output": True},
    "isolation_scope": "scope-1",
}

ACTIONS: dict[str, Any] = {
    "skip_summarization": True,
    "state_delta": {"snake_key": {"camelKey": None}, "user:x": 1.0},
    "artifact_delta": {"a_file.txt": 3},
    "transfer_to_agent": "other",
    "escalate": True,
    "end_of_agent": True,
    "agent_state": {"some_key": {"innerKey": None}},
    "rewind_before_invocation_id": None,  # a value would rewind the session; see test_runner.py
    "requested_auth_configs": {
        "call-1": {
            "auth_scheme": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "credential_key": "k",
        }
    },
    "requested_tool_confirmations": {
        "call-2": {"hint": "sure?", "confirmed": False, "payload": {"some_key": None}}
    },
    "compaction": {
        "start_timestamp": 1.5,
        "end_timestamp": 2.5,
        "compacted_content": {"role": "model", "parts": [{"text": "sum"}]},
    },
    # since google-adk 2
    "transfer_reason": "because",
    "route": ["a", 1, True],
    "render_ui_widgets": [{"id": "w", "provider": "mcp", "payload": {"some_key": 1}}],
    "set_model_response": {"x": None},
}

PARTS = [
    types.Part(text="ä 日本 🙂", thought=True, thought_signature=BYTES),
    types.Part(inline_data=types.Blob(data=BYTES, mime_type="image/png", display_name="p")),
    types.Part(file_data=types.FileData(file_uri="gs://b/f", mime_type="x/y")),
    types.Part(
        function_call=types.FunctionCall(
            id="call-1", name="f", args={"snake_arg": {"camelArg": None}}
        )
    ),
    types.Part(
        function_response=types.FunctionResponse(
            id="call-1", name="f", response={"r_1": [1.0, None]}
        )
    ),
    types.Part(executable_code=types.ExecutableCode(code="1+1", language="PYTHON")),
    types.Part(code_execution_result=types.CodeExecutionResult(outcome="OUTCOME_OK", output="2")),
    types.Part(
        inline_data=types.Blob(data=b"v", mime_type="video/mp4"),
        video_metadata=types.VideoMetadata(start_offset="1s", end_offset="2s", fps=1.5),
    ),
]


def full_event() -> Event:
    fields = {name: value for name, value in EVENT.items() if name in Event.model_fields}
    actions = {name: value for name, value in ACTIONS.items() if name in EventActions.model_fields}
    if "interaction_status" in fields:
        fields["interaction_status"] = next(iter(types.InteractionStatus))
    if "turn_complete_reason" in fields:
        fields["turn_complete_reason"] = next(iter(types.TurnCompleteReason))
    content = types.Content(role="model", parts=PARTS)
    return Event(**fields, content=content, actions=EventActions(**actions))


def test_full_event_has_a_value_for_every_field() -> None:
    assert set(Event.model_fields) - set(EVENT) == {"content", "actions"}
    assert set(EventActions.model_fields) <= set(ACTIONS)


async def test_event_keeps_every_field(backend: Backend) -> None:
    event = full_event()
    session = await backend.create(session_id="s")
    await backend.sessions.append_event(session, event)
    (got,) = (await backend.get("s")).events
    if backend.expect(True, database_1=False):  # google-adk 1 has no columns for some fields
        # ADK's database services return another authentication scheme than the stored one.
        changed = backend.expect(set(), sqlite={"requested_auth_configs"})
        changed = backend.expect(changed, database={"requested_auth_configs"})
        excluded = {"actions": changed} if changed else None
        assert got.model_dump(exclude=excluded) == event.model_dump(exclude=excluded)
        assert got.content.parts == PARTS
    else:
        assert got.finish_reason is None
    assert session.events == [event]


async def test_appended_events_equal_the_stored_ones(retain: Backend) -> None:
    session = await retain.create(session_id="s")
    events = [full_event().model_copy(update={"id": f"e{n}"}) for n in range(5)]
    for event in events:
        await retain.sessions.append_event(session, event)
    assert (await retain.get("s")).events == events == session.events


async def test_fields_of_a_newer_adk_are_stored_and_not_returned(retain: Backend, url: str) -> None:
    session = await retain.create(session_id="s")
    raw = {
        "id": "new-1",
        "timestamp": 1_700_000_000.5,
        "author": "agent",
        "invocationId": "e-1",
        "content": {
            "role": "model",
            "parts": [{"text": "hello", "partOfTomorrow": {"a_b": 1}}],
            "contentOfTomorrow": [1],
        },
        "actions": {"stateDelta": {"k": {"x": None}}, "actionOfTomorrow": {"a_b": None}},
        "eventOfTomorrow": {"deep": [{}]},
        "nodeInfo": {"path": "root/a@1"},
        "output": {"a": 1},
        "isolationScope": "scope",
    }
    base = f"{url}/api/v1/apps/{retain.app}/users/ada/sessions/s"
    async with httpx.AsyncClient() as http:
        answer = await http.post(f"{base}/events", json={"events": [raw]})
        assert answer.status_code == 200, answer.text

        got = await retain.get("s")
        assert got.state == {"k": {"x": None}}
        (event,) = got.events
        assert (event.id, event.author, event.timestamp) == ("new-1", "agent", raw["timestamp"])
        assert event.content.parts[0].text == "hello"
        if ADK_MAJOR >= 2:
            assert (event.output, event.isolation_scope) == ({"a": 1}, "scope")
            assert event.node_info.path == "root/a@1"

        # The store keeps the fields that this version does not know, even after an append.
        await retain.sessions.append_event(got, Event(author="user", invocation_id="e-2"))
        stored = json.loads((await http.get(base)).content)["events"]
    assert [entry["position"] for entry in stored] == [1, 2]
    stored_event = stored[0]["event"]
    for name, value in raw.items():
        if name != "actions":
            assert stored_event[name] == value
    assert stored_event["actions"]["stateDelta"] == {"k": {"x": None}}
    assert stored_event["actions"]["actionOfTomorrow"] == {"a_b": None}
    assert texts_of(await retain.get(session.id)) == ["hello", None]


def texts_of(session: Any) -> list[str | None]:
    return [e.content.parts[0].text if e.content else None for e in session.events]
