//! The OpenAPI descriptions of ADK's routes and of the operations routes.

use axum::http::Method;
use retain_core::adk::table;
use serde_json::{Value, json};

use super::adk_schemas::{answer, reference, request};

/// A route outside Retain's own API.
pub(super) struct OtherRoute {
    method: Method,
    path: &'static str,
    pub(super) summary: &'static str,
    /// Whether it is one of ADK's routes.
    pub(super) is_adk: bool,
    /// Optional query parameters.
    pub(super) query: &'static [&'static str],
    /// The schema of the request body.
    pub(super) takes: Option<Value>,
    /// An example body that works on a server with default options.
    pub(super) example: Option<Value>,
    /// The media type and schema of the response.
    pub(super) answers: Option<(&'static str, Value)>,
    /// The status of a success.
    pub(super) status: u16,
    /// Further status codes, besides those of all routes with a body or access control.
    pub(super) failures: &'static [u16],
}

const JSON: &str = "application/json";

impl OtherRoute {
    fn new(method: Method, path: &'static str, summary: &'static str) -> OtherRoute {
        OtherRoute {
            method,
            path,
            summary,
            is_adk: true,
            query: &[],
            takes: None,
            example: None,
            answers: None,
            status: 200,
            failures: &[],
        }
    }

    fn takes(mut self, schema: Value) -> OtherRoute {
        self.takes = Some(schema);
        self
    }

    fn example(mut self, body: Value) -> OtherRoute {
        self.example = Some(body);
        self
    }

    fn query(mut self, names: &'static [&'static str]) -> OtherRoute {
        self.query = names;
        self
    }

    fn answers(mut self, schema: Value) -> OtherRoute {
        self.answers = Some((JSON, schema));
        self
    }

    fn streams(mut self, media_type: &'static str) -> OtherRoute {
        // An event stream has no JSON schema; the guide describes the events.
        let schema = match media_type {
            "text/event-stream" => json!(true),
            _ => text(),
        };
        self.answers = Some((media_type, schema));
        self
    }

    fn succeeds(mut self, status: u16) -> OtherRoute {
        self.status = status;
        self
    }

    fn fails(mut self, failures: &'static [u16]) -> OtherRoute {
        self.failures = failures;
        self
    }
}

fn array(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// Returns the schema of an object with these fields, of which the first `required` are required.
fn object(fields: &[(&str, Value)], required: usize) -> Value {
    let names: Vec<&str> = fields
        .iter()
        .take(required)
        .map(|(name, _)| *name)
        .collect();
    let fields: serde_json::Map<String, Value> = fields
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    json!({"type": "object", "properties": fields, "required": names})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn map() -> Value {
    reference("FreeObject")
}

/// Returns the schema of a session in ADK's responses.
fn session() -> Value {
    answer(&table::SESSION)
}

/// Returns a run request for the built-in app.
fn run_example() -> Value {
    json!({
        "appName": "assistant",
        "userId": "ada",
        "sessionId": "s1",
        "newMessage": {"role": "user", "parts": [{"text": "I like tea."}]},
    })
}

fn operations() -> Vec<OtherRoute> {
    let get = |path, summary| OtherRoute {
        is_adk: false,
        ..OtherRoute::new(Method::GET, path, summary)
    };
    let status = object(&[("status", text())], 1);
    vec![
        get("/health", "Check that the server runs").answers(status.clone()),
        get(
            "/ready",
            "Check that the server and its store can serve requests",
        )
        .answers(status)
        .fails(&[503]),
        get("/metrics", "Metrics for Prometheus").streams("text/plain"),
    ]
}

fn apps_and_runs() -> Vec<OtherRoute> {
    let get = |path, summary| OtherRoute::new(Method::GET, path, summary);
    let post = |path, summary| OtherRoute::new(Method::POST, path, summary);
    let version = [
        ("version", text()),
        ("language", text()),
        ("language_version", text()),
    ];
    let memory = "/apps/{app}/users/{user}/memory";
    vec![
        get("/version", "Read the version of the server").answers(object(&version, 3)),
        get("/list-apps", "List the apps")
            .answers(json!(true))
            .fails(&[422]),
        get("/apps/{app}/app-info", "Describe the agents of an app")
            .answers(map())
            .fails(&[400, 404]),
        post("/run", "Run an agent and return all its events")
            .takes(request(&table::RUN_AGENT_REQUEST))
            .example(run_example())
            .answers(array(reference("Event")))
            .fails(&[400, 404, 409, 422, 501]),
        post("/run_sse", "Run an agent and stream its events")
            .takes(request(&table::RUN_AGENT_REQUEST))
            .example(run_example())
            .streams("text/event-stream")
            .fails(&[400, 404, 409, 422, 501]),
        get(
            "/run_live",
            "WebSocket for live runs, which are not supported: it closes with an error",
        )
        .query(&["app_name", "user_id", "session_id"])
        .succeeds(101)
        .fails(&[404]),
        OtherRoute::new(Method::PATCH, memory, "Ingest a session into memory")
            .takes(request(&table::UPDATE_MEMORY_REQUEST))
            .answers(json!({"type": "null"}))
            .fails(&[400, 404, 422]),
    ]
}

fn sessions() -> Vec<OtherRoute> {
    const ALL: &str = "/apps/{app}/users/{user}/sessions";
    const ONE: &str = "/apps/{app}/users/{user}/sessions/{session}";
    vec![
        OtherRoute::new(
            Method::GET,
            ALL,
            "List the sessions of a user, without events",
        )
        .answers(array(session())),
        OtherRoute::new(Method::POST, ALL, "Create a session")
            .takes(request(&table::CREATE_SESSION_REQUEST))
            .answers(session())
            .fails(&[400, 409, 422]),
        OtherRoute::new(Method::GET, ONE, "Read a session")
            .answers(session())
            .fails(&[400, 404]),
        OtherRoute::new(
            Method::POST,
            ONE,
            "Create a session with this id; the body is its state",
        )
        .takes(map())
        .answers(session())
        .fails(&[400, 409, 422]),
        OtherRoute::new(Method::PATCH, ONE, "Update the state of a session")
            .takes(request(&table::UPDATE_SESSION_REQUEST))
            .answers(session())
            .fails(&[400, 404, 422]),
        OtherRoute::new(Method::DELETE, ONE, "Delete a session")
            .answers(json!({"type": "null"}))
            .fails(&[400]),
    ]
}

fn artifacts() -> Vec<OtherRoute> {
    const ALL: &str = "/apps/{app}/users/{user}/sessions/{session}/artifacts";
    const UNNAMED: &str = "/apps/{app}/users/{user}/sessions/{session}/artifacts/";
    const ONE: &str = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{*artifact}";
    let load =
        "Load an artifact; paths that end in `/versions` or `/metadata` describe its versions";
    vec![
        OtherRoute::new(Method::GET, ALL, "List the names of artifacts")
            .answers(array(text()))
            .fails(&[400]),
        OtherRoute::new(Method::POST, ALL, "Save a version of an artifact")
            .takes(request(&table::SAVE_ARTIFACT_REQUEST))
            .answers(reference("ArtifactVersion"))
            .fails(&[400, 422]),
        OtherRoute::new(Method::GET, UNNAMED, "Load an artifact without a name").fails(&[400, 404]),
        OtherRoute::new(Method::GET, ONE, load)
            .answers(json!(true))
            .fails(&[400, 404, 422]),
        OtherRoute::new(Method::DELETE, ONE, "Delete an artifact")
            .answers(json!({"type": "null"}))
            .fails(&[400]),
    ]
}

/// Whether only ADK's web UI uses the path. Such routes change with the UI and are not described
/// further.
fn is_for_development(path: &str) -> bool {
    let begins = ["/dev", "/debug/", "/builder/", "/config/"];
    let ends = ["/graph", "/metrics-info"];
    path == "/"
        || begins.iter().any(|it| path.starts_with(it))
        || ends.iter().any(|it| path.ends_with(it))
        || path.contains("/eval")
}

/// Returns the description of a route.
pub(super) fn find(method: &Method, path: &'static str) -> Option<OtherRoute> {
    let all = [operations(), apps_and_runs(), sessions(), artifacts()];
    let mut all = all.into_iter().flatten();
    let found = all.find(|other| other.method == method && other.path == path);
    found.or_else(|| {
        let summary = "For ADK's web UI; not described further";
        let other = OtherRoute::new(method.clone(), path, summary);
        let other = other.fails(&[307, 400, 403, 404, 409, 422, 501]);
        is_for_development(path).then_some(other)
    })
}
