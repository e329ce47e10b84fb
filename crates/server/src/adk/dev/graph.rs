//! The structure of an app, as data and as a graph.

use std::path::Path;

use axum::{
    extract::{Path as UrlPath, RawQuery, State as Shares},
    http::Method,
    response::Response,
};
use retain_core::{GetSessionConfig, Json, JsonMap};
use retain_runtime::{Agent, Instruction, LlmAgent, ToolSource};

use super::{
    super::{apps::query_value, errors::AdkError, run::runner},
    DevOnly, VIEW, dot, json,
    ui::resolve_inside,
};
use crate::{routes::Routes, services::Shared};

/// Maximum size of a README that is shown.
const README_MAX: u64 = 1 << 20;

pub(super) fn routes(mut routes: Routes) -> Routes {
    routes = routes
        .add(
            Method::GET,
            "/dev/apps/{app}/build_graph",
            VIEW,
            build_graph,
        )
        .add(
            Method::GET,
            "/dev/apps/{app}/build_graph_image",
            VIEW,
            build_graph_image,
        )
        .add(Method::GET, "/dev/apps/{app}/graph", VIEW, graph_of_app);
    for of_event in [
        "/dev/apps/{app}/users/{user}/sessions/{session}/events/{event}/graph",
        "/apps/{app}/users/{user}/sessions/{session}/events/{event}/graph",
    ] {
        routes = routes.add(Method::GET, of_event, VIEW, graph_of_event);
    }
    routes
}

async fn build_graph(
    _: DevOnly,
    Shares(server): Shares<Shared>,
    UrlPath(app): UrlPath<String>,
) -> Result<Response, AdkError> {
    let runner = runner(&server, &app).await?;
    let mut info = JsonMap::from([("name", Json::from(app.as_str()))]);
    info.insert("root_agent", agent_json(&**runner.agent()));
    if let Some(folder) = server.apps.folder_of(&app) {
        let read = tokio::task::spawn_blocking(move || readme(&folder));
        let readme = read.await.map_err(|error| AdkError::internal(&error))?;
        if let Some(readme) = readme {
            info.insert("readme", readme);
        }
    }
    Ok(json(info))
}

fn readme(folder: &Path) -> Option<String> {
    let file = resolve_inside(folder, &folder.join("README.md")).ok()?;
    let about = std::fs::metadata(&file).ok()?;
    let is_readable = about.is_file() && about.len() <= README_MAX;
    is_readable.then(|| std::fs::read_to_string(&file).ok())?
}

/// Encodes an agent and its sub-agents as JSON, with ADK's field names.
fn agent_json(agent: &dyn Agent) -> JsonMap {
    let mut json = JsonMap::from([("name", agent.name()), ("description", agent.description())]);
    let below = agent.sub_agents().iter();
    let below: Vec<Json> = below.map(|agent| agent_json(&**agent).into()).collect();
    json.insert("sub_agents", below);
    if let Some(agent) = agent.as_llm_agent() {
        let model = agent.model().map_or("", |model| model.name());
        json.insert("model", model);
        if let Instruction::Text(text) = agent.instruction() {
            json.insert("instruction", text.as_str());
        }
        let tools = tool_names(agent).into_iter().map(|name| {
            let tool = JsonMap::from([("name", name), ("type", "tool".to_owned())]);
            Json::from(tool)
        });
        json.insert("tools", tools.collect::<Vec<Json>>());
    }
    json
}

/// Returns the names of an agent's tools, except those of tools that call its sub-agents.
pub(super) fn tool_names(agent: &LlmAgent) -> Vec<String> {
    let is_agent = |name: &str| agent.sub_agents().iter().any(|below| below.name() == name);
    let names = agent.tools().iter().map(|source| match source {
        ToolSource::Tool(tool) => tool.name(),
        ToolSource::Set(set) => set.name(),
    });
    let names = names.filter(|name| !is_agent(name));
    names.map(str::to_owned).collect()
}

/// Finds the agent at a path of agent names, separated by slashes.
fn find_agent<'a>(root: &'a dyn Agent, path: &str) -> Option<&'a dyn Agent> {
    let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
    if parts.peek() == Some(&root.name()) {
        parts.next();
    }
    let mut agent = root;
    for part in parts {
        let below = agent.sub_agents().iter();
        agent = &**below.into_iter().find(|below| below.name() == part)?;
    }
    Some(agent)
}

/// Returns a graph of the whole app or of one node: `{"NODE": {"dotSrc": …}}`.
async fn build_graph_image(
    _: DevOnly,
    Shares(server): Shares<Shared>,
    UrlPath(app): UrlPath<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, AdkError> {
    let runner = runner(&server, &app).await?;
    let node = query_value(query.as_deref(), "node").unwrap_or_default();
    let Some(agent) = find_agent(&**runner.agent(), &node) else {
        return Err(AdkError::not_found(format!("Node not found: {node}")));
    };
    let drawing = dot_src(dot::tree(agent, is_dark(query.as_deref())));
    Ok(json(JsonMap::from([(node.as_str(), drawing)])))
}

fn is_dark(query: Option<&str>) -> bool {
    let dark = query_value(query, "dark_mode").unwrap_or_default();
    matches!(dark.as_str(), "true" | "True" | "1" | "yes" | "on")
}

fn dot_src(dot: String) -> Json {
    JsonMap::from([("dotSrc", dot)]).into()
}

async fn graph_of_app(
    _: DevOnly,
    Shares(server): Shares<Shared>,
    UrlPath(app): UrlPath<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, AdkError> {
    let runner = runner(&server, &app).await?;
    let dark = is_dark(query.as_deref());
    Ok(json(dot_src(dot::graph(&**runner.agent(), &[], dark))))
}

/// Returns the graph of an app with the edges of an event highlighted.
async fn graph_of_event(
    _: DevOnly,
    Shares(server): Shares<Shared>,
    UrlPath((app, user, session, event)): UrlPath<(String, String, String, String)>,
) -> Result<Response, AdkError> {
    let sessions = server.services.session_service();
    let read = sessions.get_session(&app, &user, &session, GetSessionConfig::default());
    let session = read.await?;
    let mut events = session.iter().flat_map(|session| session.events.iter());
    let Some(event) = events.find(|found| found.id == event) else {
        return Ok(json(JsonMap::new()));
    };
    let author = event.author.as_str();
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let calls = event.function_calls();
    let answers = event.function_responses();
    let mut marked: Vec<(String, String)> = Vec::new();
    if !calls.is_empty() {
        marked.extend(
            calls
                .iter()
                .map(|call| (author.to_owned(), name(&call.name))),
        );
    } else if !answers.is_empty() {
        let answers = answers.iter();
        marked.extend(answers.map(|answer| (name(&answer.name), author.to_owned())));
    } else {
        marked.push((author.to_owned(), String::new()));
    }
    let runner = runner(&server, &app).await?;
    let drawn = dot::graph(&**runner.agent(), &marked, true);
    Ok(json(dot_src(drawn)))
}
