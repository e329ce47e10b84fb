//! The default app, trailing slashes, the list of apps, and unknown paths.

use std::sync::Arc;

use retain_runtime::ConfigRegistry;
use retain_server::{Apps, Server};

use crate::adk::support::{
    GatedModel, ask, filing_agent, gated_agent, request, send, server, services,
};

#[tokio::test]
async fn default_app_may_be_omitted() {
    let services = services();
    let apps = Apps::new(services.clone()).with_agent("desk", filing_agent());
    let apps = apps.with_default_app("desk");
    let server = Arc::new(Server::new(services, apps));
    let created = ask(
        &server,
        "POST",
        "/users/ada/sessions?x=1",
        r#"{"sessionId":"s"}"#,
    )
    .await;
    assert_eq!(created.json()["appName"], "desk", "{}", created.text);
    let body = r#"{"userId":"ada","sessionId":"s","newMessage":{"parts":[{"text":"a"}]}}"#;
    assert_eq!(ask(&server, "POST", "/run", body).await.status, 200);
    let info = ask(&server, "GET", "/app-info", "").await.json();
    assert_eq!(info["rootAgentName"], "clerk");
    assert_eq!(
        info["agents"]["clerk"]["tools"][0]["functionDeclarations"][0]["name"],
        "file"
    );
    let nothing = ask(&server, "GET", "/users/ada/nothing", "").await;
    assert_eq!(nothing.text, r#"{"detail":"Not Found"}"#);
}

#[tokio::test]
async fn unknown_route_error_matches_fastapi() {
    let server = server(gated_agent(&GatedModel::new()));
    let answer = ask(&server, "GET", "/nowhere", "").await;
    assert_eq!(
        (answer.status, answer.text.as_str()),
        (404, r#"{"detail":"Not Found"}"#)
    );
    let answer = ask(&server, "PUT", "/list-apps", "").await;
    assert_eq!(
        (answer.status, answer.text.as_str()),
        (405, r#"{"detail":"Method Not Allowed"}"#)
    );
    assert_eq!(answer.kind, "application/json");
    let slash = send(
        &server,
        request("GET", "/apps/desk/users/u/sessions/?a=b", ""),
    )
    .await;
    assert_eq!(slash.status(), 307);
    let target = slash.headers().get("location").expect("a target");
    assert_eq!(target, "/apps/desk/users/u/sessions?a=b");
    assert_eq!(
        ask(&server, "GET", "/users/ada/sessions", "").await.status,
        404
    );
}

#[tokio::test]
async fn list_apps_returns_names_or_details() {
    let server = server(gated_agent(&GatedModel::new()));
    assert_eq!(
        ask(&server, "GET", "/list-apps?relative_path=./", "")
            .await
            .text,
        r#"["desk"]"#
    );
    let detailed = ask(&server, "GET", "/list-apps?detailed=true", "")
        .await
        .json();
    assert_eq!(detailed["apps"][0]["rootAgentName"], "speaker");
    assert!(detailed["apps"][0].get("agents").is_some());
    let version = ask(&server, "GET", "/version", "").await.json();
    assert_eq!(version["version"], "2.13.0");
}

#[tokio::test]
async fn agent_folder_is_served_as_the_only_app() {
    let agents = retain_testkit::scratch::folder();
    for app in ["mine", "other"] {
        let folder = agents.path().join(app);
        std::fs::create_dir(&folder).expect("a folder");
        let yaml = format!("name: {app}_agent\nmodel: offline\ninstruction: Help.\n");
        std::fs::write(folder.join("root_agent.yaml"), yaml).expect("a file");
    }
    let services = services();
    let apps = Apps::new(services.clone());
    let folder = agents.path().join("mine");
    let apps = apps
        .with_agents_at(&folder, ConfigRegistry::new())
        .expect("apps");
    let server = Arc::new(Server::new(services, apps));
    assert_eq!(
        ask(&server, "GET", "/list-apps", "").await.text,
        r#"["mine"]"#
    );
    let info = ask(&server, "GET", "/app-info", "").await.json();
    assert_eq!(info["rootAgentName"], "mine_agent");
    assert_eq!(
        ask(&server, "GET", "/apps/other/app-info", "").await.status,
        404
    );
    let created = ask(&server, "POST", "/users/ada/sessions", "").await.json();
    assert_eq!(created["appName"], "mine");
}
