//! Tests of the journal file itself, which the promises do not cover.

use std::{fs, io::Write as _, path::Path};

use external_store::JournalStore;
use retain::{
    Event, GetSessionConfig, Session, SessionLog as _, SessionService as _, State,
    store::StoreSessionService, testing::scratch,
};

type Sessions = StoreSessionService<JournalStore>;

fn open(path: &Path) -> Sessions {
    StoreSessionService::over(JournalStore::open(path).unwrap())
}

async fn write(sessions: &Sessions, user: &str, text: &str) {
    let state = State::from([("app:tone", "warm"), ("user:name", user)]);
    let created = sessions.create_session("app", user, Some(state), Some("s"));
    let mut session = created.await.unwrap();
    let event = Event::user_text(text);
    sessions.append_event(&mut session, event).await.unwrap();
}

async fn read(sessions: &Sessions, user: &str) -> Option<Session> {
    let read = sessions.get_session("app", user, "s", GetSessionConfig::default());
    read.await.unwrap()
}

#[tokio::test]
async fn torn_line_is_dropped_on_open() {
    let folder = scratch::folder();
    let path = folder.path().join("sessions.jsonl");
    write(&open(&path), "ada", "hello").await;
    let before = fs::read(&path).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(br#"[{"change":"delete","key":["app","#)
        .unwrap();

    let sessions = open(&path);
    assert_eq!(read(&sessions, "ada").await.unwrap().position, 1);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(sessions.check().await.unwrap().is_empty());
}

#[tokio::test]
async fn open_reports_the_byte_offset_of_a_corrupt_line() {
    let folder = scratch::folder();
    let path = folder.path().join("sessions.jsonl");
    write(&open(&path), "ada", "hello").await;
    let end = fs::metadata(&path).unwrap().len();
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"[{\"change\":\"forget\",\"key\":[\"a\",\"u\",\"s\"]}]\n")
        .unwrap();

    let error = format!("{:?}", JournalStore::open(&path).unwrap_err());
    assert!(error.contains(&format!("byte {end} is corrupt")), "{error}");
    assert!(error.contains("forget"), "{error}");
}

#[tokio::test]
async fn erase_leaves_no_byte_of_the_user() {
    let folder = scratch::folder();
    let path = folder.path().join("sessions.jsonl");
    let (sessions, other) = (open(&path), open(&path));
    write(&sessions, "ada", "my secret").await;
    write(&sessions, "bob", "hello").await;
    sessions.delete_session("app", "ada", "s").await.unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains("my secret"));

    other.erase_user("app", "ada").await.unwrap();
    let file = fs::read_to_string(&path).unwrap();
    assert!(
        !file.contains("ada") && !file.contains("my secret"),
        "{file}"
    );
    for sessions in [&sessions, &other] {
        assert_eq!(read(sessions, "bob").await.unwrap().position, 1);
        assert_eq!(read(sessions, "ada").await, None);
    }
}

#[tokio::test]
async fn compacted_journal_is_shorter_and_has_the_same_sessions() {
    let folder = scratch::folder();
    let path = folder.path().join("sessions.jsonl");
    let sessions = open(&path);
    write(&sessions, "ada", "hello").await;
    write(&sessions, "bob", "hello").await;
    sessions.delete_session("app", "bob", "s").await.unwrap();
    let (before, length) = (
        read(&sessions, "ada").await,
        fs::metadata(&path).unwrap().len(),
    );

    sessions.store().compact().unwrap();
    assert!(fs::metadata(&path).unwrap().len() < length);
    assert_eq!(read(&sessions, "ada").await, before);
    assert_eq!(read(&open(&path), "ada").await, before);
}
