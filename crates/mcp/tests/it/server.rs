//! The test server. It writes a line to the file `notes` in its folder for everything that a test
//! may check.

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelledNotificationParam,
        JsonObject, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
        ResourceContents, ServerCapabilities, ServerConfig, Tool,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::{Value, from_value, json};

/// The environment variable that names the folder. If it is set, this process is the server.
pub(crate) const FOLDER: &str = "RETAIN_MCP_TEST_FOLDER";

/// A server with one tool for each case that the tests need.
#[derive(Debug, Clone)]
pub(crate) struct TestServer {
    folder: PathBuf,
}

impl TestServer {
    pub(crate) fn new(folder: &Path) -> TestServer {
        let folder = folder.to_owned();
        TestServer { folder }
    }

    fn note(&self, what: &str) {
        note(&self.folder, what);
    }
}

fn note(folder: &Path, what: &str) {
    let mut options = OpenOptions::new();
    let file = options.append(true).create(true).open(folder.join("notes"));
    writeln!(file.unwrap(), "{what}").unwrap();
}

/// Returns all notes of the servers that use this folder.
pub(crate) fn notes(folder: &Path) -> Vec<String> {
    let notes = std::fs::read_to_string(folder.join("notes")).unwrap_or_default();
    notes.lines().map(str::to_owned).collect()
}

/// Waits until a server has written this note.
pub(crate) async fn wait_for_note(folder: &Path, what: &str) {
    let written = async {
        while !notes(folder).iter().any(|note| note == what) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let written = tokio::time::timeout(Duration::from_secs(30), written).await;
    assert!(written.is_ok(), "{what} is not in {:?}", notes(folder));
}

/// Not a test: runs the server, if this process is a child process that a test has started.
///
/// The test harness also writes to standard output, so the client must ignore lines that are not
/// messages.
#[tokio::test]
async fn serve_as_a_child_process() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let server = TestServer::new(Path::new(&folder));
    server.note(&format!("pid {}", std::process::id()));
    eprintln!("the server is up");
    let running = server.serve(rmcp::transport::stdio()).await.unwrap();
    running.waiting().await.unwrap();
    note(Path::new(&folder), "ended by itself");
}

fn tool(name: &'static str, description: &'static str, properties: Value) -> Tool {
    let schema = json!({"type": "object", "properties": properties});
    let schema: JsonObject = from_value(schema).unwrap();
    Tool::new(name, description, Arc::new(schema))
}

fn tools() -> Vec<Tool> {
    let text = json!({"text": {"type": "string", "description": "What to say."}});
    let temperature = json!({"type": "object", "properties": {"temperature": {"type": "number"}}});
    let output: JsonObject = from_value(temperature).unwrap();
    let weather = tool("weather", "Tells the weather.", json!({}));
    let mut weather: Value = serde_json::to_value(weather).unwrap();
    weather["outputSchema"] = Value::Object(output);
    let mut app = serde_json::to_value(tool("app", "Shows a page.", json!({}))).unwrap();
    app["_meta"] = json!({"ui": {"resourceUri": "ui://page"}});
    vec![
        tool("echo", "Says what it hears.", text),
        tool("contents", "Answers with every kind of content.", json!({})),
        from_value(weather).unwrap(),
        from_value(app).unwrap(),
        tool("fail", "Fails.", json!({})),
        tool(
            "refuse",
            "Answers with an error of the protocol.",
            json!({}),
        ),
        tool("die", "Ends the server.", json!({})),
        tool("hang", "Never answers.", json!({})),
        tool("environment", "Names the variables.", json!({})),
        tool("child", "Starts a process.", json!({})),
        tool("trace", "Tells of which trace it is part.", json!({})),
        tool("transfer_to_agent", "Wants to be the framework.", json!({})),
    ]
}

/// Builds a tool result from its wire format.
fn tool_result(result: Value) -> Result<CallToolResponse, ErrorData> {
    let result: CallToolResult = from_value(result).unwrap();
    Ok(CallToolResponse::Complete(result))
}

fn text_result(text: impl Into<String>) -> Result<CallToolResponse, ErrorData> {
    tool_result(json!({"content": [{"type": "text", "text": text.into()}]}))
}

fn contents() -> Value {
    json!({
        "_meta": {"trace": "t", "nothing": null},
        "content": [
            {"type": "text", "text": "hi", "annotations": {"audience": ["user"], "priority": 0.7}},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav", "_meta": {"_meta": 1}},
            {"type": "resource", "resource": {"uri": "x:1", "mimeType": "text/plain", "text": "t"}},
            {"type": "resource", "resource": {"uri": "x:2", "blob": "aGk="}},
            {"type": "resource_link", "uri": "x:3", "name": "three", "size": 3},
        ],
    })
}

impl ServerHandler for TestServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources();
        ServerConfig::new(capabilities.build())
    }

    /// Lists the tools in two pages.
    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.note("list");
        let mut first = tools();
        let second = first.split_off(3);
        let is_second = request.is_some_and(|request| request.cursor.is_some());
        let mut page = ListToolsResult::default();
        match is_second {
            true => page.tools = second,
            false => {
                page.tools = first;
                page.next_cursor = Some("second".to_owned());
            }
        }
        Ok(page)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.note(&format!("call {}", request.name));
        match &*request.name {
            "echo" => {
                let args = request.arguments.unwrap_or_default();
                text_result(args["text"].as_str().unwrap_or_default())
            }
            "contents" => tool_result(contents()),
            "weather" => tool_result(json!({
                "content": [{"type": "text", "text": "{}"}],
                "structuredContent": {"temperature": 21.0, "wind": null, "hours": [1, 2.5]},
            })),
            "app" => text_result("page"),
            "fail" => tool_result(json!({
                "content": [{"type": "text", "text": "no"}], "isError": true,
            })),
            "refuse" => Err(ErrorData::invalid_params("not like this", None)),
            "die" => std::process::exit(3),
            "hang" => std::future::pending().await,
            "environment" => {
                let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
                names.sort();
                text_result(names.join(" "))
            }
            "child" => {
                let child = std::process::Command::new("sleep").arg("600").spawn();
                text_result(child.unwrap().id().to_string())
            }
            "trace" => text_result(context.meta.get_traceparent().unwrap_or("none")),
            other => panic!("{other}"),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult {
            resources: vec![
                Resource::new("x:poem", "poem"),
                Resource::new("x:bild", "Bild für dich"),
            ],
            ..ListResourcesResult::default()
        })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = match request.uri.as_str() {
            "x:poem" => ResourceContents::text("Roses are red.", "x:poem"),
            _ => ResourceContents::blob("aGk=", "x:bild").with_mime_type("image/png"),
        };
        let read = ReadResourceResult::new(vec![contents]);
        Ok(ReadResourceResponse::Complete(read))
    }

    async fn on_cancelled(
        &self,
        _: CancelledNotificationParam,
        _: NotificationContext<RoleServer>,
    ) {
        self.note("cancelled");
    }
}
