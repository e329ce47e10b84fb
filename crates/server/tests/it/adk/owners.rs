//! API keys that are bound to an app or a user: which apps they run, which data they read and
//! change.

use retain_server::{Caller, Scope};

use crate::adk::support::{
    ada_caller, filing_agent, message, read, request, send, server, with_session,
};

#[tokio::test]
async fn run_requires_a_key_with_its_app_user_and_scope() {
    let server = server(filing_agent());
    with_session(&server).await;
    let run = |caller: Caller, path: &'static str| {
        let server = server.clone();
        async move {
            let mut request = request("POST", path, &message("hi", ""));
            request.extensions_mut().insert(caller);
            read(send(&server, request).await).await.status
        }
    };
    let bound = |app: &str, user: &str, scope: Scope| Caller {
        scopes: Some(vec![scope]),
        app: Some(app.to_owned()),
        user: Some(user.to_owned()),
    };
    for path in ["/run", "/run_sse"] {
        assert_eq!(run(bound("desk", "ada", Scope::Run), path).await, 200);
        assert_eq!(run(bound("desk", "bob", Scope::Run), path).await, 403);
        assert_eq!(run(bound("shop", "ada", Scope::Run), path).await, 403);
        assert_eq!(
            run(bound("desk", "ada", Scope::SessionsRead), path).await,
            403
        );
    }
}

#[tokio::test]
async fn key_bound_to_an_app_reaches_only_that_app() {
    let server = server(filing_agent());
    let get = |app: &str, path: &'static str| {
        let mut request = request("GET", path, "");
        request.extensions_mut().insert(Caller {
            app: Some(app.to_owned()),
            user: Some("ada".to_owned()),
            ..Caller::default()
        });
        let server = server.clone();
        async move { read(send(&server, request).await).await }
    };
    assert_eq!(get("desk", "/list-apps").await.text, r#"["desk"]"#);
    assert_eq!(get("shop", "/list-apps").await.text, "[]");
    assert_eq!(get("desk", "/apps/desk/app-info").await.status, 200);
    assert_eq!(get("shop", "/apps/desk/app-info").await.status, 403);
    // A user-bound API key does not see the tools of agents.
    let tool_count = async |caller: Option<Caller>| {
        let mut sent = request("GET", "/apps/desk/app-info", "");
        caller.map(|caller| sent.extensions_mut().insert(caller));
        let answer = read(send(&server, sent).await).await.json();
        let tools = answer["agents"]["clerk"]["tools"].as_array();
        tools.expect("tools").len()
    };
    assert_eq!(tool_count(None).await, 1);
    assert_eq!(tool_count(Some(ada_caller())).await, 0);
}

#[tokio::test]
async fn key_bound_to_a_user_cannot_write_app_state() {
    let server = server(filing_agent());
    let path = with_session(&server).await;
    let sessions = "/apps/desk/users/ada/sessions";
    let with_id = "/apps/desk/users/ada/sessions/new";
    let api = "/api/v1/apps/desk/users/ada/sessions";
    let events = "/api/v1/apps/desk/users/ada/sessions/s/events";
    let run = message("hi", r#","stateDelta":{"mine":1,"app:banner":"forged"}"#);
    let state = r#"{"state":{"mine":1,"app:banner":"forged"}}"#;
    let delta = r#"{"stateDelta":{"app:banner":"forged"}}"#;
    let event = r#"{"events":[{"author":"user"},
        {"author":"user","actions":{"stateDelta":{"app:banner":"forged"}}}]}"#;
    let requests = [
        ("POST", sessions, state),
        ("POST", with_id, r#"{"app:banner":"forged"}"#),
        ("POST", api, state),
        ("PATCH", path, delta),
        ("POST", "/run", &run),
        ("POST", "/run_sse", &run),
        ("POST", events, event),
    ];
    let shared = || async { server.services.sessions.get_app_state("desk").await };
    for (method, path, body) in requests {
        let mut sent = request(method, path, body);
        sent.extensions_mut().insert(ada_caller());
        let answer = read(send(&server, sent).await).await;
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text);
        assert!(answer.text.contains("app:banner"), "{}", answer.text);
        assert!(shared().await.expect("state").is_empty(), "{method} {path}");
    }
    let listed = server.services.sessions.list_sessions("desk", None).await;
    let listed = listed.expect("sessions").sessions;
    assert_eq!(listed.len(), 1, "nothing was created");
    assert_eq!(listed[0].position, 0, "nothing was appended");
    // An app-wide API key may set app state; a user's API key may set user state.
    for (method, path, body) in requests {
        let of_app = Caller {
            user: None,
            ..ada_caller()
        };
        let own = body.replace("app:", "user:");
        for (caller, body) in [(of_app, body), (ada_caller(), own.as_str())] {
            let path = path.replace("/new", if caller.user.is_some() { "/n1" } else { "/n2" });
            let mut sent = request(method, &path, body);
            sent.extensions_mut().insert(caller);
            let answer = read(send(&server, sent).await).await;
            assert!(answer.status < 300, "{method} {path}: {}", answer.text);
        }
    }
    assert_eq!(shared().await.expect("state")["banner"], "forged");
}
