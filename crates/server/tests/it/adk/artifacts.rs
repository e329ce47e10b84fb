//! Artifacts: names with slashes, versions, metadata.

use retain_core::Json;

use crate::adk::support::{GatedModel, ask, gated_agent, server, with_session};

#[tokio::test]
async fn artifact_name_may_contain_slashes() {
    let server = server(gated_agent(&GatedModel::new()));
    let base = format!("{}/artifacts", with_session(&server).await);
    let save = |text: &str| {
        format!(
            r#"{{"filename":"d/é ü.txt","artifact":{{"text":"{text}"}},"customMetadata":{{"n":1}}}}"#
        )
    };
    for (version, text) in ["old", "new"].iter().enumerate() {
        let saved = ask(&server, "POST", &base, &save(text)).await;
        assert_eq!(saved.status, 200, "{}", saved.text);
        assert_eq!(saved.json()["version"], Json::from(version));
        assert_eq!(saved.json()["customMetadata"]["n"], Json::from(1));
    }
    let name = format!("{base}/d/%C3%A9%20%C3%BC.txt");
    let get = |rest: &str| {
        let (server, path) = (server.clone(), format!("{name}{rest}"));
        async move {
            let answer = ask(&server, "GET", &path, "").await;
            (answer.status, answer.text)
        }
    };
    let ok = |text: &str| (200, text.to_owned());
    assert_eq!(get("").await, ok(r#"{"text":"new"}"#));
    assert_eq!(get("?version=0").await, ok(r#"{"text":"old"}"#));
    assert_eq!(get("/versions/0").await, ok(r#"{"text":"old"}"#));
    assert_eq!(get("/versions/latest").await, ok(r#"{"text":"new"}"#));
    assert_eq!(get("/versions").await, ok("[0,1]"));
    assert_eq!(
        get("/versions/7").await,
        (404, r#"{"detail":"Artifact not found"}"#.into())
    );
    assert_eq!(
        get("/versions/x").await,
        (422, r#"{"detail":"Invalid version ID"}"#.into())
    );
    assert_eq!(get("/versions/9/metadata").await.0, 404);
    assert_eq!(get("/versions/latest/metadata").await.0, 200);
    let all = Json::parse(&get("/versions/metadata").await.1).expect("JSON");
    assert_eq!(all[1]["version"], Json::from(1));
    let names = ask(&server, "GET", &base, "").await;
    assert_eq!(names.text, r#"["d/é ü.txt"]"#);
    let encoded = ask(
        &server,
        "GET",
        &format!("{base}/d%2F%C3%A9%20%C3%BC.txt"),
        "",
    )
    .await;
    assert_eq!(encoded.text, r#"{"text":"new"}"#);
    assert_eq!(ask(&server, "DELETE", &name, "").await.text, "null");
    assert_eq!(get("").await.0, 404);
    assert_eq!(ask(&server, "GET", &base, "").await.text, "[]");
}
