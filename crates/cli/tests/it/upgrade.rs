//! Upgrades of a database from each schema version, and programs of two versions on one database.
//!
//! `testdata/schema` has a database of each version, which `scripts/write-schema-fixtures` wrote.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use crate::{
    program::uri,
    serve::process::{Server, retain},
};

/// The variable with which a program has one more migration.
pub(crate) const NEXT_SCHEMA: (&str, &str) = ("RETAIN_TEST_MIGRATION", "1");

/// The program, of this schema version or of the next one.
#[derive(Clone, Copy)]
enum Program {
    Current,
    Next,
}

/// A store, and the folder in which programs run.
struct Store<'a> {
    folder: &'a Path,
    uri: String,
}

impl Store<'_> {
    fn run(&self, program: Program, arguments: &[&str], input: &str) -> Output {
        let mut command = retain(self.folder);
        if let Program::Next = program {
            command.env(NEXT_SCHEMA.0, NEXT_SCHEMA.1);
        }
        command.args(arguments).args(["--store", &self.uri]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        // A program that fails early might not read its input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// Runs a command that must succeed, and returns its output.
    fn succeed(&self, program: Program, arguments: &[&str], input: &str) -> String {
        let ended = self.run(program, arguments, input);
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{arguments:?}: {stderr}");
        String::from_utf8(ended.stdout).unwrap()
    }

    /// Runs a command that must fail, and returns its error.
    fn fail(&self, program: Program, arguments: &[&str]) -> String {
        let ended = self.run(program, arguments, "");
        assert!(!ended.status.success(), "{arguments:?} succeeded");
        String::from_utf8(ended.stderr).unwrap()
    }
}

const EXPORT: [&str; 5] = ["export", "--app", "assistant", "--only", "sessions"];

fn fixtures(kind: &str, extension: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/schema");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|file| {
            let name = file.file_name().unwrap().to_str().unwrap();
            name.starts_with(kind) && name.ends_with(extension)
        })
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// Reads what the program that wrote the fixture exported.
fn expected_export(fixture: &Path) -> String {
    fs::read_to_string(fixture.with_extension("export.jsonl")).unwrap()
}

/// Upgrades a copy of a fixture, and checks that nothing was lost.
fn upgrade_and_compare(store: &Store<'_>, fixture: &Path) {
    let expected = expected_export(fixture);
    let run = |arguments: &[&str], input: &str| store.succeed(Program::Current, arguments, input);
    assert!(run(&["upgrade"], "").starts_with("schema version "));
    assert_eq!(run(&["check"], ""), "no corruption found\n");
    assert_eq!(run(&EXPORT, ""), expected);
    let owner = ["--app", "assistant", "--user", "ada"];
    let memories = run(&[&["memory", "list"][..], &owner].concat(), "");
    for text in ["Earl Grey. Grüße 🫖", "Ada lives in Oslo."] {
        assert!(memories.contains(text), "{memories}");
    }
    assert!(!memories.contains("Wrong."), "{memories}");
    assert!(run(&["keys", "list"], "").contains("phone"));
    let event = "{\"id\":\"new\",\"author\":\"user\",\"content\":{\"role\":\"user\",\
                 \"parts\":[{\"text\":\"after the upgrade\"}]}}\n";
    let append = [&["append", "--session", "tuesday"][..], &owner].concat();
    assert!(
        run(&append, event).contains('3'),
        "the fork ends at position 2"
    );
    assert!(run(&EXPORT, "").contains("after the upgrade"));
    assert!(run(&["upgrade", "--finish"], "").starts_with("schema version "));
    assert_eq!(run(&["check"], ""), "no corruption found\n");
}

/// Reads the schema version from the name of a fixture.
fn version(fixture: &Path) -> u32 {
    let name = fixture.file_stem().unwrap().to_str().unwrap();
    name.rsplit_once('-').unwrap().1.parse().unwrap()
}

#[test]
fn every_sqlite_schema_version_is_upgraded_without_loss() {
    let fixtures = fixtures("sqlite-", ".db");
    for fixture in &fixtures {
        let folder = retain_testkit::scratch::folder();
        let file = folder.path().join("copy.db");
        fs::copy(fixture, &file).unwrap();
        let store = Store {
            folder: folder.path(),
            uri: uri(&file),
        };
        let before = fs::read(&file).unwrap();
        if Some(fixture) != fixtures.last() {
            read_commands_reject_an_old_schema(&store, version(fixture));
        }
        assert!(
            fs::read(&file).unwrap() == before,
            "{fixture:?} was changed"
        );
        store.succeed(Program::Current, &["backup", "backup.db"], "");
        assert!(
            fs::read(&file).unwrap() == before,
            "{fixture:?} was changed"
        );
        upgrade_and_compare(&store, fixture);
        // The backup, which has the old schema, is as good as the original.
        let backup = Store {
            folder: folder.path(),
            uri: uri(&folder.path().join("backup.db")),
        };
        upgrade_and_compare(&backup, fixture);
    }
}

/// Checks that commands that only read fail on an old schema and say what to do. The newest fixture
/// has the schema of this program.
fn read_commands_reject_an_old_schema(store: &Store<'_>, version: u32) {
    let expected = format!("has schema version {version}, but this program reads");
    for arguments in [&EXPORT[..], &["check"]] {
        let error = store.fail(Program::Current, arguments);
        assert!(error.contains(&expected), "{error}");
        assert!(error.contains("run `retain upgrade`"), "{error}");
    }
}

#[test]
fn program_works_on_the_next_sqlite_schema_until_the_upgrade_is_finished() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("copy.db");
    fs::copy(fixtures("sqlite-", ".db").last().unwrap(), &file).unwrap();
    let store = Store {
        folder: folder.path(),
        uri: uri(&file),
    };
    works_on_the_next_schema_until_the_upgrade_is_finished(&store);
}

/// Lets a program of the next version upgrade the store while a server of this version runs.
fn works_on_the_next_schema_until_the_upgrade_is_finished(store: &Store<'_>) {
    store.succeed(Program::Current, &["upgrade"], "");
    let server = Server::with(store.folder, &["--session-service-uri", &store.uri]);
    assert_eq!(server.get("/ready").status, 200);
    let upgraded = store.succeed(Program::Next, &["upgrade"], "");
    assert!(
        upgraded.contains("not finished: test-migration"),
        "{upgraded}"
    );
    assert_eq!(server.get("/ready").status, 200);
    assert_eq!(
        store.succeed(Program::Current, &["check"], ""),
        "no corruption found\n"
    );
    let exported = store.succeed(Program::Current, &EXPORT, "");
    assert_eq!(store.succeed(Program::Next, &EXPORT, ""), exported);
    let current = store.succeed(Program::Current, &["upgrade"], "");
    assert!(
        current.contains("a newer Retain upgraded this database"),
        "{current}"
    );
    let finished = store.succeed(Program::Next, &["upgrade", "--finish"], "");
    assert!(!finished.contains("not finished"), "{finished}");
    assert_eq!(server.get("/ready").status, 503);
    server.stop();
    assert_eq!(store.succeed(Program::Next, &EXPORT, ""), exported);
    for arguments in [&EXPORT[..], &["check"], &["upgrade"]] {
        let error = store.fail(Program::Current, arguments);
        assert!(
            error.contains("needs a program that supports schema version"),
            "{error}"
        );
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use retain_testkit::postgres::{TestDatabase, is_there};

    use super::*;

    /// Creates a database with the rows of a fixture.
    async fn restore(fixture: &Path) -> TestDatabase {
        let database = TestDatabase::new().await;
        let dump = fs::read_to_string(fixture).unwrap();
        database.client().await.batch_execute(&dump).await.unwrap();
        database
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_postgres_schema_version_is_upgraded_without_loss() {
        if !is_there() {
            return;
        }
        let fixtures = fixtures("postgres-", ".sql");
        for fixture in &fixtures {
            let folder = retain_testkit::scratch::folder();
            let database = restore(fixture).await;
            let store = Store {
                folder: folder.path(),
                uri: database.uri(),
            };
            if Some(fixture) != fixtures.last() {
                read_commands_reject_an_old_schema(&store, version(fixture));
            }
            upgrade_and_compare(&store, fixture);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn program_works_on_the_next_postgres_schema_until_the_upgrade_is_finished() {
        if !is_there() {
            return;
        }
        let folder = retain_testkit::scratch::folder();
        let database = restore(fixtures("postgres-", ".sql").last().unwrap()).await;
        let store = Store {
            folder: folder.path(),
            uri: database.uri(),
        };
        works_on_the_next_schema_until_the_upgrade_is_finished(&store);
    }
}
