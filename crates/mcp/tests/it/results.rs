//! How tool results are stored.

use std::sync::Arc;

use retain_core::Json;
use retain_mcp::McpToolset;

use crate::support::{AgentRun, child_process};

#[tokio::test]
async fn tool_result_is_stored_in_adks_form() {
    let folder = retain_testkit::scratch::folder();
    let set = Arc::new(McpToolset::new(child_process(folder.path())));
    for (tool, expected) in [
        (
            "contents",
            r#"{"meta":{"trace":"t","nothing":null},"content":[{"type":"text","text":"hi","annotations":{"audience":["user"],"priority":0.7}},{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"audio","data":"aGk=","mimeType":"audio/wav","meta":{"_meta":1}},{"type":"resource","resource":{"uri":"x:1","mimeType":"text/plain","text":"t"}},{"type":"resource","resource":{"uri":"x:2","blob":"aGk="}},{"name":"three","uri":"x:3","size":3,"type":"resource_link"}],"isError":false}"#,
        ),
        (
            "weather",
            r#"{"content":[{"type":"text","text":"{}"}],"structuredContent":{"temperature":21.0,"wind":null,"hours":[1,2.5]},"isError":false}"#,
        ),
        (
            "fail",
            r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#,
        ),
        (
            "refuse",
            r#"{"error":"MCP tool execution failed: not like this"}"#,
        ),
    ] {
        let run = AgentRun::calling_tool(&set, tool, "{}").await;
        let stored = Json::from(run.response()).to_json().unwrap();
        assert_eq!(stored, expected, "{tool}");
    }
}

#[tokio::test]
async fn tool_with_a_ui_resource_adds_a_widget_to_its_event() {
    let folder = retain_testkit::scratch::folder();
    let set = Arc::new(McpToolset::new(child_process(folder.path())));
    let run = AgentRun::calling_tool(&set, "app", r#"{"a":1}"#).await;
    let shown = run.events.iter();
    let mut shown = shown.filter_map(|event| event.actions.render_ui_widgets.clone());
    let widgets = shown.next().unwrap();
    let widget = &widgets[0];
    assert_eq!(widget["provider"], "mcp");
    assert_eq!(widget["payload"]["resource_uri"], "ui://page");
    assert_eq!(widget["payload"]["tool"]["name"], "app");
    assert_eq!(
        widget["payload"]["tool"]["meta"]["ui"]["resourceUri"],
        "ui://page"
    );
    assert_eq!(widget["payload"]["tool_args"]["a"], 1);
    let run = AgentRun::calling_tool(&set, "echo", r#"{"text":"x"}"#).await;
    let is_shown = |event: &retain_core::Event| event.actions.render_ui_widgets.is_some();
    assert!(!run.events.iter().any(is_shown));
}
