//! `retain migrate` as a process, which some tests kill while it copies.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use retain::{
    Event, SessionLog as _, SessionService as _, SqliteSessionService,
    artifact::{ArtifactKey, ArtifactService as _},
    model::Part,
    session::{SessionKey, SqliteOptions},
    store::{SqliteStore, StoreArtifactService},
};

use crate::program::{RETAIN, uri};

fn migrate(from: &Path, to: &Path) -> Command {
    migrate_uris(&uri(from), &uri(to))
}

fn migrate_uris(from: &str, to: &str) -> Command {
    let mut command = Command::new(RETAIN);
    command.args(["migrate", "--from", from, "--to", to]);
    command
}

/// Returns the output of a successful command, otherwise its error output.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    match output.status.success() {
        true => Ok(text(output.stdout)),
        false => Err(text(output.stderr)),
    }
}

fn export(file: &Path) -> String {
    let mut command = Command::new(RETAIN);
    command.args(["export", "--store", &uri(file), "--app", "app"]);
    run(&mut command).unwrap()
}

/// Creates sessions of two users; the first has most events.
async fn fill(file: &Path, events: usize) -> SqliteSessionService {
    let sessions = SqliteSessionService::connect(&uri(file)).await.unwrap();
    for (user, id, events) in [("ada", "s1", events), ("ada", "s2", 3), ("grace", "s1", 40)] {
        let created = sessions.create_session("app", user, None, Some(id));
        let key = created.await.unwrap().key();
        let events: Vec<Event> = (0..events)
            .map(|n| {
                let mut event = Event::user_text(format!("text {n}"));
                event.actions.state_delta.insert("n", n as u64);
                event.actions.state_delta.insert("user:n", n as u64);
                event
            })
            .collect();
        for batch in events.chunks(500) {
            sessions.append(&key, batch.to_vec().into()).await.unwrap();
        }
    }
    sessions
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_copies_verifies_and_reports() {
    let folder = retain_testkit::scratch::folder();
    let (from, to) = (folder.path().join("from.db"), folder.path().join("to.db"));
    drop(fill(&from, 100).await);
    let output = run(migrate(&from, &to).arg("--dry-run")).unwrap();
    assert!(
        output.contains("3 sessions, 143 events, 2 shared keys"),
        "{output}"
    );
    assert!(!to.exists(), "the dry run created a file");
    let output = run(&mut migrate(&from, &to)).unwrap();
    assert!(
        output.contains("copied:   3 sessions, 143 events"),
        "{output}"
    );
    assert!(
        output.contains("verified: 3 sessions, 143 events"),
        "{output}"
    );
    assert!(output.contains("SHA-256"), "{output}");
    assert_eq!(export(&to), export(&from));
    let output = run(&mut migrate(&from, &to)).unwrap();
    assert!(output.contains("copied:   nothing"), "{output}");
    let output = run(migrate(&from, &to).arg("--dry-run")).unwrap();
    assert!(
        output.contains("already in target:   3 sessions, 143"),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_error_names_the_cause() {
    let folder = retain_testkit::scratch::folder();
    let (from, to) = (folder.path().join("from.db"), folder.path().join("to.db"));
    drop(fill(&from, 3).await);
    let same = run(&mut migrate(&from, &from)).unwrap_err();
    assert!(same.contains("the same store"), "{same}");
    let missing = run(&mut migrate(&folder.path().join("no.db"), &to)).unwrap_err();
    assert!(missing.contains("the file does not exist"), "{missing}");
    assert!(!to.exists());
    let sessions = fill(&to, 3).await;
    // The ids of the events differ.
    let error = run(&mut migrate(&from, &to)).unwrap_err();
    let expected = r#"session "app"/"ada"/"s1": exists in the target and differs from the source"#;
    assert!(error.contains(expected), "{error}");
    for (user, id) in [("ada", "s1"), ("ada", "s2"), ("grace", "s1")] {
        sessions.delete_session("app", user, id).await.unwrap();
    }
    let more = SessionKey::new("app", "grace", "s9");
    let created = sessions.create_session("app", "grace", None, Some("s9"));
    created.await.unwrap();
    drop(sessions);
    let error = run(&mut migrate(&from, &to)).unwrap_err();
    assert!(
        error.contains(&format!("session {more}: exists in the target but not")),
        "{error}"
    );
    let mut odd = Command::new(RETAIN);
    odd.args([
        "migrate",
        "--from",
        "mongo://ada:hunter2@h/x",
        "--to",
        &uri(&to),
    ]);
    let error = run(&mut odd).unwrap_err();
    assert!(
        error.contains("sqlite:///") && !error.contains("hunter2"),
        "{error}"
    );
}

/// A migration that is killed and restarted at different moments has the same result.
#[tokio::test(flavor = "multi_thread")]
async fn killed_migration_resumes() {
    let folder = retain_testkit::scratch::folder();
    let from = folder.path().join("from.db");
    drop(fill(&from, 3000).await);
    let expected = export(&from);
    let mut killed = 0;
    for kibibytes in [0, 1, 64, 128, 256, 512, 1024] {
        let to = folder.path().join(format!("to-{kibibytes}.db"));
        let mut command = migrate(&from, &to);
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = quiet.spawn().unwrap();
        kill_when(&mut child, || size_of_database(&to) >= kibibytes << 10).await;
        killed += usize::from(!child.wait().unwrap().success());
        let output = run(&mut migrate(&from, &to)).unwrap();
        assert!(
            output.contains("verified: 3 sessions, 3043 events"),
            "{output}"
        );
        assert_eq!(export(&to), expected, "killed at {kibibytes} KiB");
    }
    assert!(killed > 0, "every migration ended before it was killed");
}

/// Kills a process as soon as the condition holds, unless it ends before.
async fn kill_when(child: &mut Child, condition: impl Fn() -> bool) {
    while !condition() && child.try_wait().unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    child.kill().unwrap();
}

/// Returns the bytes of a database file and its write-ahead log.
fn size_of_database(file: &Path) -> u64 {
    let log = file.with_extension("db-wal");
    let size = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
    size(file) + size(&log)
}

/// Copies one kind of data at a time: from one store to several, and from these to one.
#[tokio::test(flavor = "multi_thread")]
async fn migrate_with_only_copies_one_kind_of_data() {
    let folder = retain_testkit::scratch::folder();
    let path = |name: &str| folder.path().join(name);
    let (from, rest, back) = (path("from.db"), path("rest.db"), path("back.db"));
    let files = format!("file://{}", path("files").display());
    drop(fill(&from, 10).await);
    save(&from, 3).await;
    let mut command = Command::new(RETAIN);
    command.args(["keys", "create", "--name", "mine", "--store", &uri(&from)]);
    run(&mut command).unwrap();
    for (from, to, kind, count) in [
        (
            uri(&from),
            uri(&rest),
            "sessions",
            "copied:   3 sessions, 53 events",
        ),
        (uri(&from), uri(&rest), "keys", "copied:   1 API key\n"),
        (
            uri(&from),
            files.clone(),
            "artifacts",
            "copied:   3 artifact versions\n",
        ),
        (
            files.clone(),
            uri(&back),
            "artifacts",
            "copied:   3 artifact versions\n",
        ),
        (uri(&rest), uri(&back), "keys", "copied:   1 API key\n"),
        (
            uri(&rest),
            uri(&back),
            "sessions",
            "copied:   3 sessions, 53 events",
        ),
        (uri(&from), uri(&back), "memories", "copied:   nothing\n"),
    ] {
        let output = run(migrate_uris(&from, &to).args(["--only", kind])).unwrap();
        assert!(output.contains(count), "{kind}: {output}");
    }
    let whole = run(&mut migrate(&from, &back)).unwrap();
    assert!(whole.contains("copied:   nothing"), "{whole}");
    let nothing = run(migrate_uris(&files, &uri(&back)).args(["--only", "keys"])).unwrap_err();
    assert!(
        nothing.contains("has no data of the kinds that --only selects"),
        "{nothing}"
    );
    let again = format!("{}/./from.db", folder.path().display());
    let same = run(migrate(&from, Path::new(&again)).args(["--only", "keys"])).unwrap_err();
    assert!(same.contains("the same store"), "{same}");
}

/// Saves this number of versions of an artifact.
async fn save(file: &Path, versions: usize) {
    let store = SqliteStore::open(SqliteOptions::file(file)).await.unwrap();
    let artifacts = StoreArtifactService::over(store.artifacts());
    let session = SessionKey::new("app", "ada", "s1");
    let key = ArtifactKey::in_session(&session, "a.txt");
    for version in 0..versions {
        let part = Part::text(format!("version {version}"));
        artifacts.save_artifact(&key, part, None).await.unwrap();
    }
}

/// A save that was killed does not keep its version number, so the next migration can use it.
#[tokio::test(flavor = "multi_thread")]
async fn killed_migration_to_a_folder_resumes() {
    let folder = retain_testkit::scratch::folder();
    let from = folder.path().join("from.db");
    save(&from, 60).await;
    let mut killed = 0;
    for versions in [0, 1, 20, 50] {
        let root = folder.path().join(format!("files-{versions}"));
        let to = format!("file://{}", root.display());
        let mut command = migrate_uris(&uri(&from), &to);
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = quiet.spawn().unwrap();
        kill_when(&mut child, || count_files(&root) >= versions).await;
        killed += usize::from(!child.wait().unwrap().success());
        let output = run(&mut migrate_uris(&uri(&from), &to)).unwrap();
        assert!(
            output.contains("verified: 60 artifact versions"),
            "{output}"
        );
    }
    assert!(killed > 0, "every migration ended before it was killed");
}

fn count_files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let count = |entry: std::fs::DirEntry| match entry.path() {
        path if path.is_dir() => count_files(&path),
        _ => 1,
    };
    entries.map(count).sum()
}

/// A migration to a server and back changes nothing.
#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn migrate_to_postgresql_and_back_is_lossless() {
    use retain_testkit::postgres::{TestDatabase, is_there};
    if !is_there() {
        return;
    }
    let folder = retain_testkit::scratch::folder();
    let (from, back) = (folder.path().join("from.db"), folder.path().join("back.db"));
    drop(fill(&from, 100).await);
    for arguments in [
        &["keys", "create", "--name", "mine"][..],
        &["memory", "add", "--app", "app", "--user", "ada"],
    ] {
        let mut command = Command::new(RETAIN);
        run(command.args(arguments).args(["--store", &uri(&from)])).unwrap();
    }
    let (database, other) = (TestDatabase::new().await, TestDatabase::new().await);
    let server = database.uri();
    let dry_run = run(migrate_uris(&uri(&from), &server).arg("--dry-run")).unwrap();
    let absent = run(&mut migrate_uris(&server, &other.uri())).unwrap_err();
    assert!(absent.contains("has no Retain tables"), "{absent}");
    let there = run(&mut migrate_uris(&uri(&from), &server)).unwrap();
    let same = run(&mut migrate_uris(
        &server,
        &format!("{server}?connect_timeout=7"),
    ))
    .unwrap_err();
    assert!(same.contains("the same store"), "{same}");
    let again = run(&mut migrate_uris(&server, &uri(&back))).unwrap();
    for output in [&dry_run, &there, &again] {
        for count in [
            "3 sessions, 143 events, 2 shared keys",
            "103 memories",
            "1 API key",
        ] {
            assert!(output.contains(count), "{count}: {output}");
        }
    }
    // The hash of all data does not depend on the store.
    let hash = |output: &str| output.split("SHA-256").nth(1).map(str::to_owned);
    assert!(hash(&there).is_some(), "{there}");
    assert_eq!(hash(&there), hash(&again));
    assert_eq!(export(&back), export(&from));
}
