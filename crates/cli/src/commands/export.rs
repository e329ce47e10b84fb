//! `retain export`: writes sessions, memories and artifacts as lossless JSON Lines.

use clap::{Args, ValueEnum};
use futures_util::TryStreamExt as _;
use retain::session::{Archive, ArchiveKinds, ExportScope, SessionKey};
use tokio::io::{AsyncWriteExt as _, BufWriter};

use crate::output;

use super::{OpenMode, ServiceOptions, ServiceSet};

/// Export sessions, memories and artifacts as JSON Lines.
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    stores: ServiceOptions,
    /// App to export
    #[arg(long)]
    app: String,
    /// Export only this user's data
    #[arg(long)]
    user: Option<String>,
    /// Export only this session, its memories and its artifacts
    #[arg(long, requires = "user")]
    session: Option<String>,
    #[command(flatten)]
    kinds: KindOptions,
}

/// The kinds of data to export or import.
#[derive(Debug, Args)]
pub(crate) struct KindOptions {
    /// Only these kinds of data, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "KINDS")]
    only: Vec<ArchiveKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ArchiveKind {
    /// Sessions and shared state
    Sessions,
    /// Memories and the hashes of forgotten ones
    Memories,
    /// Artifacts
    Artifacts,
}

impl KindOptions {
    /// Returns the selected kinds; all of them if none is named.
    pub(crate) fn kinds(&self) -> ArchiveKinds {
        let mut kinds = ArchiveKinds::ALL;
        if !self.only.is_empty() {
            kinds.sessions = self.only.contains(&ArchiveKind::Sessions);
            kinds.memories = self.only.contains(&ArchiveKind::Memories);
            kinds.artifacts = self.only.contains(&ArchiveKind::Artifacts);
        }
        kinds
    }
}

/// Returns the archive of a set of services.
pub(crate) fn archive(set: &ServiceSet) -> Archive {
    let services = &set.services;
    Archive::new(
        services.sessions.clone(),
        &*services.memory,
        &*services.artifacts,
    )
}

impl Export {
    /// Writes to standard output.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let set = self.stores.open(OpenMode::ReadOnly).await?;
        let app = self.app;
        let scope = match (self.user, self.session) {
            (Some(user), Some(id)) => ExportScope::Session(SessionKey::new(app, user, id)),
            (Some(user), None) => ExportScope::User { app, user },
            (None, _) => ExportScope::App { app },
        };
        let mut lines = archive(&set).export(scope, self.kinds.kinds());
        let mut out = BufWriter::new(tokio::io::stdout());
        while let Some(line) = lines.try_next().await? {
            output::check(out.write_all(line.as_bytes()).await)?;
            output::check(out.write_all(b"\n").await)?;
        }
        output::check(out.flush().await)
    }
}
