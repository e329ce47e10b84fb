"""Runs google-adk on histories, templates and values.

Reads JSON Lines from stdin, one batch per line: `{"kind": "histories", "cases": [...]}`. Prints one
line per batch: a list with an answer for each case, or `{"error": ...}` for a case in which ADK raised.

histories   events (as text) and options -> the contents in ADK's HTTP format, and the positions at
            which ADK inserts the contents that belong to one request
templates   a template, a state, artifacts or none -> the text
compactions events, options and settings -> the ids of the events that would be summarized, the
            estimated tokens of the next prompt, and the transcripts
values      JSON texts -> the output of str, repr and json.dumps
printable   -> the ranges of characters that repr escapes
"""

import asyncio
import json
import logging
import sys
import types as python_types
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

from google.adk.apps import compaction
from google.adk.apps._configs import EventsCompactionConfig
from google.adk.apps.base_events_summarizer import BaseEventsSummarizer
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.events._rewind_events import _apply_rewinds
from google.adk.events.event import Event
from google.adk.flows.llm_flows.context import _contents
from google.adk.flows.llm_flows.prompt import _instructions_utils
from google.adk.models.llm_request import LlmRequest
from google.genai import types
from pydantic import TypeAdapter

Events = TypeAdapter(list[Event])


def dump(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def history(case):
    options = case["options"]
    user_content = options["userContent"]
    if user_content is not None:
        user_content = types.Content.model_validate_json(json.dumps(user_content))
    is_default = options["includeContents"] == "default"
    assemble = _contents._get_contents if is_default else _contents._get_current_turn_contents
    contents = assemble(
        options["branch"],
        Events.validate_json(case["events"]),
        options["agentName"],
        preserve_function_call_ids=options["keepCallIds"],
        isolation_scope=options["isolationScope"],
        node_path=options["nodePath"],
        is_single_turn=options["isSingleTurn"],
        user_content=user_content,
        include_thoughts_from_other_agents=options["thoughts"] and is_default,
    )
    return {
        "contents": [dump(content) for content in contents],
        "beforeUserTurn": place(contents, lambda request, mark: (
            request._insert_transient_user_content([mark])
        )),
        "userContent": place(contents, lambda request, mark: (
            _contents._add_model_input_context_to_user_content(
                python_types.SimpleNamespace(user_content=user_content), request, [mark]
            )
        )),
    }


def place(contents, insert):
    """The position at which `insert` puts a content into a request with `contents`."""
    mark = types.Content(role="user", parts=[types.Part(text="mark")])
    request = LlmRequest()
    request.contents = list(contents)
    insert(request, mark)
    return next(i for i, content in enumerate(request.contents) if content is mark)


class Recorder(BaseEventsSummarizer):
    """Records the events that it should summarize, and returns no summary."""

    def __init__(self):
        self.events = None

    async def maybe_summarize_events(self, *, events):
        self.events = events


async def exhaust(generator):
    async for _ in generator:
        pass


def selection(config, run):
    """The ids of the events that `run` passes to the summarizer. An earlier summary has an empty id."""
    recorder = Recorder()
    config = EventsCompactionConfig(summarizer=recorder, **config)
    asyncio.run(run(config))
    if recorder.events is None:
        return None
    summarizer = LlmEventSummarizer(llm=None)
    transcript = summarizer._format_events_for_prompt(recorder.events)
    # Ids that ADK generates are UUIDs, and those of the case are shorter.
    ids = [event.id if len(event.id) < 9 else "" for event in recorder.events]
    return {
        "ids": ids,
        "first": recorder.events[0].timestamp,
        "prompt": summarizer._prompt_template.format(conversation_history=transcript),
    }


def compactions(case):
    options = case["options"]
    agent = {
        "agent_name": options["agentName"],
        "current_branch": options["branch"],
        "isolation_scope": options["isolationScope"],
    }
    events = Events.validate_json(case["events"])
    session = python_types.SimpleNamespace(id="session", events=events)
    window = selection(case["window"], lambda config: exhaust(
        compaction._run_compaction_for_sliding_window(
            python_types.SimpleNamespace(root_agent=object(), events_compaction_config=config),
            session,
            None,
        )
    ))
    threshold = selection(
        case["threshold"],
        lambda config: compaction._run_compaction_for_token_threshold_config(
            config=config, session=session, session_service=None, agent=object(), **agent
        ),
    )
    return {
        "window": window,
        "threshold": threshold,
        "tokens": compaction._latest_prompt_token_count(_apply_rewinds(events), **agent),
        "transcript": LlmEventSummarizer(llm=None)._format_events_for_prompt(events),
    }


class Artifacts:
    def __init__(self, parts):
        self.parts = parts

    async def load_artifact(self, *, filename, **_):
        part = self.parts.get(filename)
        return part and types.Part.model_validate_json(json.dumps(part))


def template(case):
    artifacts = case["artifacts"]
    session = python_types.SimpleNamespace(
        state=case["state"], app_name="app", user_id="user", id="session"
    )
    invocation = python_types.SimpleNamespace(
        session=session, artifact_service=None if artifacts is None else Artifacts(artifacts)
    )
    context = python_types.SimpleNamespace(_invocation_context=invocation, agent_name="agent")
    try:
        rendering = _instructions_utils.inject_session_state(case["template"], context)
        return {"text": asyncio.run(rendering)}
    except (KeyError, ValueError) as error:
        [message] = error.args
        if message == "Artifact service is not initialized.":
            return {"error": "NoArtifactService"}
        for kind, before, after in [
            ("MissingArtifact", "Artifact '", "' not found in agent 'agent'."),
            ("MissingKey", "Context variable not found: `", "` in agent 'agent'."),
        ]:
            if message.startswith(before) and message.endswith(after):
                return {"error": kind, "name": message[len(before) : -len(after)]}
        raise


def value(case):
    value = json.loads(case)
    answer = {"str": str(value), "repr": repr(value)}
    if isinstance(value, dict):
        answer["sorted"] = str(dict(sorted(value.items())))
        answer["json"] = json.dumps(value, ensure_ascii=False)
    return answer


def printable(_):
    runs, first = [], None
    for point in range(sys.maxunicode + 2):
        hidden = point <= sys.maxunicode and not chr(point).isprintable()
        if hidden and first is None:
            first = point
        elif not hidden and first is not None:
            runs.append([first, point - 1])
            first = None
    return runs


ANSWERS = {
    "histories": history,
    "compactions": compactions,
    "templates": template,
    "values": value,
    "printable": printable,
}


def answer(kind, case):
    try:
        return ANSWERS[kind](case)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


for line in sys.stdin:
    batch = json.loads(line)
    answers = [answer(batch["kind"], case) for case in batch["cases"]]
    print(json.dumps(answers), flush=True)
