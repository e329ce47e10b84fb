//! Secrets do not leave the server on any route.

use std::sync::Arc;

use http_body_util::BodyExt as _;
use retain_server::Server;

use crate::adk::support::{
    Answer, GatedModel, ada_caller, ask, gated_agent, read, request, send, server, with_session,
};

const SESSIONS: &str = "/apps/desk/users/ada/sessions";

#[tokio::test]
async fn credentials_are_stored_but_not_returned() {
    let server = server(gated_agent(&GatedModel::new()));
    with_session(&server).await;
    let body = r#"{"sessionId":"c",
     "state":{"cred":{"authType":"oauth2","oauth2":{"clientId":"id","clientSecret":"SECRET","accessToken":"SECRET"}},
              "token":"not a credential"},
     "events":[{"id":"e","author":"a",
      "content":{"parts":[
        {"functionCall":{"id":"1","name":"adk_request_credential","args":{"authConfig":{"exchangedAuthCredential":{"oauth2":{"authCode":"SECRET","authUri":"shown"}}}}}},
        {"functionResponse":{"id":"1","name":"adk_request_credential","response":{"apiKey":"SECRET","list":[{"password":"SECRET"}],"other":"shown"}}},
        {"functionResponse":{"id":"2","name":"else","response":{"raw_auth_credential":{"token":"SECRET"},"token":"shown"}}}]},
      "actions":{"requestedAuthConfigs":{"1":{"rawAuthCredential":{"authType":"apiKey","apiKey":"SECRET"}}}}}]}"#;
    let answers = [
        ask(&server, "POST", SESSIONS, body).await,
        ask(&server, "GET", &format!("{SESSIONS}/c"), "").await,
        ask(
            &server,
            "PATCH",
            &format!("{SESSIONS}/c"),
            r#"{"stateDelta":{"a":1}}"#,
        )
        .await,
        ask(&server, "GET", SESSIONS, "").await,
    ];
    for answer in &answers {
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert!(!answer.text.contains("SECRET"), "{}", answer.text);
        assert!(answer.text.contains("not a credential"), "{}", answer.text);
        assert!(
            answer.text.contains(r#""clientId":"id""#),
            "{}",
            answer.text
        );
    }
    for answer in &answers[..3] {
        assert!(
            answer.text.contains(r#""authUri":"shown""#),
            "{}",
            answer.text
        );
        assert!(
            answer.text.contains(r#""other":"shown""#),
            "{}",
            answer.text
        );
        assert!(
            answer.text.contains(r#""token":"shown""#),
            "{}",
            answer.text
        );
    }
    assert_hidden_from_users(&server).await;
    let key = retain_core::SessionKey::new("desk", "ada", "c");
    let stored = server
        .services
        .sessions
        .read(&key, retain_core::Window::ALL)
        .await;
    let stored = stored
        .expect("read")
        .expect("there")
        .to_json()
        .expect("JSON");
    assert_eq!(
        stored.matches("SECRET").count(),
        7,
        "the store keeps the secrets"
    );
}

/// Checks that Retain's own API returns secrets to unbound callers only.
async fn assert_hidden_from_users(server: &Arc<Server>) {
    const USER: &str = "/api/v1/apps/desk/users/ada";
    let as_user = async |path: &str| {
        let mut request_as_user = request("GET", path, "");
        request_as_user.extensions_mut().insert(ada_caller());
        send(server, request_as_user).await
    };
    for path in [
        format!("{USER}/sessions/c"),
        format!("{USER}/sessions/c/events"),
        format!("{USER}/sessions/c/export"),
        format!("{USER}/export"),
    ] {
        let whole: Answer = ask(server, "GET", &path, "").await;
        assert!(whole.text.contains("SECRET"), "{path}: {}", whole.text);
        let shown = read(as_user(&path).await).await;
        assert_eq!(shown.status, 200, "{path}: {}", shown.text);
        assert!(!shown.text.contains("SECRET"), "{path}: {}", shown.text);
        assert!(shown.text.contains("\"authUri\":\"shown\""), "{path}");
        let lines = |text: &str| text.lines().count();
        assert_eq!(lines(&shown.text), lines(&whole.text), "{path}");
    }
    for path in [
        format!("{USER}/sessions/c/state"),
        format!("{USER}/sessions?state=true"),
    ] {
        let shown = read(as_user(&path).await).await;
        assert!(!shown.text.contains("SECRET"), "{path}: {}", shown.text);
        assert!(shown.text.contains("not a credential"), "{path}");
    }
    let mut tail = as_user(&format!("{USER}/sessions/c/tail"))
        .await
        .into_body();
    let frame = tail.frame().await.expect("a frame").expect("bytes");
    let frame = frame.into_data().expect("data");
    let frame = String::from_utf8(frame.to_vec()).expect("text");
    assert!(frame.starts_with("id: 1\n"), "{frame}");
    assert!(
        frame.contains("authUri") && !frame.contains("SECRET"),
        "{frame}"
    );
    assert!(frame.ends_with("\n\n"), "{frame}");
}
