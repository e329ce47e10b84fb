//! API keys: when they are valid, what they may access, and how they are rate-limited.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    extract::ConnectInfo,
    http::{HeaderName, Method, StatusCode},
};
use retain_core::{Clock as _, KeyScope, KeyStore as _};
use retain_server::{Keys, Origins};
use tower::ServiceExt as _;

use crate::guards::support::{APP, World, ask, get, request};

const LIST: &str = "/list-apps";

#[tokio::test]
async fn key_is_valid_until_it_expires_or_is_revoked() {
    let world = World::new();
    let router = world.router(|_| ());
    let start = world.clock.now_us();
    let key = world
        .key("a", None, |key| {
            key.expires_us = Some(start + 1_000_000_000)
        })
        .await;
    assert_eq!(get(&router, LIST, &key).await.status, 200);
    world.keys.revoke("a", 1).await.unwrap();
    let refused = get(&router, LIST, &key).await;
    assert_eq!(refused.status, 401);
    assert!(refused.body.contains("revoked"), "{}", refused.body);

    let key = world
        .key("b", None, |key| key.expires_us = Some(start))
        .await;
    let refused = get(&router, LIST, &key).await;
    assert_eq!(refused.status, 401);
    assert!(refused.body.contains("expired"), "{}", refused.body);
    assert_eq!(
        refused.headers["www-authenticate"],
        "Bearer realm=\"retain\""
    );
}

#[tokio::test]
async fn wrong_secret_is_rejected() {
    let world = World::new();
    let router = world.router(|_| ());
    let key = world.key("a", None, |_| ()).await;
    let mut wrong = key.clone();
    let last = if wrong.pop() == Some('0') { '1' } else { '0' };
    wrong.push(last);
    for key in [
        wrong.as_str(),
        "x",
        "retain_a_",
        &key[..key.len() - 1],
        &format!("{key}0"),
    ] {
        let refused = get(&router, LIST, key).await;
        assert_eq!(refused.status, 401, "{key}");
        let start = r#"{"detail":"this API key is unknown; send a key from `retain keys create`"#;
        assert!(refused.body.starts_with(start), "{}", refused.body);
    }
    assert_eq!(get(&router, LIST, &key).await.status, 200);
}

#[tokio::test]
async fn key_is_accepted_in_either_header() {
    let world = World::new();
    let router = world.router(|_| ());
    let key = world.key("a", None, |_| ()).await;
    let mut sent = request(&Method::GET, LIST, "", None);
    sent.headers_mut().insert("x-api-key", key.parse().unwrap());
    assert_eq!(ask(&router, sent).await.status, 200);
    let mut sent = request(&Method::GET, LIST, "", None);
    sent.headers_mut()
        .insert("authorization", format!("bearer  {key}").parse().unwrap());
    assert_eq!(ask(&router, sent).await.status, 200);
    let mut sent = request(&Method::GET, LIST, "", None);
    sent.headers_mut()
        .insert("x-api-key", "wrong".parse().unwrap());
    assert_eq!(ask(&router, sent).await.status, 401);
}

#[tokio::test]
async fn key_scopes_limit_the_allowed_routes() {
    let world = World::new();
    let router = world.router(|_| ());
    let reads = world
        .key("r", None, |key| key.scopes = vec![KeyScope::SessionsRead])
        .await;
    let admin = world
        .key("m", None, |key| key.scopes = vec![KeyScope::Admin])
        .await;
    let sessions = format!("/apps/{APP}/users/ada/sessions");
    assert_eq!(get(&router, &sessions, &reads).await.status, 200);
    let create = |key: &str| request(&Method::POST, &sessions, key, Some("{}"));
    let refused = ask(&router, create(&reads)).await;
    assert_eq!(refused.status, 403);
    assert_eq!(
        refused.body,
        r#"{"detail":"this API key does not have the scope \"sessions:write\"; use a key that has it"}"#
    );
    assert_eq!(ask(&router, create(&admin)).await.status, 200);
    assert_eq!(get(&router, "/metrics", &reads).await.status, 403);
    assert_eq!(get(&router, "/metrics", &admin).await.status, 200);
}

#[tokio::test]
async fn rejections_have_the_error_format_of_their_api() {
    let world = World::new();
    let router = world.router(|_| ());
    let problem = get(&router, &format!("/api/v1/apps/{APP}/sessions"), "").await;
    assert_eq!(problem.status, 401);
    assert_eq!(problem.headers["content-type"], "application/problem+json");
    assert!(problem.body.contains("\"status\":401"), "{}", problem.body);
    assert!(
        problem.body.contains("\"code\":\"unauthorized\""),
        "{}",
        problem.body
    );
    let detail = get(&router, LIST, "").await;
    assert_eq!(detail.headers["content-type"], "application/json");
    assert!(detail.body.starts_with("{\"detail\":"), "{}", detail.body);
}

#[tokio::test]
async fn guard_errors_have_a_code() {
    let world = World::new();
    let router = world.router(|guards| {
        guards.keys = Keys::default();
        guards.origins = Origins::new(true, &[]).unwrap();
    });
    let long = "x".repeat(70_000);
    for (name, value, status, code) in [
        ("host", "evil.example", 403, "forbidden"),
        ("origin", "http://evil.example", 403, "forbidden"),
        ("content-length", "99999999", 413, "too_large"),
        ("content-encoding", "gzip", 415, "unsupported_media_type"),
        ("x", &long, 431, "headers_too_large"),
    ] {
        let ask_at = async |path: &str| {
            let mut sent = request(&Method::GET, path, "", None);
            let name: HeaderName = name.parse().unwrap();
            sent.headers_mut().insert(name, value.parse().unwrap());
            ask(&router, sent).await
        };
        let answer = ask_at("/api/v1/apps/shop/sessions").await;
        assert_eq!(answer.status, status, "{name}");
        assert_eq!(answer.headers["content-type"], "application/problem+json");
        let expected = format!("\"type\":\"urn:retain:problem:{code}\"");
        assert!(answer.body.contains(&expected), "{}", answer.body);
        let expected = format!("\"code\":\"{code}\"");
        assert!(answer.body.contains(&expected), "{}", answer.body);
        // Other routes have ADK's error format.
        assert!(!ask_at(LIST).await.body.contains("urn:retain"), "{name}");
    }
}

#[tokio::test]
async fn requests_are_rate_limited_per_key() {
    let world = World::new();
    let key = world.key("a", None, |_| ()).await;
    let other = world.key("b", None, |_| ()).await;
    let keys = world.keys.clone();
    let router = world.router(|guards| {
        guards.keys = Keys::new(Arc::new(keys), None, true).with_rate_limit(2.0);
    });
    for _ in 0..4 {
        assert_eq!(get(&router, LIST, &key).await.status, 200);
    }
    let refused = get(&router, LIST, &key).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(get(&router, LIST, &other).await.status, 200);
    world.clock.tick(Duration::from_secs(1));
    assert_eq!(get(&router, LIST, &key).await.status, 200);
}

#[tokio::test]
async fn wrong_keys_are_rate_limited_per_address() {
    let world = World::new();
    let good = world.key("a", None, |_| ()).await;
    let fresh = world.key("b", None, |_| ()).await;
    let keys = world.keys.clone();
    let router = world.router(|guards| {
        guards.keys = Keys::new(Arc::new(keys), None, true).with_rejection_limit(2.0);
    });
    let ask_from = async |peer: &str, key: &str| {
        let mut sent = request(&Method::GET, LIST, key, None);
        let peer: SocketAddr = peer.parse().unwrap();
        sent.extensions_mut().insert(ConnectInfo(peer));
        ask(&router, sent).await
    };
    let (here, there) = ("192.0.2.1:1", "192.0.2.2:1");
    assert_eq!(ask_from(here, &good).await.status, 200);
    for port in 1..=4 {
        let here = format!("192.0.2.1:{port}");
        assert_eq!(ask_from(&here, "wrong").await.status, 401);
    }
    let refused = ask_from(here, "wrong").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(ask_from(there, "wrong").await.status, 401);
    // A key that was valid before is still accepted; another one is rejected without a lookup.
    assert_eq!(ask_from(here, &good).await.status, 200);
    assert_eq!(ask_from(here, &fresh).await.status, 429);
    world.clock.tick(Duration::from_secs(1));
    assert_eq!(ask_from(here, &fresh).await.status, 200);
    // All IPv6 addresses of a /64 network count as one client.
    for host in 1..=4 {
        let peer = format!("[2001:db8::{host}]:1");
        assert_eq!(ask_from(&peer, "wrong").await.status, 401);
    }
    assert_eq!(ask_from("[2001:db8::5]:1", "wrong").await.status, 429);
    assert_eq!(ask_from("[2001:db8:1::5]:1", "wrong").await.status, 401);
}

#[tokio::test]
async fn wrong_guesses_of_the_settings_key_are_rate_limited() {
    let world = World::new();
    let keys = world.keys.clone();
    let router = world.router(|guards| {
        let single = Some("open sesame".to_owned());
        guards.keys = Keys::new(Arc::new(keys), single, true).with_rejection_limit(2.0);
    });
    let ask_from = async |peer: &str, key: &str| {
        let mut sent = request(&Method::GET, LIST, key, None);
        let peer: SocketAddr = peer.parse().unwrap();
        sent.extensions_mut().insert(ConnectInfo(peer));
        ask(&router, sent).await.status.as_u16()
    };
    let (here, there) = ("192.0.2.1:1", "192.0.2.2:1");
    for _ in 0..4 {
        assert_eq!(ask_from(here, "wrong").await, 401);
    }
    assert_eq!(
        ask_from(here, "open sesame").await,
        429,
        "even the valid key"
    );
    assert_eq!(ask_from(there, "open sesame").await, 200);
    assert_eq!(
        ask_from(here, "open sesame").await,
        200,
        "the key was valid before"
    );
    assert_eq!(ask_from(here, "wrong").await, 429);
}

#[tokio::test]
async fn concurrent_streams_are_limited_per_key_and_user() {
    let world = World::new();
    let [one, two] = [
        world.key("a", None, |_| ()).await,
        world.key("b", None, |_| ()).await,
    ];
    let router = world.router(|guards| {
        guards.limits.streams_per_key = 3;
        guards.limits.streams_per_user = 2;
    });
    let tail = async |key: &str, user: &str| {
        let session = format!("/apps/{APP}/users/{user}/sessions/s1");
        ask(&router, request(&Method::POST, &session, key, Some("{}"))).await;
        let tail = format!("/api/v1/apps/{APP}/users/{user}/sessions/s1/tail");
        let sent = request(&Method::GET, &tail, key, None);
        router.clone().oneshot(sent).await.unwrap()
    };
    let first = tail(&one, "ada").await;
    let second = tail(&two, "%61da").await;
    assert_eq!(
        (first.status(), second.status()),
        (StatusCode::OK, StatusCode::OK)
    );
    let refused = tail(&one, "ada").await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "5");
    let others = [tail(&one, "bob").await, tail(&one, "cleo").await];
    assert!(others.iter().all(|answer| answer.status() == 200));
    assert_eq!(tail(&one, "dora").await.status(), 429);
    assert_eq!(tail(&two, "dora").await.status(), 200);
    // A client that disconnects releases its permit.
    drop(first);
    assert_eq!(tail(&one, "ada").await.status(), 200);
    drop((second, others));
}

#[tokio::test]
async fn key_use_is_recorded_once_a_minute() {
    let world = World::new();
    let router = world.router(|_| ());
    let key = world.key("a", None, |_| ()).await;
    let used = async || {
        tokio::task::yield_now().await;
        world.keys.key("a").await.unwrap().unwrap().last_used_us
    };
    let start = world.clock.now_us();
    for (seconds, expected) in [(0, 0), (59, 0), (1, 60)] {
        world.clock.tick(Duration::from_secs(seconds));
        get(&router, LIST, &key).await;
        assert_eq!(used().await, Some(start + expected * 1_000_000));
    }
}

#[tokio::test]
async fn unknown_keys_are_ignored_if_no_key_is_required() {
    let world = World::new();
    let key = world.key("a", Some("ada"), |_| ()).await;
    let keys = world.keys.clone();
    let router = world.router(|guards| guards.keys = Keys::new(Arc::new(keys), None, false));
    assert_eq!(get(&router, LIST, "").await.status, 200);
    assert_eq!(
        get(&router, LIST, "token-of-another-program").await.status,
        200
    );
    // A request with a key of the store has only the permissions of that key.
    let sessions = format!("/apps/{APP}/users/grace/sessions");
    assert_eq!(get(&router, &sessions, &key).await.status, 403);
    world.keys.revoke("a", 1).await.unwrap();
    assert_eq!(get(&router, LIST, &key).await.status, 401);
}

#[tokio::test]
async fn settings_key_has_all_permissions() {
    let world = World::new();
    let keys = world.keys.clone();
    let single = "a-key-of-the-settings";
    let router = world.router(|guards| {
        guards.keys = Keys::new(Arc::new(keys), Some(single.to_owned()), true);
    });
    assert_eq!(get(&router, "/metrics", single).await.status, 200);
    assert_eq!(get(&router, "/metrics", "another-key").await.status, 401);
    assert_eq!(get(&router, "/metrics", "").await.status, 401);
}

#[tokio::test]
async fn public_routes_ignore_the_key() {
    let world = World::new();
    let good = world.key("a", None, |_| ()).await;
    let wrong = world.key("b", None, |_| ()).await;
    world.keys.revoke("b", 1).await.unwrap();
    let keys = world.keys.clone();
    let router = world.router(|guards| {
        let keys = Keys::new(Arc::new(keys), None, true);
        guards.keys = keys.with_rate_limit(1.0).with_rejection_limit(1.0);
    });
    // A key allows a burst of two requests, and an address two failed attempts.
    for _ in 0..5 {
        for path in ["/health", "/ready", "/version", "/openapi.json"] {
            for key in ["", "nonsense", &wrong, &good] {
                for method in [Method::GET, Method::HEAD] {
                    let mut sent = request(&method, path, key, None);
                    let peer: SocketAddr = "192.0.2.1:1".parse().unwrap();
                    sent.extensions_mut().insert(ConnectInfo(peer));
                    let answer = ask(&router, sent).await;
                    assert_eq!(answer.status, 200, "{method} {path} {key}");
                }
            }
        }
    }
    // Routes that need a key still have all their tokens and reject an invalid key.
    assert_eq!(get(&router, LIST, &good).await.status, 200);
    assert_eq!(get(&router, LIST, &wrong).await.status, 401);
    assert_eq!(get(&router, "/nowhere", &wrong).await.status, 401);
}
