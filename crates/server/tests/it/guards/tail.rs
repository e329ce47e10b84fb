//! A stream ends when its API key is no longer valid, and a run that it streams is cancelled.

use std::{sync::Arc, time::Duration};

use axum::http::Method;
use http_body_util::BodyExt as _;
use retain_core::{Clock as _, GetSessionConfig, KeyStore as _};
use retain_runtime::LlmAgent;
use tower::ServiceExt as _;

use crate::guards::support::{APP, HangingModel, World, request, server_of, services};

/// Opens a tail, calls `change`, and returns what the stream sends after that.
async fn tail_after(expires_us: Option<i64>, change: impl AsyncFnOnce(&World)) -> String {
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
        Err(_) => return "still open".to_owned(),
    };
    String::from_utf8(read.to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn tail_ends_when_its_key_is_revoked_or_expires() {
    let revoked = tail_after(None, async |world| {
        assert!(world.keys.revoke("a", 1).await.unwrap());
    });
    let revoked = revoked.await;
    assert!(revoked.starts_with("event: error\n"), "{revoked}");
    assert!(revoked.contains("\"status\":401"), "{revoked}");
    assert!(revoked.contains("revoked"), "{revoked}");

    let expired = tail_after(Some(1_000_000), async |world| {
        world.clock.tick(Duration::from_secs(2));
    });
    let expired = expired.await;
    assert!(expired.starts_with("event: error\n"), "{expired}");
    assert!(expired.contains("expired"), "{expired}");
}

#[tokio::test(start_paused = true)]
async fn tail_continues_while_its_key_is_valid() {
    assert_eq!(tail_after(None, async |_| ()).await, "still open");
}

/// Starts a run that never ends by itself, revokes its API key if `is_revoked`, and returns what
/// its stream sends after that.
async fn run_stream(world: &World, is_revoked: bool) -> String {
    let key = world.key("a", Some("ada"), |_| ()).await;
    let created = world
        .server
        .services
        .sessions
        .create_session(APP, "ada", None, Some("s"));
    created.await.unwrap();
    let body = format!(
        r#"{{"appName":"{APP}","userId":"ada","sessionId":"s",
        "newMessage":{{"role":"user","parts":[{{"text":"Hello?"}}]}}}}"#
    );
    let run = request(&Method::POST, "/run_sse", &key, Some(&body));
    let run = world.router(|_| ()).oneshot(run).await.unwrap();
    assert_eq!(run.status(), 200);
    if is_revoked {
        assert!(world.keys.revoke("a", 1).await.unwrap());
    }
    let mut body = run.into_body();
    let mut read = Vec::new();
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            read.extend(frame.into_data().unwrap());
        }
    };
    let is_over = tokio::time::timeout(Duration::from_secs(100), reading).await;
    let read = String::from_utf8(read).unwrap();
    match is_over {
        Ok(()) => read,
        Err(_) => format!("{read}still open"),
    }
}

fn world_with_hanging_model() -> World {
    let agent = LlmAgent::builder("clerk")
        .model(HangingModel)
        .build()
        .unwrap();
    World {
        server: server_of(services(), Arc::new(agent)),
        ..World::new()
    }
}

#[tokio::test(start_paused = true)]
async fn run_is_cancelled_when_its_key_is_revoked() {
    let world = world_with_hanging_model();
    let stream = run_stream(&world, true).await;
    let expected = "data: {\"error\": \"this API key was revoked; the run was interrupted\"}\n\n";
    assert_eq!(stream, expected);
    let sessions = &world.server.services.sessions;
    let aborted = async {
        loop {
            let read = sessions.get_session(APP, "ada", "s", GetSessionConfig::default());
            let session = read.await.unwrap().unwrap();
            let last = session.events.last().unwrap();
            if last.response.error_code.as_deref() == Some("INVOCATION_ABORTED") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(100), aborted)
        .await
        .unwrap();
    assert_eq!(world.server.apps.runs().running(), 0);
}

#[tokio::test(start_paused = true)]
async fn run_continues_while_its_key_is_valid() {
    let stream = run_stream(&world_with_hanging_model(), false).await;
    assert!(stream.starts_with(": ping\n\n"), "{stream}");
    assert!(stream.ends_with("still open"), "{stream}");
}
