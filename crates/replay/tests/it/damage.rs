//! Recordings corrupted on purpose: the replay must report each corruption.

use retain_core::{Json, JsonMap};

use crate::case::Recorded;

/// Corrupts a recording; `None` if it has no record of that kind.
pub(crate) type Damage = fn(&mut Recorded) -> Option<()>;

/// Every kind of corruption, by name.
pub(crate) const KINDS: [(&str, Damage); 26] = [
    ("request: another text", request_text),
    ("request: another system instruction", system_instruction),
    ("request: a content less", dropped_content),
    ("request: a content twice", repeated_content),
    ("request: contents in another order", swapped_contents),
    ("request: another role", role),
    ("request: another model", model),
    ("request: another setting", setting),
    ("request: another name of a tool", declared_name),
    (
        "request: another description of a tool",
        declared_description,
    ),
    ("request: another parameter of a tool", declared_parameter),
    ("request: a tool less", dropped_tool),
    ("recordings: a model call less", missing_model_call),
    ("recordings: a model call more", repeated_model_call),
    ("recordings: a tool call less", missing_tool_call),
    ("tool call: another name", tool_name),
    ("tool call: another argument", tool_args),
    ("tool call: another result", tool_result),
    ("answer: another text", answer_text),
    ("session: another text", event_text),
    ("session: another author", event_author),
    ("session: events in another order", swapped_events),
    ("session: an event less", missing_event),
    ("session: another change of state", event_delta),
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

/// Change a text.
fn change(text: &mut Json) -> Option<()> {
    *text = format!("{}.", text.as_str()?).into();
    Some(())
}

fn requests(recorded: &mut Recorded) -> Vec<&mut Json> {
    let recordings = recorded.recordings.iter_mut();
    let calls = recordings.filter_map(|recording| field(recording, "llm_recording"));
    calls
        .filter_map(|call| field(call, "llm_request"))
        .collect()
}

fn last_request(recorded: &mut Recorded) -> Option<&mut Json> {
    requests(recorded).pop()
}

fn last_contents(recorded: &mut Recorded) -> Option<&mut Vec<Json>> {
    field(last_request(recorded)?, "contents")?.as_array_mut()
}

fn texts(content: &mut Json) -> impl Iterator<Item = &mut Json> {
    let parts = items(content, "parts").into_iter();
    parts.filter_map(|part| field(part, "text"))
}

fn request_text(recorded: &mut Recorded) -> Option<()> {
    change(last_contents(recorded)?.iter_mut().flat_map(texts).last()?)
}

fn system_instruction(recorded: &mut Recorded) -> Option<()> {
    let configs = requests(recorded).into_iter();
    let configs = configs.filter_map(|request| field(request, "config"));
    let instructions = configs.filter_map(|config| field(config, "system_instruction"));
    change(instructions.last()?)
}

fn dropped_content(recorded: &mut Recorded) -> Option<()> {
    let contents = last_contents(recorded)?;
    contents.pop().map(|_| ())
}

fn repeated_content(recorded: &mut Recorded) -> Option<()> {
    let contents = last_contents(recorded)?;
    let last = contents.last()?.clone();
    contents.push(last);
    Some(())
}

fn swapped_contents(recorded: &mut Recorded) -> Option<()> {
    swap_first_unequal(last_contents(recorded)?)
}

fn role(recorded: &mut Recorded) -> Option<()> {
    change(field(last_contents(recorded)?.last_mut()?, "role")?)
}

fn model(recorded: &mut Recorded) -> Option<()> {
    change(field(last_request(recorded)?, "model")?)
}

fn setting(recorded: &mut Recorded) -> Option<()> {
    let config = field(last_request(recorded)?, "config")?;
    config.as_object_mut()?.insert("temperature", 0.123);
    Some(())
}

fn last_declarations(recorded: &mut Recorded) -> Option<&mut Vec<Json>> {
    let config = field(last_request(recorded)?, "config")?;
    let tools = items(config, "tools").into_iter();
    let declared = tools.filter_map(|tool| field(tool, "function_declarations"));
    declared.last()?.as_array_mut()
}

fn declared_name(recorded: &mut Recorded) -> Option<()> {
    change(field(last_declarations(recorded)?.last_mut()?, "name")?)
}

fn declared_description(recorded: &mut Recorded) -> Option<()> {
    change(field(
        last_declarations(recorded)?.last_mut()?,
        "description",
    )?)
}

fn declared_parameter(recorded: &mut Recorded) -> Option<()> {
    let schema = field(
        last_declarations(recorded)?.last_mut()?,
        "parameters_json_schema",
    )?;
    let properties = field(schema, "properties")?.as_object_mut()?;
    properties.insert("x", JsonMap::from([("type", "string")]));
    Some(())
}

fn dropped_tool(recorded: &mut Recorded) -> Option<()> {
    last_declarations(recorded)?.pop().map(|_| ())
}

fn last_recording(recorded: &Recorded, kind: &str) -> Option<usize> {
    let is_of = |recording: &Json| !recording[kind].is_null();
    recorded.recordings.iter().rposition(is_of)
}

fn missing_model_call(recorded: &mut Recorded) -> Option<()> {
    let at = last_recording(recorded, "llm_recording")?;
    recorded.recordings.remove(at);
    Some(())
}

fn repeated_model_call(recorded: &mut Recorded) -> Option<()> {
    let at = last_recording(recorded, "llm_recording")?;
    recorded.recordings.push(recorded.recordings[at].clone());
    Some(())
}

fn missing_tool_call(recorded: &mut Recorded) -> Option<()> {
    let at = last_recording(recorded, "tool_recording")?;
    recorded.recordings.remove(at);
    Some(())
}

fn last_tool<'a>(recorded: &'a mut Recorded, side: &str) -> Option<&'a mut Json> {
    let at = last_recording(recorded, "tool_recording")?;
    field(field(&mut recorded.recordings[at], "tool_recording")?, side)
}

fn tool_name(recorded: &mut Recorded) -> Option<()> {
    change(field(last_tool(recorded, "tool_call")?, "name")?)
}

fn tool_args(recorded: &mut Recorded) -> Option<()> {
    let call = last_tool(recorded, "tool_call")?.as_object_mut()?;
    let args = call.get("args").and_then(Json::as_object);
    let mut args = args.cloned().unwrap_or_default();
    args.insert("x", 1);
    call.insert("args", args);
    Some(())
}

fn tool_result(recorded: &mut Recorded) -> Option<()> {
    let response = field(last_tool(recorded, "tool_response")?, "response")?;
    response.as_object_mut()?.insert("x", 1);
    Some(())
}

fn answer_text(recorded: &mut Recorded) -> Option<()> {
    let at = last_recording(recorded, "llm_recording")?;
    let call = field(&mut recorded.recordings[at], "llm_recording")?;
    let whole = items(call, "llm_responses").into_iter();
    let whole = whole.filter(|response| response["partial"] != true);
    let contents = whole.filter_map(|response| field(response, "content"));
    change(contents.flat_map(texts).last()?)
}

fn events(recorded: &mut Recorded) -> Option<&mut Vec<Json>> {
    field(&mut recorded.session, "events")?.as_array_mut()
}

fn event_text(recorded: &mut Recorded) -> Option<()> {
    let contents = events(recorded)?.iter_mut();
    let contents = contents.filter_map(|event| field(event, "content"));
    change(contents.flat_map(texts).last()?)
}

fn event_author(recorded: &mut Recorded) -> Option<()> {
    change(field(events(recorded)?.last_mut()?, "author")?)
}

fn swapped_events(recorded: &mut Recorded) -> Option<()> {
    swap_first_unequal(events(recorded)?)
}

fn missing_event(recorded: &mut Recorded) -> Option<()> {
    events(recorded)?.pop().map(|_| ())
}

fn event_delta(recorded: &mut Recorded) -> Option<()> {
    let event = events(recorded)?.first_mut()?;
    let delta = field(field(event, "actions")?, "state_delta")?;
    delta.as_object_mut()?.insert("x", 1);
    Some(())
}

/// Split the events of one run into two runs.
fn event_invocation(recorded: &mut Recorded) -> Option<()> {
    change(field(events(recorded)?.last_mut()?, "invocation_id")?)
}

fn state(recorded: &mut Recorded) -> Option<()> {
    let state = field(&mut recorded.session, "state")?.as_object_mut()?;
    state.insert("x", "another");
    Some(())
}

fn swap_first_unequal(list: &mut [Json]) -> Option<()> {
    let other = list.iter().position(|item| *item != list[0])?;
    list.swap(0, other);
    Some(())
}
