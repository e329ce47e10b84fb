//! `McpToolset` in agent configurations, with ADK's names and arguments.
//!
//! ```yaml
//! tools:
//!   - name: McpToolset
//!     args:
//!       stdio_connection_params:
//!         server_params: {command: npx, args: ["-y", "@modelcontextprotocol/server-everything"]}
//!         timeout: 30
//!       tool_filter: [echo]
//! ```

use std::time::Duration;

use retain_core::{
    Json, JsonMap,
    adk::{ObjectSchema, table},
};
use retain_runtime::{ConfigRegistry, ToolSource};

use crate::{
    client::check_headers,
    server::{HttpServer, McpServer, StdioServer},
    toolset::McpToolset,
};

const STDIO_SERVER: &str = "stdio_server_params";
const STDIO: &str = "stdio_connection_params";
const SSE: &str = "sse_connection_params";
const HTTP: &str = "streamable_http_connection_params";
/// ADK's authentication keys, which are not supported.
const AUTH: [&str; 3] = ["auth_scheme", "auth_credential", "credential_key"];
/// A key that only Retain has. In ADK, only Python code can require a confirmation.
const CONFIRMATION: &str = "require_confirmation";

/// Sets whether a configuration may start child processes.
///
/// The file names a program and its arguments, so its author can run any code. Allow this only for
/// your own files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildProcesses {
    /// Configurations may name servers that run as child processes.
    Allowed,
    /// Configurations may name only servers over HTTP.
    Refused,
}

/// Registers `McpToolset`, so that configurations can name it.
pub fn register(registry: ConfigRegistry, processes: ChildProcesses) -> ConfigRegistry {
    registry.with_mcp_toolset_from_args(move |args| {
        let set = toolset_from_args(&args, processes)?;
        Ok(ToolSource::from(set))
    })
}

/// Creates a toolset from the `args` of a configuration.
///
/// # Errors
///
/// Returns a message that names the invalid key.
pub fn toolset_from_args(args: &JsonMap, processes: ChildProcesses) -> Result<McpToolset, String> {
    let keys = table::MCP_TOOLSET_CONFIG.snake_names();
    let fields = Fields::new("McpToolset", args, keys.chain([CONFIRMATION]))?;
    if let Some(name) = AUTH.iter().find(|name| fields.get(name).is_some()) {
        return Err(format!(
            "`{name}` is not supported; set the credential as a header of `{HTTP}`"
        ));
    }
    let mut set = McpToolset::new(server(&fields, processes)?);
    if let Some(names) = fields.texts("tool_filter")? {
        set = set.with_tool_filter(names);
    }
    if let Some(prefix) = fields.text("tool_name_prefix")? {
        set = set.with_tool_name_prefix(prefix);
    }
    if let Some(ttl) = fields.seconds("tool_list_cache_ttl_seconds")? {
        set = set.with_tool_list_cache_ttl(ttl);
    }
    if fields.flag("use_mcp_resources")? == Some(true) {
        set = set.use_mcp_resources();
    }
    if fields.flag(CONFIRMATION)? == Some(true) {
        set = set.require_confirmation();
    }
    Ok(set)
}

fn server(fields: &Fields<'_>, processes: ChildProcesses) -> Result<McpServer, String> {
    let given: Vec<&str> = connection_keys()
        .filter(|name| fields.get(name).is_some())
        .collect();
    let &[name] = given.as_slice() else {
        let names: Vec<String> = connection_keys().map(|name| format!("`{name}`")).collect();
        return Err(format!("set exactly one of {}", names.join(", ")));
    };
    let is_process = name == STDIO || name == STDIO_SERVER;
    if is_process && processes == ChildProcesses::Refused {
        return Err(format!(
            "`{name}` starts a program, which this server does not allow; use a server over HTTP"
        ));
    }
    match name {
        STDIO_SERVER => Ok(stdio_server(&fields.object(name)?, name)?.into()),
        STDIO => Ok(stdio(&fields.object(name)?)?.into()),
        HTTP => Ok(http(&fields.object(name)?)?.into()),
        SSE => Err(format!(
            "`{SSE}` is not supported, because streamable HTTP replaced HTTP+SSE; if the \
             server has it, set its URL in `{HTTP}`"
        )),
        _ => Err(format!("`{name}` is not supported; set `{HTTP}`")),
    }
}

/// Returns the keys that describe the server: exactly one must be present.
fn connection_keys() -> impl Iterator<Item = &'static str> {
    let names = table::MCP_TOOLSET_CONFIG.snake_names();
    names.filter(|name| name.ends_with("_params"))
}

fn stdio(args: &JsonMap) -> Result<StdioServer, String> {
    let fields = Fields::of_object(STDIO, args, &table::STDIO_CONNECTION_PARAMS)?;
    let server = stdio_server(&fields.object("server_params")?, "server_params")?;
    Ok(match fields.seconds("timeout")? {
        Some(timeout) => server.with_timeout(timeout),
        None => server,
    })
}

fn stdio_server(args: &JsonMap, name: &str) -> Result<StdioServer, String> {
    let fields = Fields::of_object(name, args, &table::STDIO_SERVER_PARAMETERS)?;
    let command = fields.text("command")?;
    let command = command.ok_or_else(|| format!("`{name}` needs a `command`"))?;
    if let Some(encoding) = fields.text("encoding")?
        && !["utf-8", "utf8"].contains(&encoding.to_ascii_lowercase().as_str())
    {
        return Err(format!("`encoding` is {encoding:?}, but must be \"utf-8\""));
    }
    let mut server = StdioServer::new(command).with_args(fields.texts("args")?.unwrap_or_default());
    for (name, value) in fields.pairs("env")? {
        server = server.with_env(name, value);
    }
    Ok(match fields.text("cwd")? {
        Some(folder) => server.with_cwd(folder),
        None => server,
    })
}

fn http(args: &JsonMap) -> Result<HttpServer, String> {
    let fields = Fields::of_object(HTTP, args, &table::STREAMABLE_HTTP_CONNECTION_PARAMS)?;
    let url = fields.text("url")?;
    let url = url.ok_or_else(|| format!("`{HTTP}` needs a `url`"))?;
    if !["http://", "https://"].iter().any(|it| url.starts_with(it)) {
        return Err("`url` must begin with http:// or https://".to_owned());
    }
    let headers = fields.pairs("headers")?;
    check_headers(&headers)?;
    let mut server = HttpServer::new(url);
    for (name, value) in headers {
        server = server.with_header(name, value);
    }
    if let Some(timeout) = fields.seconds("timeout")? {
        server = server.with_timeout(timeout);
    }
    if let Some(timeout) = fields.seconds("sse_read_timeout")? {
        server = server.with_call_timeout(timeout);
    }
    let terminates = fields.flag("terminate_on_close")?;
    Ok(server.with_terminate_on_close(terminates.unwrap_or(true)))
}

/// The entries of one map in the configuration. A null value counts as missing.
struct Fields<'a>(&'a JsonMap);

impl<'a> Fields<'a> {
    /// Reads a map whose keys must be fields of `object`.
    fn of_object(
        section: &str,
        map: &'a JsonMap,
        object: &ObjectSchema,
    ) -> Result<Fields<'a>, String> {
        Fields::new(section, map, object.snake_names())
    }

    fn new(
        section: &str,
        map: &'a JsonMap,
        known: impl Iterator<Item = &'static str>,
    ) -> Result<Fields<'a>, String> {
        let known: Vec<&str> = known.collect();
        match map.keys().find(|key| !known.contains(key)) {
            Some(key) => Err(format!(
                "unknown key `{key}` in `{section}`; expected one of {}",
                known.join(", ")
            )),
            None => Ok(Fields(map)),
        }
    }

    fn get(&self, name: &str) -> Option<&'a Json> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn object(&self, name: &str) -> Result<JsonMap, String> {
        let value = self.get(name);
        let value = value.ok_or_else(|| format!("`{name}` is missing"))?;
        let map = value.as_object().cloned();
        map.ok_or_else(|| format!("`{name}` must be a mapping"))
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        self.get(name).map(|value| text(name, value)).transpose()
    }

    fn texts(&self, name: &str) -> Result<Option<Vec<String>>, String> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let items = value.as_array();
        let items = items.ok_or_else(|| format!("`{name}` must be a list"))?;
        let texts: Result<_, _> = items.iter().map(|item| text(name, item)).collect();
        texts.map(Some)
    }

    fn pairs(&self, name: &str) -> Result<Vec<(String, String)>, String> {
        if self.get(name).is_none() {
            return Ok(Vec::new());
        }
        let map = self.object(name)?;
        let pairs = map.iter();
        let pairs = pairs.map(|(key, value)| Ok((key.to_owned(), text(key, value)?)));
        pairs.collect()
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, String> {
        let flag = |value: &Json| {
            let flag = value.as_bool();
            flag.ok_or_else(|| format!("`{name}` must be true or false"))
        };
        self.get(name).map(flag).transpose()
    }

    fn seconds(&self, name: &str) -> Result<Option<Duration>, String> {
        let seconds = |value: &Json| {
            let seconds = value.as_f64().filter(|seconds| *seconds > 0.0);
            let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            time.ok_or_else(|| format!("`{name}` must be a number of seconds greater than 0"))
        };
        self.get(name).map(seconds).transpose()
    }
}

/// Reads a string. Errors do not show the value, which may be a secret.
fn text(name: &str, value: &Json) -> Result<String, String> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| format!("`{name}` must be a string; put it in quotes"))
}

#[cfg(test)]
mod tests {
    use retain_core::adk::ValueType;

    use super::*;

    fn parse_toolset(args: &str, processes: ChildProcesses) -> Result<McpToolset, String> {
        let args = Json::parse(args).unwrap();
        toolset_from_args(args.as_object().unwrap(), processes)
    }

    #[test]
    fn child_process_configuration_is_read_as_in_adk() {
        let args = r#"{"stdio_connection_params":{"timeout":7.5,"server_params":
            {"command":"npx","args":["-y","pkg"],"env":{"K":"v"},"cwd":"/srv","encoding":"utf-8"}}}"#;
        let set = parse_toolset(args, ChildProcesses::Allowed).unwrap();
        let server = StdioServer::new("npx")
            .with_args(["-y", "pkg"])
            .with_env("K", "v");
        let server = server
            .with_cwd("/srv")
            .with_timeout(Duration::from_millis(7500));
        assert_eq!(*set.server(), McpServer::Stdio(server));
        let args = r#"{"stdio_server_params":{"command":"serve"},"tool_filter":null}"#;
        let set = parse_toolset(args, ChildProcesses::Allowed).unwrap();
        assert_eq!(*set.server(), StdioServer::new("serve").into());
    }

    #[test]
    fn http_configuration_is_read_as_in_adk() {
        let args = r#"{"streamable_http_connection_params":{"url":"http://h/mcp","headers":{"X":"y"},
            "timeout":2,"sse_read_timeout":9,"terminate_on_close":false}}"#;
        let set = parse_toolset(args, ChildProcesses::Refused).unwrap();
        let server = HttpServer::new("http://h/mcp").with_header("X", "y");
        let server = server.with_timeout(Duration::from_secs(2));
        let server = server.with_call_timeout(Duration::from_secs(9));
        assert_eq!(*set.server(), server.with_terminate_on_close(false).into());
    }

    #[test]
    fn error_for_invalid_toolset_arguments_names_the_cause() {
        let allowed = ChildProcesses::Allowed;
        for (args, word) in [
            (r#"{}"#, "exactly one of"),
            (
                r#"{"stdio_server_params":{"command":"a"},"sse_connection_params":{"url":"b"}}"#,
                "exactly one of",
            ),
            (
                r#"{"sse_connection_params":{"url":"http://h/sse"}}"#,
                "HTTP+SSE",
            ),
            (r#"{"stdio_server_params":{"args":["a"]}}"#, "`command`"),
            (
                r#"{"stdio_server_params":{"command":"a","env":{"PORT":1}}}"#,
                "`PORT`",
            ),
            (
                r#"{"stdio_server_params":{"command":"a","encoding":"latin-1"}}"#,
                "utf-8",
            ),
            (
                r#"{"stdio_connection_params":{"command":"a"}}"#,
                "server_params",
            ),
            (
                r#"{"streamable_http_connection_params":{"url":"ftp://h"}}"#,
                "`url`",
            ),
            (
                r#"{"streamable_http_connection_params":{"url":"http://h","headers":{"A B":"c"}}}"#,
                "A B",
            ),
            (
                r#"{"streamable_http_connection_params":{"url":"http://h","timeout":0}}"#,
                "`timeout`",
            ),
            (
                r#"{"streamable_http_connection_params":{"url":"http://h"},"auth_scheme":{}}"#,
                "`auth_scheme`",
            ),
            (
                r#"{"streamable_http_connection_params":{"url":"http://h"},"tool_filters":[]}"#,
                "`tool_filters`",
            ),
        ] {
            let error = parse_toolset(args, allowed).unwrap_err();
            assert!(error.contains(word), "{args}: {error}");
        }
    }

    /// ADK's keys that have no effect, because Retain accepts only UTF-8.
    const UNUSED: [&str; 1] = ["encoding_error_handler"];

    #[test]
    fn every_adk_key_is_read_or_refused() {
        for (section, object, args) in [
            (
                HTTP,
                &table::STREAMABLE_HTTP_CONNECTION_PARAMS,
                r#"{"url":"http://h"}"#,
            ),
            (
                STDIO_SERVER,
                &table::STDIO_SERVER_PARAMETERS,
                r#"{"command":"a"}"#,
            ),
            (
                STDIO,
                &table::STDIO_CONNECTION_PARAMS,
                r#"{"server_params":{"command":"a"}}"#,
            ),
            (
                "",
                &table::MCP_TOOLSET_CONFIG,
                r#"{"stdio_server_params":{"command":"a"}}"#,
            ),
        ] {
            let args = Json::parse(args).unwrap();
            let fields = object.fields.iter();
            for field in fields.filter(|field| !UNUSED.contains(&field.snake)) {
                let wrong_type = match field.value {
                    ValueType::Object(_) | ValueType::Map(_) | ValueType::Dict => Json::from(5),
                    _ => JsonMap::new().into(),
                };
                let mut args = args.as_object().unwrap().clone();
                args.insert(field.snake, wrong_type);
                if !section.is_empty() {
                    args = JsonMap::from([(section, args)]);
                }
                let error = toolset_from_args(&args, ChildProcesses::Allowed);
                let error = error.expect_err(field.snake);
                assert!(error.contains(&format!("`{}`", field.snake)), "{error}");
            }
        }
    }

    #[test]
    fn child_processes_are_refused_unless_allowed() {
        for args in [
            r#"{"stdio_server_params":{"command":"a"}}"#,
            r#"{"stdio_connection_params":{"server_params":{"command":"a"}}}"#,
        ] {
            assert!(parse_toolset(args, ChildProcesses::Allowed).is_ok());
            let error = parse_toolset(args, ChildProcesses::Refused).unwrap_err();
            assert!(error.contains("starts a program"), "{error}");
        }
    }
}
