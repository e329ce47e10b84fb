//! `initial_state.json` in the folder of an app.

use std::sync::Arc;

use retain_core::Json;
use retain_runtime::ConfigRegistry;
use retain_server::{Apps, Dev, Server};

use crate::dev::support::{agents, get, post, server, write};

const SESSIONS: &str = "/apps/chat/users/ada/sessions";
const FILE: &str = "chat/initial_state.json";

fn dev(apps: Apps) -> Apps {
    apps.with_dev(Dev::new())
}

/// Creates a session and returns its state, which must be the same in the response and in the
/// store.
async fn state_of_new_session(server: &Arc<Server>, id: &str, body: &str) -> String {
    let made = post(server, SESSIONS, body).await;
    assert_eq!(made.status, 200, "{}", made.text);
    let stored = get(server, &format!("{SESSIONS}/{id}")).await;
    assert_eq!(made.json()["state"], stored.json()["state"]);
    stored.json()["state"].to_string()
}

#[tokio::test]
async fn initial_state_file_is_overridden_by_the_request() {
    let folder = agents();
    let text = r#"{"tone":"warm","n":1,"user:name":"Ada","app:place":"Oslo"}"#;
    write(folder.path(), FILE, text);
    let server = server(folder.path(), ConfigRegistry::new(), dev);
    let state = state_of_new_session(&server, "s1", r#"{"sessionId":"s1","state":{"n":2}}"#).await;
    let whole = r#"{"tone":"warm","n":2,"app:place":"Oslo","user:name":"Ada"}"#;
    assert_eq!(Json::parse(&state), Json::parse(whole));
    let old = post(&server, &format!("{SESSIONS}/s2"), r#"{"n":3}"#).await;
    assert_eq!(old.json()["state"]["tone"], Json::from("warm"));
    assert_eq!(old.json()["state"]["n"], Json::from(3));
    // An edit of the file applies without a restart.
    write(folder.path(), FILE, r#"{"tone":"cool"}"#);
    let state = state_of_new_session(&server, "s3", r#"{"sessionId":"s3"}"#).await;
    assert!(state.contains(r#""tone":"cool""#), "{state}");
}

#[tokio::test]
async fn import_ignores_the_initial_state_file() {
    let folder = agents();
    write(folder.path(), FILE, r#"{"tone":"warm"}"#);
    let server = server(folder.path(), ConfigRegistry::new(), dev);
    let events = r#"[{"author":"user","invocationId":"i","id":"e","timestamp":1.5}]"#;
    let body = format!(r#"{{"sessionId":"s","state":{{"n":1}},"events":{events}}}"#);
    assert_eq!(
        state_of_new_session(&server, "s", &body).await,
        r#"{"n":1}"#
    );
}

#[tokio::test]
async fn production_server_ignores_the_initial_state_file() {
    let folder = agents();
    write(folder.path(), FILE, r#"{"tone":"warm"}"#);
    let server = server(folder.path(), ConfigRegistry::new(), |apps| apps);
    assert_eq!(
        state_of_new_session(&server, "s", r#"{"sessionId":"s"}"#).await,
        "{}"
    );
}

#[tokio::test]
async fn unreadable_initial_state_file_is_skipped() {
    let folder = agents();
    let server = server(folder.path(), ConfigRegistry::new(), dev);
    for (n, text) in ["", "[1]", "{", "\"x\""].iter().enumerate() {
        write(folder.path(), FILE, text);
        let id = format!("s{n}");
        let body = format!(r#"{{"sessionId":"{id}","state":{{"n":1}}}}"#);
        assert_eq!(
            state_of_new_session(&server, &id, &body).await,
            r#"{"n":1}"#,
            "{text}"
        );
    }
}

#[cfg(unix)]
#[tokio::test]
async fn symlinked_initial_state_file_is_ignored() {
    let folder = agents();
    write(folder.path(), "elsewhere.json", r#"{"secret":1}"#);
    let link = folder.path().join(FILE);
    std::os::unix::fs::symlink(folder.path().join("elsewhere.json"), link).expect("a link");
    let server = server(folder.path(), ConfigRegistry::new(), dev);
    assert_eq!(
        state_of_new_session(&server, "s", r#"{"sessionId":"s"}"#).await,
        "{}"
    );
}
