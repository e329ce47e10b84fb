//! Requests to the model: the declared tools, filters, confirmation, resources and configuration.

use std::{path::Path, sync::Arc, time::Duration};

use retain_core::{FunctionDeclaration, Json, Part, adk::table};
use retain_mcp::{ChildProcesses, McpToolset, toolset_from_args};
use retain_runtime::{
    AgentConfig, ConfigRegistry, LlmAgent, LlmRequest, RunRequest, Runner, ScriptedModel,
    ToolSource,
};
use retain_stores::InMemorySessionService;

use crate::{
    server::{FOLDER, notes},
    support::{AgentRun, call, child_process},
};

fn list_requests(folder: &Path) -> usize {
    let notes = notes(folder);
    notes.iter().filter(|note| *note == "list").count()
}

fn declared(run: &AgentRun, name: &str) -> FunctionDeclaration {
    let tools = run.requests[0].config.tools.iter().flatten();
    let mut declared = tools.flat_map(|tool| tool.function_declarations.iter().flatten());
    let found = declared.find(|it| it.name.as_deref() == Some(name));
    found.unwrap().clone()
}

#[tokio::test]
async fn descriptions_of_mcp_tools_are_marked_as_untrusted() {
    let folder = retain_testkit::scratch::folder();
    let set = Arc::new(McpToolset::new(child_process(folder.path())));
    let run = AgentRun::calling_tool(&set, "echo", r#"{"text":"x"}"#).await;
    let expected = [
        "app",
        "child",
        "contents",
        "die",
        "echo",
        "environment",
        "fail",
        "hang",
        "refuse",
        "trace",
        "weather",
    ];
    assert_eq!(run.tools(), expected);
    let echo = declared(&run, "echo");
    let fence = |text: &str| {
        format!(
            "<<<BEGIN_UNTRUSTED_TOOL_DESCRIPTION>>>\n{text}\n<<<END_UNTRUSTED_TOOL_DESCRIPTION>>>"
        )
    };
    assert_eq!(echo.description, Some(fence("Says what it hears.")));
    let schema = echo.parameters_json_schema.unwrap();
    let of_text = &schema["properties"]["text"];
    assert_eq!(of_text["description"], fence("What to say.").as_str());
    assert_eq!(of_text["type"], "string");
    assert!(echo.response_json_schema.is_none() && echo.parameters.is_none());
    let weather = declared(&run, "weather").response_json_schema.unwrap();
    assert_eq!(weather["properties"]["temperature"]["type"], "number");
    let instruction = run.requests[0].config.system_instruction.clone().unwrap();
    let preamble = "were supplied by the tool's own server.";
    assert_eq!(instruction.matches(preamble).count(), 1);
    // The run sends two requests to the model but lists the tools once, in two pages.
    assert_eq!((run.requests.len(), list_requests(folder.path())), (2, 2));
}

#[tokio::test]
async fn tool_filter_sees_the_server_names_and_the_model_sees_prefixed_names() {
    let folder = retain_testkit::scratch::folder();
    let set = McpToolset::new(child_process(folder.path()))
        .with_tool_filter(["weather", "echo", "unknown"])
        .with_tool_name_prefix("far");
    let set = Arc::new(set);
    let run = AgentRun::calling_tool(&set, "far_echo", r#"{"text":"x"}"#).await;
    assert_eq!(run.tools(), ["far_echo", "far_weather"]);
    assert_eq!(run.text(), "x");
    let description = declared(&run, "far_echo").description.unwrap();
    assert!(description.starts_with("<<<BEGIN"), "{description}");
    let set = McpToolset::new(child_process(folder.path()));
    let set =
        set.with_tool_filter_when(|ctx, name| ctx.user_id() == "user" && name.starts_with('e'));
    let run = AgentRun::calling_tool(&Arc::new(set), "echo", r#"{"text":"x"}"#).await;
    assert_eq!(run.tools(), ["echo", "environment"]);
}

#[tokio::test]
async fn tool_list_is_cached_until_it_expires() {
    let folder = retain_testkit::scratch::folder();
    let set = McpToolset::new(child_process(folder.path()));
    let set = Arc::new(set.with_tool_list_cache_ttl(Duration::from_secs(3600)));
    for _ in 0..3 {
        AgentRun::calling_tool(&set, "echo", r#"{"text":"x"}"#).await;
    }
    assert_eq!(list_requests(folder.path()), 2);
    let set = McpToolset::new(child_process(folder.path()));
    let set = Arc::new(set.with_tool_list_cache_ttl(Duration::from_nanos(1)));
    for _ in 0..3 {
        AgentRun::calling_tool(&set, "echo", r#"{"text":"x"}"#).await;
    }
    assert_eq!(list_requests(folder.path()), 2 + 6);
}

#[tokio::test]
async fn call_waits_for_confirmation_if_required() {
    let folder = retain_testkit::scratch::folder();
    let set = McpToolset::new(child_process(folder.path()));
    let set = set.with_confirmation_when(|args| args.get("text").is_some());
    let set = Arc::new(set);
    let run = AgentRun::calling_tool(&set, "echo", r#"{"text":"x"}"#).await;
    let error = "This tool call requires confirmation, please approve or reject.";
    assert_eq!(run.error(), error);
    assert!(!notes(folder.path()).contains(&"call echo".to_owned()));
    let run = AgentRun::calling_tool(&set, "weather", "{}").await;
    assert_eq!(run.text(), "{}");
}

#[tokio::test]
async fn model_reads_resources_with_load_mcp_resource() {
    let folder = retain_testkit::scratch::folder();
    let set = McpToolset::new(child_process(folder.path())).use_mcp_resources();
    let set = Arc::new(set.with_tool_filter(["echo"]));
    let model = ScriptedModel::new("m").reply(call(
        "load_mcp_resource",
        r#"{"resource_names":["poem","Bild für dich","none"]}"#,
    ));
    let run = AgentRun::with_model(&set, model.otherwise(|_| "Done.")).await;
    assert_eq!(run.tools(), ["echo", "load_mcp_resource"]);
    let instruction = run.requests[0].config.system_instruction.clone().unwrap();
    let list = r#"["poem", "Bild f\u00fcr dich"]"#;
    assert!(instruction.contains(list), "{instruction}");
    let contents = &run.requests[1].contents;
    let added: Vec<Vec<Part>> = contents[3..].iter().map(|it| it.parts().to_vec()).collect();
    let named = |name: &str| Part::text(format!("Resource {name} is:"));
    let expected = [
        vec![named("poem"), Part::text("Roses are red.")],
        vec![
            named("Bild für dich"),
            Part::bytes(b"hi".to_vec(), "image/png"),
        ],
    ];
    assert_eq!(added, expected);
    let stored = run.response();
    assert_eq!(stored.get("resource_names").unwrap()[0], "poem");
}

#[tokio::test]
async fn toolset_is_created_from_its_configuration() {
    let folder = retain_testkit::scratch::folder();
    let executable = std::env::current_exe().unwrap();
    let args = format!(
        r#"{{"stdio_connection_params":{{"timeout":60,"server_params":{{"command":{executable:?},
            "args":["--exact","server::serve_as_a_child_process","--nocapture"],
            "env":{{"{FOLDER}":{:?}}}}}}},"tool_filter":["echo"],"tool_name_prefix":"p"}}"#,
        folder.path()
    );
    let json = Json::parse(&args).unwrap();
    let set = toolset_from_args(json.as_object().unwrap(), ChildProcesses::Allowed);
    let run = AgentRun::calling_tool(&Arc::new(set.unwrap()), "p_echo", r#"{"text":"x"}"#).await;
    assert_eq!(run.tools(), ["p_echo"]);
    // The arguments can stay JSON, because JSON is valid YAML.
    let file = folder.path().join("root_agent.yaml");
    for name in table::MCP_TOOLSET_NAMES {
        let yaml = format!(
            "name: a\nmodel: offline\ninstruction: Help.\ntools: [{{name: {name}, args: {args}}}]\n"
        );
        std::fs::write(&file, yaml).unwrap();
        let registry = retain_mcp::register(ConfigRegistry::new(), ChildProcesses::Allowed);
        let agent = AgentConfig::load(&file, &registry).unwrap();
        let agent = agent.as_llm_agent().unwrap();
        assert!(matches!(agent.tools(), [ToolSource::Set(_)]), "{name}");
        let registry = retain_mcp::register(ConfigRegistry::new(), ChildProcesses::Refused);
        let error = AgentConfig::load(&file, &registry).unwrap_err().to_string();
        assert!(error.contains("starts a program"), "{error}");
    }
}

/// Clients choose the id of a run, so two users may choose the same.
#[tokio::test]
async fn filtered_tools_are_not_shared_between_users_with_the_same_run_id() {
    let folder = retain_testkit::scratch::folder();
    let set = McpToolset::new(child_process(folder.path()));
    let set = set.with_tool_filter_when(|ctx, name| ctx.user_id() == "ada" || name == "echo");
    let model = Arc::new(ScriptedModel::new("m").otherwise(|_| "Done."));
    let agent = LlmAgent::builder("a").model(Arc::clone(&model)).tool(set);
    let runner = Runner::builder()
        .app_name("app")
        .agent(agent.build().unwrap())
        .session_service(Arc::new(InMemorySessionService::new()))
        .auto_create_session(true)
        .build()
        .unwrap();
    for user in ["ada", "bob"] {
        let request = RunRequest::new("Hi").with_invocation_id("e-1");
        let run = runner.run_with(user, Some("s"), request).await.unwrap();
        run.collect_events().await.unwrap();
    }
    let declared = |request: &LlmRequest| {
        let tools = request.config.tools.iter().flatten();
        let declared = tools.flat_map(|tool| tool.function_declarations.iter().flatten());
        declared.count()
    };
    let declared: Vec<usize> = model.requests().iter().map(|it| declared(it)).collect();
    assert_eq!(declared, [11, 1]);
}
