//! `retain backup`, `restore` and `check` as a person runs them, and the commands of the guide.

use std::{fs, path::Path, process::Output};

use crate::serve::process::retain;

/// Runs a command in `folder`.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    retain(folder).args(arguments).output().unwrap()
}

/// Runs a command that must succeed, and returns its output.
fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let ended = run(folder, arguments);
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(ended.stdout).unwrap()
}

/// Runs a command that must fail with this exit code, and returns everything that it prints.
fn fail(folder: &Path, arguments: &[&str], code: i32) -> String {
    let ended = run(folder, arguments);
    let text = [ended.stdout, ended.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {text}");
    text
}

/// An exported session with an artifact, for `retain import`.
const EXPORT: &str = r#"{"retain":"session","version":1,"appName":"app","userId":"ada","id":"s1","createTime":1.0,"lastUpdateTime":2.0,"events":1,"state":{"a":1}}
{"position":1,"event":{"id":"e1","author":"user","invocationId":"i1","timestamp":2.0,"actions":{"stateDelta":{"a":2},"artifactDelta":{"x":0}}}}
"#;

/// Creates the session database at `uri`.
fn import(folder: &Path, uri: &str) {
    use std::{io::Write as _, process::Stdio};
    let mut command = retain(folder);
    command
        .args(["import", "--store", uri])
        .stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(EXPORT.as_bytes()).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// Writes version 0 of the artifact that the exported event names.
fn save_artifact(root: &Path) {
    let version = root.join("apps/app/users/ada/sessions/s1/artifacts/x/versions/0");
    fs::create_dir_all(&version).unwrap();
    fs::write(version.join("x"), "content").unwrap();
    fs::write(
        version.join("metadata.json"),
        r#"{"version":0,"fileName":"x"}"#,
    )
    .unwrap();
}

#[test]
fn backup_and_restore_handle_the_stores_of_the_settings_file() {
    let folder = retain_testkit::scratch::folder();
    let folder = folder.path();
    let files = folder.join("files");
    let uris = |name: &str| {
        format!(
            "session_service_uri = \"sqlite:///{name}.db\"\n\
             artifact_service_uri = \"file://{}/{name}\"\n",
            files.display()
        )
    };
    fs::write(folder.join("retain.toml"), uris("old")).unwrap();
    import(folder, "sqlite:///old.db");
    save_artifact(&files.join("old"));
    let written = succeed(folder, &["backup", "copy"]);
    assert!(
        written.starts_with("wrote copy: sessions, artifacts, 3 files, "),
        "{written}"
    );
    assert!(fail(folder, &["backup", "copy"], 1).contains("is not empty; choose another folder"));
    assert!(fail(folder, &["restore", "copy"], 1).contains("old.db"));
    fs::write(folder.join("retain.toml"), uris("new")).unwrap();
    let restored = succeed(folder, &["restore", "copy"]);
    assert!(
        restored.contains("verified: 1 session, 1 event"),
        "{restored}"
    );
    assert_eq!(succeed(folder, &["check"]), "no corruption found\n");
    let export = |uri: &str| succeed(folder, &["export", "--app", "app", "--store", uri]);
    assert_eq!(export("sqlite:///new.db"), export("sqlite:///old.db"));
    assert_eq!(
        fs::read(files.join("new/apps/app/users/ada/sessions/s1/artifacts/x/versions/0/x"))
            .unwrap(),
        b"content"
    );
}

#[test]
fn check_prints_problems_repairs_them_and_exits_with_a_code() {
    let folder = retain_testkit::scratch::folder();
    let folder = folder.path();
    let check = ["check", "--store", "sqlite:///s.db"];
    let with = |more: &'static str| [&check[..], &[more]].concat();
    assert!(fail(folder, &check, 2).contains("the check could not be completed"));
    import(folder, "sqlite:///s.db");
    assert_eq!(succeed(folder, &check), "no corruption found\n");
    let damage = |sql: &str| {
        let connection = rusqlite::Connection::open(folder.join("s.db")).unwrap();
        assert_eq!(connection.execute(sql, []).unwrap(), 1);
    };
    damage("UPDATE state SET value = '7' WHERE key = 'a'");
    let text = fail(folder, &check, 1);
    assert!(
        text.contains("state key \"a\" of session \"app\"/\"ada\"/\"s1\": "),
        "{text}"
    );
    assert!(text.contains("; run `retain check --repair`"), "{text}");
    let ended = run(folder, &with("--json"));
    let json: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    let problem = &json["problems"][0];
    assert_eq!(problem["place"]["session"], "s1");
    assert_eq!(problem["place"]["stateKey"], "a");
    assert_eq!(problem["repairable"], true);
    let repaired = succeed(folder, &with("--repair"));
    assert!(
        repaired.starts_with("repaired: state key \"a\""),
        "{repaired}"
    );
    assert_eq!(succeed(folder, &check), "no corruption found\n");
    damage("UPDATE events SET body = '{' WHERE event_id = 'e1'");
    let text = fail(folder, &with("--repair"), 1);
    assert!(text.contains("event 1 of session"), "{text}");
    assert!(text.contains("restore it from a backup"), "{text}");
}

/// A backup and a restore that are killed at random moments leave either nothing or a complete copy.
#[test]
fn killed_backup_or_restore_is_recognized_and_can_be_repeated() {
    let folder = retain_testkit::scratch::folder();
    let folder = folder.path();
    import(folder, "sqlite:///s.db");
    for n in 0..300 {
        let version = folder.join(format!(
            "files/apps/app/users/ada/artifacts/f{n}/versions/0"
        ));
        fs::create_dir_all(&version).unwrap();
        fs::write(version.join(format!("f{n}")), vec![7; 10_000]).unwrap();
    }
    let files = |name: &str| format!("file://{}/{name}", folder.display());
    let (from, to) = (files("files"), files("restored"));
    let kill = |arguments: &[&str], after: u64| {
        let mut child = retain(folder).args(arguments).spawn().unwrap();
        #[allow(clippy::disallowed_methods, reason = "this test has no executor")]
        std::thread::sleep(std::time::Duration::from_millis(after));
        let _ = child.kill();
        child.wait().unwrap().success()
    };
    let store = |uri: &'static str| ["--store", uri, "--artifact-service-uri"];
    let source = [&store("sqlite:///s.db")[..], &[&from]].concat();
    let target = [&store("sqlite:///r.db")[..], &[&to]].concat();
    let mut backup = String::new();
    for round in 0..crate::times(4, 40) {
        let name = format!("copy{round}");
        let complete = kill(
            &[&["backup", &name][..], &source].concat(),
            20 + 25 * round as u64,
        );
        let has_manifest = folder.join(&name).join("manifest.json").exists();
        assert!(has_manifest || !complete, "{round}");
        if !has_manifest {
            let error = fail(folder, &[&["restore", &name][..], &target].concat(), 1);
            let is_refused = error.contains("not a complete backup");
            assert!(is_refused, "{round}: {error}");
        }
        backup = name;
    }
    if !folder.join(&backup).join("manifest.json").exists() {
        backup = "last".to_owned();
        succeed(folder, &[&["backup", &backup][..], &source].concat());
    }
    let restore = [&["restore", &backup][..], &target].concat();
    let mut is_done = false;
    for round in 0..crate::times(4, 40) {
        is_done |= kill(&restore, 30 + 30 * round as u64);
        // The sessions are published last.
        let has_sessions = folder.join("r.db").exists();
        if has_sessions {
            let check = [&["check"][..], &target].concat();
            assert_eq!(succeed(folder, &check), "no corruption found\n");
            is_done = true;
            break;
        }
    }
    if !is_done {
        succeed(folder, &restore);
    }
    let count = fs::read_dir(folder.join("restored/apps/app/users/ada/artifacts")).unwrap();
    assert_eq!(count.count(), 300);
}

#[cfg(feature = "postgres")]
mod postgres {
    use std::process::Command;

    use retain_testkit::postgres::{TestDatabase, is_there, server};

    use super::*;

    /// The commands of the guide under this comment.
    fn commands(name: &str) -> String {
        let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/backup.md");
        let guide = fs::read_to_string(guide).unwrap();
        let mark = format!("<!-- run: {name} -->\n```sh\n");
        let (_, after) = guide.split_once(&mark).expect("the guide has the commands");
        after.split_once("```").unwrap().0.to_owned()
    }

    fn run_commands(name: &str, folder: &Path, variables: &[(&str, &str)]) {
        let program = Path::new(env!("CARGO_BIN_EXE_retain")).parent().unwrap();
        let servers = Command::new("pg_config").arg("--bindir").output();
        let servers = servers.map(|out| String::from_utf8(out.stdout).unwrap());
        let path = std::env::var("PATH").unwrap();
        let servers = servers.unwrap_or_default();
        let path = format!("{}:{path}:{}", program.display(), servers.trim());
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", &commands(name)]);
        command.current_dir(folder).env("PATH", path);
        command.envs(variables.iter().copied());
        let ended = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{name}: {stderr}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn commands_of_the_guide_back_up_and_restore_postgres_with_a_folder() {
        if !is_there() {
            return;
        }
        if Command::new("pg_dump").arg("--version").output().is_err() {
            crate::skip("PostgreSQL backups", "pg_dump is not installed");
            return;
        }
        let folder = retain_testkit::scratch::folder();
        let folder = folder.path();
        let (old, new) = (TestDatabase::new().await, TestDatabase::new().await);
        let (old, new) = (old.uri(), new.uri());
        import(folder, &old);
        save_artifact(&folder.join("files"));
        let artifacts = |name: &str| format!("file://{}/{name}", folder.display());
        let (from, to) = (artifacts("files"), artifacts("restored"));
        let variables = [
            ("STORE", old.as_str()),
            ("ARTIFACTS", &from),
            ("NEW_STORE", &new),
            ("NEW_ARTIFACTS", &to),
        ];
        run_commands("back up", folder, &variables);
        run_commands("restore", folder, &variables);
        let export = |uri: &str| succeed(folder, &["export", "--app", "app", "--store", uri]);
        assert_eq!(export(&new), export(&old));
        let version = "apps/app/users/ada/sessions/s1/artifacts/x/versions/0/x";
        assert!(folder.join("restored").join(version).exists());
        run_commands("base backup", folder, &[("SERVER", &server().unwrap())]);
    }
}
