//! Opens the services for sessions, memories, artifacts and API keys by their URIs.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context as _;
use percent_encoding::percent_decode_str;
use retain::server::Services;
use retain::{
    InMemoryMemoryService, InMemorySessionService,
    artifact::{FileArtifactService, InMemoryArtifactService},
    memory::Embedder,
    store::{Clock, FileArtifactStore, InMemoryKeyStore, InMemoryMemoryStore, KeyStore},
};

use super::settings::{DEFAULT_STORE, Settings};
use crate::commands::{
    Database, IfMissing,
    database::{SUPPORTED_URIS, check_supported, memory_service, unsupported_uri},
};

/// The URI of data that ends with the process.
const IN_MEMORY_URI: &str = "memory://";

/// The services and their URIs.
#[derive(Debug)]
pub(super) struct OpenedServices {
    pub(super) services: Services,
    pub(super) keys: Arc<dyn KeyStore>,
    /// The URI of the store with the API keys, for `retain keys`.
    pub(super) keys_uri: String,
    /// Where the data is stored, for the lines at startup.
    pub(super) data: String,
}

impl OpenedServices {
    /// Opens all stores that the settings name.
    pub(super) async fn open(
        settings: &Settings,
        embedder: Option<&Arc<dyn Embedder>>,
    ) -> anyhow::Result<OpenedServices> {
        let uri = settings.session_service_uri.as_str();
        if uri == DEFAULT_STORE {
            std::fs::create_dir_all(".retain").context("cannot create the folder .retain")?;
        }
        let mut services = match uri {
            IN_MEMORY_URI => in_memory_services(embedder),
            _ => database_services(uri, embedder)
                .await
                .context("cannot open --session-service-uri")?,
        };
        if let Some(memory) = settings
            .memory_service_uri
            .as_deref()
            .filter(|m| *m != uri || *m == IN_MEMORY_URI)
        {
            let opened = services.with_memory(memory, embedder).await;
            opened.context("cannot open --memory-service-uri")?;
        }
        if let Some(artifacts) = settings
            .artifact_service_uri
            .as_deref()
            .filter(|a| *a != uri)
        {
            let opened = services.with_artifacts(artifacts).await;
            opened.context("cannot open --artifact-service-uri")?;
        }
        Ok(services)
    }

    /// Whether a valid API key exists.
    pub(super) async fn has_key(&self, clock: &dyn Clock) -> anyhow::Result<bool> {
        let now_us = clock.now_us();
        let is_valid = |key: &retain::store::ApiKey| {
            key.revoked_us.is_none() && key.expires_us.is_none_or(|expires| expires > now_us)
        };
        Ok(self.keys.keys().await?.iter().any(is_valid))
    }

    async fn with_memory(
        &mut self,
        uri: &str,
        embedder: Option<&Arc<dyn Embedder>>,
    ) -> anyhow::Result<()> {
        if uri == IN_MEMORY_URI {
            anyhow::ensure!(
                embedder.is_none(),
                "--memory-service-uri memory:// matches words only: remove --embedder, or name \
                 a database"
            );
            // ADK's own word matching, for comparisons. It supports only ADK's memory operations.
            self.services.memory = Arc::new(InMemoryMemoryService::new());
            self.services.long_term_memory = None;
        } else {
            let database = open_database(uri, IN_MEMORY_URI).await?;
            let memory = database.memory(embedder);
            self.services.memory = Arc::clone(&memory) as _;
            self.services.long_term_memory = Some(memory);
            let shown = database.display_uri(uri);
            self.data.push_str(&format!("; memory in {shown}"));
            return Ok(());
        }
        self.data.push_str(&format!("; memory in {uri}"));
        Ok(())
    }

    async fn with_artifacts(&mut self, uri: &str) -> anyhow::Result<()> {
        let mut shown = uri.to_owned();
        self.services.artifacts = match uri {
            IN_MEMORY_URI => Arc::new(InMemoryArtifactService::new()),
            uri if uri.starts_with("file:") => {
                let store = FileArtifactStore::open(folder(uri)?)?;
                Arc::new(FileArtifactService::over(store))
            }
            uri => {
                let database = open_database(uri, "file:///folder, memory://").await?;
                shown = database.display_uri(uri);
                database.artifacts()
            }
        };
        self.data.push_str(&format!("; artifacts in {shown}"));
        Ok(())
    }
}

/// Creates all services in memory. Memory search ranks entries as it does in a database.
fn in_memory_services(embedder: Option<&Arc<dyn Embedder>>) -> OpenedServices {
    let memory = memory_service(InMemoryMemoryStore::default(), embedder);
    OpenedServices {
        services: Services::new(
            Arc::new(InMemorySessionService::new()),
            Arc::clone(&memory) as _,
            Arc::new(InMemoryArtifactService::new()),
        )
        .with_long_term_memory(memory),
        keys: Arc::new(InMemoryKeyStore::default()),
        keys_uri: "URI (API keys need sessions in a database, not memory://)".to_owned(),
        data: "in memory only, lost when the server stops".to_owned(),
    }
}

/// Opens the database at `uri`. If the URI is not supported, the error also lists the URIs in
/// `also`.
async fn open_database(uri: &str, also: &str) -> anyhow::Result<Database> {
    let known = format!("{SUPPORTED_URIS}, {also}");
    check_supported(uri)?;
    anyhow::ensure!(Database::is_address(uri), unsupported_uri(uri, &known));
    Database::open(uri, IfMissing::Create).await
}

/// Opens all services in one database.
async fn database_services(
    uri: &str,
    embedder: Option<&Arc<dyn Embedder>>,
) -> anyhow::Result<OpenedServices> {
    let database = open_database(uri, IN_MEMORY_URI).await?;
    let (memory, shown) = (database.memory(embedder), database.display_uri(uri));
    Ok(OpenedServices {
        keys: database.keys(),
        data: shown
            .strip_prefix("sqlite:///")
            .unwrap_or(&shown)
            .to_owned(),
        keys_uri: shown,
        services: Services::new(
            database.sessions(),
            Arc::clone(&memory) as _,
            database.artifacts(),
        )
        .with_long_term_memory(memory),
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
