//! Requests count against one memory budget, and are refused beyond it.

use axum::http::Method;
use retain_core::budget::{BudgetUse, ByteBudget};
use retain_server::Guards;

use crate::guards::support::{APP, World, ask, request};

const MB: usize = 1024 * 1024;

fn limit_to(budget: &ByteBudget) -> impl FnOnce(&mut Guards) {
    let budget = budget.clone();
    |guards| *guards = std::mem::take(guards).with_byte_budget(budget)
}

fn large_state(bytes: usize) -> String {
    format!(r#"{{"state":{{"k":"{}"}}}}"#, "x".repeat(bytes))
}

#[tokio::test(start_paused = true)]
async fn request_beyond_the_budget_gets_503_and_succeeds_later() {
    let world = World::new();
    let budget = ByteBudget::new(8 * MB);
    let router = world.router(|guards| {
        guards.keys = Default::default();
        limit_to(&budget)(guards);
    });
    let held = budget.try_reserve(BudgetUse::Sessions, 7 * MB).unwrap();
    let paths = [
        "/api/v1/apps/shop/users/ada/sessions",
        "/apps/shop/users/ada/sessions",
    ];
    let create = |path: &str| request(&Method::POST, path, "", Some(&large_state(MB)));
    for (path, kind) in paths
        .into_iter()
        .zip(["application/problem+json", "application/json"])
    {
        let refused = ask(&router, create(path)).await;
        assert_eq!(refused.status, 503, "{}", refused.body);
        assert_eq!(refused.headers["retry-after"], "2");
        assert_eq!(refused.headers["content-type"], kind);
        assert!(refused.body.contains("memory limit"), "{}", refused.body);
        assert_eq!(budget.used(), 7 * MB);
    }
    // Operators get answers anyway.
    for path in ["/health", "/metrics"] {
        let answer = ask(&router, request(&Method::GET, path, "", None)).await;
        assert_eq!(answer.status, 200, "{path}");
    }
    drop(held);
    for path in paths {
        let created = ask(&router, create(path)).await;
        assert!(created.status.is_success(), "{}", created.body);
    }
    assert_eq!(budget.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn api_key_at_its_share_does_not_stop_another_one() {
    let world = World::new();
    let (first, second) = (
        world.key("a", Some("ada"), |_| ()).await,
        world.key("b", Some("bob"), |_| ()).await,
    );
    let budget = ByteBudget::new(12 * MB);
    let router = world.router(limit_to(&budget));
    let create = |user: &str, key: &str, bytes| {
        let path = format!("/apps/{APP}/users/{user}/sessions");
        ask(
            &router,
            request(&Method::POST, &path, key, Some(&large_state(bytes))),
        )
    };
    assert_eq!(create("ada", &first, 2 * MB).await.status, 503);
    assert_eq!(create("ada", &first, MB).await.status, 200);
    assert_eq!(create("bob", &second, MB).await.status, 200);
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn owner_in_a_body_is_checked_before_the_body_is_validated() {
    let world = World::new();
    let key = world.key("a", Some("ada"), |_| ()).await;
    let router = world.router(|_| ());
    let invalid = r#""newMessage":{"parts":[1,1,1]}"#;
    for path in ["/run", "/run_sse"] {
        for owner in [
            r#""appName":"shop","userId":"eve""#,
            r#""app_name":"shop","user_id":"eve""#,
            r#""appName":"other","userId":"ada""#,
        ] {
            let body = format!(r#"{{{owner},"sessionId":"s",{invalid}}}"#);
            let answer = ask(&router, request(&Method::POST, path, &key, Some(&body))).await;
            assert_eq!(answer.status, 403, "{path} {owner}: {}", answer.body);
        }
        // The owner's own invalid body is described.
        let body = format!(r#"{{"appName":"shop","userId":"ada","sessionId":"s",{invalid}}}"#);
        let answer = ask(&router, request(&Method::POST, path, &key, Some(&body))).await;
        assert_eq!(answer.status, 422, "{}", answer.body);
        assert!(answer.body.contains("newMessage"), "{}", answer.body);
    }
}

#[tokio::test]
async fn long_field_names_in_errors_are_shortened() {
    let world = World::new();
    let router = world.router(|guards| guards.keys = Default::default());
    let name = "x".repeat(100_000);
    let body = format!(
        r#"{{"appName":"shop","userId":"ada","sessionId":"s","newMessage":{{"{name}":1}}}}"#
    );
    let answer = ask(&router, request(&Method::POST, "/run", "", Some(&body))).await;
    assert_eq!(answer.status, 422);
    assert!(answer.body.len() < 10_000, "{} bytes", answer.body.len());
}
