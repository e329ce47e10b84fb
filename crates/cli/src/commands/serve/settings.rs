//! What a server is told: options over environment over file over defaults.

use std::{
    collections::BTreeMap,
    fmt,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use clap::{ArgAction, Args, ValueEnum};
use retain::server::ServerLimits;
use serde::Deserialize;

use super::adk_options::OptionsOfAdk;

/// The file that is read where none is named, if it is there.
const DEFAULT_FILE: &str = "retain.toml";

/// Where everything is, where nothing else is said.
pub(crate) const DEFAULT_STORE: &str = "sqlite:///.retain/retain.db";

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum LogFormat {
    /// For people.
    Text,
    /// A JSON object a line.
    Json,
}

/// The section `models` of a file: settings by provider.
pub(super) type ModelSections = BTreeMap<String, BTreeMap<String, Value>>;

/// A setting of a provider. May be a key, so it is not printed.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(untagged)]
#[cfg_attr(not(feature = "models"), allow(dead_code))]
pub(super) enum Value {
    Text(String),
    Flag(bool),
    Number(f64),
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[not shown]")
    }
}

/// What can be said by options, by the environment, and in a file.
#[derive(Debug, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(super) struct Given {
    /// A folder of agents: each folder in it with a root_agent.yaml is an app [default: an app that
    /// is built in]
    #[arg(env = "RETAIN_AGENTS_DIR")]
    #[serde(alias = "agents_dir")]
    agents_dir: Option<PathBuf>,
    /// The app that need not be named in paths and bodies [default: the folder, if it is an agent
    /// itself]
    #[arg(
        long,
        alias = "default_app",
        env = "ADK_DEFAULT_APP_NAME",
        value_name = "APP"
    )]
    #[serde(alias = "default_app")]
    default_app: Option<String>,
    /// The model of the app that is built in, e.g. gemini-3.5-flash, claude-sonnet-5, openai/gpt-4o,
    /// ollama/llama3.2 or offline [default: the best one for which there is a key]
    #[arg(long, env = "RETAIN_MODEL", value_name = "NAME")]
    model: Option<String>,
    /// Keys and addresses of models, by provider.
    #[arg(skip)]
    models: Option<ModelSections>,
    /// The address to listen on [default: 127.0.0.1]
    #[arg(long, env = "RETAIN_HOST")]
    host: Option<String>,
    /// The port to listen on; 0 takes a free one [default: 8000]
    #[arg(long, env = "RETAIN_PORT")]
    port: Option<u16>,
    /// Where sessions are: sqlite:///relative.db, sqlite:////absolute.db,
    /// postgresql://user@host/database or memory://
    /// [default: sqlite:///.retain/retain.db]
    #[arg(
        long,
        alias = "session_service_uri",
        alias = "session_db_url",
        value_name = "URI"
    )]
    #[arg(env = "RETAIN_SESSION_SERVICE_URI")]
    #[serde(alias = "session_service_uri")]
    session_service_uri: Option<String>,
    /// Where memories are: sqlite:///…, postgresql://…, or memory:// for ADK's own in-memory matching [default:
    /// with the sessions]
    #[arg(long, alias = "memory_service_uri", value_name = "URI")]
    #[arg(env = "RETAIN_MEMORY_SERVICE_URI")]
    #[serde(alias = "memory_service_uri")]
    memory_service_uri: Option<String>,
    /// The model that says what memories mean, beside their words: gemini/MODEL, openai/MODEL or
    /// ollama/MODEL, with @DIMENSIONS if need be [default: none]
    #[arg(long, env = "RETAIN_EMBEDDER", value_name = "NAME")]
    embedder: Option<String>,
    /// Where artifacts are: sqlite:///…, postgresql://…, file:///folder or memory:// [default: with the sessions]
    #[arg(long, alias = "artifact_service_uri", alias = "artifact_storage_uri")]
    #[arg(env = "RETAIN_ARTIFACT_SERVICE_URI", value_name = "URI")]
    #[serde(alias = "artifact_service_uri")]
    artifact_service_uri: Option<String>,
    /// A folder with ADK's web UI, to be served under /dev-ui/
    #[arg(long, alias = "ui_dir", env = "RETAIN_UI_DIR", value_name = "DIR")]
    #[serde(alias = "ui_dir")]
    ui_dir: Option<PathBuf>,
    /// An origin whose pages may use this server: literally, regex:PATTERN, or * for all. Can be
    /// given several times [default: none]
    #[arg(long, alias = "allow_origins", env = "RETAIN_ALLOW_ORIGINS")]
    #[arg(value_name = "ORIGIN", value_delimiter = ' ', action = ArgAction::Append)]
    #[serde(alias = "allow_origins")]
    allow_origins: Option<Vec<String>>,
    /// Replay recordings that a session's state names by their paths; for Google's conformance
    /// tests, on a loopback address only
    #[arg(long, env = "RETAIN_CONFORMANCE", value_name = "BOOL")]
    #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    conformance: Option<bool>,
    /// Read the files of agents again when they have changed
    #[arg(
        long,
        alias = "reload_agents",
        env = "RETAIN_RELOAD_AGENTS",
        value_name = "BOOL"
    )]
    #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    #[serde(alias = "reload_agents")]
    reload_agents: Option<bool>,
    /// Make the session of a run where there is none
    #[arg(
        long,
        alias = "auto_create_session",
        env = "RETAIN_AUTO_CREATE_SESSION"
    )]
    #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    #[serde(alias = "auto_create_session")]
    auto_create_session: Option<bool>,
    /// Let requests take a run up again by its invocationId: runs then store how far each agent has
    /// come, as events that clients see
    #[arg(long, env = "RETAIN_RESUMABLE", value_name = "BOOL")]
    #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    resumable: Option<bool>,
    /// Remember what is said in every run
    #[arg(long, alias = "ingest_after_turns", env = "RETAIN_INGEST_AFTER_TURNS")]
    #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    #[serde(alias = "ingest_after_turns")]
    ingest_after_turns: Option<bool>,
    /// A key for everything, beside those of `retain keys`. Better given by the environment: others
    /// on this machine can read the arguments of a program
    #[arg(
        long,
        alias = "api_key",
        env = "RETAIN_API_KEY",
        hide_env_values = true
    )]
    #[arg(value_name = "KEY")]
    #[serde(alias = "api_key")]
    api_key: Option<String>,
    /// How many model calls a run may make; 0 or less is no limit [default: 500]
    #[arg(
        long,
        alias = "max_llm_calls",
        env = "RETAIN_MAX_LLM_CALLS",
        value_name = "N",
        allow_negative_numbers = true
    )]
    #[serde(alias = "max_llm_calls")]
    max_llm_calls: Option<i64>,
    /// How long running turns may go on once the server is told to stop [default: 10]
    #[arg(
        long,
        alias = "shutdown_grace",
        env = "RETAIN_SHUTDOWN_GRACE",
        value_name = "SECONDS"
    )]
    #[serde(alias = "shutdown_grace")]
    shutdown_grace: Option<f64>,
    /// Bytes of a request's body [default: 33554432]
    #[arg(
        long,
        alias = "max_body_bytes",
        env = "RETAIN_MAX_BODY_BYTES",
        value_name = "N"
    )]
    #[serde(alias = "max_body_bytes")]
    max_body_bytes: Option<usize>,
    /// Bytes of a request's headers [default: 65536]
    #[arg(
        long,
        alias = "max_header_bytes",
        env = "RETAIN_MAX_HEADER_BYTES",
        value_name = "N"
    )]
    #[serde(alias = "max_header_bytes")]
    max_header_bytes: Option<usize>,
    /// How long a client may take for its headers, or wait with its next request [default: 30]
    #[arg(
        long,
        alias = "header_timeout",
        env = "RETAIN_HEADER_TIMEOUT",
        value_name = "SECONDS"
    )]
    #[serde(alias = "header_timeout")]
    header_timeout: Option<f64>,
    /// How long a client may make the server wait for more of a body [default: 30]
    #[arg(
        long,
        alias = "body_timeout",
        env = "RETAIN_BODY_TIMEOUT",
        value_name = "SECONDS"
    )]
    #[serde(alias = "body_timeout")]
    body_timeout: Option<f64>,
    /// How long a client may take nothing of what it is sent [default: 60]
    #[arg(
        long,
        alias = "write_timeout",
        env = "RETAIN_WRITE_TIMEOUT",
        value_name = "SECONDS"
    )]
    #[serde(alias = "write_timeout")]
    write_timeout: Option<f64>,
    /// Connections at a time [default: 20000]
    #[arg(
        long,
        alias = "max_connections",
        env = "RETAIN_MAX_CONNECTIONS",
        value_name = "N"
    )]
    #[serde(alias = "max_connections")]
    max_connections: Option<usize>,
    /// Turns that run at a time [default: 1024]
    #[arg(long, alias = "max_runs", env = "RETAIN_MAX_RUNS", value_name = "N")]
    #[serde(alias = "max_runs")]
    max_runs: Option<usize>,
    /// Turns of one user that run at a time [default: 8]
    #[arg(
        long,
        alias = "max_runs_per_user",
        env = "RETAIN_MAX_RUNS_PER_USER",
        value_name = "N"
    )]
    #[serde(alias = "max_runs_per_user")]
    max_runs_per_user: Option<usize>,
    /// Requests that one key may make in a second [default: 100]
    #[arg(
        long,
        alias = "requests_per_key",
        env = "RETAIN_REQUESTS_PER_KEY",
        value_name = "N"
    )]
    #[serde(alias = "requests_per_key")]
    requests_per_key: Option<f64>,
    /// Streams and turns that one key may have open at a time [default: 10000]
    #[arg(
        long,
        alias = "max_streams_per_key",
        env = "RETAIN_MAX_STREAMS_PER_KEY",
        value_name = "N"
    )]
    #[serde(alias = "max_streams_per_key")]
    max_streams_per_key: Option<usize>,
    /// Streams that one user may have open at a time [default: 1000]
    #[arg(
        long,
        alias = "max_streams_per_user",
        env = "RETAIN_MAX_STREAMS_PER_USER",
        value_name = "N"
    )]
    #[serde(alias = "max_streams_per_user")]
    max_streams_per_user: Option<usize>,
    /// Let exported spans say what was said: requests, answers, arguments and results [default: as
    /// ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS says, and no where it is not set]
    #[arg(
        long,
        alias = "capture_message_content",
        env = "RETAIN_CAPTURE_MESSAGE_CONTENT"
    )]
    #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    #[serde(alias = "capture_message_content")]
    capture_message_content: Option<bool>,
    /// How the log is written, on standard error [default: text]
    #[arg(long, alias = "log_format", env = "RETAIN_LOG_FORMAT", value_enum)]
    #[serde(alias = "log_format")]
    log_format: Option<LogFormat>,
    /// What is logged: debug, info, warning, error or off [default: info]
    #[arg(
        long,
        alias = "log_level",
        env = "RETAIN_LOG_LEVEL",
        value_name = "LEVEL"
    )]
    #[serde(alias = "log_level")]
    log_level: Option<String>,
    /// As --log-level debug
    #[arg(short, long)]
    #[serde(skip)]
    verbose: bool,
    #[command(flatten)]
    #[serde(skip)]
    of_adk: OptionsOfAdk,
}

/// How many model calls a run may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LlmCalls {
    /// Any number if `None`.
    pub(super) limit: Option<u32>,
}

impl LlmCalls {
    /// As ADK means the number: none or less than none is no limit.
    fn of(number: i64) -> LlmCalls {
        let limit = (number > 0).then(|| u32::try_from(number).unwrap_or(u32::MAX));
        LlmCalls { limit }
    }
}

/// What a server is told, with a value for everything.
#[derive(Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) agents_dir: Option<PathBuf>,
    pub(super) default_app: Option<String>,
    pub(super) model: Option<String>,
    pub(super) models: ModelSections,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) session_service_uri: String,
    pub(super) memory_service_uri: Option<String>,
    pub(super) embedder: Option<String>,
    pub(super) artifact_service_uri: Option<String>,
    pub(super) ui_dir: Option<PathBuf>,
    pub(super) allow_origins: Vec<String>,
    pub(super) conformance: bool,
    pub(super) reload_agents: bool,
    pub(super) auto_create_session: bool,
    pub(super) resumable: bool,
    pub(super) ingest_after_turns: bool,
    pub(super) api_key: Option<String>,
    pub(super) limits: ServerLimits,
    pub(super) max_runs: usize,
    pub(super) max_runs_per_user: usize,
    pub(super) max_llm_calls: Option<LlmCalls>,
    pub(super) capture_message_content: Option<bool>,
    pub(super) log_format: LogFormat,
    pub(super) log_level: String,
}

impl Settings {
    /// What was given, over what stands in the file, over what is usual.
    pub(super) fn of(given: Given, file: Option<&Path>) -> anyhow::Result<Settings> {
        given.of_adk.refuse()?;
        let verbose = given.verbose;
        let given = given.over(read(file)?);
        let limits = given.limits()?;
        let api_key = given.api_key;
        if api_key.as_deref().is_some_and(|key| key.len() < 16) {
            anyhow::bail!("the API key is too short to be one: give at least 16 characters");
        }
        let log_level = given.log_level.unwrap_or_else(|| "info".to_owned());
        Ok(Settings {
            agents_dir: given.agents_dir,
            default_app: given.default_app,
            model: given.model,
            models: given.models.unwrap_or_default(),
            host: given.host.unwrap_or_else(|| "127.0.0.1".to_owned()),
            port: given.port.unwrap_or(8000),
            session_service_uri: given
                .session_service_uri
                .unwrap_or_else(|| DEFAULT_STORE.to_owned()),
            memory_service_uri: given.memory_service_uri,
            embedder: given.embedder,
            artifact_service_uri: given.artifact_service_uri,
            ui_dir: given.ui_dir,
            allow_origins: given.allow_origins.unwrap_or_default(),
            conformance: given.conformance.unwrap_or(false),
            reload_agents: given.reload_agents.unwrap_or(false),
            auto_create_session: given.auto_create_session.unwrap_or(false),
            resumable: given.resumable.unwrap_or(false),
            ingest_after_turns: given.ingest_after_turns.unwrap_or(false),
            api_key,
            limits,
            max_runs: given.max_runs.unwrap_or(1024),
            max_runs_per_user: given.max_runs_per_user.unwrap_or(8),
            max_llm_calls: given.max_llm_calls.map(LlmCalls::of),
            capture_message_content: given.capture_message_content,
            log_format: given.log_format.unwrap_or(LogFormat::Text),
            log_level: if verbose {
                "debug".to_owned()
            } else {
                log_level
            },
        })
    }
}

/// Field by field: the first, or else the second.
macro_rules! first_or_second {
    ($first:ident, $second:ident: $($field:ident),* $(,)?) => {
        Given { $($field: $first.$field.or($second.$field),)* ..$first }
    };
}

impl Given {
    fn over(self, file: Given) -> Given {
        first_or_second!(
            self, file: agents_dir, default_app, model, models, host, port, session_service_uri, memory_service_uri,
            embedder, artifact_service_uri, ui_dir, allow_origins, conformance, reload_agents,
            auto_create_session, resumable, ingest_after_turns, api_key, shutdown_grace, max_body_bytes,
            max_header_bytes, header_timeout, body_timeout, write_timeout, max_connections,
            max_runs, max_runs_per_user, max_llm_calls, requests_per_key, max_streams_per_key, max_streams_per_user,
            capture_message_content, log_format, log_level,
        )
    }

    fn limits(&self) -> anyhow::Result<ServerLimits> {
        let usual = ServerLimits::default();
        let seconds = |name: &str, given: Option<f64>, usual: Duration| match given {
            None => Ok(usual),
            Some(given) => Duration::try_from_secs_f64(given)
                .with_context(|| format!("{name} {given} is no number of seconds")),
        };
        let requests_per_key = self.requests_per_key.unwrap_or(usual.requests_per_key);
        if !(requests_per_key > 0.0 && requests_per_key.is_finite()) {
            anyhow::bail!("--requests-per-key {requests_per_key} is not more than none");
        }
        Ok(ServerLimits {
            body_bytes: self.max_body_bytes.unwrap_or(usual.body_bytes),
            header_bytes: self.max_header_bytes.unwrap_or(usual.header_bytes),
            header_timeout: seconds(
                "--header-timeout",
                self.header_timeout,
                usual.header_timeout,
            )?,
            body_timeout: seconds("--body-timeout", self.body_timeout, usual.body_timeout)?,
            write_timeout: seconds("--write-timeout", self.write_timeout, usual.write_timeout)?,
            connections: self.max_connections.unwrap_or(usual.connections).max(1),
            requests_per_key,
            streams_per_key: self.max_streams_per_key.unwrap_or(usual.streams_per_key),
            streams_per_user: self.max_streams_per_user.unwrap_or(usual.streams_per_user),
            shutdown_grace: seconds(
                "--shutdown-grace",
                self.shutdown_grace,
                usual.shutdown_grace,
            )?,
            ..usual
        })
    }
}

/// Where a server keeps its sessions that is started here without options.
pub(crate) fn store_of_server() -> anyhow::Result<String> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(uri) = set("RETAIN_SESSION_SERVICE_URI") {
        let uri = uri.into_string();
        return uri.map_err(|_| anyhow::anyhow!("RETAIN_SESSION_SERVICE_URI is no text"));
    }
    let file = set("RETAIN_CONFIG").map(PathBuf::from);
    let uri = read(file.as_deref())?.session_service_uri;
    Ok(uri.unwrap_or_else(|| DEFAULT_STORE.to_owned()))
}

/// What stands in the file. One that is named must be there.
fn read(file: Option<&Path>) -> anyhow::Result<Given> {
    let path = file.unwrap_or(Path::new(DEFAULT_FILE));
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound && file.is_none() => {
            return Ok(Given::default());
        }
        read => read.with_context(|| format!("{} cannot be read", path.display()))?,
    };
    toml::from_str(&text).map_err(|error| {
        let told = told(&error, &text);
        anyhow::anyhow!("{} cannot be used: {told}", path.display())
    })
}

/// What is wrong with a file, and in which line. The error itself would show the line and what stands
/// in it, which may be a key.
fn told(error: &toml::de::Error, text: &str) -> String {
    let message = error.message();
    let message = match (message.find('"'), message.rfind('"')) {
        (Some(first), Some(last)) if first < last => {
            format!("{}…{}", &message[..first], &message[last + 1..])
        }
        _ => message.to_owned(),
    };
    let Some(span) = error.span() else {
        return message;
    };
    let line = text
        .get(..span.start)
        .unwrap_or_default()
        .matches('\n')
        .count();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name = text.lines().nth(line).and_then(|line| line.split_once('='));
    let name = name.map(|(name, _)| name.trim());
    let line = line + 1;
    match name.filter(|name| name.chars().all(is_name)) {
        Some(name) => format!("line {line}, {name}: {message}"),
        None => format!("line {line}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, FromArgMatches as _, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        given: Given,
    }

    /// What stands on the line; the environment of whoever runs the tests is not looked at.
    fn given(arguments: &[&str]) -> Given {
        let line = std::iter::once(&"retain").chain(arguments);
        let command = Line::command().mut_args(|arg| arg.env(None::<&'static str>));
        let matches = command.try_get_matches_from(line).unwrap();
        Line::from_arg_matches(&matches).unwrap().given
    }

    fn settings(arguments: &[&str], file: &str) -> anyhow::Result<Settings> {
        let folder = retain_testkit::scratch::folder();
        let path = folder.path().join("settings.toml");
        std::fs::write(&path, file).unwrap();
        Settings::of(given(arguments), Some(&path))
    }

    #[test]
    fn without_a_word_the_documented_defaults_hold() {
        let settings = settings(&[], "").unwrap();
        assert_eq!((settings.host.as_str(), settings.port), ("127.0.0.1", 8000));
        assert_eq!(settings.session_service_uri, DEFAULT_STORE);
        assert_eq!(settings.limits, ServerLimits::default());
        assert_eq!((settings.max_runs, settings.max_runs_per_user), (1024, 8));
        assert!(!settings.conformance && settings.allow_origins.is_empty());
    }

    /// Every setting as an option and as a line of a file, with different values.
    const BOTH: [(&str, &str, &str); 31] = [
        ("--default-app", "a", "\"b\""),
        ("--model", "a", "\"b\""),
        ("--host", "127.0.0.2", "\"127.0.0.3\""),
        ("--port", "1", "2"),
        ("--session-service-uri", "memory://", "\"sqlite:///b.db\""),
        ("--memory-service-uri", "memory://", "\"sqlite:///b.db\""),
        ("--embedder", "ollama/a@1", "\"ollama/b@2\""),
        ("--artifact-service-uri", "memory://", "\"sqlite:///b.db\""),
        ("--ui-dir", "a", "\"b\""),
        ("--allow-origins", "http://a", "[\"http://b\"]"),
        ("--conformance=true", "", "false"),
        ("--reload-agents=true", "", "false"),
        ("--auto-create-session=true", "", "false"),
        ("--resumable=true", "", "false"),
        ("--ingest-after-turns=true", "", "false"),
        ("--api-key", "aaaaaaaaaaaaaaaa", "\"bbbbbbbbbbbbbbbb\""),
        ("--max-llm-calls", "1", "2"),
        ("--shutdown-grace", "1.5", "2.5"),
        ("--max-body-bytes", "1", "2"),
        ("--max-header-bytes", "1", "2"),
        ("--header-timeout", "1", "2.0"),
        ("--body-timeout", "1", "2.0"),
        ("--write-timeout", "1", "2.0"),
        ("--max-connections", "1", "2"),
        ("--max-runs", "1", "2"),
        ("--max-runs-per-user", "1", "2"),
        ("--requests-per-key", "1", "2.0"),
        ("--max-streams-per-key", "1", "2"),
        ("--max-streams-per-user", "1", "2"),
        ("--capture-message-content=true", "", "false"),
        ("--log-level", "debug", "\"error\""),
    ];

    #[test]
    fn options_win_over_the_file_and_the_file_over_defaults() {
        for (option, value, in_file) in BOTH {
            let name = option.trim_start_matches('-').replace("=true", "");
            let mut line = vec![option];
            line.extend(Some(value).filter(|value| !value.is_empty()));
            for name in [name.clone(), name.replace('-', "_")] {
                let file = format!("{name} = {in_file}\n");
                let option_alone = settings(&line, "").unwrap();
                assert_eq!(settings(&line, &file).unwrap(), option_alone, "{option}");
                let file_alone = settings(&[], &file).unwrap();
                assert_ne!(file_alone, option_alone, "{file}");
                if in_file != "false" {
                    assert_ne!(file_alone, settings(&[], "").unwrap(), "{file}");
                }
            }
        }
    }

    #[test]
    fn adk_spells_with_underscores() {
        for (option, value, _) in BOTH {
            let mut lines = [
                option.to_owned(),
                format!("--{}", option[2..].replace('-', "_")),
            ]
            .map(|option| vec![option, value.to_owned()]);
            lines
                .iter_mut()
                .for_each(|line| line.retain(|word| !word.is_empty()));
            let [ours, adks] = lines.map(|line| {
                let line: Vec<&str> = line.iter().map(String::as_str).collect();
                settings(&line, "").unwrap()
            });
            assert_eq!(ours, adks, "{option}");
        }
        given(&["--no-reload", "agents"]);
        given(&["--reload", "--reload_agents", "agents"]);
        assert_eq!(settings(&["-v"], "").unwrap().log_level, "debug");
    }

    #[test]
    fn a_limit_of_model_calls_is_a_number_as_adk_means_it() {
        let limit = |number: &str| {
            let settings = settings(&["--max_llm_calls", number], "").unwrap();
            settings.max_llm_calls.unwrap().limit
        };
        assert_eq!(limit("20"), Some(20));
        assert_eq!((limit("0"), limit("-1")), (None, None));
        assert_eq!(limit("5000000000"), Some(u32::MAX));
        assert_eq!(settings(&[], "").unwrap().max_llm_calls, None);
        let of_file = settings(&[], "max_llm_calls = -1").unwrap();
        assert_eq!(of_file.max_llm_calls, Some(LlmCalls { limit: None }));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let refused = |line: &[&str], file: &str, about: &str| {
            let error = format!("{:#}", settings(line, file).unwrap_err());
            assert!(error.contains(about), "{error}");
        };
        refused(&[], "prot = 1", "prot");
        refused(&[], "port = \"x\"", "port");
        refused(&["--shutdown-grace=-1"], "", "--shutdown-grace");
        refused(&["--requests-per-key", "0"], "", "--requests-per-key");
        refused(&["--api-key", "short"], "", "16 characters");
        for file in [
            "[models.openai]\napi-key = \"sk-canary\" x",
            "[models.openai]\napi-key = \"sk-canary",
            "[models.openai]\napi-key = sk-canary",
            "[models.openai]\napi-key = [\"sk-canary\"]",
            "[models]\nopenai = \"sk-canary\"",
            "models = \"sk-canary\"",
            "api-key = { is = \"sk-canary\" }",
            "port = \"sk-canary\"",
        ] {
            let error = settings(&[], file).unwrap_err();
            let told = format!("{error:#} {error:?}");
            assert!(told.contains("line ") && !told.contains("canary"), "{told}");
        }
        let missing = Settings::of(given(&[]), Some(Path::new("no such file")));
        assert!(format!("{:#}", missing.unwrap_err()).contains("no such file"));
    }
}
