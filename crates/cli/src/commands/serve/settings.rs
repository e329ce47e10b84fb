//! Settings of the server: options override the environment, then the file, then defaults.

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

use super::{adk_options::AdkOptions, memory_limit::MemoryLimit};
use crate::commands::services::{ServiceUris, UrisInFile};

/// The settings file that the server reads if none is named and this one exists.
const DEFAULT_FILE: &str = "retain.toml";

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum LogFormat {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

/// The section `models` of a file: settings by provider.
pub(super) type ModelSections = BTreeMap<String, BTreeMap<String, SettingValue>>;

/// The value of a provider's setting. `Debug` hides it, because it may be an API key.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(untagged)]
#[cfg_attr(not(feature = "models"), allow(dead_code))]
pub(super) enum SettingValue {
    Text(String),
    Flag(bool),
    Number(f64),
}

impl fmt::Debug for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[not shown]")
    }
}

/// Settings from options, the environment, or a file.
#[derive(Debug, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(super) struct PartialSettings {
    /// Folder of agents: each subfolder with a root_agent.yaml is an app [default: a built-in app]
    #[arg(env = "RETAIN_AGENTS_DIR")]
    #[serde(alias = "agents_dir")]
    agents_dir: Option<PathBuf>,
    /// App for requests that do not name one [default: the folder, if it is an agent itself]
    #[arg(
        long,
        alias = "default_app",
        env = "ADK_DEFAULT_APP_NAME",
        value_name = "APP"
    )]
    #[serde(alias = "default_app")]
    default_app: Option<String>,
    /// Model of the built-in app, e.g. gemini-3.5-flash, claude-sonnet-5, openai/gpt-4o,
    /// ollama/llama3.2 or offline [default: the best model that has an API key]
    #[arg(long, env = "RETAIN_MODEL", value_name = "NAME")]
    model: Option<String>,
    /// API keys and URLs of models, by provider.
    #[arg(skip)]
    models: Option<ModelSections>,
    /// Address to listen on [default: 127.0.0.1]
    #[arg(long, env = "RETAIN_HOST")]
    host: Option<String>,
    /// Port to listen on; 0 picks a free one [default: 8000]
    #[arg(long, env = "RETAIN_PORT")]
    port: Option<u16>,
    /// Session store: sqlite:///relative.db, sqlite:////absolute.db,
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
    /// Memory store: sqlite:///…, postgresql://…, or memory:// for ADK's own word matching [default:
    /// the session store]
    #[arg(long, alias = "memory_service_uri", value_name = "URI")]
    #[arg(env = "RETAIN_MEMORY_SERVICE_URI")]
    #[serde(alias = "memory_service_uri")]
    memory_service_uri: Option<String>,
    /// Embedding model for semantic memory search: gemini/MODEL, openai/MODEL or ollama/MODEL, with
    /// @DIMENSIONS for unknown models [default: none]
    #[arg(long, env = "RETAIN_EMBEDDER", value_name = "NAME")]
    embedder: Option<String>,
    /// Artifact store: sqlite:///…, postgresql://…, file:///folder or memory:// [default: the session store]
    #[arg(long, alias = "artifact_service_uri", alias = "artifact_storage_uri")]
    #[arg(env = "RETAIN_ARTIFACT_SERVICE_URI", value_name = "URI")]
    #[serde(alias = "artifact_service_uri")]
    artifact_service_uri: Option<String>,
    /// Folder with ADK's web UI, served at /dev-ui/
    #[arg(long, alias = "ui_dir", env = "RETAIN_UI_DIR", value_name = "DIR")]
    #[serde(alias = "ui_dir")]
    ui_dir: Option<PathBuf>,
    /// Origin whose pages may use this server: a literal origin, regex:PATTERN, or * for all;
    /// repeatable [default: none]
    #[arg(long, alias = "allow_origins", env = "RETAIN_ALLOW_ORIGINS")]
    #[arg(value_name = "ORIGIN", value_delimiter = ' ', action = ArgAction::Append)]
    #[serde(alias = "allow_origins")]
    allow_origins: Option<Vec<String>>,
    /// Replay recordings that a session's state names by path, for Google's conformance tests;
    /// loopback addresses only
    #[arg(long, env = "RETAIN_CONFORMANCE", value_name = "BOOL")]
    #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    conformance: Option<bool>,
    /// Reload agents when their files change
    #[arg(
        long,
        alias = "reload_agents",
        env = "RETAIN_RELOAD_AGENTS",
        value_name = "BOOL"
    )]
    #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    #[serde(alias = "reload_agents")]
    reload_agents: Option<bool>,
    /// Create the session of a run if it does not exist
    #[arg(
        long,
        alias = "auto_create_session",
        env = "RETAIN_AUTO_CREATE_SESSION"
    )]
    #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    #[serde(alias = "auto_create_session")]
    auto_create_session: Option<bool>,
    /// Let requests resume a run by its invocationId; runs then store checkpoints as events that
    /// clients see
    #[arg(long, env = "RETAIN_RESUMABLE", value_name = "BOOL")]
    #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    resumable: Option<bool>,
    /// Ingest every run into memory
    #[arg(long, alias = "ingest_after_turns", env = "RETAIN_INGEST_AFTER_TURNS")]
    #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    #[serde(alias = "ingest_after_turns")]
    ingest_after_turns: Option<bool>,
    /// API key with all permissions, in addition to those of `retain keys`. Prefer the environment
    /// variable: other users of this machine can read a program's arguments
    #[arg(
        long,
        alias = "api_key",
        env = "RETAIN_API_KEY",
        hide_env_values = true
    )]
    #[arg(value_name = "KEY")]
    #[serde(alias = "api_key")]
    api_key: Option<String>,
    /// Maximum number of model calls per run; 0 or less disables the limit [default: 500]
    #[arg(
        long,
        alias = "max_llm_calls",
        env = "RETAIN_MAX_LLM_CALLS",
        value_name = "N",
        allow_negative_numbers = true
    )]
    #[serde(alias = "max_llm_calls")]
    max_llm_calls: Option<i64>,
    /// Seconds that active runs get to finish at shutdown [default: 10]
    #[arg(
        long,
        alias = "shutdown_grace",
        env = "RETAIN_SHUTDOWN_GRACE",
        value_name = "SECONDS"
    )]
    #[serde(alias = "shutdown_grace")]
    shutdown_grace: Option<f64>,
    /// Seconds between two sweeps, which finish the work of crashed runs and delete expired sessions
    /// and memories; 0 disables them [default: 60]
    #[arg(
        long,
        alias = "sweep_interval",
        env = "RETAIN_SWEEP_INTERVAL",
        value_name = "SECONDS"
    )]
    #[serde(alias = "sweep_interval")]
    sweep_interval: Option<f64>,
    /// Maximum memory for requests, streams and caches, e.g. 512MB or 2GiB; 0 disables the limit.
    /// Above it, new requests wait or get 503 [default: half of the machine's or cgroup's memory]
    #[arg(
        long,
        alias = "memory_limit",
        env = "RETAIN_MEMORY_LIMIT",
        value_name = "SIZE"
    )]
    #[serde(alias = "memory_limit")]
    memory_limit: Option<MemoryLimit>,
    /// Maximum size of a request body in bytes [default: 33554432]
    #[arg(
        long,
        alias = "max_body_bytes",
        env = "RETAIN_MAX_BODY_BYTES",
        value_name = "N"
    )]
    #[serde(alias = "max_body_bytes")]
    max_body_bytes: Option<usize>,
    /// Maximum size of the request headers in bytes [default: 65536]
    #[arg(
        long,
        alias = "max_header_bytes",
        env = "RETAIN_MAX_HEADER_BYTES",
        value_name = "N"
    )]
    #[serde(alias = "max_header_bytes")]
    max_header_bytes: Option<usize>,
    /// Header timeout: maximum time to receive the headers, and between two requests [default: 30]
    #[arg(
        long,
        alias = "header_timeout",
        env = "RETAIN_HEADER_TIMEOUT",
        value_name = "SECONDS"
    )]
    #[serde(alias = "header_timeout")]
    header_timeout: Option<f64>,
    /// Body timeout: close the connection if no more of the body arrives for this long [default: 30]
    #[arg(
        long,
        alias = "body_timeout",
        env = "RETAIN_BODY_TIMEOUT",
        value_name = "SECONDS"
    )]
    #[serde(alias = "body_timeout")]
    body_timeout: Option<f64>,
    /// Write timeout: close the connection if the client reads nothing for this long [default: 60]
    #[arg(
        long,
        alias = "write_timeout",
        env = "RETAIN_WRITE_TIMEOUT",
        value_name = "SECONDS"
    )]
    #[serde(alias = "write_timeout")]
    write_timeout: Option<f64>,
    /// Maximum number of open connections [default: 20000]
    #[arg(
        long,
        alias = "max_connections",
        env = "RETAIN_MAX_CONNECTIONS",
        value_name = "N"
    )]
    #[serde(alias = "max_connections")]
    max_connections: Option<usize>,
    /// Maximum number of concurrent runs [default: 1024]
    #[arg(long, alias = "max_runs", env = "RETAIN_MAX_RUNS", value_name = "N")]
    #[serde(alias = "max_runs")]
    max_runs: Option<usize>,
    /// Maximum number of concurrent runs per user [default: 8]
    #[arg(long, alias = "max_runs_per_user", value_name = "N")]
    #[arg(env = "RETAIN_MAX_RUNS_PER_USER")]
    #[serde(alias = "max_runs_per_user")]
    max_runs_per_user: Option<usize>,
    /// Maximum number of requests per second and API key [default: 100]
    #[arg(
        long,
        alias = "requests_per_key",
        env = "RETAIN_REQUESTS_PER_KEY",
        value_name = "N"
    )]
    #[serde(alias = "requests_per_key")]
    requests_per_key: Option<f64>,
    /// Maximum number of open streams and runs per API key [default: 10000]
    #[arg(
        long,
        alias = "max_streams_per_key",
        env = "RETAIN_MAX_STREAMS_PER_KEY",
        value_name = "N"
    )]
    #[serde(alias = "max_streams_per_key")]
    max_streams_per_key: Option<usize>,
    /// Maximum number of open streams and runs per user [default: 1000]
    #[arg(long, alias = "max_streams_per_user", value_name = "N")]
    #[arg(env = "RETAIN_MAX_STREAMS_PER_USER")]
    #[serde(alias = "max_streams_per_user")]
    max_streams_per_user: Option<usize>,
    /// Maximum number of sessions per user; 0 is unlimited [default: 0]
    #[arg(long, alias = "max_sessions_per_user", value_name = "N")]
    #[arg(env = "RETAIN_MAX_SESSIONS_PER_USER")]
    #[serde(alias = "max_sessions_per_user")]
    pub(super) max_sessions_per_user: Option<u64>,
    /// Maximum number of events per user; 0 is unlimited [default: 0]
    #[arg(long, alias = "max_events_per_user", value_name = "N")]
    #[arg(env = "RETAIN_MAX_EVENTS_PER_USER")]
    #[serde(alias = "max_events_per_user")]
    pub(super) max_events_per_user: Option<u64>,
    /// Maximum bytes of events per user; 0 is unlimited [default: 0]
    #[arg(long, alias = "max_event_bytes_per_user", value_name = "N")]
    #[arg(env = "RETAIN_MAX_EVENT_BYTES_PER_USER")]
    #[serde(alias = "max_event_bytes_per_user")]
    pub(super) max_event_bytes_per_user: Option<u64>,
    /// Maximum bytes of artifacts per user; 0 is unlimited [default: 0]
    #[arg(long, alias = "max_artifact_bytes_per_user", value_name = "N")]
    #[arg(env = "RETAIN_MAX_ARTIFACT_BYTES_PER_USER")]
    #[serde(alias = "max_artifact_bytes_per_user")]
    pub(super) max_artifact_bytes_per_user: Option<u64>,
    /// Maximum number of memories per user; 0 is unlimited [default: 1000000]
    #[arg(long, alias = "max_memories_per_user", value_name = "N")]
    #[arg(env = "RETAIN_MAX_MEMORIES_PER_USER")]
    #[serde(alias = "max_memories_per_user")]
    pub(super) max_memories_per_user: Option<u64>,
    /// Maximum number of sessions per app; 0 is unlimited [default: 0]
    #[arg(long, alias = "max_sessions_per_app", value_name = "N")]
    #[arg(env = "RETAIN_MAX_SESSIONS_PER_APP")]
    #[serde(alias = "max_sessions_per_app")]
    pub(super) max_sessions_per_app: Option<u64>,
    /// Maximum number of events per app; 0 is unlimited [default: 0]
    #[arg(long, alias = "max_events_per_app", value_name = "N")]
    #[arg(env = "RETAIN_MAX_EVENTS_PER_APP")]
    #[serde(alias = "max_events_per_app")]
    pub(super) max_events_per_app: Option<u64>,
    /// Maximum bytes of events per app; 0 is unlimited [default: 0]
    #[arg(long, alias = "max_event_bytes_per_app", value_name = "N")]
    #[arg(env = "RETAIN_MAX_EVENT_BYTES_PER_APP")]
    #[serde(alias = "max_event_bytes_per_app")]
    pub(super) max_event_bytes_per_app: Option<u64>,
    /// Maximum bytes of artifacts per app; 0 is unlimited [default: 0]
    #[arg(long, alias = "max_artifact_bytes_per_app", value_name = "N")]
    #[arg(env = "RETAIN_MAX_ARTIFACT_BYTES_PER_APP")]
    #[serde(alias = "max_artifact_bytes_per_app")]
    pub(super) max_artifact_bytes_per_app: Option<u64>,
    /// Maximum number of memories per app; 0 is unlimited [default: 0]
    #[arg(long, alias = "max_memories_per_app", value_name = "N")]
    #[arg(env = "RETAIN_MAX_MEMORIES_PER_APP")]
    #[serde(alias = "max_memories_per_app")]
    pub(super) max_memories_per_app: Option<u64>,
    /// Bytes of the file system of a SQLite database that must stay free: below that, only deletions
    /// are admitted; 0 disables the check [default: 67108864, at most 5 % of the file system]
    #[arg(long, alias = "min_free_space", value_name = "BYTES")]
    #[arg(env = "RETAIN_MIN_FREE_SPACE")]
    #[serde(alias = "min_free_space")]
    pub(super) min_free_space: Option<u64>,
    /// Include requests, answers, arguments and results in exported spans [default:
    /// ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS, or false]
    #[arg(
        long,
        alias = "capture_message_content",
        env = "RETAIN_CAPTURE_MESSAGE_CONTENT"
    )]
    #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    #[serde(alias = "capture_message_content")]
    capture_message_content: Option<bool>,
    /// Format of the log on standard error [default: text]
    #[arg(long, alias = "log_format", env = "RETAIN_LOG_FORMAT", value_enum)]
    #[serde(alias = "log_format")]
    log_format: Option<LogFormat>,
    /// Log level: debug, info, warning, error or off [default: info]
    #[arg(
        long,
        alias = "log_level",
        env = "RETAIN_LOG_LEVEL",
        value_name = "LEVEL"
    )]
    #[serde(alias = "log_level")]
    log_level: Option<String>,
    /// Same as --log-level debug
    #[arg(short, long)]
    #[serde(skip)]
    verbose: bool,
    #[command(flatten)]
    #[serde(skip)]
    adk_options: AdkOptions,
}

/// The limit of model calls per run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LlmCallLimit {
    /// `None` disables the limit.
    pub(super) limit: Option<u32>,
}

impl LlmCallLimit {
    /// Converts the setting as ADK does: 0 or less disables the limit.
    fn new(number: i64) -> LlmCallLimit {
        let limit = (number > 0).then(|| u32::try_from(number).unwrap_or(u32::MAX));
        LlmCallLimit { limit }
    }
}

/// The complete settings of a server.
#[derive(Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) agents_dir: Option<PathBuf>,
    pub(super) default_app: Option<String>,
    pub(super) model: Option<String>,
    pub(super) models: ModelSections,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) uris: ServiceUris,
    pub(super) embedder: Option<String>,
    pub(super) ui_dir: Option<PathBuf>,
    pub(super) allow_origins: Vec<String>,
    pub(super) conformance: bool,
    pub(super) reload_agents: bool,
    pub(super) auto_create_session: bool,
    pub(super) resumable: bool,
    pub(super) ingest_after_turns: bool,
    pub(super) api_key: Option<String>,
    /// `None` for the default.
    pub(super) memory_limit: Option<MemoryLimit>,
    pub(super) limits: ServerLimits,
    pub(super) sweep_interval: Duration,
    pub(super) max_runs: usize,
    pub(super) max_runs_per_user: usize,
    pub(super) max_llm_calls: Option<LlmCallLimit>,
    pub(super) capture_message_content: Option<bool>,
    pub(super) log_format: LogFormat,
    pub(super) log_level: String,
}

impl Settings {
    /// Merges the options and the environment with the file and the defaults.
    pub(super) fn resolve(given: PartialSettings, file: Option<&Path>) -> anyhow::Result<Settings> {
        given.adk_options.refuse()?;
        let verbose = given.verbose;
        let given = given.with_fallback(read(file)?);
        let limits = given.limits()?;
        let sweep_interval = seconds(
            "--sweep-interval",
            given.sweep_interval,
            Duration::from_secs(60),
        )?;
        let store_limits = given.store_limits();
        let api_key = given.api_key;
        if api_key.as_deref().is_some_and(|key| key.len() < 16) {
            anyhow::bail!("--api-key is too short: use at least 16 characters");
        }
        let log_level = given.log_level.unwrap_or_else(|| "info".to_owned());
        Ok(Settings {
            agents_dir: given.agents_dir,
            default_app: given.default_app,
            model: given.model,
            models: given.models.unwrap_or_default(),
            host: given.host.unwrap_or_else(|| "127.0.0.1".to_owned()),
            port: given.port.unwrap_or(8000),
            uris: ServiceUris::new(
                given.session_service_uri,
                given.memory_service_uri,
                given.artifact_service_uri,
            )
            .with_limits(store_limits),
            embedder: given.embedder,
            ui_dir: given.ui_dir,
            allow_origins: given.allow_origins.unwrap_or_default(),
            conformance: given.conformance.unwrap_or(false),
            reload_agents: given.reload_agents.unwrap_or(false),
            auto_create_session: given.auto_create_session.unwrap_or(false),
            resumable: given.resumable.unwrap_or(false),
            ingest_after_turns: given.ingest_after_turns.unwrap_or(false),
            api_key,
            memory_limit: given.memory_limit,
            limits,
            sweep_interval,
            max_runs: given.max_runs.unwrap_or(1024),
            max_runs_per_user: given.max_runs_per_user.unwrap_or(8),
            max_llm_calls: given.max_llm_calls.map(LlmCallLimit::new),
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

/// Converts a setting in seconds to a duration.
fn seconds(name: &str, given: Option<f64>, default: Duration) -> anyhow::Result<Duration> {
    match given {
        None => Ok(default),
        Some(given) => Duration::try_from_secs_f64(given)
            .with_context(|| format!("{name} must be a number of seconds, found {given}")),
    }
}

/// Takes each field from the first value, or from the second one if the first has none.
macro_rules! first_or_second {
    ($first:ident, $second:ident: $($field:ident),* $(,)?) => {
        PartialSettings { $($field: $first.$field.or($second.$field),)* ..$first }
    };
}

impl PartialSettings {
    fn with_fallback(self, file: PartialSettings) -> PartialSettings {
        first_or_second!(
            self, file: agents_dir, default_app, model, models, host, port, session_service_uri, memory_service_uri,
            embedder, artifact_service_uri, ui_dir, allow_origins, conformance, reload_agents,
            auto_create_session, resumable, ingest_after_turns, api_key, shutdown_grace, sweep_interval, memory_limit,
            max_body_bytes,
            max_header_bytes, header_timeout, body_timeout, write_timeout, max_connections,
            max_runs, max_runs_per_user, max_llm_calls, requests_per_key, max_streams_per_key, max_streams_per_user,
            max_sessions_per_user, max_events_per_user, max_event_bytes_per_user,
            max_artifact_bytes_per_user, max_memories_per_user,
            max_sessions_per_app, max_events_per_app, max_event_bytes_per_app,
            max_artifact_bytes_per_app, max_memories_per_app, min_free_space,
            capture_message_content, log_format, log_level,
        )
    }

    fn limits(&self) -> anyhow::Result<ServerLimits> {
        let default = ServerLimits::default();
        let requests_per_key = self.requests_per_key.unwrap_or(default.requests_per_key);
        if !(requests_per_key > 0.0 && requests_per_key.is_finite()) {
            anyhow::bail!(
                "--requests-per-key must be a finite number greater than 0, found {requests_per_key}"
            );
        }
        Ok(default
            .with_body_bytes(self.max_body_bytes.unwrap_or(default.body_bytes))
            .with_header_bytes(self.max_header_bytes.unwrap_or(default.header_bytes))
            .with_header_timeout(seconds(
                "--header-timeout",
                self.header_timeout,
                default.header_timeout,
            )?)
            .with_body_timeout(seconds(
                "--body-timeout",
                self.body_timeout,
                default.body_timeout,
            )?)
            .with_write_timeout(seconds(
                "--write-timeout",
                self.write_timeout,
                default.write_timeout,
            )?)
            .with_connections(self.max_connections.unwrap_or(default.connections).max(1))
            .with_requests_per_key(requests_per_key)
            .with_streams_per_key(self.max_streams_per_key.unwrap_or(default.streams_per_key))
            .with_streams_per_user(
                self.max_streams_per_user
                    .unwrap_or(default.streams_per_user),
            )
            .with_shutdown_grace(seconds(
                "--shutdown-grace",
                self.shutdown_grace,
                default.shutdown_grace,
            )?))
    }
}

/// Returns the stores that the settings file names.
pub(crate) fn uris_in_file(file: Option<&Path>) -> anyhow::Result<UrisInFile> {
    let settings = read(file)?;
    Ok(UrisInFile {
        sessions: settings.session_service_uri,
        memory: settings.memory_service_uri,
        artifacts: settings.artifact_service_uri,
    })
}

/// Reads the settings file. A file that the user names must exist.
fn read(file: Option<&Path>) -> anyhow::Result<PartialSettings> {
    let path = file.unwrap_or(Path::new(DEFAULT_FILE));
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound && file.is_none() => {
            return Ok(PartialSettings::default());
        }
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    };
    toml::from_str(&text).map_err(|error| {
        let problem = describe_error(&error, &text);
        anyhow::anyhow!("invalid settings in {}: {problem}", path.display())
    })
}

/// Describes an error in a file by line and setting. The original message could quote an API key.
fn describe_error(error: &toml::de::Error, text: &str) -> String {
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
    struct CommandLine {
        #[command(flatten)]
        options: PartialSettings,
    }

    /// Parses a command line without the environment of the test run.
    fn parse_options(arguments: &[&str]) -> PartialSettings {
        let line = std::iter::once(&"retain").chain(arguments);
        let command = CommandLine::command().mut_args(|arg| arg.env(None::<&'static str>));
        let matches = command.try_get_matches_from(line).unwrap();
        CommandLine::from_arg_matches(&matches).unwrap().options
    }

    fn settings(arguments: &[&str], file: &str) -> anyhow::Result<Settings> {
        let folder = retain_testkit::scratch::folder();
        let path = folder.path().join("settings.toml");
        std::fs::write(&path, file).unwrap();
        Settings::resolve(parse_options(arguments), Some(&path))
    }

    #[test]
    fn settings_have_the_documented_defaults() {
        let settings = settings(&[], "").unwrap();
        assert_eq!((settings.host.as_str(), settings.port), ("127.0.0.1", 8000));
        assert_eq!(settings.uris, ServiceUris::new(None, None, None));
        assert_eq!(settings.limits, ServerLimits::default());
        assert_eq!((settings.max_runs, settings.max_runs_per_user), (1024, 8));
        assert!(!settings.conformance && settings.allow_origins.is_empty());
    }

    /// Every setting with a value for the option and another value for the line of a file.
    const SETTINGS: [(&str, &str, &str); 44] = [
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
        ("--sweep-interval", "1.5", "0"),
        ("--memory-limit", "64MB", "\"2GiB\""),
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
        ("--max-sessions-per-user", "1", "2"),
        ("--max-events-per-user", "1", "2"),
        ("--max-event-bytes-per-user", "1", "2"),
        ("--max-artifact-bytes-per-user", "1", "2"),
        ("--max-memories-per-user", "1", "2"),
        ("--max-sessions-per-app", "1", "2"),
        ("--max-events-per-app", "1", "2"),
        ("--max-event-bytes-per-app", "1", "2"),
        ("--max-artifact-bytes-per-app", "1", "2"),
        ("--max-memories-per-app", "1", "2"),
        ("--min-free-space", "1", "2"),
        ("--capture-message-content=true", "", "false"),
        ("--log-level", "debug", "\"error\""),
    ];

    #[test]
    fn options_override_the_file_and_the_file_overrides_defaults() {
        for (option, value, in_file) in SETTINGS {
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
    fn options_accept_underscores_like_adk() {
        for (option, value, _) in SETTINGS {
            let mut lines = [
                option.to_owned(),
                format!("--{}", option[2..].replace('-', "_")),
            ]
            .map(|option| vec![option, value.to_owned()]);
            lines
                .iter_mut()
                .for_each(|line| line.retain(|word| !word.is_empty()));
            let [ours, like_adk] = lines.map(|line| {
                let line: Vec<&str> = line.iter().map(String::as_str).collect();
                settings(&line, "").unwrap()
            });
            assert_eq!(ours, like_adk, "{option}");
        }
        parse_options(&["--no-reload", "agents"]);
        parse_options(&["--reload", "--reload_agents", "agents"]);
        assert_eq!(settings(&["-v"], "").unwrap().log_level, "debug");
    }

    #[test]
    fn zero_or_negative_max_llm_calls_disables_the_limit() {
        let limit = |number: &str| {
            let settings = settings(&["--max_llm_calls", number], "").unwrap();
            settings.max_llm_calls.unwrap().limit
        };
        assert_eq!(limit("20"), Some(20));
        assert_eq!((limit("0"), limit("-1")), (None, None));
        assert_eq!(limit("5000000000"), Some(u32::MAX));
        assert_eq!(settings(&[], "").unwrap().max_llm_calls, None);
        let from_file = settings(&[], "max_llm_calls = -1").unwrap();
        assert_eq!(from_file.max_llm_calls, Some(LlmCallLimit { limit: None }));
    }

    #[test]
    fn error_for_an_invalid_setting_has_its_name_but_not_its_value() {
        let assert_refused = |line: &[&str], file: &str, about: &str| {
            let error = format!("{:#}", settings(line, file).unwrap_err());
            assert!(error.contains(about), "{error}");
        };
        assert_refused(&[], "prot = 1", "prot");
        assert_refused(&[], "port = \"x\"", "port");
        assert_refused(&["--shutdown-grace=-1"], "", "--shutdown-grace");
        assert_refused(&["--sweep-interval=-1"], "", "--sweep-interval");
        assert_refused(&["--requests-per-key", "0"], "", "--requests-per-key");
        assert_refused(&["--api-key", "short"], "", "16 characters");
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
            let problem = format!("{error:#} {error:?}");
            assert!(
                problem.contains("line ") && !problem.contains("canary"),
                "{problem}"
            );
        }
        let missing = Settings::resolve(parse_options(&[]), Some(Path::new("no such file")));
        assert!(format!("{:#}", missing.unwrap_err()).contains("no such file"));
    }
}
