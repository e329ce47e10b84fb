//! `retain export`: writes sessions as lossless JSON Lines.

use clap::Args;
use futures_util::TryStreamExt as _;
use retain::session::{ExportScope, SessionKey};
use tokio::io::{AsyncWriteExt as _, BufWriter};

use crate::output;

use super::{OpenMode, ServiceOptions};

/// Export sessions as JSON Lines.
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    stores: ServiceOptions,
    /// App to export
    #[arg(long)]
    app: String,
    /// Export only this user's sessions
    #[arg(long)]
    user: Option<String>,
    /// Export only this session
    #[arg(long, requires = "user")]
    session: Option<String>,
}

impl Export {
    /// Writes the export to standard output.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let sessions = self
            .stores
            .open(OpenMode::ReadOnly)
            .await?
            .services
            .sessions;
        let app = self.app;
        let scope = match (self.user, self.session) {
            (Some(user), Some(id)) => ExportScope::Session(SessionKey::new(app, user, id)),
            (Some(user), None) => ExportScope::User { app, user },
            (None, _) => ExportScope::App { app },
        };
        let mut lines = sessions.export(scope);
        let mut out = BufWriter::new(tokio::io::stdout());
        while let Some(line) = lines.try_next().await? {
            output::check(out.write_all(line.as_bytes()).await)?;
            output::check(out.write_all(b"\n").await)?;
        }
        output::check(out.flush().await)
    }
}
