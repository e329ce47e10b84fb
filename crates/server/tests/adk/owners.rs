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
