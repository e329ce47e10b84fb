//! `load_mcp_resource`: lets the model read the resources of a server. Names and texts are ADK's.
//!
//! The model receives the names of all resources. When it requests some by name, their contents are
//! added to the next request only.

use std::sync::Arc;

use async_trait::async_trait;
use retain_core::{
    Bytes, Content, FunctionDeclaration, FunctionResponse, Json, JsonMap, Part,
    python_text::python_json_ascii,
};
use retain_runtime::{LlmRequest, Tool, ToolContext, ToolError, ToolOutput};

use crate::{
    client::{ResourceBody, ServerResource},
    connection::Connection,
    failure::Failure,
    toolset::prefixed_name,
};

const NAME: &str = "load_mcp_resource";
const DESCRIPTION: &str =
    "Loads resources from the MCP server.\n\nNOTE: Call when you need access to resources.";
const STATUS: &str = "resource contents temporarily inserted and removed. to access these \
    resources, call load_mcp_resource tool again.";

/// The MIME type of binary data for which the server states none.
const DEFAULT_MIME_TYPE: &str = "application/octet-stream";

/// The `load_mcp_resource` tool.
#[derive(Debug)]
pub(crate) struct LoadMcpResource {
    name: String,
    connection: Arc<Connection>,
}

impl LoadMcpResource {
    pub(crate) fn new(prefix: Option<&str>, connection: Arc<Connection>) -> LoadMcpResource {
        let name = prefixed_name(prefix, NAME);
        LoadMcpResource { name, connection }
    }

    /// Returns the names of the resources that the model requested: those in the tool results of
    /// the last content.
    fn requested(&self, request: &LlmRequest) -> Vec<String> {
        let last = request.contents.last();
        let parts = last.map(|content| content.parts()).unwrap_or_default();
        let responses = parts
            .iter()
            .filter_map(|part| part.function_response.as_ref());
        let own_responses =
            responses.filter(|it: &&FunctionResponse| it.name.as_deref() == Some(&self.name));
        let names =
            own_responses.filter_map(|it| it.response.as_ref()?.get("resource_names")?.as_array());
        let names = names.flatten().filter_map(Json::as_str);
        names.map(str::to_owned).collect()
    }

    async fn read(
        &self,
        resources: &[ServerResource],
        name: &str,
    ) -> Result<Vec<ResourceBody>, Failure> {
        match resources.iter().find(|resource| resource.name == name) {
            Some(resource) => self.connection.read(&resource.uri).await,
            None => Ok(Vec::new()),
        }
    }
}

#[async_trait]
impl Tool for LoadMcpResource {
    fn kind(&self) -> &'static str {
        "LoadMcpResourceTool"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        DESCRIPTION
    }

    fn declaration(&self) -> Option<FunctionDeclaration> {
        let schema = r#"{"type":"object","properties":{"resource_names":{"type":"array","items":{"type":"string"}}}}"#;
        Some(FunctionDeclaration {
            name: Some(self.name.clone()),
            description: Some(DESCRIPTION.to_owned()),
            parameters_json_schema: Json::parse(schema).ok(),
            ..FunctionDeclaration::default()
        })
    }

    /// Adds the resource list and the requested resources to the request. Only logs errors of the
    /// server, so that the model still receives the request.
    async fn process_request(
        &self,
        _ctx: &ToolContext,
        request: &mut LlmRequest,
    ) -> Result<(), ToolError> {
        let requested = self.requested(request);
        let resources = match self.connection.resources().await {
            Ok(resources) => resources,
            Err(error) => {
                tracing::warn!("cannot list the MCP server's resources");
                tracing::debug!(%error, "cannot list the MCP server's resources");
                return Ok(());
            }
        };
        if !resources.is_empty() {
            request.append_dynamic_instruction(resource_list_instruction(&resources));
        }
        for name in &requested {
            match self.read(&resources, name).await {
                Ok(bodies) => {
                    let contents = bodies.into_iter().map(|body| content(name, body).into());
                    request.contents.extend(contents);
                }
                Err(error) => {
                    tracing::warn!("cannot read one of the MCP server's resources");
                    tracing::debug!(%error, name, "cannot read one of the MCP server's resources");
                }
            }
        }
        Ok(())
    }

    async fn run(&self, _ctx: ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let none = || Json::from(Vec::new());
        let names = args.get("resource_names").cloned().unwrap_or_else(none);
        let output = JsonMap::from([("resource_names", names), ("status", STATUS.into())]);
        Ok(Json::from(output).into())
    }
}

fn resource_list_instruction(resources: &[ServerResource]) -> String {
    let names = resources.iter().map(|it| Json::from(it.name.as_str()));
    let names = python_json_ascii(&names.collect::<Vec<Json>>().into());
    format!(
        "You have a list of MCP resources:\n{names}\n\nWhen the user asks questions about any of the \
         resources, you should call the\n`load_mcp_resource` function to load the resource. Always \
         call load_mcp_resource\nbefore answering questions related to the resources.\n"
    )
}

fn content(name: &str, body: ResourceBody) -> Content {
    let part = match body {
        ResourceBody::Text(text) => Part::text(text),
        ResourceBody::Blob(data, mime_type) => blob(name, &data, mime_type),
        ResourceBody::Unknown => Part::text(format!("[Unknown content type for {name}]")),
    };
    let lead = Part::text(format!("Resource {name} is:"));
    Content::new("user", vec![lead, part])
}

fn blob(name: &str, data: &str, mime_type: Option<String>) -> Part {
    match Bytes::from_base64(data) {
        Some(data) => {
            let mime_type = mime_type.filter(|it| !it.is_empty());
            Part::bytes(
                data,
                mime_type.unwrap_or_else(|| DEFAULT_MIME_TYPE.to_owned()),
            )
        }
        None => Part::text(format!("[Binary content for {name} could not be decoded]")),
    }
}
