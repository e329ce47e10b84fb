//! Damages of a SQLite file.

use std::{
    fs,
    io::{Seek as _, SeekFrom, Write as _},
    path::Path,
};

use retain_core::repair_store;
use retain_testkit::TestClock;
use rusqlite::Connection;

use super::{cases::CASES, check_and_repair, store, texts};
use crate::sqlite::migration::fixture::{fill, open, side};

#[tokio::test(flavor = "multi_thread")]
async fn check_reports_every_damage_and_repair_restores_what_the_log_gives() {
    let folder = retain_testkit::scratch::folder();
    let (source, clock) = (folder.path().join("source.db"), TestClock::default());
    fill(&source, &clock).await;
    let intact = side(open(&source, &clock).await);
    assert_eq!(texts(&store(&intact).check().await.unwrap()), "");
    for (number, case) in CASES.iter().enumerate() {
        let file = folder.path().join(format!("{number}.db"));
        fs::copy(&source, &file).unwrap();
        damage(&file, case.sqlite);
        let damaged = side(open(&file, &clock).await);
        check_and_repair(&[case], &damaged, &intact).await;
    }
}

fn damage(file: &Path, sql: &str) {
    let connection = Connection::open(file).unwrap();
    connection
        .execute_batch("PRAGMA foreign_keys = OFF")
        .unwrap();
    connection.execute_batch(sql).unwrap();
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
}

/// Rows that an index does not have, as after a torn write: SQLite itself reports them.
#[tokio::test(flavor = "multi_thread")]
async fn repair_rebuilds_an_index_that_differs_from_its_table() {
    let folder = retain_testkit::scratch::folder();
    let (file, clock) = (folder.path().join("s.db"), TestClock::default());
    fill(&file, &clock).await;
    // While SQLite believes that the index is another table's, it does not maintain it.
    damage(
        &file,
        "PRAGMA writable_schema = ON; \
         CREATE TABLE saved AS SELECT rootpage, name FROM sqlite_schema; \
         DELETE FROM sqlite_schema WHERE name = 'memories_by_id'; \
         PRAGMA writable_schema = RESET",
    );
    damage(&file, "UPDATE memories SET id = 'renamed' WHERE id = 'm7'");
    damage(
        &file,
        "PRAGMA writable_schema = ON; \
         INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql) \
         SELECT 'index', name, 'memories', rootpage, \
         'CREATE INDEX memories_by_id ON memories (key >> 32, id)' FROM saved \
         WHERE name = 'memories_by_id'; \
         PRAGMA writable_schema = RESET; DROP TABLE saved",
    );
    let damaged = side(open(&file, &clock).await);
    let found = store(&damaged).check().await.unwrap();
    assert!(
        texts(&found).contains("memories_by_id"),
        "{}",
        texts(&found)
    );
    let report = repair_store(store(&damaged)).await.unwrap();
    assert_eq!(texts(&report.remaining), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_reports_a_page_that_sqlite_cannot_read() {
    let folder = retain_testkit::scratch::folder();
    let (file, clock) = (folder.path().join("s.db"), TestClock::default());
    fill(&file, &clock).await;
    damage(&file, "VACUUM");
    let root: u64 = Connection::open(&file)
        .unwrap()
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'memories'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    let mut opened = fs::File::options().write(true).open(&file).unwrap();
    opened.seek(SeekFrom::Start((root - 1) * 4096)).unwrap();
    opened.write_all(&[0xff; 4096]).unwrap();
    drop(opened);
    let damaged = side(open(&file, &clock).await);
    let found = store(&damaged).check().await.unwrap();
    assert!(
        texts(&found).contains("the database reports"),
        "{}",
        texts(&found)
    );
    assert!(found.iter().any(|problem| !problem.is_repairable));
}
