//! SQLite FTS5 beside Retain: the same rows, the same library, file settings and commits. Words are
//! stemmed, a question is the OR of all its words, and `bm25` ranks.

use crate::{Memory, Question, Session, bytes_in};
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
        // What Retain sets on its own connections.
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 67108864;
             PRAGMA secure_delete = FAST;
             CREATE VIRTUAL TABLE IF NOT EXISTS turns USING fts5(text, user UNINDEXED,
                 id UNINDEXED, session UNINDEXED, author UNINDEXED, timestamp UNINDEXED,
                 tokenize = 'porter unicode61');",
        )?;
        Ok(Fts5 {
            dir: dir.to_owned(),
            connection,
        })
    }
}

impl Memory for Fts5 {
    fn remember(&mut self, user: &str, session: &Session) -> Res<()> {
        let transaction = self.connection.transaction()?;
        let sql = "INSERT INTO turns (text, user, id, session, author, timestamp) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let mut insert = transaction.prepare_cached(sql)?;
        for turn in &session.turns {
            let (id, author) = (&turn.id, &turn.author);
            insert.execute(params![
                turn.text,
                user,
                id,
                session.id,
                author,
                session.time
            ])?;
        }
        drop(insert);
        Ok(transaction.commit()?)
    }

    fn ask(&mut self, user: &str, question: &Question<'_>) -> Res<Vec<String>> {
        let words = question.text.split(|c: char| !c.is_alphanumeric());
        let words = words.filter(|word| !word.is_empty());
        let quoted: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
        if quoted.is_empty() {
            return Ok(Vec::new());
        }
        // In the speed part there is one user, and nothing to filter.
        let sql = match user.is_empty() {
            true => {
                "SELECT id, text, session, author, timestamp FROM turns \
                 WHERE turns MATCH ?1 ORDER BY rank LIMIT ?2"
            }
            false => {
                "SELECT id, text, session, author, timestamp FROM turns \
                 WHERE turns MATCH ?1 AND user = ?3 ORDER BY rank LIMIT ?2"
            }
        };
        let mut statement = self.connection.prepare_cached(sql)?;
        let words = quoted.join(" OR ");
        let limit = question.limit as i64;
        let mut rows = match user.is_empty() {
            true => statement.query(params![words, limit])?,
            false => statement.query(params![words, limit, user])?,
        };
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let read: (String, String, String, String, f64) = row.try_into()?;
            found.push(std::hint::black_box(read).0);
        }
        Ok(found)
    }

    fn reopen(&mut self) -> Res<()> {
        self.connection = Connection::open_in_memory()?;
        *self = Fts5::open(&self.dir)?;
        Ok(())
    }

    fn bytes(&mut self) -> Res<u64> {
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        self.connection.query_row(sql, [], |_| Ok(()))?;
        bytes_in(&self.dir)
    }
}
