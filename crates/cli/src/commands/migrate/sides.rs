//! Opens the source and the target of a migration by their URLs.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
#[cfg(feature = "postgres")]
use retain::{session::PostgresOptions, store::PostgresStore};
use retain::{
    session::SqliteOptions,
    store::{FileArtifactStore, MigrationError, MigrationSide, SqliteStore},
};

use super::Kind;
use crate::commands::{
    database::{SUPPORTED_URIS, check_supported, unsupported_uri},
    services::folder,
};

/// How a migration uses a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The migration reads the store, which must exist.
    Source,
    /// The migration writes the store and creates it if it does not exist.
    Target,
    /// A dry run reads the store, which need not exist.
    DryRunTarget,
}

/// Opens the store at a URL.
pub(super) async fn open(uri: &str, role: Role) -> anyhow::Result<MigrationSide> {
    let name = match role {
        Role::Source => "--from",
        Role::Target | Role::DryRunTarget => "--to",
    };
    check_supported(uri).with_context(|| format!("cannot use {name}"))?;
    let opened = match uri {
        _ if uri.starts_with("sqlite") => sqlite(uri, role).await,
        _ if uri.starts_with("file:") => artifacts(uri, role),
        #[cfg(feature = "postgres")]
        _ if PostgresOptions::is_address(uri) => postgres(uri, role).await,
        _ => Err(anyhow::anyhow!(unsupported_uri(
            uri,
            &format!("{SUPPORTED_URIS} or, for artifacts only, file:///folder")
        ))),
    };
    opened.with_context(|| format!("cannot open {name}"))
}

/// Fails if both URLs name the same folder. Databases have an identity, which is compared later.
pub(super) fn check_distinct(from: &str, to: &str) -> anyhow::Result<()> {
    let is_file = |uri: &str| uri.starts_with("file:");
    if from == to {
        return Err(MigrationError::SameStore.into());
    }
    if is_file(from) && is_file(to) {
        let (from, to) = (folder(from)?, folder(to)?);
        if let (Ok(from), Ok(to)) = (from.canonicalize(), to.canonicalize())
            && from == to
        {
            return Err(MigrationError::SameStore.into());
        }
    }
    Ok(())
}

/// Selects the stores of one kind of data on both sides. Fails if both sides have the same session
/// store, or if the source has none of this kind.
pub(super) async fn keep_one_kind(
    kind: Kind,
    from: MigrationSide,
    to: MigrationSide,
) -> anyhow::Result<(MigrationSide, MigrationSide)> {
    if let (Some(from), Some(to)) = (&from.sessions, &to.sessions) {
        let identity = from.identity().await?;
        if identity.is_some() && identity == to.identity().await? {
            return Err(MigrationError::SameStore.into());
        }
    }
    let (from, to) = (select_kind(kind, from), select_kind(kind, to));
    let MigrationSide {
        sessions,
        memory,
        artifacts,
        keys,
    } = &from;
    if sessions.is_none() && memory.is_none() && artifacts.is_none() && keys.is_none() {
        anyhow::bail!(
            "--from has no data of the kinds that --only selects; choose another --from or --only"
        );
    }
    Ok((from, to))
}

fn select_kind(kind: Kind, side: MigrationSide) -> MigrationSide {
    let mut only = MigrationSide::default();
    match kind {
        Kind::Sessions => only.sessions = side.sessions,
        Kind::Memories => only.memory = side.memory,
        Kind::Artifacts => only.artifacts = side.artifacts,
        Kind::Keys => only.keys = side.keys,
    }
    only
}

async fn sqlite(uri: &str, role: Role) -> anyhow::Result<MigrationSide> {
    let options = SqliteOptions::from_uri(uri)?;
    if options.path().is_none() {
        anyhow::bail!("a database in memory is lost when this command ends; use sqlite:///file.db");
    }
    let is_there = options.path().is_some_and(Path::exists);
    let options = match role {
        Role::Source => options.read_only(),
        Role::Target => options,
        Role::DryRunTarget if is_there => options.read_only(),
        // A missing target counts as empty.
        Role::DryRunTarget => SqliteOptions::in_memory(),
    };
    Ok(sqlite_side(SqliteStore::open(options).await?))
}

fn sqlite_side(store: SqliteStore) -> MigrationSide {
    MigrationSide {
        memory: Some(Arc::new(store.memory())),
        artifacts: Some(Arc::new(store.artifacts())),
        keys: Some(Arc::new(store.keys())),
        sessions: Some(Arc::new(store)),
    }
}

#[cfg(feature = "postgres")]
async fn postgres(uri: &str, role: Role) -> anyhow::Result<MigrationSide> {
    let options = PostgresOptions::from_uri(uri)?;
    let options = match role {
        Role::Target => options,
        // A missing target counts as empty.
        Role::DryRunTarget if !PostgresStore::is_set_up(&options).await? => {
            return Ok(sqlite_side(
                SqliteStore::open(SqliteOptions::in_memory()).await?,
            ));
        }
        Role::Source | Role::DryRunTarget => options.existing(),
    };
    let store = PostgresStore::open(options).await?;
    Ok(MigrationSide {
        memory: Some(Arc::new(store.memory())),
        artifacts: Some(Arc::new(store.artifacts())),
        keys: Some(Arc::new(store.keys())),
        sessions: Some(Arc::new(store)),
    })
}

fn artifacts(uri: &str, role: Role) -> anyhow::Result<MigrationSide> {
    let folder = folder(uri)?;
    let is_there = folder.is_dir();
    if role == Role::Source && !is_there {
        anyhow::bail!("the folder {} does not exist", folder.display());
    }
    let mut side = MigrationSide::default();
    if role == Role::DryRunTarget && !is_there {
        side.artifacts = Some(Arc::new(retain::store::InMemoryArtifactStore::default()));
        return Ok(side);
    }
    let store = match role {
        Role::Source | Role::DryRunTarget => FileArtifactStore::open_read_only(folder)?,
        // The migration is the only user of its target folder.
        Role::Target => FileArtifactStore::open_alone(folder)?,
    };
    side.artifacts = Some(Arc::new(store));
    Ok(side)
}
