//! A stream that lasts: it ends when the key that opened it is not good any more.

use std::time::Duration;

use axum::http::Method;
use http_body_util::BodyExt as _;
use retain_core::{Clock as _, KeyStore as _};
use tower::ServiceExt as _;

use crate::support::{APP, World, request};

/// Opens a tail, does something to its key, and gives what the stream says then.
async fn tailed(expires_us: Option<i64>, change: impl AsyncFnOnce(&World)) -> String {
    let world = World::new();
    let router = world.router(|_| ());
    let start = world.clock.now_us();
    let expires_us = expires_us.map(|after| start + after);
    let key = world
        .key("a", Some("ada"), |key| key.expires_us = expires_us)
        .await;
    let sessions = &world.server.services.sessions;
    let created = sessions.create_session(APP, "ada", None, Some("s"));
    created.await.unwrap();
    let path = format!("/api/v1/apps/{APP}/users/ada/sessions/s/tail");
    let tail = request(&Method::GET, &path, &key, None);
    let tail = router.oneshot(tail).await.unwrap();
    assert_eq!(tail.status(), 200);
    change(&world).await;
    let read = tokio::time::timeout(Duration::from_secs(100), tail.into_body().collect());
    let read = match read.await {
        Ok(read) => read.unwrap().to_bytes(),
        Err(_) => return "it goes on".to_owned(),
    };
    String::from_utf8(read.to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_tail_ends_when_its_key_is_revoked_or_expires() {
    let revoked = tailed(None, async |world| {
        assert!(world.keys.revoke("a", 1).await.unwrap());
    });
    let revoked = revoked.await;
    assert!(revoked.starts_with("event: error\n"), "{revoked}");
    assert!(revoked.contains("\"status\":401"), "{revoked}");
    assert!(revoked.contains("revoked"), "{revoked}");

    let expired = tailed(Some(1_000_000), async |world| {
        world.clock.tick(Duration::from_secs(2));
    });
    let expired = expired.await;
    assert!(expired.starts_with("event: error\n"), "{expired}");
    assert!(expired.contains("expired"), "{expired}");
}

#[tokio::test(start_paused = true)]
async fn a_tail_goes_on_while_its_key_is_good() {
    assert_eq!(tailed(None, async |_| ()).await, "it goes on");
}
