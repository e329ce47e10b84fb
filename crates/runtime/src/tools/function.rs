//! `FunctionTool`: a tool that calls an async Rust function with typed arguments.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use retain_core::{FunctionDeclaration, Json, JsonMap};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use super::{Tool, ToolOutput};
use crate::{context::ToolContext, error::ToolError, schema::json_schema_of};

type RunFn = Arc<
    dyn Fn(ToolContext, JsonMap) -> Pin<Box<dyn Future<Output = ToolResult> + Send>> + Send + Sync,
>;
type ToolResult = Result<ToolOutput, ToolError>;
/// Decides whether a call with these arguments requires confirmation.
type ConfirmationRule = Arc<dyn Fn(&JsonMap) -> bool + Send + Sync>;

/// A tool that calls a Rust function.
///
/// Its argument type must implement `Deserialize` and `JsonSchema`. Invalid arguments are reported
/// to the model, so that it can retry.
///
/// ```
/// use retain_runtime::{FunctionTool, ToolContext, ToolError};
///
/// /// The arguments of the tool.
/// #[derive(schemars::JsonSchema, serde::Deserialize)]
/// struct WeatherQuery {
///     /// The city.
///     city: String,
/// }
///
/// let weather = FunctionTool::new(
///     "get_weather",
///     "Says what the weather is like.",
///     |ctx: ToolContext, query: WeatherQuery| async move {
///         ctx.state().set("last_city", query.city.as_str());
///         Ok::<_, ToolError>(serde_json::json!({"weather": format!("sunny in {}", query.city)}))
///     },
/// );
/// ```
#[derive(Clone)]
pub struct FunctionTool {
    name: String,
    description: String,
    parameters: Option<Json>,
    is_long_running: bool,
    confirms: Option<ConfirmationRule>,
    time_limit: Option<Duration>,
    /// The tool's ADK class name, if it differs from the default.
    kind: Option<&'static str>,
    run: RunFn,
}

impl FunctionTool {
    /// Creates a tool that calls `function`.
    pub fn new<A, O, F, R>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: F,
    ) -> FunctionTool
    where
        A: JsonSchema + DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        F: Fn(ToolContext, A) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, ToolError>> + Send + 'static,
    {
        let name = name.into();
        let tool = name.clone();
        let function = Arc::new(function);
        let run = move |ctx, args: JsonMap| {
            let function = Arc::clone(&function);
            let parsed = parse_args::<A>(&tool, args);
            let call = async move {
                match parsed {
                    Ok(args) => output_of(function(ctx, args).await?),
                    Err(error) => Ok(error.into()),
                }
            };
            Box::pin(call) as Pin<Box<dyn Future<Output = ToolResult> + Send>>
        };
        FunctionTool {
            name,
            description: description.into(),
            parameters: parameters_of(json_schema_of::<A>()),
            is_long_running: false,
            confirms: None,
            time_limit: None,
            kind: None,
            run: Arc::new(run),
        }
    }

    /// Creates a tool with a custom schema and untyped arguments. Only the presence of required
    /// arguments is checked.
    pub fn untyped<F, R>(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Option<Json>,
        function: F,
    ) -> FunctionTool
    where
        F: Fn(ToolContext, JsonMap) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        FunctionTool {
            name: name.into(),
            description: description.into(),
            parameters,
            is_long_running: false,
            confirms: None,
            time_limit: None,
            kind: None,
            run: Arc::new(move |ctx, args| Box::pin(function(ctx, args))),
        }
    }

    /// Sets the tool's ADK class name.
    pub(crate) fn with_kind(mut self, kind: &'static str) -> FunctionTool {
        self.kind = Some(kind);
        self
    }

    /// Marks the tool as long-running: an empty result leaves the call open and ends the run. A
    /// later message with the function response answers the call.
    pub fn long_running(mut self) -> FunctionTool {
        self.is_long_running = true;
        self
    }

    /// Sets the timeout for a call, overriding that of the run. `Duration::MAX` disables the
    /// timeout.
    pub fn with_time_limit(mut self, limit: Duration) -> FunctionTool {
        self.time_limit = Some(limit);
        self
    }

    /// Requires the user to approve each call before it runs.
    pub fn require_confirmation(self) -> FunctionTool {
        self.with_confirmation_when(|_| true)
    }

    /// Requires the user to approve calls whose arguments satisfy `when`.
    pub fn with_confirmation_when(
        mut self,
        when: impl Fn(&JsonMap) -> bool + Send + Sync + 'static,
    ) -> FunctionTool {
        self.confirms = Some(Arc::new(when));
        self
    }
}

/// Tells the model not to call a long-running tool again while it is pending.
const LONG_RUNNING_NOTE: &str = "NOTE: This is a long-running operation. Do not call this tool \
    again if it has already returned some intermediate or pending status.";

#[async_trait]
impl Tool for FunctionTool {
    fn kind(&self) -> &'static str {
        match (self.kind, self.is_long_running) {
            (Some(kind), _) => kind,
            (None, true) => "LongRunningFunctionTool",
            (None, false) => "FunctionTool",
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn is_long_running(&self) -> bool {
        self.is_long_running
    }

    fn time_limit(&self) -> Option<Duration> {
        self.time_limit
    }

    fn declaration(&self) -> Option<FunctionDeclaration> {
        let description = match (self.is_long_running, self.description.is_empty()) {
            (false, _) => self.description.clone(),
            (true, true) => LONG_RUNNING_NOTE.to_owned(),
            (true, false) => format!("{}\n\n{LONG_RUNNING_NOTE}", self.description),
        };
        Some(FunctionDeclaration {
            name: Some(self.name.clone()),
            description: Some(description),
            parameters_json_schema: self.parameters.clone(),
            ..FunctionDeclaration::default()
        })
    }

    async fn requires_confirmation(&self, _ctx: &ToolContext, args: &JsonMap) -> bool {
        self.confirms.as_ref().is_some_and(|when| when(args))
    }

    async fn run(&self, ctx: ToolContext, args: JsonMap) -> ToolResult {
        match missing_parameters(&self.name, self.parameters.as_ref(), &args) {
            Some(error) => Ok(error.into()),
            None => (self.run)(ctx, args).await,
        }
    }
}

impl fmt::Debug for FunctionTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool")
            .field("name", &self.name)
            .field("is_long_running", &self.is_long_running)
            .finish_non_exhaustive()
    }
}

/// Returns the parameters to declare, or `None` for a function without arguments.
fn parameters_of(schema: Json) -> Option<Json> {
    let properties = schema.get("properties").and_then(Json::as_object);
    let is_empty = properties.is_none_or(JsonMap::is_empty);
    let is_plain = schema
        .get("type")
        .is_none_or(|kind| *kind == "object" || *kind == "null");
    (!(is_empty && is_plain)).then_some(schema)
}

/// Returns the error for the model if it omitted required arguments.
pub(super) fn missing_parameters(
    tool: &str,
    parameters: Option<&Json>,
    args: &JsonMap,
) -> Option<Json> {
    let required = parameters?.get("required")?.as_array()?;
    let required = required.iter().filter_map(Json::as_str);
    let missing: Vec<&str> = required.filter(|name| !args.contains_key(name)).collect();
    if missing.is_empty() {
        return None;
    }
    let message = format!(
        "Invoking `{tool}()` failed as the following mandatory input parameters are not \
         present:\n{}\nYou could retry calling this tool, but it is IMPORTANT for you to provide \
         all the mandatory parameters.",
        missing.join("\n")
    );
    Some(JsonMap::from([("error", message)]).into())
}

/// Parses the arguments into the function's argument type, or returns the error for the model.
fn parse_args<A: DeserializeOwned>(tool: &str, args: JsonMap) -> Result<A, Json> {
    let value = serde_json::to_value(&args);
    let parsed = value.and_then(|value| match serde_json::from_value(value) {
        // A function without arguments may take `()`, which deserializes from null.
        Err(_) if args.is_empty() => serde_json::from_value(serde_json::Value::Null),
        parsed => parsed,
    });
    parsed.map_err(|error| {
        let message = format!(
            "Invoking `{tool}()` failed due to argument validation errors:\n{error}\nYou could \
             retry calling this tool with corrected argument types."
        );
        JsonMap::from([("error", message)]).into()
    })
}

fn output_of(result: impl Serialize) -> ToolResult {
    let value = serde_json::to_value(result);
    let value = value.map_err(|error| ToolError::from(Box::new(error) as retain_core::BoxError))?;
    Ok(Json::from(value).into())
}
