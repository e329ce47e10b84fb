//! Retain's durable memory, through its public API: `StoreMemoryService` on the SQLite file of
//! the sessions.

use crate::{Memory, Question, Session, bytes_in, settings_of};
use bench_common::{APP, Failure, Res};
use retain_core::{Event, MemoryService as _};
use retain_memory::{MemoryQuery, StoreMemoryService};
use retain_stores::{SqliteMemoryStore, SqliteSessionService};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Runtime;

pub struct Retain {
    runtime: Arc<Runtime>,
    dir: PathBuf,
    /// `None` while it is being reopened.
    memory: Option<StoreMemoryService<SqliteMemoryStore>>,
}

impl Retain {
    pub fn open(runtime: Arc<Runtime>, dir: &Path) -> Res<Retain> {
        let mut retain = Retain {
            runtime,
            dir: std::path::absolute(dir)?,
            memory: None,
        };
        retain.reopen(true)?;
        Ok(retain)
    }

    fn memory(&self) -> Res<&StoreMemoryService<SqliteMemoryStore>> {
        let memory = self.memory.as_ref();
        memory.ok_or_else(|| Failure::Error("the memory is not open".to_owned()))
    }
}

impl Memory for Retain {
    fn remember(&mut self, user: &str, session: &Session) -> Res<()> {
        let mut ingested = retain_core::Session::new(APP, user, &session.id);
        for (turn, position) in session.turns.iter().zip(1..) {
            let mut event = Event::model_text(&turn.author, &turn.text);
            event.id.clone_from(&turn.id);
            event.timestamp = session.time;
            ingested.events.push(position, event);
        }
        let memory = self.memory()?;
        let added = memory.add_session_to_memory(&ingested);
        Ok(self.runtime.block_on(added)?)
    }

    fn ask(&mut self, user: &str, question: &Question<'_>) -> Res<Vec<String>> {
        let mut search = MemoryQuery::new(question.text).with_limit(question.limit);
        search.reference_time = question.time;
        let memory = self.memory()?;
        let found = memory.search_memory_with(APP, user, search);
        let found = self.runtime.block_on(found)?.into_iter();
        Ok(found.map(|it| it.info.id).collect())
    }

    fn reopen(&mut self, is_durable: bool) -> Res<()> {
        self.memory = None;
        let file = self.dir.join("retain.db");
        let options = if is_durable { "" } else { "?synchronous=off" };
        let uri = format!("sqlite:///{}{options}", file.display());
        let sessions = SqliteSessionService::connect(&uri);
        let sessions = self.runtime.block_on(sessions)?;
        self.memory = Some(StoreMemoryService::over(sessions.store().memory()));
        Ok(())
    }

    fn settings(&self) -> Res<String> {
        // Retain's connections are private. The journal mode belongs to the file; `synchronous`
        // belongs to a connection, and this one has the default, FULL, which Retain sets too.
        settings_of(&Connection::open(self.dir.join("retain.db"))?)
    }

    fn bytes(&mut self) -> Res<u64> {
        let side = Connection::open(self.dir.join("retain.db"))?;
        side.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        bytes_in(&self.dir)
    }
}
