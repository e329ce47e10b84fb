//! The same runs on google-adk produce the same spans.

use retain_core::{Json, JsonMap};
use retain_runtime::Telemetry;
use retain_testkit::oracle::{Oracle, Reference};

use crate::telemetry::{
    collect::tree,
    runs::{SESSION, broken, desk, line, play},
};

/// Attributes with JSON in a string.
const TEXTS: [&str; 4] = [
    "gcp.vertex.agent.llm_request",
    "gcp.vertex.agent.llm_response",
    "gcp.vertex.agent.tool_call_args",
    "gcp.vertex.agent.tool_response",
];

/// Returns the spans of the runs on ADK.
fn adk_runs(content: bool) -> Option<Vec<Json>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/telemetry/oracle.py");
    let mut oracle = Oracle::start_with(Reference::Adk, "spans as ADK's", script, |command| {
        command.arg(content.to_string());
    })?;
    let runs = oracle.ask_all(&["desk", "line", "broken"].map(Json::from));
    oracle.stop();
    Some(runs)
}

/// Converts ADK's list of spans to a tree.
fn tree_of(spans: &[Json], parent: &Json) -> Json {
    let children = spans.iter().filter(|span| span["parent"] == *parent);
    let nodes = children.map(|span| {
        let mut node = JsonMap::from([("name", span["name"].clone())]);
        node.insert("failed", span["failed"].clone());
        node.insert("attributes", span["attributes"].clone());
        node.insert("children", tree_of(spans, &span["id"]));
        Json::from(node)
    });
    nodes.collect::<Vec<Json>>().into()
}

/// Makes a tree comparable: replaces ids with numbers or names, and drops known differences.
fn comparable(tree: &Json, events: &[String]) -> Json {
    let nodes = tree.as_array().expect("nodes").iter().map(|node| {
        let name = node["name"].as_str().expect("a name");
        let mut attributes = JsonMap::new();
        for (key, value) in node["attributes"].as_object().expect("a map").iter() {
            if let Some(value) = attribute(name, key, value, events) {
                attributes.insert(key, value);
            }
        }
        let is_failed = attributes.remove("otel.status_description").is_some();
        let is_failed = is_failed || node.get("failed") == Some(&Json::from(true));
        if !name.starts_with("execute_tool") {
            // Retain sets `error.type` on every failed span.
            attributes.remove("error.type");
        }
        let mut comparable = JsonMap::from([("name", name)]);
        comparable.insert("failed", is_failed);
        comparable.insert("attributes", attributes);
        comparable.insert("children", comparable_children(node, events));
        Json::from(comparable)
    });
    nodes.collect::<Vec<Json>>().into()
}

fn comparable_children(node: &Json, events: &[String]) -> Json {
    comparable(&node["children"], events)
}

fn attribute(span: &str, key: &str, value: &Json, events: &[String]) -> Option<Json> {
    let text = value.as_str().unwrap_or_default();
    let is_id =
        key.ends_with("event_id") || (span.ends_with("(merged)") && key.ends_with("call.id"));
    Some(match key {
        // ADK's invocation span has no attributes.
        _ if span == "invocation" && !key.starts_with("otel.") => return None,
        _ if is_id => match events.iter().position(|event| event == text) {
            Some(place) => format!("event {place}").into(),
            None => "no event of the session".into(),
        },
        "gcp.vertex.agent.invocation_id" => "a run".into(),
        _ if key.ends_with("session_id") || key.ends_with("conversation.id") => match text {
            SESSION => SESSION.into(),
            _ => "another session".into(),
        },
        "gen_ai.response.finish_reasons" if value.as_array().is_none() => {
            vec![value.clone()].into()
        }
        // A failing tool has no code in Retain; in Python it raises `ValueError`.
        "error.type" if span == "execute_tool fail" && text == "ValueError" => "ToolError".into(),
        _ if TEXTS.contains(&key) => Json::parse(text).unwrap_or_else(|_| value.clone()),
        _ => value.clone(),
    })
}

/// Reports where trees differ. ADK records less about failures than Retain.
fn tree_differences(path: &str, ours: &Json, adks: &Json, differences: &mut Vec<String>) {
    let names = |tree: &Json| -> Vec<String> {
        let nodes = tree.as_array().expect("nodes").iter();
        nodes.map(|node| node["name"].to_string()).collect()
    };
    if names(ours) != names(adks) {
        differences.push(format!(
            "{path}: found {:?}, expected {:?}",
            names(ours),
            names(adks)
        ));
        return;
    }
    let pairs = ours.as_array().expect("nodes").iter();
    for (ours, adks) in pairs.zip(adks.as_array().expect("nodes")) {
        let path = format!("{path}/{}", ours["name"].as_str().expect("a name"));
        let is_failed = adks["failed"] == true;
        if ours["failed"] != adks["failed"] {
            differences.push(format!(
                "{path}: failed is {}, expected {}",
                ours["failed"], adks["failed"]
            ));
        }
        let (of_ours, of_adks) = (&ours["attributes"], &adks["attributes"]);
        let of_ours = of_ours.as_object().expect("a map");
        let of_adks = of_adks.as_object().expect("a map");
        for (key, value) in of_adks.iter() {
            let is_placeholder = |words: &&str| value.to_string().contains(words);
            let is_placeholder =
                is_failed && ["not specified", "no event"].iter().any(is_placeholder);
            if of_ours.get(key) != Some(value) && !is_placeholder {
                let ours = of_ours.get(key).unwrap_or(&Json::Null);
                value_differences(&format!("{path}: {key}"), ours, value, differences);
            }
        }
        let more = of_ours.keys().filter(|key| !of_adks.contains_key(key));
        for key in more.filter(|_| !is_failed) {
            differences.push(format!("{path}: has {key} = {}", of_ours[key]));
        }
        tree_differences(&path, &ours["children"], &adks["children"], differences);
    }
}

/// Reports where values differ.
fn value_differences(path: &str, ours: &Json, adks: &Json, differences: &mut Vec<String>) {
    match (ours, adks) {
        _ if ours == adks => {}
        (Json::Object(ours), Json::Object(adks)) => {
            let more = ours.keys().filter(|key| !adks.contains_key(key));
            // Pydantic adds a title to every schema.
            let is_title = |key: &str| key == "title" && path.contains("json_schema");
            for key in adks.keys().chain(more).filter(|key| !is_title(key)) {
                let of = |map: &JsonMap| map.get(key).cloned().unwrap_or_default();
                value_differences(&format!("{path}.{key}"), &of(ours), &of(adks), differences);
            }
        }
        (Json::Array(ours), Json::Array(adks)) if ours.len() == adks.len() => {
            for (at, (ours, adks)) in ours.iter().zip(adks.iter()).enumerate() {
                value_differences(&format!("{path}[{at}]"), ours, adks, differences);
            }
        }
        _ => differences.push(format!("{path}: found {ours}, expected {adks}")),
    }
}

async fn compare(content: bool) {
    let Some(adks) = adk_runs(content) else {
        return;
    };
    let telemetry = Telemetry::default().with_content_in_spans(content);
    for (agent, adks) in [desk(), line(), broken()].into_iter().zip(adks) {
        let (events, spans) = play(agent, telemetry).await;
        let ours = comparable(&tree(&spans), &events);
        let events = adks["events"].as_array().expect("ids").iter();
        let events: Vec<String> = events
            .map(|id| id.as_str().expect("a text").to_owned())
            .collect();
        let spans = adks["spans"].as_array().expect("spans");
        let adks = comparable(&tree_of(spans, &Json::Null), &events);
        let mut list = Vec::new();
        tree_differences("", &ours, &adks, &mut list);
        assert!(list.is_empty(), "{}", list.join("\n"));
    }
}

#[tokio::test]
async fn spans_match_adk() {
    compare(false).await;
}

#[tokio::test]
async fn spans_with_content_match_adk() {
    compare(true).await;
}
