//! The list of apps, the description of an app, and the ADK version.

use axum::{
    extract::{Path, RawQuery, Request, State as Shares},
    http::{Extensions, Method},
    response::Response,
};
use retain_core::{Json, JsonMap, adk::ValueType};
use retain_runtime::{Agent, Instruction, LlmAgent, ToolSource};

use super::{answers::json_response, errors::AdkError, run::runner, validate::Checker};
use crate::{
    guard::{Caller, Scope},
    routes::{Access, Routes},
    services::Shared,
};

/// The version of google-adk whose API these routes implement.
const ADK_VERSION: &str = "2.13.0";

pub(super) fn routes(routes: Routes) -> Routes {
    let anybody = Access::Anybody(Scope::SessionsRead);
    routes
        .add(Method::GET, "/version", Access::Public, version)
        .add(Method::GET, "/list-apps", anybody, list_apps)
        .add(Method::GET, "/apps/{app}/app-info", anybody, app_info)
}

/// Returns google-adk's version as `version`, because clients derive the available features from
/// it, and Retain's as `language_version`.
async fn version() -> Response {
    let body = JsonMap::from([
        ("version", ADK_VERSION),
        ("language", "rust"),
        ("language_version", env!("CARGO_PKG_VERSION")),
    ]);
    json_response(Json::from(body).to_string())
}

async fn list_apps(
    Shares(server): Shares<Shared>,
    RawQuery(query): RawQuery,
    extensions: Extensions,
) -> Result<Response, AdkError> {
    let detailed = query_value(query.as_deref(), "detailed");
    let detailed = match detailed {
        None => false,
        Some(text) => {
            let mut checker = Checker::new("query");
            checker.enter("detailed");
            let read = checker.check(&ValueType::Bool, &Json::from(text));
            read.map_err(AdkError::Invalid)?.as_bool() == Some(true)
        }
    };
    let mut names = server.app_names().await?;
    let caller = Caller::from_extensions(&extensions);
    names.retain(|name| caller.app.as_ref().is_none_or(|app| app == name));
    if !detailed {
        let names: Vec<Json> = names.into_iter().map(Json::from).collect();
        return Ok(json_response(Json::from(names).to_string()));
    }
    let mut apps = Vec::new();
    for name in names {
        // As in ADK, an app that fails to load is omitted; the log has the reason.
        match server.runner(&name).await {
            Ok(runner) => apps.push(Json::from(outline(&name, &**runner.agent(), "yaml"))),
            Err(error) => {
                tracing::error!(app = name, error = ?error.to_string(), "failed to load an app");
            }
        }
    }
    let body = JsonMap::from([("apps", apps)]);
    Ok(json_response(Json::from(body).to_string()))
}

/// Describes an app in a list, without its agents.
fn outline(name: &str, root: &dyn Agent, language: &str) -> JsonMap {
    JsonMap::from([
        ("name", Json::from(name)),
        ("rootAgentName", root.name().into()),
        ("description", root.description().into()),
        ("language", language.into()),
        ("isComputerUse", false.into()),
        ("agents", Json::Null),
    ])
}

/// Describes an app. A caller with a user-bound API key does not see the instructions of its
/// agents.
async fn app_info(
    Shares(server): Shares<Shared>,
    Path(app): Path<String>,
    request: Request,
) -> Result<Response, AdkError> {
    let is_bound = Caller::from_extensions(request.extensions()).user.is_some();
    let runner = runner(&server, &app).await?;
    let root = &**runner.agent();
    let Some(agent) = root.as_llm_agent() else {
        return Err(AdkError::bad_request("Root agent is not an LlmAgent"));
    };
    let mut agents = JsonMap::new();
    add_agent(agent, is_bound, &mut agents);
    // ADK returns "python" here for every app.
    let mut info = outline(&app, root, "python");
    info.insert("agents", agents);
    Ok(json_response(Json::from(info).to_string()))
}

/// Adds the descriptions of an LLM agent and its sub-agents, children first.
fn add_agent(agent: &LlmAgent, is_bound: bool, agents: &mut JsonMap) {
    if agents.contains_key(agent.name()) {
        return;
    }
    let below = agent.sub_agents().iter();
    let below: Vec<&LlmAgent> = below.filter_map(|agent| agent.as_llm_agent()).collect();
    for agent in &below {
        add_agent(agent, is_bound, agents);
    }
    let names: Vec<Json> = below.iter().map(|agent| agent.name().into()).collect();
    let instruction = match agent.instruction() {
        Instruction::Text(text) => text.as_str(),
        Instruction::Provider(_) => "<InstructionProvider: function>",
    };
    let (instruction, tools) = match is_bound {
        true => ("", Vec::new()),
        false => (instruction, tools(agent)),
    };
    let info = JsonMap::from([
        ("name", Json::from(agent.name())),
        ("description", agent.description().into()),
        ("instruction", instruction.into()),
        ("tools", tools.into()),
        ("sub_agents", names.into()),
    ]);
    agents.insert(agent.name(), info);
}

/// Returns the declarations of the tools. Toolsets are resolved in a run and are not listed.
fn tools(agent: &LlmAgent) -> Vec<Json> {
    let declared = agent.tools().iter().filter_map(|source| match source {
        ToolSource::Tool(tool) => tool.declaration(),
        ToolSource::Set(_) => None,
    });
    let written = declared.filter_map(|declaration| {
        let text = declaration.to_json().ok()?;
        Json::parse(&text).ok()
    });
    let as_tool = |declaration| JsonMap::from([("functionDeclarations", vec![declaration])]);
    written.map(|it| as_tool(it).into()).collect()
}

/// Returns a decoded query value; the last one if the name repeats, as FastAPI does.
pub(super) fn query_value(query: Option<&str>, name: &str) -> Option<String> {
    let pairs = form_urlencoded::parse(query?.as_bytes());
    let value = pairs.filter(|(key, _)| key == name).last()?.1;
    Some(value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_value_is_decoded_as_in_fastapi() {
        let query = Some("a=1&a=b+c%20d%26&b%5B%5D=%zz%+f%&c");
        assert_eq!(query_value(query, "a").as_deref(), Some("b c d&"));
        assert_eq!(query_value(query, "b[]").as_deref(), Some("%zz% f%"));
        assert_eq!(query_value(query, "c").as_deref(), Some(""));
        assert_eq!(query_value(query, "d"), None);
        assert_eq!(query_value(None, "a"), None);
        assert_eq!(query_value(Some("a=%ff"), "a").as_deref(), Some("\u{fffd}"));
    }
}
