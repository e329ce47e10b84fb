//! Artifacts of a user and of a session.

use retain_core::Json;

use crate::api::client::{Client, SESSION};

const OF_USER: &str = "/api/v1/apps/demo/users/ada/artifacts";

fn of_session() -> String {
    format!("{SESSION}/artifacts")
}

#[tokio::test]
async fn artifact_versions_are_saved_loaded_listed_and_deleted() {
    for client in [Client::in_memory(), Client::sqlite().await] {
        let path = of_session();
        let save = |text: &str| {
            format!(
                r#"{{"filename":"a/b c.txt","artifact":{{"text":"{text}"}},"customMetadata":{{"n":1.50}}}}"#
            )
        };
        let first = client.post(&path, &save("one")).await.expect(200);
        assert_eq!(first["version"], 0);
        assert_eq!(first["customMetadata"].to_string(), r#"{"n":1.50}"#);
        assert_eq!(
            client.post(&path, &save("two")).await.expect(200)["version"],
            1
        );
        let names = client.get(&path).await.expect(200);
        assert_eq!(names.to_string(), r#"{"names":["a/b c.txt"]}"#);
        let name = "name=a/b%20c.txt";
        let newest = client.get(&format!("{path}/load?{name}")).await.expect(200);
        assert_eq!(newest.to_string(), r#"{"text":"two"}"#);
        let oldest = client
            .get(&format!("{path}/load?{name}&version=0"))
            .await
            .expect(200);
        assert_eq!(oldest.to_string(), r#"{"text":"one"}"#);
        let versions = client
            .get(&format!("{path}/versions?{name}"))
            .await
            .expect(200);
        assert_eq!(versions["versions"].as_array().unwrap().len(), 2);
        let version = client
            .get(&format!("{path}/version?{name}"))
            .await
            .expect(200);
        assert_eq!(version, versions["versions"][1]);
        for missing in [
            "load?name=x",
            "version?name=x",
            "load?name=a/b%20c.txt&version=2",
        ] {
            let answer = client.get(&format!("{path}/{missing}")).await;
            answer.problem(404, "artifact_not_found");
        }
        assert_eq!(client.delete(&format!("{path}?{name}")).await.status, 204);
        assert_eq!(client.delete(&format!("{path}?{name}")).await.status, 204);
        assert_eq!(
            client.get(&path).await.expect(200).to_string(),
            r#"{"names":[]}"#
        );
        let none = client
            .get(&format!("{path}/versions?{name}"))
            .await
            .expect(200);
        assert_eq!(none.to_string(), r#"{"versions":[]}"#);
    }
}

#[tokio::test]
async fn user_artifact_is_visible_in_every_session() {
    let client = Client::in_memory();
    let body = r#"{"filename":"user:photo","artifact":{"inlineData":{"mimeType":"image/png","data":"iVBORw=="}}}"#;
    let saved = client.post(OF_USER, body).await.expect(200);
    assert_eq!(saved["mimeType"], "image/png");
    let names = client.get(&of_session()).await.expect(200);
    assert_eq!(names["names"][0], "user:photo");
    let load = format!("{}/load?name=user:photo", of_session());
    let part = client.get(&load).await.expect(200);
    let sent = r#"{"inlineData":{"mimeType":"image/png","data":"iVBORw=="}}"#;
    assert_eq!(part, Json::parse(sent).unwrap());
    // Without a session, only a `user:` name is valid.
    let other = r#"{"filename":"photo","artifact":{"text":"x"}}"#;
    client.post(OF_USER, other).await.problem(400, "invalid");
}

#[tokio::test]
async fn artifact_reference_to_another_app_is_rejected() {
    let client = Client::in_memory();
    let uri = "artifact://apps/other/users/bob/sessions/s/artifacts/a/versions/0";
    let body = format!(r#"{{"filename":"a","artifact":{{"fileData":{{"fileUri":"{uri}"}}}}}}"#);
    let answer = client.post(&of_session(), &body).await;
    answer.problem(422, "artifact_reference");
}

#[tokio::test]
async fn artifact_name_is_required() {
    let client = Client::in_memory();
    for path in ["load", "versions", "version"] {
        let answer = client.get(&format!("{}/{path}", of_session())).await;
        let problem = answer.problem(400, "invalid_parameter");
        assert_eq!(problem["parameter"], "name");
    }
    let answer = client.delete(&of_session()).await;
    answer.problem(400, "invalid_parameter");
    client
        .post(&of_session(), r#"{"artifact":{"text":"x"}}"#)
        .await
        .problem(400, "invalid_body");
}
