//! Where sessions, memories, artifacts and keys are: from addresses to services.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context as _;
use retain::{
    Clock, Embedder, FileArtifactService, FileArtifactStore, InMemoryArtifactService,
    InMemoryKeyStore, InMemoryMemoryService, InMemoryMemoryStore, InMemorySessionService, KeyStore,
    MemoryStore, SqliteArtifactService, SqliteMemoryService, SqliteSessionService,
    StoreMemoryService,
};
use retain_server::Services;

use super::settings::{DEFAULT_STORE, Settings};

/// The address of what goes with the program.
const VOLATILE: &str = "memory://";

/// The services, and what they were opened from.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) services: Services,
    pub(super) keys: Arc<dyn KeyStore>,
    /// Where `retain keys` finds the same keys.
    pub(super) keys_uri: String,
    /// In a few words, for people.
    pub(super) data: String,
}

impl Places {
    /// Opens everything that the settings name. The embedder says what memories mean.
    pub(super) async fn open(
        settings: &Settings,
        embedder: Option<&Arc<dyn Embedder>>,
    ) -> anyhow::Result<Places> {
        let uri = settings.session_service_uri.as_str();
        if uri == DEFAULT_STORE {
            std::fs::create_dir_all(".retain").context("the folder .retain cannot be made")?;
        }
        let mut places = match uri {
            VOLATILE => volatile(embedder),
            _ => durable(uri, embedder)
                .await
                .context("--session-service-uri cannot be used")?,
        };
        if let Some(memory) = settings
            .memory_service_uri
            .as_deref()
            .filter(|m| *m != uri || *m == VOLATILE)
        {
            let opened = places.with_memory(memory, embedder).await;
            opened.context("--memory-service-uri cannot be used")?;
        }
        if let Some(artifacts) = settings
            .artifact_service_uri
            .as_deref()
            .filter(|a| *a != uri)
        {
            let opened = places.with_artifacts(artifacts).await;
            opened.context("--artifact-service-uri cannot be used")?;
        }
        Ok(places)
    }

    /// Whether there is a key that is good now.
    pub(super) async fn has_key(&self, clock: &dyn Clock) -> anyhow::Result<bool> {
        let now_us = clock.now_us();
        let is_good = |key: &retain::ApiKey| {
            key.revoked_us.is_none() && key.expires_us.is_none_or(|expires| expires > now_us)
        };
        Ok(self.keys.keys().await?.iter().any(is_good))
    }

    async fn with_memory(
        &mut self,
        uri: &str,
        embedder: Option<&Arc<dyn Embedder>>,
    ) -> anyhow::Result<()> {
        if uri == VOLATILE {
            anyhow::ensure!(
                embedder.is_none(),
                "ADK's own matching goes by words alone: leave out --embedder or memory://"
            );
            // ADK's own matching, for who compares; it cannot do more than ADK's can.
            self.services.memory = Arc::new(InMemoryMemoryService::new());
            self.services.long_term_memory = None;
        } else {
            let store = sqlite(uri).await?;
            let memory = SqliteMemoryService::over(store.store().memory());
            let memory = Arc::new(meaning(memory, embedder));
            self.services.memory = Arc::clone(&memory) as _;
            self.services.long_term_memory = Some(memory);
        }
        self.data.push_str(&format!("; memory in {uri}"));
        Ok(())
    }

    async fn with_artifacts(&mut self, uri: &str) -> anyhow::Result<()> {
        self.services.artifacts = match uri {
            VOLATILE => Arc::new(InMemoryArtifactService::new()),
            uri if uri.starts_with("file:") => {
                let store = FileArtifactStore::open(folder(uri)?)?;
                Arc::new(FileArtifactService::over(store))
            }
            uri => {
                let store = sqlite(uri).await?;
                Arc::new(SqliteArtifactService::over(store.store().artifacts()))
            }
        };
        self.data.push_str(&format!("; artifacts in {uri}"));
        Ok(())
    }
}

/// The memory with its embedder, if there is one.
fn meaning<S: MemoryStore>(
    memory: StoreMemoryService<S>,
    embedder: Option<&Arc<dyn Embedder>>,
) -> StoreMemoryService<S> {
    match embedder {
        Some(embedder) => memory.with_embedder(Arc::clone(embedder)),
        None => memory,
    }
}

/// Everything in memory, gone when the program ends. Memories are ranked as in a database.
fn volatile(embedder: Option<&Arc<dyn Embedder>>) -> Places {
    let memory = StoreMemoryService::over(InMemoryMemoryStore::default());
    let memory = Arc::new(meaning(memory, embedder));
    Places {
        services: Services {
            sessions: Arc::new(InMemorySessionService::new()),
            memory: Arc::clone(&memory) as _,
            long_term_memory: Some(memory),
            artifacts: Arc::new(InMemoryArtifactService::new()),
        },
        keys: Arc::new(InMemoryKeyStore::default()),
        keys_uri: "URI (of sessions in a database, which memory:// is not)".to_owned(),
        data: "in memory only, gone when the server ends".to_owned(),
    }
}

/// Everything in one database.
async fn durable(uri: &str, embedder: Option<&Arc<dyn Embedder>>) -> anyhow::Result<Places> {
    let sessions = sqlite(uri).await?;
    let store = sessions.store();
    let memory = Arc::new(meaning(SqliteMemoryService::over(store.memory()), embedder));
    Ok(Places {
        keys: Arc::new(store.keys()),
        keys_uri: uri.to_owned(),
        data: uri.strip_prefix("sqlite:///").unwrap_or(uri).to_owned(),
        services: Services {
            memory: Arc::clone(&memory) as _,
            long_term_memory: Some(memory),
            artifacts: Arc::new(SqliteArtifactService::over(store.artifacts())),
            sessions: Arc::new(sessions),
        },
    })
}

async fn sqlite(uri: &str) -> anyhow::Result<SqliteSessionService> {
    if !uri.starts_with("sqlite") {
        anyhow::bail!(
            "{uri:?} is no address that is known here; there are sqlite:///relative.db, \
             sqlite:////absolute.db and memory:// (and file:///folder for artifacts)"
        );
    }
    Ok(SqliteSessionService::connect(uri).await?)
}

/// The folder that `file:///folder` names.
fn folder(uri: &str) -> anyhow::Result<PathBuf> {
    let rest = uri.strip_prefix("file://").unwrap_or_default();
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        anyhow::bail!("{uri:?} names no folder; write file:///folder, with three slashes");
    }
    let path = percent_decoded(path);
    Ok(path
        .with_context(|| format!("{uri:?} cannot be read"))?
        .into())
}

/// `%20` is a space.
fn percent_decoded(path: &str) -> anyhow::Result<String> {
    let mut parts = path.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..2).context("after % come two digits")?;
        bytes.push(u8::from_str_radix(code, 16)?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    Ok(String::from_utf8(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_as_adk_names_it() {
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

    #[tokio::test(flavor = "multi_thread")]
    async fn an_address_that_is_not_known_is_refused_with_those_that_are() {
        let error = sqlite("postgres://x").await.unwrap_err().to_string();
        assert!(error.contains("memory://"), "{error}");
    }
}
