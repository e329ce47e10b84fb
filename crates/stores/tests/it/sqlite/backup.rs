//! Backups of a database while others write it.

use retain_core::{SessionError, SessionLog as _, SessionService as _, Window};

/// The backup holds a prefix of every session and opens without the original file.
#[tokio::test(flavor = "multi_thread")]
async fn backup_under_load_is_consistent() {
    let folder = retain_testkit::scratch::folder();
    let sessions = super::open_service(&folder.path().join("s.db")).await;
    let writers = (0..4).map(|n| {
        let sessions = sessions.clone();
        tokio::spawn(async move { super::fill(&sessions, "ada", &format!("s{n}"), 200).await })
    });
    let writers: Vec<_> = writers.collect();
    let copy = folder.path().join("copy.db");
    sessions.store().backup(&copy).await.unwrap();
    for writer in writers {
        writer.await.unwrap();
    }
    let copied = super::open_service(&copy).await;
    assert_eq!(copied.check().await.unwrap(), []);
    for meta in copied.list_sessions("app", None).await.unwrap().sessions {
        let copy = copied
            .read(&meta.key(), Window::ALL)
            .await
            .unwrap()
            .unwrap();
        let window = Window::range(1, copy.position);
        let original = sessions.read(&meta.key(), window).await.unwrap().unwrap();
        assert_eq!(copy.events, original.events);
        let state = sessions.state_at(&meta.key(), copy.position).await.unwrap();
        assert_eq!(copy.state, state);
    }
    // A backup does not overwrite an existing file.
    let error = sessions.store().backup(&copy).await.unwrap_err();
    assert!(matches!(error, SessionError::Invalid { .. }), "{error}");
}
