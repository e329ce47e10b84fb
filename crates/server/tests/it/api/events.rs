//! Appends (positions, repeats, expected positions, runs), paged reads, and rewinds.

use retain_core::Json;

use crate::api::client::{Client, SESSION, SESSIONS, event};

const EVENTS: &str = "/api/v1/apps/demo/users/ada/sessions/s1/events";

#[tokio::test]
async fn append_returns_the_stored_events() {
    let client = Client::in_memory().with_session().await;
    let body = r#"{"events":[
        {"author":"user","partial":true},
        {"author":"user","actions":{"stateDelta":{"temp:x":1,"k":1.50}},"newField":{"a_b":[1]}}
    ]}"#;
    let appended = client.post(EVENTS, body).await.expect(200);
    let events = appended["events"].as_array().unwrap();
    assert_eq!(events.len(), 1, "a partial event is not stored");
    let stored = &events[0]["event"];
    assert_eq!(events[0]["position"], 1);
    assert_eq!(appended["position"], 1);
    assert!(appended["run"].is_null());
    assert!(stored["id"].as_str().is_some_and(|id| !id.is_empty()));
    assert_eq!(stored["timestamp"], appended["lastUpdateTime"]);
    assert_eq!(stored["newField"].to_string(), r#"{"a_b":[1]}"#);
    assert_eq!(stored["actions"]["stateDelta"].to_string(), r#"{"k":1.50}"#);
    let nothing = client.post(EVENTS, r#"{"events":[]}"#).await.expect(200);
    assert_eq!(nothing["position"], 1);
    assert_eq!(nothing["lastUpdateTime"], appended["lastUpdateTime"]);
}

#[tokio::test]
async fn repeated_event_is_accepted_and_changed_event_is_a_conflict() {
    let client = Client::in_memory().with_session().await;
    let first = client.say(SESSION, "e1", "once").await;
    client.say(SESSION, "e2", "twice").await;
    let again = client.say(SESSION, "e1", "once").await;
    assert_eq!(again["events"], first["events"]);
    let body = format!(r#"{{"events":[{}]}}"#, event("e1", "another"));
    let problem = client
        .post(EVENTS, &body)
        .await
        .problem(409, "event_id_taken");
    assert_eq!(problem["eventId"], "e1");
    assert_eq!(problem["position"], 1);
    assert_eq!(client.get(SESSION).await.expect(200)["position"], 2);
}

#[tokio::test]
async fn wrong_expected_position_reports_the_last_position() {
    let client = Client::in_memory().with_session().await;
    client.say(SESSION, "e1", "first").await;
    let body = |expected| {
        format!(
            r#"{{"events":[{}],"expected":{expected}}}"#,
            event("e2", "x")
        )
    };
    let problem = client
        .post(EVENTS, &body(0))
        .await
        .problem(409, "position_conflict");
    assert_eq!(
        (problem["expected"].as_u64(), problem["found"].as_u64()),
        (Some(0), Some(1))
    );
    client.post(EVENTS, &body(1)).await.expect(200);
}

#[tokio::test]
async fn lease_of_a_run_is_acquired_renewed_and_released() {
    let client = Client::in_memory().with_session().await;
    let append = |id: &str, run: &str| format!(r#"{{"events":[{}],"run":{run}}}"#, event(id, "x"));
    let begun = client
        .post(EVENTS, &append("e1", r#"{"begin":{"waitMs":0}}"#))
        .await
        .expect(200);
    let token = begun["run"].as_str().unwrap().to_owned();
    let busy = client
        .post(EVENTS, &append("e2", r#"{"begin":{"waitMs":20}}"#))
        .await;
    let problem = busy.problem(409, "run_busy");
    assert!(
        problem["waitedMs"]
            .as_u64()
            .is_some_and(|waited| waited >= 20)
    );
    let within = format!(r#"{{"within":"{token}"}}"#);
    let within = client
        .post(EVENTS, &append("e3", &within))
        .await
        .expect(200);
    assert_eq!(within["run"], token.as_str());
    // Appends outside the run are allowed.
    client.say(SESSION, "e4", "a late answer").await;
    let run = format!("{SESSION}/runs/{token}");
    assert_eq!(client.post(&format!("{run}/renew"), "").await.status, 204);
    let end = format!(r#"{{"end":"{token}"}}"#);
    let ended = client.post(EVENTS, &append("e5", &end)).await.expect(200);
    assert!(ended["run"].is_null());
    let within = format!(r#"{{"within":"{token}"}}"#);
    client
        .post(EVENTS, &append("e6", &within))
        .await
        .problem(409, "run_lost");
    client
        .post(&format!("{run}/renew"), "")
        .await
        .problem(409, "run_lost");
    // The run has already ended, so deleting it again succeeds.
    assert_eq!(client.delete(&run).await.status, 204);
}

#[tokio::test]
async fn lease_can_be_released_without_events() {
    let client = Client::in_memory().with_session().await;
    let begin = r#"{"events":[],"run":{"begin":{}}}"#;
    let begun = client.post(EVENTS, begin).await.expect(200);
    let run = format!("{SESSION}/runs/{}", begun["run"].as_str().unwrap());
    assert_eq!(client.delete(&run).await.status, 204);
    client.post(EVENTS, begin).await.expect(200);
    let gone = format!("{SESSIONS}/none/runs/1");
    client.delete(&gone).await.problem(404, "session_not_found");
    for (token, status, code) in [
        ("x", 400, "invalid"),
        ("-1", 400, "invalid"),
        ("18446744073709551616", 400, "invalid"),
        // The largest number that is a valid token.
        ("18446744073709551615", 409, "run_lost"),
    ] {
        let answer = client.delete(&format!("{SESSION}/runs/{token}")).await;
        answer.problem(status, code);
        let body = format!(r#"{{"events":[],"run":{{"within":"{token}"}}}}"#);
        client.post(EVENTS, &body).await.problem(status, code);
    }
}

#[tokio::test]
async fn events_are_read_in_pages() {
    let client = Client::in_memory().with_session().await;
    for n in 1..=5 {
        client.say(SESSION, &format!("e{n}"), "text").await;
    }
    let (mut seen, mut after) = (Vec::new(), 0);
    loop {
        let path = format!("{EVENTS}?limit=2&afterPosition={after}");
        let page = client.get(&path).await.expect(200);
        assert_eq!(page["position"], 5);
        let events = page["events"].as_array().unwrap();
        seen.extend(
            events
                .iter()
                .map(|event| event["position"].as_u64().unwrap()),
        );
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);
    let all = client.get(EVENTS).await.expect(200);
    assert_eq!(all["events"].as_array().unwrap().len(), 5);
    assert!(all["next"].is_null());
    let none = client.get(&format!("{SESSIONS}/none/events")).await;
    none.problem(404, "session_not_found");
    let none = client
        .post(&format!("{SESSIONS}/none/events"), r#"{"events":[]}"#)
        .await;
    none.problem(404, "session_not_found");
}

#[tokio::test]
async fn rewind_with_an_invalid_artifact_version_is_a_conflict() {
    let client = Client::in_memory().with_session().await;
    let event = r#"{"events":[{"author":"user","invocationId":"i","actions":{"artifactDelta":{"a":"x"}}}]}"#;
    client.post(EVENTS, event).await.expect(200);
    let path = format!("{SESSION}/rewind");
    let body = r#"{"beforeInvocationId":"i"}"#;
    let refused = client.post(&path, body).await.expect(409);
    assert_eq!(refused["code"], "artifact_not_restored");
}

#[tokio::test]
async fn rewind_restores_state_and_artifacts() {
    let client = Client::in_memory().with_session().await;
    let artifacts = format!("{SESSION}/artifacts");
    let save = |text: &str| format!(r#"{{"filename":"a.txt","artifact":{{"text":"{text}"}}}}"#);
    let change = |id: &str, n: u64| {
        let actions = format!(r#"{{"stateDelta":{{"n":{n}}},"artifactDelta":{{"a.txt":{n}}}}}"#);
        format!(
            r#"{{"events":[{{"id":"{id}","author":"user","invocationId":"inv-{id}","actions":{actions}}}]}}"#
        )
    };
    for (n, id) in [(0, "e1"), (1, "e2")] {
        client
            .post(&artifacts, &save(&format!("version {n}")))
            .await
            .expect(200);
        client.post(EVENTS, &change(id, n)).await.expect(200);
    }
    let path = format!("{SESSION}/rewind");
    let rewound = client
        .post(&path, r#"{"beforeInvocationId":"inv-e2"}"#)
        .await
        .expect(200);
    assert_eq!(rewound["position"], 3);
    assert_eq!(rewound["events"].as_array().unwrap().len(), 1);
    let state = client.get(&format!("{SESSION}/state")).await.expect(200);
    assert_eq!(state["state"]["n"], 0);
    let part = client
        .get(&format!("{artifacts}/load?name=a.txt"))
        .await
        .expect(200);
    assert_eq!(part, Json::parse(r#"{"text":"version 0"}"#).unwrap());
    let unknown = client.post(&path, r#"{"beforeInvocationId":"no"}"#).await;
    let problem = unknown.problem(404, "invocation_not_found");
    assert_eq!(problem["invocationId"], "no");
}

#[tokio::test]
async fn exceeded_limit_reports_its_name_and_size() {
    let client = Client::in_memory().with_session().await;
    let events: Vec<String> = (0..1001).map(|n| event(&format!("e{n}"), "x")).collect();
    let body = format!(r#"{{"events":[{}]}}"#, events.join(","));
    let problem = client.post(EVENTS, &body).await.problem(413, "too_large");
    assert_eq!(
        (problem["limit"].as_u64(), problem["found"].as_u64()),
        (Some(1000), Some(1001))
    );
    let long = format!(r#"{{"events":[{}]}}"#, event("e", &"x".repeat(3 << 20)));
    let answer = client.post(EVENTS, &long).await;
    assert!(
        [200, 413].contains(&answer.status.as_u16()),
        "{:?}",
        answer.status
    );
}
