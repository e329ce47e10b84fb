//! Runners that are replaced when their app is reloaded: the shutdown waits for their runs.

use std::{fs, pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use retain_runtime::{ConfigRegistry, Model};
use retain_server::{Apps, Server};

use crate::adk::support::{GatedModel, ask, message, request, send, services, with_session};

/// A timeout that only a hanging test reaches.
const PATIENCE: Duration = Duration::from_secs(30);

const AGENT: &str = "name: desk\nmodel: gated\ninstruction: ";

/// Creates a server that reloads the app `desk` when its file changes.
fn reloading_server(folder: &std::path::Path, model: &GatedModel) -> Arc<Server> {
    let model = model.clone();
    let registry = ConfigRegistry::new();
    let registry =
        registry.with_model_resolver(move |_, _| Ok(Arc::new(model.clone()) as Arc<dyn Model>));
    let services = services();
    let apps = Apps::new(services.clone()).with_agents_at(folder, registry);
    let apps = apps.expect("a folder").with_reload_agents(true);
    Arc::new(Server::new(services, apps))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_waits_for_a_run_of_a_replaced_runner() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("desk/root_agent.yaml");
    fs::create_dir(folder.path().join("desk")).expect("a folder");
    fs::write(&file, format!("{AGENT}A.\n")).expect("a file");
    let model = GatedModel::new();
    let server = reloading_server(folder.path(), &model);
    with_session(&server).await;
    model.open(1);
    let body = message("hi", r#","streaming":true"#);
    let run = send(&server, request("POST", "/run_sse", &body)).await;
    let mut run = run.into_body();
    run.frame().await.expect("a frame").expect("no failure");
    let old = server.apps.runner("desk").expect("a runner");
    assert_eq!(old.running(), 1);
    fs::write(&file, format!("{AGENT}Something longer.\n")).expect("a file");
    let new = server.apps.runner("desk").expect("a runner");
    assert_eq!(new.running(), 0, "the app was reloaded");

    // The client disconnects during the shutdown, which waits until the interruption is stored.
    let mut closing = pin!(server.apps.close(PATIENCE));
    assert!(
        closing.as_mut().now_or_never().is_none(),
        "a run is still active"
    );
    drop(run);
    closing.await;
    assert_eq!(old.running(), 0);
    let path = "/apps/desk/users/ada/sessions/s";
    let stored = ask(&server, "GET", path, "").await;
    assert!(stored.text.contains("INVOCATION_ABORTED"), "{stored:?}");
}
