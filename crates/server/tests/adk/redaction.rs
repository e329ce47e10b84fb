//! Secrets do not leave the server, by whichever route.

use crate::support::{Gated, ask, gated_agent, server, with_session};

const SESSIONS: &str = "/apps/desk/users/ada/sessions";

#[tokio::test]
async fn credentials_are_kept_and_not_shown() {
    let server = server(gated_agent(&Gated::new()));
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
    assert_eq!(stored.matches("SECRET").count(), 7, "it is kept");
}
