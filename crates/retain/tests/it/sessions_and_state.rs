//! Programs with sessions and state, in the style of users of ADK's Rust crates.

use retain::{
    DatabaseSessionService, Event, GetSessionConfig, InMemorySessionService, Session,
    SessionService, SqliteSessionService, State,
    session::{SessionMeta, SharedSession, SqlSessionService, apply_event_to_session},
    state::{StateDelta, StateScope},
};

fn event_with(pairs: &[(&str, &str)]) -> Event {
    let mut event = Event::user_text("hello");
    for (key, value) in pairs {
        event.actions.state_delta.insert(*key, *value);
    }
    event
}

#[test]
fn state_is_an_ordered_map_with_scopes() {
    let mut state = State::new();
    assert_eq!(state.set("b", 1), None);
    assert_eq!(state.set("b", 2), Some(1.into()));
    state.apply(&StateDelta::from([("a", 3)]));
    let keys: Vec<&str> = state.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["b", "a"]);

    let delta = StateDelta::from([("app:a", 1), ("user:u", 2), ("s", 3), ("temp:t", 4)]);
    let (app, user, session, temp) = State::partition_by_scope(&delta);
    assert_eq!([app.len(), user.len(), session.len(), temp.len()], [1; 4]);
    assert_eq!(State::trim_temp_keys(&delta).len(), 3);
    assert_eq!(StateScope::of("user:u"), StateScope::User);
    assert_eq!(StateScope::of("temp:t"), StateScope::Temp);
}

#[test]
fn apply_event_to_session_updates_state_and_events() {
    let mut session = Session::new("app", "ada", "s1");
    let event = event_with(&[("k", "v"), ("temp:t", "now")]);
    apply_event_to_session(&mut session, event);
    assert_eq!(session.state["k"], "v");
    assert_eq!(session.state["temp:t"], "now");
    assert_eq!(session.events.len(), 1);
}

async fn adk_scenario(sessions: &dyn SessionService) {
    let state = State::from([("task_status", "idle")]);
    let created = sessions.create_session("app", "ada", Some(state), Some("s1"));
    let mut session = created.await.unwrap();
    let event = event_with(&[
        ("task_status", "active"),
        ("user:login_count", "1"),
        ("app:season", "summer"),
        ("temp:validation_needed", "yes"),
    ]);
    sessions.append_event(&mut session, event).await.unwrap();
    assert_eq!(session.state["temp:validation_needed"], "yes");

    let config = GetSessionConfig::default();
    let read = sessions.get_session("app", "ada", "s1", config).await;
    let read = read.unwrap().unwrap();
    assert_eq!(read.state["task_status"], "active");
    assert!(!read.state.contains_key("temp:validation_needed"));

    let other = sessions.create_session("app", "bob", None, None).await;
    let expected = State::from([("app:season", "summer")]);
    assert_eq!(other.unwrap().state, expected, "users share only the app");
    let all = sessions.list_sessions("app", None).await.unwrap().sessions;
    let metas: Vec<&SessionMeta> = all.iter().collect();
    assert_eq!(metas.len(), 2);

    let shared = SharedSession::new(read);
    let appended = sessions.append_event_locked(&shared, event_with(&[("k", "v")]));
    appended.await.unwrap();
    assert_eq!(shared.snapshot().state["k"], "v");
    sessions.flush().await.unwrap();
    sessions.delete_session("app", "ada", "s1").await.unwrap();
    let config = GetSessionConfig {
        num_recent_events: Some(1),
        ..GetSessionConfig::default()
    };
    let gone = sessions.get_session("app", "ada", "s1", config).await;
    assert!(gone.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_session_service_runs_the_adk_scenario() {
    adk_scenario(&InMemorySessionService::new()).await;
    let sqlite = SqliteSessionService::connect("sqlite::memory:").await;
    adk_scenario(&sqlite.unwrap()).await;
    for url in ["sqlite::memory:", "memory://"] {
        let database = SqlSessionService::connect(url).await.unwrap();
        adk_scenario(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn database_service_gives_access_to_the_log() {
    let sessions = DatabaseSessionService::connect("memory://").await.unwrap();
    let created = sessions.create_session("app", "ada", None, Some("s1"));
    let mut session = created.await.unwrap();
    let event = event_with(&[("k", "v")]);
    sessions.append_event(&mut session, event).await.unwrap();
    let fork = sessions.fork(&session.key(), Some(1), None).await.unwrap();
    assert_eq!(fork.state["k"], "v");
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_url_is_rejected_without_its_password() {
    let opened = DatabaseSessionService::connect("mysql://ada:hunter2@host/x").await;
    let error = opened.unwrap_err().to_string();
    assert!(error.contains("postgresql:"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

#[cfg(not(feature = "postgres"))]
#[tokio::test]
async fn error_for_a_postgres_url_names_the_missing_feature() {
    let opened = DatabaseSessionService::connect("postgresql://ada:hunter2@host/x").await;
    let error = opened.unwrap_err().to_string();
    assert!(error.contains("cargo feature `postgres`"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn get_session_returns_events_from_a_timestamp_on() {
    let sqlite = SqliteSessionService::connect("sqlite::memory:").await;
    let services: [&dyn SessionService; 2] = [&InMemorySessionService::new(), &sqlite.unwrap()];
    for sessions in services {
        let created = sessions.create_session("app", "ada", None, Some("s1"));
        let mut session = created.await.unwrap();
        for timestamp in [4_000_000_000.25, 4_000_000_001.5, 4_000_000_002.0] {
            let mut event = event_with(&[]);
            event.timestamp = timestamp;
            sessions.append_event(&mut session, event).await.unwrap();
        }
        assert_eq!(session.last_update_time, 4_000_000_002.0);
        let config = GetSessionConfig {
            after_timestamp: Some(4_000_000_001.5),
            ..GetSessionConfig::default()
        };
        let read = sessions.get_session("app", "ada", "s1", config).await;
        let read = read.unwrap().unwrap();
        let times: Vec<f64> = read.events.iter().map(|event| event.timestamp).collect();
        assert_eq!(times, [4_000_000_001.5, 4_000_000_002.0]);
        assert_eq!(read.last_update_time, 4_000_000_002.0);
        let listed = sessions.list_sessions("app", None).await.unwrap();
        assert_eq!(listed.sessions[0].last_update_time, 4_000_000_002.0);
    }
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn postgres_service_connects_by_url() {
    // Port 1 has no server, so the call fails immediately.
    let url = "postgresql://ada:hunter2@127.0.0.1:1/app";
    let opened = retain::PostgresSessionService::connect(url).await;
    let error = opened.unwrap_err().to_string();
    assert!(!error.contains("hunter2"), "{error}");
}
