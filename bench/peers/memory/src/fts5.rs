//! SQLite FTS5 for comparison, with the same rows, library, file settings and commits as Retain.
//! Words are stemmed, a query is the OR of all words of the question, and `bm25` ranks. Each user
//! has a file, because filtering by user would read a row for each turn that has a word of the
//! question.

use crate::{Memory, Question, Session, bytes_in, settings_of};
use bench_common::Res;
use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};

pub struct Fts5 {
    dir: PathBuf,
    connection: Connection,
}

impl Fts5 {
    pub fn open(dir: &Path) -> Res<Fts5> {
        let connection = Connection::open(dir.join("fts5.db"))?;
        // The settings of Retain's own connections.
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 67108864;
             PRAGMA secure_delete = FAST;
             CREATE VIRTUAL TABLE IF NOT EXISTS turns USING fts5(text, id UNINDEXED,
                 session UNINDEXED, author UNINDEXED, timestamp UNINDEXED,
                 tokenize = 'porter unicode61');",
        )?;
        Ok(Fts5 {
            dir: dir.to_owned(),
            connection,
        })
    }
}

impl Memory for Fts5 {
    fn remember(&mut self, _user: &str, session: &Session) -> Res<()> {
        let transaction = self.connection.transaction()?;
        let sql = "INSERT INTO turns (text, id, session, author, timestamp) \
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        let mut insert = transaction.prepare_cached(sql)?;
        for turn in &session.turns {
            let (id, author) = (&turn.id, &turn.author);
            insert.execute(params![turn.text, id, session.id, author, session.time])?;
        }
        drop(insert);
        Ok(transaction.commit()?)
    }

    fn ask(&mut self, _user: &str, question: &Question<'_>) -> Res<Vec<String>> {
        let words = question.text.split(|c: char| !c.is_alphanumeric());
        let words = words.filter(|word| !word.is_empty());
        let quoted: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
        if quoted.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT id, text, session, author, timestamp FROM turns \
                   WHERE turns MATCH ?1 ORDER BY rank LIMIT ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params![quoted.join(" OR "), question.limit as i64])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let read: (String, String, String, String, f64) = row.try_into()?;
            found.push(std::hint::black_box(read).0);
        }
        Ok(found)
    }

    fn reopen(&mut self, is_durable: bool) -> Res<()> {
        self.connection = Connection::open_in_memory()?;
        *self = Fts5::open(&self.dir)?;
        if !is_durable {
            let connection = &self.connection;
            connection.pragma_update(None, "synchronous", "OFF")?;
        }
        Ok(())
    }

    fn settings(&self) -> Res<String> {
        settings_of(&self.connection)
    }

    fn bytes(&mut self) -> Res<u64> {
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        self.connection.query_row(sql, [], |_| Ok(()))?;
        bytes_in(&self.dir)
    }
}
