//! Session lists with a warm cache.

use retain_core::{Event, Session, SessionLog as _, SessionService as _, State};
use retain_stores::SqliteSessionService;

use super::open_service;

const SESSIONS: usize = 100;

async fn create(sessions: &SqliteSessionService, id: &str, value: usize) -> Session {
    let state = State::from([("n", value)]);
    let created = sessions.create_session("app", "ada", Some(state), Some(id));
    created.await.unwrap()
}

async fn list(sessions: &SqliteSessionService) -> String {
    let listed = sessions.list_encoded("app", "ada").await.unwrap();
    let rows = listed.rows.iter();
    let rows = rows.map(|row| format!("{} {}{}\n", row.id, row.last_update_time, row.state));
    rows.collect()
}

/// Lists with the warm cache of `sessions`; fails unless a new service lists the same sessions.
async fn list_checked(folder: &std::path::Path, sessions: &SqliteSessionService) -> String {
    let listed = list(sessions).await;
    assert_eq!(
        listed,
        list(&open_service(&folder.join("s.db")).await).await
    );
    listed
}

#[tokio::test]
async fn cached_list_shows_changes_by_other_processes() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("s.db");
    let (here, elsewhere) = (open_service(&file).await, open_service(&file).await);
    for number in 0..SESSIONS {
        create(&here, &format!("s{number:03}"), number).await;
    }
    list_checked(folder.path(), &here).await;
    let loaded = elsewhere.get_session("app", "ada", "s050", Default::default());
    let mut session = loaded.await.unwrap().unwrap();
    let mut event = Event::user_text("hello");
    event.invocation_id = "i".to_owned();
    event.actions.state_delta.insert("n", 777_777);
    elsewhere.append_event(&mut session, event).await.unwrap();
    let listed = list_checked(folder.path(), &here).await;
    assert!(listed.contains(r#""n":777777"#), "{listed}");
    elsewhere.rewind(&session.key(), "i").await.unwrap();
    let listed = list_checked(folder.path(), &here).await;
    assert!(!listed.contains("777777"), "{listed}");
    // Recreate a session with the same id.
    let deleted = elsewhere.delete_session("app", "ada", "s010");
    deleted.await.unwrap();
    assert_eq!(
        list_checked(folder.path(), &here).await.lines().count(),
        SESSIONS - 1
    );
    create(&elsewhere, "s010", 888_888).await;
    assert!(list_checked(folder.path(), &here).await.contains("888888"));
    let erased = here.erase_user("app", "ada").await.unwrap();
    assert_eq!(erased.sessions, SESSIONS as u64);
    assert_eq!(list_checked(folder.path(), &here).await, "");
}
