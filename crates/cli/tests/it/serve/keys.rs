//! `retain keys` while a server uses the same store.

use std::path::Path;

use super::process::{Server, retain};

fn keys(folder: &Path, arguments: &[&str]) -> String {
    let ran = retain(folder).arg("keys").args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{arguments:?}: {error}");
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

fn ask(server: &Server, path: &str, key: &str) -> u16 {
    let header = format!("Authorization: Bearer {key}\r\n");
    server.ask("GET", path, &header, "").status
}

#[test]
fn key_revoked_by_another_process_is_rejected() {
    let folder = retain_testkit::scratch::folder();
    let key = keys(
        folder.path(),
        &["create", "--name", "mine", "--expires", "90d"],
    );
    let other = keys(folder.path(), &["create"]);
    // An API key exists, so requests from this machine need one too.
    let server = Server::with(folder.path(), &[]);
    assert!(
        server.announced.join("\n").contains("keys"),
        "{:?}",
        server.announced
    );
    assert_eq!(server.get("/list-apps").status, 401);
    assert_eq!(ask(&server, "/list-apps", &key), 200);
    let later = keys(
        folder.path(),
        &["create", "--app", "assistant", "--user", "ada"],
    );
    assert_eq!(
        ask(&server, "/apps/assistant/users/ada/sessions", &later),
        200
    );
    assert_eq!(
        ask(&server, "/apps/assistant/users/grace/sessions", &later),
        403
    );

    let id = key.split('_').nth(1).unwrap();
    assert_eq!(
        keys(folder.path(), &["revoke", id]),
        format!("revoked {id}")
    );
    assert_eq!(ask(&server, "/list-apps", &key), 401);
    assert_eq!(ask(&server, "/list-apps", &other), 200);

    // The server records the use of each key in the background.
    let is_recorded = |line: &str| line.contains("valid  used 20");
    let mut listed = keys(folder.path(), &["list"]);
    for _ in 0..300 {
        if listed.lines().nth(1).is_some_and(is_recorded) {
            break;
        }
        listed = keys(folder.path(), &["list"]);
    }
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 3, "{listed}");
    assert!(
        lines[0].contains(id) && lines[0].contains("\"mine\""),
        "{listed}"
    );
    assert!(lines[0].contains("revoked 20"), "{listed}");
    assert!(lines[1].contains("valid  used 20"), "{listed}");
    assert!(lines[2].contains("user \"ada\""), "{listed}");
}

#[test]
fn server_still_requires_a_key_after_the_last_one_is_revoked_or_erased() {
    let folder = retain_testkit::scratch::folder();
    let assert_rejects_without_key = |why: &str| {
        let server = Server::with(folder.path(), &[]);
        assert_eq!(server.get("/list-apps").status, 401, "{why}");
        let announced = server.announced.join("\n");
        let expected = ["none is valid", "retain keys create --store sqlite:///"];
        assert!(
            expected.iter().all(|it| announced.contains(it)),
            "{announced}"
        );
    };
    let bound = ["create", "--app", "assistant", "--user", "ada"];
    let key = keys(folder.path(), &bound);
    let id = key.split('_').nth(1).unwrap();
    keys(folder.path(), &["revoke", id]);
    assert_rejects_without_key("the last key was revoked");
    let erased = retain(folder.path())
        .args(["erase", "--store", "sqlite:///.retain/retain.db"])
        .args(["--app", "assistant", "--user", "ada", "--yes"])
        .output()
        .unwrap();
    assert!(erased.status.success(), "{erased:?}");
    assert_eq!(keys(folder.path(), &["list"]), "");
    assert_rejects_without_key("the user of the last key was erased");
    // A new key gives access again.
    let key = keys(folder.path(), &["create"]);
    let server = Server::with(folder.path(), &[]);
    assert_eq!(ask(&server, "/list-apps", &key), 200);
}

#[test]
fn api_key_secret_is_not_stored() {
    let folder = retain_testkit::scratch::folder();
    let key = keys(
        folder.path(),
        &["create", "--store", "sqlite:///k.db", "--name", "canary"],
    );
    let secret = key.split('_').nth(2).unwrap();
    assert_eq!(secret.len(), 64);
    assert!(!keys(folder.path(), &["list", "--store", "sqlite:///k.db"]).contains(secret));
    let mut found_name = false;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let holds = |text: &str| {
            bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        assert!(!holds(secret));
        found_name |= holds("canary");
    }
    assert!(
        found_name,
        "the test proves nothing: it does not find the name of the key"
    );
}

#[test]
fn invalid_key_options_are_refused() {
    let folder = retain_testkit::scratch::folder();
    for arguments in [
        &["create", "--scopes", "admin", "--user", "ada"][..],
        &["create", "--scopes", "root"],
        &["create", "--expires", "0d"],
        &["revoke", "unknown"],
    ] {
        let ran = retain(folder.path())
            .arg("keys")
            .args(arguments)
            .output()
            .unwrap();
        assert!(!ran.status.success(), "{arguments:?}");
    }
    assert_eq!(keys(folder.path(), &["list"]), "");
}

#[test]
fn keys_command_uses_the_store_in_the_server_settings() {
    let folder = retain_testkit::scratch::folder();
    let file = "session-service-uri = \"sqlite:///elsewhere.db\"\n";
    std::fs::write(folder.path().join("retain.toml"), file).unwrap();
    let key = keys(folder.path(), &["create"]);
    assert!(folder.path().join("elsewhere.db").exists());
    assert!(!folder.path().join(".retain").exists());
    let server = Server::with(folder.path(), &[]);
    assert_eq!(server.get("/list-apps").status, 401);
    assert_eq!(ask(&server, "/list-apps", &key), 200);
}
