//! Replicas: several processes on one database, each with its own cache.

use retain_core::{Append, SessionError, SessionLog as _, SessionService as _};

use super::{create, create_database, event, open, read_texts};

#[tokio::test(flavor = "multi_thread")]
async fn recreated_session_rejects_writers_of_the_deleted_one() {
    let Some(database) = create_database().await else {
        return;
    };
    let (here, there) = (open(&database.uri()).await, open(&database.uri()).await);
    let key = create(&here, "s").await;
    let mut old = here
        .read(&key, retain_core::Window::ALL)
        .await
        .unwrap()
        .unwrap();
    here.append(&key, event("old").into()).await.unwrap();
    let run = Append::from(event("run")).beginning_run(Default::default());
    let run = here.append(&key, run).await.unwrap().run.unwrap();
    there.delete_session("app", "ada", "s").await.unwrap();
    create(&there, "s").await;
    // The head cached here belongs to the deleted session.
    let late = here.append_event(&mut old, event("late")).await;
    assert!(
        matches!(late, Err(SessionError::NotFound { .. })),
        "{late:?}"
    );
    let late = Append::from(event("late")).within_run(run);
    let late = here.append(&key, late).await;
    assert!(
        matches!(late, Err(SessionError::RunLost { .. })),
        "{late:?}"
    );
    let appended = here.append(&key, event("new").into()).await.unwrap();
    assert_eq!(appended.events[0].0, 1);
    assert_eq!(read_texts(&there, &key).await, ["new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn outdated_run_token_is_rejected_despite_a_cached_head() {
    let Some(database) = create_database().await else {
        return;
    };
    let (here, there) = (open(&database.uri()).await, open(&database.uri()).await);
    let here = here.with_run_ttl(std::time::Duration::from_millis(1));
    let key = create(&here, "s").await;
    let begin = |text: &str| Append::from(event(text)).beginning_run(Default::default());
    let old = here.append(&key, begin("one")).await.unwrap().run.unwrap();
    // By the database's clock, the lease has expired, so the other replica can take it.
    let new = there.append(&key, begin("two")).await.unwrap().run.unwrap();
    let late = Append::from(event("late")).within_run(old);
    let late = here.append(&key, late).await;
    assert!(
        matches!(late, Err(SessionError::RunLost { .. })),
        "{late:?}"
    );
    let end = Append::from(event("three")).ending_run(new);
    there.append(&key, end).await.unwrap();
    assert_eq!(read_texts(&here, &key).await, ["one", "two", "three"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_replicas_append_to_one_session_in_order() {
    let Some(database) = create_database().await else {
        return;
    };
    let first = open(&database.uri()).await;
    let key = create(&first, "s").await;
    let replicas = (0..4).map(|replica| {
        let (uri, key) = (format!("{}?pool_size=3", database.uri()), key.clone());
        tokio::spawn(async move {
            let sessions = open(&uri).await;
            for n in 0..50 {
                let event = event(&format!("{replica}-{n}"));
                sessions.append(&key, event.into()).await.unwrap();
            }
        })
    });
    for replica in replicas.collect::<Vec<_>>() {
        replica.await.unwrap();
    }
    let texts = read_texts(&first, &key).await;
    assert_eq!(texts.len(), 200);
    for replica in 0..4 {
        let own = texts
            .iter()
            .filter(|text| text.starts_with(&format!("{replica}-")));
        let expected: Vec<String> = (0..50).map(|n| format!("{replica}-{n}")).collect();
        assert!(own.eq(&expected), "out of order");
    }
    assert_eq!(first.check().await.unwrap(), []);
}
