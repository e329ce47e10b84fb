//! `ServiceSet`: sessions, memories, artifacts and API keys, opened by their URIs. The server and the
//! commands open them here, with the same options, variables and settings file.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use clap::Args;
use percent_encoding::percent_decode_str;
use retain::server::Services;
use retain::{
    InMemoryMemoryService, InMemorySessionService, SessionLog,
    artifact::{ExpiringArtifacts, FileArtifactService, InMemoryArtifactService},
    store::{
        Clock, FileArtifactStore, InMemoryKeyStore, InMemoryMemoryStore, KeyStore, MigrationSide,
        Quotas, TransferStore, Usage,
    },
};

use super::{
    Database, OpenMode,
    database::{
        ArtifactParts, MemoryOptions, MemoryParts, SUPPORTED_URIS, artifact_service,
        check_supported, memory_service, unsupported_uri,
    },
    serve::uris_in_file,
};

/// The URI of data that ends with the process.
const IN_MEMORY_URI: &str = "memory://";

/// The default session store.
pub(crate) const DEFAULT_STORE: &str = "sqlite:///.retain/retain.db";

/// The stores of a command. They default to those of `retain serve` in the same folder.
#[derive(Debug, Args)]
pub(crate) struct ServiceOptions {
    /// Session store: sqlite:///relative.db, sqlite:////absolute.db or
    /// postgresql://user@host/database [default: as for `retain serve` in this folder]
    #[arg(long, visible_alias = "session-service-uri", env = "RETAIN_STORE")]
    #[arg(alias = "session_service_uri", value_name = "URI")]
    store: Option<String>,
    /// Memory store [default: as for `retain serve`: that of the settings, or the session store]
    #[arg(long, alias = "memory_service_uri", value_name = "URI")]
    #[arg(env = "RETAIN_MEMORY_SERVICE_URI")]
    memory_service_uri: Option<String>,
    /// Artifact store, which may also be file:///folder [default: as for `retain serve`: that of the
    /// settings, or the session store]
    #[arg(long, alias = "artifact_service_uri", value_name = "URI")]
    #[arg(env = "RETAIN_ARTIFACT_SERVICE_URI")]
    artifact_service_uri: Option<String>,
    /// Settings file of the server [default: retain.toml, if it exists]
    #[arg(long, env = "RETAIN_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ServiceOptions {
    /// Returns the URIs of the stores.
    pub(crate) fn uris(&self) -> anyhow::Result<ServiceUris> {
        let in_file = uris_in_file(self.config.as_deref())?;
        let or = |given: &Option<String>, in_file| given.clone().or(in_file);
        let session_variable = session_uri_in_environment()?;
        Ok(ServiceUris::new(
            or(&self.store, session_variable).or(in_file.sessions),
            or(&self.memory_service_uri, in_file.memory),
            or(&self.artifact_service_uri, in_file.artifacts),
        ))
    }

    /// Opens the stores, without an embedder.
    pub(crate) async fn open(&self, mode: OpenMode) -> anyhow::Result<ServiceSet> {
        let uris = self.uris()?;
        uris.check_not_in_memory()?;
        ServiceSet::open(&uris, mode, &MemoryOptions::default()).await
    }
}

/// Returns the session store of a server that is started in this folder without options.
pub(crate) fn server_store_uri() -> anyhow::Result<String> {
    let in_file = uris_in_file(variable("RETAIN_CONFIG").map(PathBuf::from).as_deref())?;
    let uri = session_uri_in_environment()?.or(in_file.sessions);
    Ok(uri.unwrap_or_else(|| DEFAULT_STORE.to_owned()))
}

/// Returns the server's variable for its session store, which commands read after their own `RETAIN_STORE`.
fn session_uri_in_environment() -> anyhow::Result<Option<String>> {
    const NAME: &str = "RETAIN_SESSION_SERVICE_URI";
    let uri = variable(NAME).map(std::ffi::OsString::into_string);
    uri.transpose()
        .map_err(|_| anyhow::anyhow!("{NAME} is not valid UTF-8"))
}

/// Returns the value of a variable. An empty one counts as unset.
fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The URIs that a settings file names.
#[derive(Debug, Default)]
pub(crate) struct UrisInFile {
    pub(crate) sessions: Option<String>,
    pub(crate) memory: Option<String>,
    pub(crate) artifacts: Option<String>,
}

/// How much the stores may hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StoreLimits {
    /// The quotas of each user.
    pub(crate) user: Usage,
    /// The quotas of each app.
    pub(crate) app: Usage,
    /// Bytes that must stay free on the file system of a SQLite database, unless its URI says so.
    pub(crate) min_free_space: Option<u64>,
}

/// The URIs of all stores, and how much they may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceUris {
    pub(crate) sessions: String,
    /// `None` selects the session store.
    pub(crate) memory: Option<String>,
    /// `None` selects the session store.
    pub(crate) artifacts: Option<String>,
    /// By default unlimited.
    pub(crate) limits: StoreLimits,
}

impl ServiceUris {
    /// Fills in the default session store.
    pub(crate) fn new(
        sessions: Option<String>,
        memory: Option<String>,
        artifacts: Option<String>,
    ) -> ServiceUris {
        ServiceUris {
            sessions: sessions.unwrap_or_else(|| DEFAULT_STORE.to_owned()),
            memory,
            artifacts,
            limits: StoreLimits::default(),
        }
    }

    /// Sets how much the stores may hold.
    pub(crate) fn with_limits(mut self, limits: StoreLimits) -> ServiceUris {
        self.limits = limits;
        self
    }

    /// Fails for a store that only the process of the server can reach.
    fn check_not_in_memory(&self) -> anyhow::Result<()> {
        for (option, uri) in [
            ("--store", Some(&self.sessions)),
            ("--memory-service-uri", self.memory.as_ref()),
            ("--artifact-service-uri", self.artifacts.as_ref()),
        ] {
            anyhow::ensure!(
                uri.is_none_or(|uri| uri != IN_MEMORY_URI),
                "cannot open {option}: {IN_MEMORY_URI} is in the memory of the server; use the API of \
                 the server, or name another store"
            );
        }
        Ok(())
    }
}

/// Where each kind of data is stored, without passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceAddresses {
    pub(crate) sessions: String,
    pub(crate) memory: String,
    pub(crate) artifacts: String,
}

/// All services, and the stores behind them.
#[derive(Debug)]
pub(crate) struct ServiceSet {
    /// Sessions, memories and artifacts.
    pub(crate) services: Services,
    /// The stores of the services. The memory store is missing if `services.memory` is ADK's own word
    /// matching, which has none.
    pub(crate) stores: MigrationSide,
    /// API keys, which are in the session store.
    pub(crate) keys: Arc<dyn KeyStore>,
    /// Where the data is stored. Equal addresses are one store.
    pub(crate) addresses: ServiceAddresses,
}

impl ServiceSet {
    /// Opens all stores.
    pub(crate) async fn open(
        uris: &ServiceUris,
        mode: OpenMode,
        options: &MemoryOptions,
    ) -> anyhow::Result<ServiceSet> {
        let uri = uris.sessions.as_str();
        if uri == DEFAULT_STORE && mode == OpenMode::Create {
            std::fs::create_dir_all(".retain").context("cannot create the folder .retain")?;
        }
        let quotas = Quotas::default()
            .with_user(uris.limits.user)
            .with_app(uris.limits.app);
        let min_free_space = uris.limits.min_free_space;
        let mut set = match uri {
            IN_MEMORY_URI => in_memory_set(quotas, options),
            _ => database_set(uri, mode, min_free_space, quotas, options)
                .await
                .context("cannot open --session-service-uri")?,
        };
        let memory = uris.memory.as_deref();
        if let Some(memory) = memory.filter(|it| *it != uri || *it == IN_MEMORY_URI) {
            let opened = set
                .replace_memory(memory, mode, min_free_space, options)
                .await;
            opened.context("cannot open --memory-service-uri")?;
        }
        if let Some(artifacts) = uris.artifacts.as_deref().filter(|it| *it != uri) {
            let opened = set.replace_artifacts(artifacts, mode, min_free_space).await;
            opened.context("cannot open --artifact-service-uri")?;
        }
        set.hide_expired_artifacts();
        Ok(set)
    }

    /// Hides the artifacts of expired sessions, unless the database of both does.
    fn hide_expired_artifacts(&mut self) {
        let is_one_database = self.addresses.artifacts == self.addresses.sessions;
        if is_one_database && self.addresses.sessions != IN_MEMORY_URI {
            return;
        }
        let services = &mut self.services;
        let (artifacts, sessions) = (&services.artifacts, &services.sessions);
        let hiding = ExpiringArtifacts::new(Arc::clone(artifacts), Arc::clone(sessions));
        services.artifacts = Arc::new(hiding);
    }

    /// Whether a valid API key exists.
    pub(crate) async fn has_key(&self, clock: &dyn Clock) -> anyhow::Result<bool> {
        let now_us = clock.now_us();
        let is_valid = |key: &retain::store::ApiKey| {
            key.revoked_us.is_none() && key.expires_us.is_none_or(|expires| expires > now_us)
        };
        Ok(self.keys.keys().await?.iter().any(is_valid))
    }

    /// Returns the store with the API keys, for an example of `retain keys`.
    pub(crate) fn keys_uri(&self) -> &str {
        match self.addresses.sessions.as_str() {
            IN_MEMORY_URI => "URI (API keys need sessions in a database, not memory://)",
            uri => uri,
        }
    }

    /// Describes where the data is stored, in one line.
    pub(crate) fn describe(&self) -> String {
        let ServiceAddresses {
            sessions,
            memory,
            artifacts,
        } = &self.addresses;
        let mut text = match sessions.as_str() {
            IN_MEMORY_URI => "in memory only, lost when the server stops".to_owned(),
            uri => uri.strip_prefix("sqlite:///").unwrap_or(uri).to_owned(),
        };
        let is_word_matching = self.stores.memory.is_none();
        if memory != sessions || is_word_matching {
            text.push_str(&format!("; memory in {memory}"));
        }
        if artifacts != sessions {
            text.push_str(&format!("; artifacts in {artifacts}"));
        }
        text
    }

    async fn replace_memory(
        &mut self,
        uri: &str,
        mode: OpenMode,
        min_free_space: Option<u64>,
        options: &MemoryOptions,
    ) -> anyhow::Result<()> {
        if uri == IN_MEMORY_URI {
            anyhow::ensure!(
                options.embedder.is_none(),
                "--memory-service-uri memory:// matches words only: remove --embedder, or name \
                 a database"
            );
            // ADK's own word matching, for comparisons. It supports only ADK's memory operations.
            self.services.memory = Arc::new(InMemoryMemoryService::new());
            self.services.long_term_memory = None;
            self.stores.memory = None;
            self.addresses.memory = uri.to_owned();
            return Ok(());
        }
        let database = open_database(uri, mode, min_free_space, IN_MEMORY_URI).await?;
        let (memory, store) = database.memory(&self.services.quotas, options);
        self.services.memory = Arc::clone(&memory) as _;
        self.services.long_term_memory = Some(memory);
        self.stores.memory = Some(store);
        self.addresses.memory = database.display_uri(uri);
        Ok(())
    }

    async fn replace_artifacts(
        &mut self,
        uri: &str,
        mode: OpenMode,
        min_free_space: Option<u64>,
    ) -> anyhow::Result<()> {
        let quotas = &self.services.quotas;
        self.addresses.artifacts = uri.to_owned();
        let (service, store) = match uri {
            IN_MEMORY_URI => artifact_service(InMemoryArtifactService::new(), quotas),
            uri if uri.starts_with("file:") => {
                let store = open_artifact_folder(&folder(uri)?, mode)?;
                artifact_service(FileArtifactService::over(store), quotas)
            }
            uri => {
                let others = "file:///folder, memory://";
                let database = open_database(uri, mode, min_free_space, others).await?;
                self.addresses.artifacts = database.display_uri(uri);
                database.artifacts(quotas)
            }
        };
        self.services.artifacts = service;
        self.stores.artifacts = Some(store);
        Ok(())
    }
}

/// Returns all services in memory. A search ranks memories as in a database.
fn in_memory_set(quotas: Quotas, options: &MemoryOptions) -> ServiceSet {
    let sessions = InMemorySessionService::new().with_quotas(quotas.clone());
    let store = sessions.shared_store();
    let parts = SetParts {
        sessions: (Arc::new(sessions), store),
        memory: memory_service(InMemoryMemoryStore::default(), &quotas, options),
        artifacts: artifact_service(InMemoryArtifactService::new(), &quotas),
        keys: Arc::new(InMemoryKeyStore::default()),
        quotas,
    };
    parts.into_set(IN_MEMORY_URI.to_owned())
}

/// Returns all services on one database.
async fn database_set(
    uri: &str,
    mode: OpenMode,
    min_free_space: Option<u64>,
    quotas: Quotas,
    options: &MemoryOptions,
) -> anyhow::Result<ServiceSet> {
    let database = open_database(uri, mode, min_free_space, IN_MEMORY_URI).await?;
    let parts = SetParts {
        sessions: (database.sessions_within(&quotas), database.shared_store()),
        memory: database.memory(&quotas, options),
        artifacts: database.artifacts(&quotas),
        keys: database.keys(),
        quotas,
    };
    Ok(parts.into_set(database.display_uri(uri)))
}

/// The services at one address, each with its store.
struct SetParts {
    sessions: (Arc<dyn SessionLog>, Arc<dyn TransferStore>),
    memory: MemoryParts,
    artifacts: ArtifactParts,
    keys: Arc<dyn KeyStore>,
    quotas: Quotas,
}

impl SetParts {
    fn into_set(self, address: String) -> ServiceSet {
        let (sessions, session_store) = self.sessions;
        let (memory, memory_store) = self.memory;
        let (artifacts, artifact_store) = self.artifacts;
        ServiceSet {
            services: Services::new(sessions, Arc::clone(&memory) as _, artifacts)
                .with_long_term_memory(memory)
                .with_quotas(self.quotas),
            stores: MigrationSide {
                sessions: Some(session_store),
                memory: Some(memory_store),
                artifacts: Some(artifact_store),
                keys: Some(Arc::clone(&self.keys)),
            },
            keys: self.keys,
            addresses: ServiceAddresses {
                sessions: address.clone(),
                memory: address.clone(),
                artifacts: address,
            },
        }
    }
}

/// Opens a database. `others` are the further URIs of the option, for the error.
async fn open_database(
    uri: &str,
    mode: OpenMode,
    min_free_space: Option<u64>,
    others: &str,
) -> anyhow::Result<Database> {
    check_supported(uri)?;
    anyhow::ensure!(
        Database::is_address(uri),
        unsupported_uri(uri, &format!("{SUPPORTED_URIS}, {others}"))
    );
    Database::open_with(uri, mode, min_free_space).await
}

fn open_artifact_folder(folder: &Path, mode: OpenMode) -> anyhow::Result<FileArtifactStore> {
    anyhow::ensure!(
        mode == OpenMode::Create || folder.is_dir(),
        "the folder {} does not exist",
        folder.display()
    );
    Ok(match mode {
        OpenMode::Create | OpenMode::Existing => FileArtifactStore::open(folder)?,
        OpenMode::ReadOnly => FileArtifactStore::open_read_only(folder)?,
    })
}

/// Returns the folder that `file:///folder` names.
pub(crate) fn folder(uri: &str) -> anyhow::Result<PathBuf> {
    let rest = uri.strip_prefix("file://").unwrap_or_default();
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        anyhow::bail!("{uri:?} does not name a folder; write file:///folder, with three slashes");
    }
    let path = percent_decoded(path);
    Ok(path
        .with_context(|| format!("cannot decode {uri:?}"))?
        .into())
}

/// Decodes `%XX`. Unlike the library, rejects a `%` without two hexadecimal digits.
fn percent_decoded(path: &str) -> anyhow::Result<String> {
    let is_code = |after: &str| {
        let code = after.as_bytes().first_chunk::<2>();
        code.is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit))
    };
    anyhow::ensure!(
        path.split('%').skip(1).all(is_code),
        "two hexadecimal digits must follow each %"
    );
    Ok(percent_decode_str(path).decode_utf8()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_uri_is_converted_to_a_path_as_in_adk() {
        assert_eq!(folder("file:///a/b%20c").unwrap(), PathBuf::from("/a/b c"));
        assert_eq!(folder("file://localhost/a").unwrap(), PathBuf::from("/a"));
        for uri in [
            "file://a",
            "file:a",
            "file://",
            "file:///%",
            "file:///%zz",
            "file:///%ff",
        ] {
            assert!(folder(uri).is_err(), "{uri}");
        }
    }
}
