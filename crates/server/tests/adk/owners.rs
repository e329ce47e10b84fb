//! A key that is bound to a user runs for nobody else.

use retain_server::{Caller, Scope};

use crate::support::{filing_agent, message, read, request, send, server, with_session};

#[tokio::test]
async fn runs_are_for_the_user_of_the_key() {
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
async fn a_key_of_an_app_sees_that_app() {
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
}
