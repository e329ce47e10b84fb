//! Memory: ingest, search, list, update and forget, also with ADK's plain memory service.

use retain_core::Json;

use crate::api::client::{Client, MEMORY, SESSION, event};

/// Creates a session with two messages.
async fn with_messages(client: Client) -> Client {
    let client = client.with_session().await;
    client
        .say(SESSION, "e1", "I prefer rooms on high floors")
        .await;
    client.say(SESSION, "e2", "My cat is called Mimi").await;
    client
}

async fn search(client: &Client, body: &str) -> Vec<Json> {
    let found = client
        .post(&format!("{MEMORY}/search"), body)
        .await
        .expect(200);
    found["memories"].as_array().unwrap().to_vec()
}

#[tokio::test]
async fn stored_session_is_ingested_once_and_found() {
    for client in [Client::in_memory(), Client::sqlite().await] {
        let client = with_messages(client).await;
        let path = format!("{MEMORY}/sessions");
        let body = r#"{"sessionId":"s1","customMetadata":{"team":"red"}}"#;
        let added = client.post(&path, body).await.expect(200);
        assert_eq!(
            added.to_string(),
            r#"{"added":2,"replaced":0,"unchanged":0,"forgotten":0}"#
        );
        let again = client.post(&path, body).await.expect(200);
        assert_eq!(
            (again["added"].as_u64(), again["unchanged"].as_u64()),
            (Some(0), Some(2))
        );
        let found = search(&client, r#"{"query":"Which floors?"}"#).await;
        let memory = &found[0]["memory"];
        assert_eq!(
            memory["content"]["parts"][0]["text"],
            "I prefer rooms on high floors"
        );
        assert_eq!(memory["custom_metadata"]["team"], "red");
        assert!(found[0]["score"].as_f64().is_some_and(|score| score > 0.0));
        let about = &found[0]["about"];
        assert_eq!(
            (about["kind"].as_str(), about["origin"].as_str()),
            (Some("turn"), Some("person"))
        );
        assert_eq!(
            (about["session"].as_str(), about["position"].as_u64()),
            (Some("s1"), Some(1))
        );
        assert!(found[0].get("explanation").is_none());
        let none = client.post(&path, r#"{"sessionId":"none"}"#).await;
        none.problem(404, "session_not_found");
    }
}

#[tokio::test]
async fn session_in_the_body_is_ingested() {
    let client = Client::in_memory();
    let path = format!("{MEMORY}/sessions");
    let event = event("e1", "The bridge opens at nine");
    for (name, user) in [("appName", "userId"), ("app_name", "user_id")] {
        let session = format!(
            r#"{{"id":"x","{name}":"demo","{user}":"ada","state":{{}},"events":[{event}],"lastUpdateTime":1}}"#
        );
        client
            .post(&path, &format!(r#"{{"session":{session}}}"#))
            .await
            .expect(200);
        let other = session.replace("\"ada\"", "\"bob\"");
        let refused = client
            .post(&path, &format!(r#"{{"session":{other}}}"#))
            .await;
        refused.problem(400, "invalid_body");
    }
    assert_eq!(search(&client, r#"{"query":"bridge"}"#).await.len(), 1);
    for body in [
        "{}",
        r#"{"sessionId":"x","session":{"id":"x"}}"#,
        r#"{"session":{}}"#,
    ] {
        client.post(&path, body).await.problem(400, "invalid_body");
    }
}

#[tokio::test]
async fn events_and_entries_are_ingested_with_metadata() {
    let client = Client::in_memory();
    let events = format!(
        r#"{{"events":[{}],"sessionId":"s9"}}"#,
        event("e1", "It rained on Monday")
    );
    let added = client
        .post(&format!("{MEMORY}/events"), &events)
        .await
        .expect(200);
    assert_eq!(added["added"], 1);
    let entries = r#"{"memories":[{"content":{"parts":[{"text":"Ada likes tea"}]},"id":"m1"}],
        "customMetadata":{"by":"hand"},"ttlSeconds":1000}"#;
    let path = format!("{MEMORY}/entries");
    assert_eq!(client.post(&path, entries).await.expect(200)["added"], 1);
    let read = client.get(&format!("{path}/m1")).await.expect(200);
    assert_eq!(
        read["memory"]["custom_metadata"].to_string(),
        r#"{"by":"hand"}"#
    );
    assert_eq!(read["about"]["kind"], "direct");
    assert!(read["about"]["expiresAt"].as_f64().is_some());
    let empty = r#"{"memories":[{"content":{}}]}"#;
    client.post(&path, empty).await.problem(400, "invalid");
}

#[tokio::test]
async fn search_applies_options_and_explains_hits() {
    let client = with_messages(Client::in_memory()).await;
    client
        .post(&format!("{MEMORY}/sessions"), r#"{"sessionId":"s1"}"#)
        .await
        .expect(200);
    let explained = search(&client, r#"{"query":"cat Mimi","explain":true,"limit":1}"#).await;
    assert_eq!(explained.len(), 1);
    let explanation = &explained[0]["explanation"];
    assert_eq!(explanation["words"][0]["place"], "own");
    assert!(explanation["lexical"].as_f64().is_some_and(|it| it > 0.0));
    let nothing = [
        r#""from":1800000000"#,
        r#""to":1600000000"#,
        r#""author":"bob""#,
        r#""session":"s2""#,
        r#""kind":"direct""#,
        r#""origin":"agent""#,
        r#""origin":["tool","direct"]"#,
        r#""tool":"web""#,
        r#""metadata":{"team":"red"}"#,
        r#""minScore":1"#,
    ];
    for condition in nothing {
        let found = search(&client, &format!(r#"{{"query":"cat",{condition}}}"#)).await;
        assert!(found.is_empty(), "{condition}");
    }
    let everything = r#"{"query":"cat","from":1600000000,"to":1800000000,"author":"user",
        "session":"s1","kind":"turn","origin":["person"],"minScore":0,"tokenBudget":1000,
        "referenceTime":1700000000,"explain":false,"limit":5}"#;
    let found = search(&client, everything).await;
    let text = found[0]["memory"]["content"]["parts"][0]["text"].as_str();
    assert_eq!(text, Some("My cat is called Mimi"));
    let invalid = [
        "{}",
        r#"{"query":1}"#,
        r#"{"query":"x","limit":0}"#,
        r#"{"query":"x","limit":1001}"#,
        r#"{"query":"x","minScore":2}"#,
        r#"{"query":"x","from":1e300}"#,
        r#"{"query":"x","kind":"other"}"#,
        r#"{"query":"x","origin":["other"]}"#,
        r#"{"query":"x","unknown":1}"#,
    ];
    for body in invalid {
        let answer = client.post(&format!("{MEMORY}/search"), body).await;
        answer.problem(400, "invalid_body");
    }
}

#[tokio::test]
async fn memory_entries_are_listed_updated_and_deleted() {
    let client = with_messages(Client::in_memory()).await;
    client
        .post(&format!("{MEMORY}/sessions"), r#"{"sessionId":"s1"}"#)
        .await
        .expect(200);
    let path = format!("{MEMORY}/entries");
    let first = client.get(&format!("{path}?limit=1")).await.expect(200);
    let next = first["next"].as_str().unwrap();
    let second = client
        .get(&format!("{path}?limit=1&after={next}"))
        .await
        .expect(200);
    assert_eq!(first["memories"][0]["memory"]["id"], "e1");
    assert_eq!(second["memories"][0]["memory"]["id"], "e2");
    assert!(second["next"].is_null());
    let none = client
        .get(&format!("{path}?origin=tool&kind=turn&session=s1"))
        .await
        .expect(200);
    assert_eq!(none["memories"].as_array().unwrap().len(), 0);
    let change = r#"{"content":{"parts":[{"text":"I prefer low floors"}]},"expiresAt":9999999999}"#;
    let changed = client
        .patch(&format!("{path}/e1"), change)
        .await
        .expect(200);
    assert_eq!(
        changed["memory"]["content"]["parts"][0]["text"],
        "I prefer low floors"
    );
    assert_eq!(
        changed["about"]["expiresAt"].as_f64(),
        Some(9_999_999_999.0)
    );
    let kept = client
        .patch(&format!("{path}/e1"), r#"{"customMetadata":{"a":1}}"#)
        .await
        .expect(200);
    assert_eq!(kept["about"]["expiresAt"].as_f64(), Some(9_999_999_999.0));
    let never = client
        .patch(&format!("{path}/e1"), r#"{"expiresAt":null}"#)
        .await
        .expect(200);
    assert!(never["about"]["expiresAt"].is_null());
    client
        .patch(&format!("{path}/no"), "{}")
        .await
        .problem(404, "memory_not_found");
    assert_eq!(client.delete(&format!("{path}/e1")).await.status, 204);
    assert_eq!(client.delete(&format!("{path}/e1")).await.status, 204);
    client
        .get(&format!("{path}/e1"))
        .await
        .problem(404, "memory_not_found");
    let statistics = client
        .get(&format!("{MEMORY}/statistics"))
        .await
        .expect(200);
    assert_eq!(
        (
            statistics["entries"].as_u64(),
            statistics["tombstones"].as_u64()
        ),
        (Some(1), Some(1))
    );
}

#[tokio::test]
async fn forget_requires_exactly_one_condition() {
    let client = Client::in_memory();
    let path = format!("{MEMORY}/forget");
    let add_memories = async || {
        let entries = r#"{"memories":[{"content":{"parts":[{"text":"one"}]},"author":"ada"}]}"#;
        client
            .post(&format!("{MEMORY}/entries"), entries)
            .await
            .expect(200);
        let events = format!(r#"{{"events":[{}],"sessionId":"s1"}}"#, event("e1", "two"));
        client
            .post(&format!("{MEMORY}/events"), &events)
            .await
            .expect(200);
    };
    add_memories().await;
    let nothing = [
        r#"{"ids":["no"]}"#,
        r#"{"session":"no"}"#,
        r#"{"tool":"no"}"#,
        r#"{"filter":{"author":"no"}}"#,
    ];
    for body in nothing {
        let receipt = client.post(&path, body).await.expect(200);
        assert_eq!(receipt["memories"], 0, "{body}");
    }
    let receipt = client.post(&path, r#"{"session":"s1"}"#).await.expect(200);
    assert_eq!(
        (receipt["memories"].as_u64(), receipt["tombstones"].as_u64()),
        (Some(1), Some(1))
    );
    let receipt = client
        .post(&path, r#"{"filter":{"author":"ada"}}"#)
        .await
        .expect(200);
    assert_eq!(receipt["memories"], 1);
    add_memories().await;
    let receipt = client.post(&path, r#"{"all":true}"#).await.expect(200);
    assert_eq!(receipt["memories"], 1);
    for body in [
        "{}",
        r#"{"filter":{}}"#,
        r#"{"all":false}"#,
        r#"{"session":"a","tool":"b"}"#,
    ] {
        client.post(&path, body).await.problem(400, "invalid_body");
    }
}

#[tokio::test]
async fn plain_memory_service_rejects_unsupported_options() {
    let client = with_messages(Client::with_adk_memory()).await;
    let added = client
        .post(&format!("{MEMORY}/sessions"), r#"{"sessionId":"s1"}"#)
        .await
        .expect(200);
    assert!(added["added"].is_null());
    let events = format!(r#"{{"events":[{}],"sessionId":"s9"}}"#, event("e9", "rain"));
    client
        .post(&format!("{MEMORY}/events"), &events)
        .await
        .expect(200);
    let found = search(&client, r#"{"query":"cat","limit":1}"#).await;
    assert_eq!(found.len(), 1);
    assert!(found[0]["score"].is_null() && found[0]["about"].is_null());
    let entry = r#"{"memories":[{"content":{"parts":[{"text":"x"}]}}]}"#;
    let unsupported = [
        client
            .post(
                &format!("{MEMORY}/sessions"),
                r#"{"sessionId":"s1","ttlSeconds":1}"#,
            )
            .await,
        client.post(&format!("{MEMORY}/entries"), entry).await,
        client
            .post(
                &format!("{MEMORY}/search"),
                r#"{"query":"cat","explain":true}"#,
            )
            .await,
        client
            .post(
                &format!("{MEMORY}/search"),
                r#"{"query":"cat","author":"user"}"#,
            )
            .await,
        client.get(&format!("{MEMORY}/entries")).await,
        client.get(&format!("{MEMORY}/entries/e1")).await,
        client.patch(&format!("{MEMORY}/entries/e1"), "{}").await,
        client
            .post(&format!("{MEMORY}/forget"), r#"{"all":true}"#)
            .await,
        client.get(&format!("{MEMORY}/statistics")).await,
    ];
    for answer in unsupported {
        answer.problem(501, "unsupported");
    }
}
