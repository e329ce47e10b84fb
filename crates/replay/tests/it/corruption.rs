//! Corrupts recordings. The replay must report each corruption.

use retain_core::{Json, JsonMap};

use crate::case::CaseRecording;

/// Corrupts one value of a recording. Returns `None` if the recording has no such value.
pub(crate) type Corruption = fn(&mut CaseRecording) -> Option<()>;

/// Every kind of corruption, by name.
pub(crate) const KINDS: [(&str, Corruption); 26] = [
    ("request: another text", request_text),
    ("request: another system instruction", system_instruction),
    ("request: missing content", dropped_content),
    ("request: repeated content", repeated_content),
    ("request: contents in another order", swapped_contents),
    ("request: another role", role),
    ("request: another model", model),
    ("request: another setting", setting),
    ("request: another tool name", declared_name),
    ("request: another tool description", declared_description),
    ("request: additional tool parameter", declared_parameter),
    ("request: missing tool", dropped_tool),
    ("recordings: missing model call", missing_model_call),
    ("recordings: repeated model call", repeated_model_call),
    ("recordings: missing tool call", missing_tool_call),
    ("tool call: another name", tool_name),
    ("tool call: another argument", tool_args),
    ("tool call: another result", tool_result),
    ("answer: another text", answer_text),
    ("session: another text", event_text),
    ("session: another author", event_author),
    ("session: events in another order", swapped_events),
    ("session: missing event", missing_event),
    ("session: another state delta", event_delta),
    ("session: another run", event_invocation),
    ("session: another state", state),
];

fn field<'a>(value: &'a mut Json, key: &str) -> Option<&'a mut Json> {
    value.as_object_mut()?.get_mut(key)
}

fn items<'a>(value: &'a mut Json, key: &str) -> Vec<&'a mut Json> {
    let items = field(value, key).and_then(Json::as_array_mut);
    items.into_iter().flatten().collect()
}

/// Appends a dot to a string.
fn append_dot(text: &mut Json) -> Option<()> {
    *text = format!("{}.", text.as_str()?).into();
    Some(())
}

fn requests(recorded: &mut CaseRecording) -> Vec<&mut Json> {
    let recordings = recorded.recordings.iter_mut();
    let calls = recordings.filter_map(|recording| field(recording, "llm_recording"));
    calls
        .filter_map(|call| field(call, "llm_request"))
        .collect()
}

fn last_request(recorded: &mut CaseRecording) -> Option<&mut Json> {
    requests(recorded).pop()
}

fn last_contents(recorded: &mut CaseRecording) -> Option<&mut Vec<Json>> {
    field(last_request(recorded)?, "contents")?.as_array_mut()
}

fn texts(content: &mut Json) -> impl Iterator<Item = &mut Json> {
    let parts = items(content, "parts").into_iter();
    parts.filter_map(|part| field(part, "text"))
}

fn request_text(recorded: &mut CaseRecording) -> Option<()> {
    append_dot(last_contents(recorded)?.iter_mut().flat_map(texts).last()?)
}

fn system_instruction(recorded: &mut CaseRecording) -> Option<()> {
    let configs = requests(recorded).into_iter();
    let configs = configs.filter_map(|request| field(request, "config"));
    let instructions = configs.filter_map(|config| field(config, "system_instruction"));
    append_dot(instructions.last()?)
}

fn dropped_content(recorded: &mut CaseRecording) -> Option<()> {
    let contents = last_contents(recorded)?;
    contents.pop().map(|_| ())
}

fn repeated_content(recorded: &mut CaseRecording) -> Option<()> {
    let contents = last_contents(recorded)?;
    let last = contents.last()?.clone();
    contents.push(last);
    Some(())
}

fn swapped_contents(recorded: &mut CaseRecording) -> Option<()> {
    swap_first_unequal(last_contents(recorded)?)
}

fn role(recorded: &mut CaseRecording) -> Option<()> {
    append_dot(field(last_contents(recorded)?.last_mut()?, "role")?)
}

fn model(recorded: &mut CaseRecording) -> Option<()> {
    append_dot(field(last_request(recorded)?, "model")?)
}

fn setting(recorded: &mut CaseRecording) -> Option<()> {
    let config = field(last_request(recorded)?, "config")?;
    config.as_object_mut()?.insert("temperature", 0.123);
    Some(())
}

fn last_declarations(recorded: &mut CaseRecording) -> Option<&mut Vec<Json>> {
    let config = field(last_request(recorded)?, "config")?;
    let tools = items(config, "tools").into_iter();
    let declarations = tools.filter_map(|tool| field(tool, "function_declarations"));
    declarations.last()?.as_array_mut()
}

fn declared_name(recorded: &mut CaseRecording) -> Option<()> {
    append_dot(field(last_declarations(recorded)?.last_mut()?, "name")?)
}

fn declared_description(recorded: &mut CaseRecording) -> Option<()> {
    append_dot(field(
        last_declarations(recorded)?.last_mut()?,
        "description",
    )?)
}

fn declared_parameter(recorded: &mut CaseRecording) -> Option<()> {
    let schema = field(
        last_declarations(recorded)?.last_mut()?,
        "parameters_json_schema",
    )?;
    let properties = field(schema, "properties")?.as_object_mut()?;
    properties.insert("x", JsonMap::from([("type", "string")]));
    Some(())
}

fn dropped_tool(recorded: &mut CaseRecording) -> Option<()> {
    last_declarations(recorded)?.pop().map(|_| ())
}

fn last_recording(recorded: &CaseRecording, kind: &str) -> Option<usize> {
    let is_of = |recording: &Json| !recording[kind].is_null();
    recorded.recordings.iter().rposition(is_of)
}

fn missing_model_call(recorded: &mut CaseRecording) -> Option<()> {
    let at = last_recording(recorded, "llm_recording")?;
    recorded.recordings.remove(at);
    Some(())
}

fn repeated_model_call(recorded: &mut CaseRecording) -> Option<()> {
    let at = last_recording(recorded, "llm_recording")?;
    recorded.recordings.push(recorded.recordings[at].clone());
    Some(())
}

fn missing_tool_call(recorded: &mut CaseRecording) -> Option<()> {
    let at = last_recording(recorded, "tool_recording")?;
    recorded.recordings.remove(at);
    Some(())
}

fn last_tool<'a>(recorded: &'a mut CaseRecording, side: &str) -> Option<&'a mut Json> {
    let at = last_recording(recorded, "tool_recording")?;
    field(field(&mut recorded.recordings[at], "tool_recording")?, side)
}

fn tool_name(recorded: &mut CaseRecording) -> Option<()> {
    append_dot(field(last_tool(recorded, "tool_call")?, "name")?)
}

fn tool_args(recorded: &mut CaseRecording) -> Option<()> {
    let call = last_tool(recorded, "tool_call")?.as_object_mut()?;
    let args = call.get("args").and_then(Json::as_object);
    let mut args = args.cloned().unwrap_or_default();
    args.insert("x", 1);
    call.insert("args", args);
    Some(())
}

fn tool_result(recorded: &mut CaseRecording) -> Option<()> {
    let response = field(last_tool(recorded, "tool_response")?, "response")?;
    response.as_object_mut()?.insert("x", 1);
    Some(())
}

fn answer_text(recorded: &mut CaseRecording) -> Option<()> {
    let at = last_recording(recorded, "llm_recording")?;
    let call = field(&mut recorded.recordings[at], "llm_recording")?;
    let responses = items(call, "llm_responses").into_iter();
    let complete = responses.filter(|response| response["partial"] != true);
    let contents = complete.filter_map(|response| field(response, "content"));
    append_dot(contents.flat_map(texts).last()?)
}

fn events(recorded: &mut CaseRecording) -> Option<&mut Vec<Json>> {
    field(&mut recorded.session, "events")?.as_array_mut()
}

fn event_text(recorded: &mut CaseRecording) -> Option<()> {
    let contents = events(recorded)?.iter_mut();
    let contents = contents.filter_map(|event| field(event, "content"));
    append_dot(contents.flat_map(texts).last()?)
}

fn event_author(recorded: &mut CaseRecording) -> Option<()> {
    append_dot(field(events(recorded)?.last_mut()?, "author")?)
}

fn swapped_events(recorded: &mut CaseRecording) -> Option<()> {
    swap_first_unequal(events(recorded)?)
}

fn missing_event(recorded: &mut CaseRecording) -> Option<()> {
    events(recorded)?.pop().map(|_| ())
}

fn event_delta(recorded: &mut CaseRecording) -> Option<()> {
    let event = events(recorded)?.first_mut()?;
    let delta = field(field(event, "actions")?, "state_delta")?;
    delta.as_object_mut()?.insert("x", 1);
    Some(())
}

/// Assigns the last event to another run.
fn event_invocation(recorded: &mut CaseRecording) -> Option<()> {
    append_dot(field(events(recorded)?.last_mut()?, "invocation_id")?)
}

fn state(recorded: &mut CaseRecording) -> Option<()> {
    let state = field(&mut recorded.session, "state")?.as_object_mut()?;
    state.insert("x", "another");
    Some(())
}

fn swap_first_unequal(list: &mut [Json]) -> Option<()> {
    let other = list.iter().position(|item| *item != list[0])?;
    list.swap(0, other);
    Some(())
}
