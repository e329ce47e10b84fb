//! Replaced runners: their runs continue, and the shutdown waits for them.

use std::{fs, pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use retain_runtime::{ConfigRegistry, Model};
use retain_server::{Apps, Server};

use crate::adk::support::{Gated, ask, message, request, send, services, with_session};

/// Timeout of a hanging test; longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

const AGENT: &str = "name: desk\nmodel: gated\ninstruction: ";

/// A server that reloads the app `desk` when its file changes.
fn reloading(folder: &std::path::Path, model: &Gated) -> Arc<Server> {
    let model = model.clone();
    let registry = ConfigRegistry::new();
    let registry = registry.model_of(move |_, _| Ok(Arc::new(model.clone()) as Arc<dyn Model>));
    let services = services();
    let apps = Apps::new(services.clone()).with_agents_at(folder, registry);
    let apps = apps.expect("a folder").with_reload_agents(true);
    Arc::new(Server { services, apps })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_waits_for_a_run_of_a_replaced_runner() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("desk/root_agent.yaml");
    fs::create_dir(folder.path().join("desk")).expect("a folder");
    fs::write(&file, format!("{AGENT}A.\n")).expect("a file");
    let model = Gated::new();
    let server = reloading(folder.path(), &model);
    with_session(&server).await;
    model.open(1);
    let body = message("hi", r#","streaming":true"#);
    let run = send(&server, request("POST", "/run_sse", &body)).await;
    let mut run = run.into_body();
    run.frame().await.expect("a piece").expect("no failure");
    let old = server.apps.runner("desk").expect("a runner");
    assert_eq!(old.running(), 1);
    fs::write(&file, format!("{AGENT}Something longer.\n")).expect("a file");
    let new = server.apps.runner("desk").expect("a runner");
    assert_eq!(new.running(), 0, "it was read again");

    // The client disconnects during the shutdown, which waits until that is stored.
    let mut closing = pin!(server.apps.close(PATIENCE));
    assert!(closing.as_mut().now_or_never().is_none(), "a run goes on");
    drop(run);
    closing.await;
    assert_eq!(old.running(), 0);
    let path = "/apps/desk/users/ada/sessions/s";
    let stored = ask(&server, "GET", path, "").await;
    assert!(stored.text.contains("INVOCATION_ABORTED"), "{stored:?}");
}
