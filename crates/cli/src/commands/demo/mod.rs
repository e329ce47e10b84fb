//! `retain demo`: shows memory, state, rewind, fork and a crash on a real SQLite file.

mod crash;
mod format;
mod log;
mod memory;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use retain::{GetSessionConfig, Session, SessionService as _, SqliteSessionService};

use crate::output::say;

const APP: &str = "assistant";
const USER: &str = "ada";

/// Show memory across sessions, state, rewind, fork and a crash.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Folder for the database, which is kept after the demo [default: a temporary folder]
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

impl Demo {
    /// Runs the demo and removes its temporary folder.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let folder = match &self.keep {
            Some(folder) => folder.clone(),
            None => std::env::temp_dir().join(format!("retain-demo-{}", std::process::id())),
        };
        std::fs::create_dir_all(&folder)?;
        let folder = folder.canonicalize()?;
        let file = folder.join("demo.db");
        if file.exists() {
            anyhow::bail!("{} already exists; choose another folder", file.display());
        }
        let result = play_chapters(&file).await;
        if self.keep.is_none() {
            std::fs::remove_dir_all(&folder)?;
        }
        result?;
        print_database_path(self.keep.as_deref(), &file)
    }
}

fn print_database_path(keep: Option<&Path>, file: &Path) -> anyhow::Result<()> {
    match keep {
        Some(_) => say!("\nThe database is {}.", file.display()),
        None => say!("\nRun it with --keep FOLDER to keep the database and look at it."),
    }
    Ok(())
}

async fn play_chapters(file: &Path) -> anyhow::Result<()> {
    let uri = format!("sqlite:///{}", file.display());
    say!("Retain: sessions and memory in one SQLite file; every acknowledged write is on disk.");
    let sessions = SqliteSessionService::connect(&uri).await?;
    memory::tell_fact(&sessions).await?;
    drop(sessions);
    let sessions = SqliteSessionService::connect(&uri).await?;
    memory::recall_fact(&sessions).await?;
    log::scopes(&sessions).await?;
    log::rewind_and_fork(&sessions).await?;
    drop(sessions);
    crash::show(&uri).await
}

/// Loads a session.
async fn read(sessions: &SqliteSessionService, id: &str) -> anyhow::Result<Session> {
    let read = sessions
        .get_session(APP, USER, id, GetSessionConfig::default())
        .await?;
    read.with_context(|| format!("session {id} not found"))
}
