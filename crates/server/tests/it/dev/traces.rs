//! Traces: the spans of each run form a tree and refer to the events of the run.

use std::{
    collections::BTreeMap,
    io::Write,
    path::Path,
    sync::{Arc, Mutex},
};

use retain_core::Json;
use retain_runtime::{ConfigRegistry, Telemetry, telemetry::SPANS};
use retain_server::{Dev, Server};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::{
    Layer as _, Registry, filter::filter_fn, fmt::format::FmtSpan, layer::SubscriberExt as _,
};

use crate::dev::support::{HERE, agents, ask_from, get, post, say, server, write};

fn text<'a>(value: &'a Json, key: &str) -> &'a str {
    let found = value[key].as_str();
    found.unwrap_or_else(|| panic!("{key} is not a string in {value}"))
}

/// Captured log output.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        let written = self.0.lock().expect("no panic").clone();
        String::from_utf8(written).expect("text")
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Creates a server with developer tools. Also returns the guard of the subscriber that records its
/// runs on this thread.
fn traced_server(agents: &Path) -> (Arc<Server>, DefaultGuard) {
    let dev = Dev::new();
    let subscriber = Registry::default().with(dev.traces().layer());
    retain_testkit::callsites::enable_for_all_threads();
    let guard = tracing::subscriber::set_default(subscriber);
    let server = server(agents, ConfigRegistry::new(), |apps| apps.with_dev(dev));
    (server, guard)
}

#[tokio::test]
async fn run_with_a_tool_records_spans() {
    let folder = agents();
    let (server, _subscriber) = traced_server(folder.path());
    say(&server, "chat", "What is the name of my cat?", "").await;
    let spans = get(&server, "/dev/apps/chat/debug/trace/session/s")
        .await
        .json();
    let spans = spans.as_array().expect("a list").to_vec();
    let names: Vec<&str> = spans.iter().map(|span| text(span, "name")).collect();
    let expected = [
        "invocation",
        "invoke_agent chat",
        "call_llm",
        "generate_content offline",
        "execute_tool load_memory",
        "call_llm",
        "generate_content offline",
    ];
    assert_eq!(names, expected);

    let ids: Vec<&str> = spans.iter().map(|span| text(span, "span_id")).collect();
    let parents: Vec<Option<&str>> = spans
        .iter()
        .map(|it| it["parent_span_id"].as_str())
        .collect();
    assert_eq!(
        parents,
        [
            None,
            Some(ids[0]),
            Some(ids[1]),
            Some(ids[2]),
            Some(ids[1]),
            Some(ids[1]),
            Some(ids[5])
        ]
    );
    for span in &spans {
        assert_eq!(text(span, "trace_id").len(), 32);
        assert!(span["start_time"].as_i64() <= span["end_time"].as_i64());
        assert!(span["logs"].as_array().is_some_and(<[Json]>::is_empty));
        let attributes = span["attributes"].as_object().expect("a map");
        assert!(
            attributes.iter().all(|(_, value)| !value.is_null()),
            "{span}"
        );
    }

    let session = get(&server, "/apps/chat/users/ada/sessions/s").await.json();
    let events = session["events"].as_array().expect("events").to_vec();
    let of_events: Vec<&str> = events[1..].iter().map(|event| text(event, "id")).collect();
    let of_spans: Vec<&str> = [2, 4, 5]
        .iter()
        .map(|at| &spans[*at])
        .map(|span| text(&span["attributes"], "gcp.vertex.agent.event_id"))
        .collect();
    assert_eq!(
        of_spans, of_events,
        "the call, the tool's response and the answer have one span each"
    );

    let request = text(&spans[5]["attributes"], "gcp.vertex.agent.llm_request");
    let request = Json::parse(request).expect("JSON");
    assert_eq!(request["contents"].as_array().map(<[Json]>::len), Some(3));
    let response = text(&spans[5]["attributes"], "gcp.vertex.agent.llm_response");
    assert!(response.contains("I know nothing about that"), "{response}");
    let args = text(&spans[4]["attributes"], "gcp.vertex.agent.tool_call_args");
    assert!(args.contains("cat"), "{args}");
}

#[tokio::test]
async fn both_trace_routes_return_the_same_spans() {
    let folder = agents();
    let (server, _subscriber) = traced_server(folder.path());
    say(&server, "chat", "Hello!", "").await;
    let of_app = get(&server, "/dev/apps/chat/debug/trace/session/s").await;
    let of_all = get(&server, "/debug/trace/session/s").await;
    assert_eq!(of_app.text, of_all.text);
    assert_eq!(
        get(&server, "/dev/apps/other/debug/trace/session/s")
            .await
            .text,
        "[]"
    );
    assert_eq!(get(&server, "/debug/trace/session/other").await.text, "[]");

    let spans = of_app.json();
    let id = text(&spans[2]["attributes"], "gcp.vertex.agent.event_id").to_owned();
    for path in [
        format!("/debug/trace/{id}"),
        format!("/dev/apps/chat/debug/trace/{id}"),
    ] {
        let found = get(&server, &path).await.json();
        assert_eq!(text(&found, "span_id"), text(&spans[2], "span_id"));
        assert!(text(&found, "gcp.vertex.agent.llm_request").contains("Hello!"));
    }
    let none = get(&server, "/dev/apps/chat/debug/trace/none").await;
    assert_eq!(
        (none.status, none.text.as_str()),
        (404, r#"{"detail":"Trace not found"}"#)
    );
}

#[tokio::test]
async fn spans_of_sub_agents_are_children() {
    let folder = agents();
    let both = "agent_class: ParallelAgent\nname: both\nsub_agents:\n  - config_path: a.yaml\n  \
                - config_path: b.yaml\n";
    write(folder.path(), "pair/root_agent.yaml", both);
    write(
        folder.path(),
        "pair/a.yaml",
        "name: a\nmodel: offline\ninstruction: A.\n",
    );
    write(
        folder.path(),
        "pair/b.yaml",
        "name: b\nmodel: offline\ninstruction: B.\n",
    );
    let (server, _subscriber) = traced_server(folder.path());
    say(&server, "pair", "Hello!", "").await;
    let spans = get(&server, "/dev/apps/pair/debug/trace/session/s")
        .await
        .json();
    let spans = spans.as_array().expect("a list").to_vec();
    let by_id: BTreeMap<&str, &Json> = spans.iter().map(|it| (text(it, "span_id"), it)).collect();
    let parent = |span: &Json| {
        let id = span["parent_span_id"].as_str();
        id.map_or("", |id| text(by_id[id], "name")).to_owned()
    };
    let mut found: Vec<String> = spans
        .iter()
        .map(|span| format!("{} < {}", text(span, "name"), parent(span)))
        .collect();
    found.sort();
    let expected = [
        "call_llm < invoke_agent a",
        "call_llm < invoke_agent b",
        "generate_content offline < call_llm",
        "generate_content offline < call_llm",
        "invocation < ",
        "invoke_agent a < invoke_agent both",
        "invoke_agent b < invoke_agent both",
        "invoke_agent both < invocation",
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn traces_are_deleted_with_the_session_and_the_user() {
    let folder = agents();
    let (server, _subscriber) = traced_server(folder.path());
    let traces = "/dev/apps/chat/debug/trace/session/s";
    for path in [
        "/apps/chat/users/ada/sessions/s",
        "/api/v1/apps/chat/users/ada/sessions/s",
        "/api/v1/apps/chat/users/ada",
    ] {
        say(&server, "chat", "Hello!", "").await;
        let spans = get(&server, traces).await.json();
        let event = text(&spans[2]["attributes"], "gcp.vertex.agent.event_id").to_owned();
        let gone = ask_from(&server, Some(HERE), &[], ("DELETE", path, "")).await;
        assert!(gone.status < 300, "{gone:?}");
        // A recreated session with the same name is another session.
        let sessions = "/apps/chat/users/ada/sessions";
        post(&server, sessions, r#"{"sessionId":"s"}"#).await;
        assert_eq!(get(&server, traces).await.text, "[]", "{path}");
        let path = format!("/debug/trace/{event}");
        assert_eq!(get(&server, &path).await.status, 404);
    }
}

#[tokio::test]
async fn session_deleted_outside_the_server_has_no_traces() {
    let folder = agents();
    let (server, _subscriber) = traced_server(folder.path());
    say(&server, "chat", "Hello!", "").await;
    let traces = "/dev/apps/chat/debug/trace/session/s";
    let spans = get(&server, traces).await.json();
    let event = text(&spans[2]["attributes"], "gcp.vertex.agent.event_id").to_owned();
    let sessions = &server.services.sessions;
    let deleted = sessions.delete_session("chat", "ada", "s").await;
    deleted.expect("it can be deleted");
    let path = format!("/dev/apps/chat/debug/trace/{event}");
    assert_eq!(get(&server, &path).await.status, 404);
    assert_eq!(get(&server, traces).await.text, "[]");
}

#[tokio::test]
async fn traces_of_equal_session_ids_of_two_users_are_separate() {
    let folder = agents();
    let (server, _subscriber) = traced_server(folder.path());
    say(&server, "chat", "Ada speaks.", "").await;
    post(
        &server,
        "/apps/chat/users/bob/sessions",
        r#"{"sessionId":"s"}"#,
    )
    .await;
    let body = r#"{"appName":"chat","userId":"bob","sessionId":"s","newMessage":{"role":"user","parts":[{"text":"Bob speaks."}]}}"#;
    assert_eq!(post(&server, "/run", body).await.status, 200);
    for path in [
        "/debug/trace/session/s",
        "/dev/apps/chat/debug/trace/session/s",
    ] {
        let spans = get(&server, path).await.text;
        assert!(
            spans.contains("Bob speaks."),
            "the session that ran last: {spans}"
        );
        assert!(!spans.contains("Ada speaks."), "{spans}");
    }
}

#[tokio::test]
async fn exported_spans_contain_no_content() {
    let folder = agents();
    let dev = Dev::new();
    let log = Log::default();
    let log_layer = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer({
            let log = log.clone();
            move || log.clone()
        });
    let log_layer_of_spans = log_layer.with_filter(filter_fn(|about| about.target() == SPANS));
    let subscriber = Registry::default()
        .with(dev.traces().layer())
        .with(log_layer_of_spans);
    retain_testkit::callsites::enable_for_all_threads();
    let _subscriber = tracing::subscriber::set_default(subscriber);
    let server = server(folder.path(), ConfigRegistry::new(), |apps| {
        apps.with_dev(dev)
    });
    say(&server, "chat", "Where is my cat?", "").await;
    let shown = get(&server, "/debug/trace/session/s").await.text;
    assert!(shown.contains("Where is my cat?"), "the web UI has it");
    let log = log.text();
    assert!(log.contains("call_llm") && log.contains("close"), "{log}");
    assert!(!log.contains("my cat"), "{log}");
    // Compare whole words, because a random id may contain `ada`.
    let mut words = log.split(|c: char| !c.is_ascii_alphanumeric());
    assert!(words.all(|word| word != "ada"), "{log}");
}

#[tokio::test]
async fn content_capture_does_not_change_the_traces_of_the_web_ui() {
    let folder = agents();
    let dev = Dev::new();
    let subscriber = Registry::default().with(dev.traces().layer());
    retain_testkit::callsites::enable_for_all_threads();
    let _subscriber = tracing::subscriber::set_default(subscriber);
    let capture = Telemetry::default().with_content_in_spans(true);
    let server = server(folder.path(), ConfigRegistry::new(), |apps| {
        apps.with_dev(dev).with_telemetry(capture)
    });
    say(&server, "chat", "Where is my cat?", "").await;
    let shown = get(&server, "/debug/trace/session/s").await.text;
    assert!(shown.contains("Where is my cat?"), "{shown}");
}
