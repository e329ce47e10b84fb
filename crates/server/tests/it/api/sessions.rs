//! Sessions: create, read, list, delete, fork, and their state.

use retain_core::Json;

use crate::api::client::{Client, SESSION, SESSIONS, event};

#[tokio::test]
async fn session_is_created_read_and_deleted() {
    let client = Client::in_memory();
    let body =
        r#"{"sessionId":"s1","state":{"n":123456789012345678901234567890,"user:name":"Ada"}}"#;
    let created = client.post(SESSIONS, body).await.expect(201);
    assert_eq!(created["id"], "s1");
    assert_eq!(created["appName"], "demo");
    assert_eq!(created["userId"], "ada");
    assert_eq!(created["position"], 0);
    assert_eq!(created["events"].as_array().unwrap().len(), 0);
    let read = client.get(SESSION).await.expect(200);
    assert_eq!(read, created);
    // Integers that a 64-bit float cannot represent stay exact.
    let number = read["state"]["n"].to_string();
    assert_eq!(number, "123456789012345678901234567890");
    let again = client.post(SESSIONS, body).await;
    again.problem(409, "session_exists");
    assert_eq!(client.delete(SESSION).await.status, 204);
    assert_eq!(client.delete(SESSION).await.status, 204);
    client.get(SESSION).await.problem(404, "session_not_found");
}

#[tokio::test]
async fn session_created_without_a_body_gets_an_id() {
    let client = Client::in_memory();
    let created = client.post(SESSIONS, "").await.expect(201);
    let id = created["id"].as_str().unwrap();
    let read = client.get(&format!("{SESSIONS}/{id}")).await.expect(200);
    assert_eq!(read["id"], id);
}

#[tokio::test]
async fn session_expires_after_its_ttl() {
    let client = Client::in_memory();
    let body = r#"{"sessionId":"s1","ttlSeconds":3600}"#;
    client.post(SESSIONS, body).await.expect(201);
    let list = client.get(SESSIONS).await.expect(200);
    let session = &list["sessions"][0];
    let ttl_seconds =
        session["expiresAt"].as_f64().unwrap() - session["createTime"].as_f64().unwrap();
    assert!((3599.0..3601.0).contains(&ttl_seconds), "{session}");
    for ttl in ["0", "-1", "0.5", "1e300", "\"soon\""] {
        let body = format!(r#"{{"ttlSeconds":{ttl}}}"#);
        client
            .post(SESSIONS, &body)
            .await
            .problem(400, "invalid_body");
    }
}

#[tokio::test]
async fn read_returns_the_requested_events() {
    let client = Client::in_memory().with_session().await;
    for n in 1..=5 {
        client
            .say(SESSION, &format!("e{n}"), &format!("text {n}"))
            .await;
    }
    let positions = |session: &Json| -> Vec<u64> {
        let events = session["events"].as_array().unwrap().iter();
        events
            .map(|event| event["position"].as_u64().unwrap())
            .collect()
    };
    let cases = [
        ("", vec![1, 2, 3, 4, 5]),
        ("?events=false", vec![]),
        ("?recent=2", vec![4, 5]),
        ("?recent=0", vec![]),
        ("?afterPosition=3", vec![4, 5]),
        ("?upTo=2", vec![1, 2]),
        ("?afterPosition=1&upTo=4&recent=2", vec![3, 4]),
        ("?afterTime=1700000000.5", vec![1, 2, 3, 4, 5]),
        ("?afterTime=1700000001", vec![]),
    ];
    for (query, expected) in cases {
        let read = client.get(&format!("{SESSION}{query}")).await.expect(200);
        assert_eq!(positions(&read), expected, "{query}");
        assert_eq!(read["position"], 5);
    }
    let read = client.get(&format!("{SESSION}?recent=1")).await.expect(200);
    let sent = Json::parse(&event("e5", "text 5")).unwrap();
    assert_eq!(read["events"][0]["event"], sent);
}

#[tokio::test]
async fn sessions_of_one_user_or_of_all_are_listed_in_pages() {
    let client = Client::in_memory();
    for user in ["ada", "bob"] {
        let path = format!("/api/v1/apps/demo/users/{user}/sessions");
        for n in 0..5 {
            let body = format!(r#"{{"sessionId":"{user}-{n}","state":{{"n":{n}}}}}"#);
            client.post(&path, &body).await.expect(201);
        }
    }
    let everything = "/api/v1/apps/demo/sessions";
    for (path, count) in [
        (SESSIONS, 5),
        (everything, 10),
        ("/api/v1/apps/demo/sessions?user=bob", 5),
    ] {
        let mut seen = Vec::new();
        let mut after = String::new();
        loop {
            let mark = if path.contains('?') { '&' } else { '?' };
            let page = client
                .get(&format!("{path}{mark}limit=2{after}"))
                .await
                .expect(200);
            let sessions = page["sessions"].as_array().unwrap();
            assert!(sessions.len() <= 2);
            seen.extend(
                sessions
                    .iter()
                    .map(|it| it["id"].as_str().unwrap().to_owned()),
            );
            match page["next"].as_str() {
                Some(next) => {
                    after = format!("&after={}", next.replace('+', "%2B").replace('=', "%3D"))
                }
                None => break,
            }
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), count, "{path}: {seen:?}");
    }
    let page = client.get(&format!("{SESSIONS}?limit=1")).await.expect(200);
    assert!(page["sessions"][0].get("state").is_none());
    let page = client
        .get(&format!("{SESSIONS}?limit=1&state=true"))
        .await
        .expect(200);
    assert_eq!(page["sessions"][0]["state"]["n"], 0);
}

#[tokio::test]
async fn fork_copies_the_log_up_to_a_position() {
    let client = Client::in_memory().with_session().await;
    for n in 1..=3 {
        client.say(SESSION, &format!("e{n}"), "text").await;
    }
    let body = r#"{"position":2,"sessionId":"s2"}"#;
    let fork = client
        .post(&format!("{SESSION}/fork"), body)
        .await
        .expect(201);
    assert_eq!(fork["id"], "s2");
    assert_eq!(fork["position"], 2);
    assert_eq!(
        fork["origin"],
        Json::parse(r#"{"sessionId":"s1","position":2}"#).unwrap()
    );
    assert_eq!(fork["events"].as_array().unwrap().len(), 0);
    let read = client.get(&format!("{SESSIONS}/s2")).await.expect(200);
    assert_eq!(read["events"].as_array().unwrap().len(), 2);
    let whole = client
        .post(&format!("{SESSION}/fork"), "")
        .await
        .expect(201);
    assert_eq!(whole["position"], 3);
    client
        .post(&format!("{SESSION}/fork"), body)
        .await
        .problem(409, "session_exists");
    let far = client
        .post(&format!("{SESSION}/fork"), r#"{"position":9}"#)
        .await;
    let problem = far.problem(404, "position_not_found");
    assert_eq!(
        (problem["position"].as_u64(), problem["last"].as_u64()),
        (Some(9), Some(3))
    );
    let none = client.post(&format!("{SESSIONS}/none/fork"), "").await;
    none.problem(404, "session_not_found");
}

#[tokio::test]
async fn state_is_read_now_and_at_an_earlier_position() {
    let client = Client::in_memory();
    let body = r#"{"sessionId":"s1","state":{"a":1,"user:u":2,"app:p":3}}"#;
    client.post(SESSIONS, body).await.expect(201);
    let change = r#"{"events":[{"author":"user","actions":{"stateDelta":{"a":2}}}]}"#;
    client
        .post(&format!("{SESSION}/events"), change)
        .await
        .expect(200);
    let now = client.get(&format!("{SESSION}/state")).await.expect(200);
    assert_eq!(
        now,
        Json::parse(r#"{"state":{"a":2,"user:u":2,"app:p":3},"position":1}"#).unwrap()
    );
    let then = client
        .get(&format!("{SESSION}/state?at=0"))
        .await
        .expect(200);
    assert_eq!(then["state"]["a"], 1);
    assert_eq!(then["position"], 0);
    let later = client.get(&format!("{SESSION}/state?at=2")).await;
    later.problem(404, "position_not_found");
    let none = client.get(&format!("{SESSIONS}/none/state")).await;
    none.problem(404, "session_not_found");
    let user = client
        .get("/api/v1/apps/demo/users/ada/state")
        .await
        .expect(200);
    assert_eq!(user.to_string(), r#"{"state":{"u":2}}"#);
    let app = client.get("/api/v1/apps/demo/state").await.expect(200);
    assert_eq!(app.to_string(), r#"{"state":{"p":3}}"#);
}
