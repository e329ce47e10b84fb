//! `load_artifacts`: lists the artifacts for the model and loads those that it requests.
//!
//! The tool itself only returns the requested names. The files are added to the request that
//! carries this result to the model, and only to that request, so the session does not store them.

use std::{fmt, future::Future, sync::Arc};

use async_trait::async_trait;
use futures_util::{FutureExt as _, future::BoxFuture};
use retain_core::{
    BoxError, Content, FunctionDeclaration, Json, JsonMap, Part, USER_ARTIFACT_PREFIX,
    python_text::python_json_ascii,
};

use super::{Tool, ToolOutput};
use crate::{
    artifact_parts::safe_part, context::ToolContext, error::ToolError, models::LlmRequest,
    shared_content::SharedContent,
};

const NAME: &str = "load_artifacts";

const DESCRIPTION: &str = "Loads artifacts into the session for this request.

NOTE: Call when you need access to artifacts (for example, uploads saved by the
web UI).";

const STATUS: &str = "artifact contents temporarily inserted and removed. to access these \
    artifacts, call load_artifacts tool again.";

type Process =
    dyn Fn(Part, String) -> BoxFuture<'static, Result<Option<Part>, BoxError>> + Send + Sync;

/// Returns the tool that lets the model load artifacts.
pub fn load_artifacts_tool() -> LoadArtifactsTool {
    LoadArtifactsTool::default()
}

/// Lists the artifacts for the model and loads those that it requests.
///
/// Media types that models accept (images, audio, video, PDF) are sent unchanged, and text formats
/// as text. For other files the model receives name, type and size.
#[derive(Clone, Default)]
pub struct LoadArtifactsTool {
    process: Option<Arc<Process>>,
}

impl fmt::Debug for LoadArtifactsTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadArtifactsTool").finish_non_exhaustive()
    }
}

impl LoadArtifactsTool {
    /// Sets a function that converts each artifact before it is sent to the model. It receives the
    /// part and the name that the artifact was loaded under. Returning `None` omits the artifact,
    /// and so does an error, which is logged.
    ///
    /// ```
    /// use retain_runtime::load_artifacts_tool;
    /// let tool = load_artifacts_tool().with_processor(|part, name| async move {
    ///     Ok((!name.ends_with(".key")).then_some(part))
    /// });
    /// ```
    pub fn with_processor<F, Fut>(mut self, process: F) -> LoadArtifactsTool
    where
        F: Fn(Part, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Part>, BoxError>> + Send + 'static,
    {
        self.process = Some(Arc::new(move |part, name| process(part, name).boxed()));
        self
    }

    /// Loads the artifact that the model requested; returns `None` if there is nothing to send.
    async fn load(
        &self,
        ctx: &ToolContext,
        requested: &str,
        listed: &[String],
    ) -> Result<Option<Part>, ToolError> {
        let Some(mut name) = resolve_name(requested, listed) else {
            tracing::debug!(artifact = ?requested, "not an artifact of this session");
            return Ok(None);
        };
        let mut loaded = ctx.load_artifact(&name, None).await?;
        // Some services list user-scoped artifacts without the `user:` prefix.
        if loaded.is_none() && !name.starts_with(USER_ARTIFACT_PREFIX) {
            name = format!("{USER_ARTIFACT_PREFIX}{name}");
            loaded = ctx.load_artifact(&name, None).await?;
        }
        let Some(part) = loaded else {
            tracing::debug!(artifact = ?name, "a listed artifact no longer exists");
            return Ok(None);
        };
        let Some(process) = &self.process else {
            // Use the name that the model requested, because the model reads it.
            return Ok(Some(safe_part(part, requested)));
        };
        Ok(process(part, name.clone()).await.unwrap_or_else(|error| {
            tracing::error!("failed to process an artifact");
            tracing::debug!(artifact = ?name, error = ?error.to_string(), "failed to process an artifact");
            None
        }))
    }
}

#[async_trait]
impl Tool for LoadArtifactsTool {
    fn kind(&self) -> &'static str {
        "LoadArtifactsTool"
    }

    fn name(&self) -> &str {
        NAME
    }

    fn description(&self) -> &str {
        DESCRIPTION
    }

    fn declaration(&self) -> Option<FunctionDeclaration> {
        let parameters = serde_json::json!({
            "type": "object",
            "properties": {"artifact_names": {"type": "array", "items": {"type": "string"}}},
        });
        Some(FunctionDeclaration {
            name: Some(NAME.to_owned()),
            description: Some(DESCRIPTION.to_owned()),
            parameters_json_schema: Some(parameters.into()),
            ..FunctionDeclaration::default()
        })
    }

    async fn process_request(
        &self,
        ctx: &ToolContext,
        request: &mut LlmRequest,
    ) -> Result<(), ToolError> {
        let listed = ctx.list_artifacts().await?;
        if listed.is_empty() {
            return Ok(());
        }
        request.append_dynamic_instruction(instruction(&listed));
        for requested in loaded_names(request) {
            if let Some(part) = self.load(ctx, &requested, &listed).await? {
                let lead = Part::text(format!("Artifact {requested} is:"));
                let content = Content::new("user", vec![lead, part]);
                request.contents.push(SharedContent::from(content));
            }
        }
        Ok(())
    }

    async fn run(&self, _ctx: ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let answer = match artifact_names(&args) {
            Some(names) => {
                let names = names.into_iter().map(Json::from).collect::<Vec<_>>();
                JsonMap::from([
                    ("artifact_names", Json::from(names)),
                    ("status", STATUS.into()),
                ])
            }
            None => JsonMap::from([
                ("error", "'artifact_names' must be a list of strings."),
                ("error_code", "INVALID_ARGUMENTS"),
            ]),
        };
        Ok(Json::from(answer).into())
    }
}

fn instruction(listed: &[String]) -> String {
    let names: Vec<Json> = listed.iter().map(|name| name.as_str().into()).collect();
    let names = python_json_ascii(&names.into());
    format!(
        "You have a list of artifacts:
  {names}

  When the user asks questions about any of the artifacts, you should call the
  `load_artifacts` function to load the artifact. Always call load_artifacts
  before answering questions related to the artifacts, regardless of whether the
  artifacts have been loaded before. Do not depend on prior answers about the
  artifacts.
  "
    )
}

/// Returns the names in the tool's results that end the request.
fn loaded_names(request: &LlmRequest) -> Vec<String> {
    let last = request.contents.last();
    let responses = last.into_iter().flat_map(|last| last.function_responses());
    let mut names = Vec::new();
    for response in responses.filter(|response| response.name.as_deref() == Some(NAME)) {
        match response.response.as_ref().map(artifact_names) {
            Some(Some(loaded)) => names.extend(loaded),
            Some(None) => tracing::warn!("load_artifacts returned invalid names"),
            None => {}
        }
    }
    names
}

/// Reads `artifact_names` from a call or a result; returns `None` unless all of them are strings.
fn artifact_names(map: &JsonMap) -> Option<Vec<String>> {
    let Some(names) = map.get("artifact_names") else {
        return Some(Vec::new());
    };
    let names = names.as_array()?.iter();
    names.map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Resolves a requested name to a listed one. The model's input is untrusted, so an unlisted name
/// resolves to nothing. Models often omit or add the `user:` prefix.
fn resolve_name(requested: &str, listed: &[String]) -> Option<String> {
    let is_listed = |name: &str| listed.iter().any(|known| known == name);
    if is_listed(requested) {
        return Some(requested.to_owned());
    }
    match requested.strip_prefix(USER_ARTIFACT_PREFIX) {
        Some(bare) => is_listed(bare).then(|| requested.to_owned()),
        None => Some(format!("{USER_ARTIFACT_PREFIX}{requested}")).filter(|name| is_listed(name)),
    }
}
