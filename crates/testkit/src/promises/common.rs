//! Helpers of the promises.

use std::{future::Future, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use retain_core::{
    Append, AppendReceipt, CreateSession, Event, EventStream, ExportScope, GetSessionConfig, Json,
    JsonMap, LineStream, Result, RunOptions, RunToken, Session, SessionError, SessionKey,
    SessionLog, State, Window,
};
use tokio::task::JoinSet;

/// The app of most promises.
pub(super) const APP: &str = "app";
/// The user of most promises.
pub(super) const USER: &str = "ada";

pub(super) type Log = Arc<dyn SessionLog>;

/// Fails unless `result` is an error that matches the pattern.
macro_rules! assert_fails {
    ($result:expr, $pattern:pat $(if $guard:expr)?) => {
        match $result {
            Err($pattern) $(if $guard)? => {}
            other => panic!("expected {}, got {other:?}", stringify!($pattern $(if $guard)?)),
        }
    };
}
pub(super) use assert_fails;

/// Returns the key of session `id` of the default user.
pub(super) fn key(id: &str) -> SessionKey {
    SessionKey::new(APP, USER, id)
}

/// Parses a JSON value.
pub(super) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// Parses a JSON object.
pub(super) fn map(text: &str) -> JsonMap {
    json(text).as_object().unwrap().clone()
}

/// Parses a state from JSON.
pub(super) fn state(text: &str) -> State {
    map(text).into()
}

/// Creates an empty session of the default user.
pub(super) async fn create(log: &Log, id: &str) -> SessionKey {
    create_with(log, id, "{}").await
}

/// Creates a session of the default user with a state.
pub(super) async fn create_with(log: &Log, id: &str, initial: &str) -> SessionKey {
    let created = log.create_session(APP, USER, Some(state(initial)), Some(id));
    created.await.unwrap().key()
}

/// Creates a session of any user with a state.
pub(super) async fn create_at(log: &Log, key: &SessionKey, initial: &str) {
    let created = log.create_session(&key.app, &key.user, Some(state(initial)), Some(&key.id));
    created.await.unwrap();
}

/// Creates a session with the time to live `ttl`.
pub(super) async fn create_for(log: &Log, id: &str, ttl: Duration) -> SessionKey {
    let new = CreateSession::new(APP, USER)
        .with_session_id(id)
        .with_ttl(ttl);
    log.create(new).await.unwrap().key()
}

/// Creates an event with this id and a fixed time.
pub(super) fn event(id: &str) -> Event {
    event_at(id, 1_600_000_000.25)
}

/// Creates an event with this id and time.
pub(super) fn event_at(id: &str, timestamp: f64) -> Event {
    let mut event = Event::user_text(format!("text of {id}"));
    event.id = id.into();
    event.timestamp = timestamp;
    event
}

/// Creates an event that sets state.
pub(super) fn state_event(id: &str, delta: &str) -> Event {
    let mut event = event(id);
    event.actions.state_delta = map(delta);
    event
}

/// Creates an event of an invocation that sets state.
pub(super) fn invocation_event(id: &str, invocation: &str, delta: &str) -> Event {
    let mut event = state_event(id, delta);
    event.invocation_id = invocation.into();
    event
}

/// Creates the events `<prefix>1` to `<prefix>n`.
pub(super) fn numbered_events(prefix: &str, n: usize) -> Vec<Event> {
    (1..=n).map(|i| event(&format!("{prefix}{i}"))).collect()
}

/// Appends an event and returns its position.
pub(super) async fn append(log: &Log, key: &SessionKey, event: Event) -> u64 {
    append_all(log, key, vec![event]).await[0]
}

/// Appends events as one batch and returns the positions.
pub(super) async fn append_all(log: &Log, key: &SessionKey, events: Vec<Event>) -> Vec<u64> {
    positions(&log.append(key, events.into()).await.unwrap())
}

/// Returns the positions of the appended events.
pub(super) fn positions(appended: &AppendReceipt) -> Vec<u64> {
    appended.events.iter().map(|(at, _)| *at).collect()
}

/// Reads the whole session.
pub(super) async fn read(log: &Log, key: &SessionKey) -> Session {
    read_window(log, key, Window::ALL).await
}

/// Reads the session with the events of `window`.
pub(super) async fn read_window(log: &Log, key: &SessionKey, window: Window) -> Session {
    let read = log.read(key, window).await.unwrap();
    read.unwrap_or_else(|| panic!("session {key} not found"))
}

/// Reads the session with ADK's method.
pub(super) async fn get(log: &Log, key: &SessionKey, config: GetSessionConfig) -> Option<Session> {
    let read = log.get_session(&key.app, &key.user, &key.id, config);
    read.await.unwrap()
}

/// Returns the ids of the session's loaded events.
pub(super) fn ids(session: &Session) -> Vec<&str> {
    session.events.iter().map(|e| e.id.as_str()).collect()
}

/// Returns the positions of the session's loaded events.
pub(super) fn loaded_positions(session: &Session) -> Vec<u64> {
    let events = session.events.iter_with_positions();
    events.map(|(position, _)| position).collect()
}

/// Returns the events of a session, byte for byte.
pub(super) fn event_texts(session: &Session) -> Vec<String> {
    let events = session.events.iter();
    events.map(|event| event.to_json().unwrap()).collect()
}

/// Begins a run with an event, without waiting for the lease.
pub(super) async fn begin(log: &Log, key: &SessionKey, event: Event) -> Result<RunToken> {
    let append = Append::from(event).beginning_run(no_wait());
    let appended = log.append(key, append).await?;
    Ok(appended.run.expect("a run was begun"))
}

/// Returns the options of a run that fails immediately if the session is busy.
pub(super) fn no_wait() -> RunOptions {
    RunOptions::default().with_wait(Duration::ZERO)
}

/// Runs `task` `count` times concurrently and returns the answers in the order of their numbers.
pub(super) async fn run_concurrently<T, F>(count: usize, task: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let start = Arc::new(tokio::sync::Barrier::new(count));
    let mut tasks = JoinSet::new();
    for number in 0..count {
        let (start, work) = (Arc::clone(&start), task(number));
        tasks.spawn(async move {
            start.wait().await;
            (number, work.await)
        });
    }
    let mut answers = tasks.join_all().await;
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Awaits `work`; the timeout of a minute only catches a hanging test.
pub(super) async fn within_a_minute<F: Future>(work: F) -> F::Output {
    let answered = tokio::time::timeout(Duration::from_secs(60), work).await;
    answered.expect("the future is ready within a minute")
}

/// Polls `work` a few times and fails if it completes.
pub(super) async fn assert_pending<F: Future + Unpin>(work: &mut F) {
    for _ in 0..3 {
        tokio::select! {
            biased;
            _ = &mut *work => panic!("should still be waiting"),
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
    }
}

/// Polls `work` for 400 ms, so that it stores a queue ticket that other instances see. Fails if it
/// completes.
pub(super) async fn wait_for_ticket<F: Future + Unpin>(work: &mut F) {
    for _ in 0..40 {
        tokio::select! {
            biased;
            _ = &mut *work => panic!("should still be waiting"),
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
        }
    }
}

/// Returns the next `n` events of a tail.
pub(super) async fn next_events(tail: &mut EventStream, n: usize) -> Vec<(u64, Arc<Event>)> {
    let mut found = Vec::with_capacity(n);
    while found.len() < n {
        let next = within_a_minute(tail.next())
            .await
            .expect("the tail has not ended");
        found.push(next.unwrap());
    }
    found
}

/// Collects the lines of an export.
pub(super) async fn export(log: &Log, scope: ExportScope) -> Vec<String> {
    let lines: Vec<Result<String>> = log.export(scope).collect().await;
    lines.into_iter().map(Result::unwrap).collect()
}

/// Converts lines to the stream that an import expects.
pub(super) fn stream_of(lines: &[String]) -> LineStream {
    let lines: Vec<Result<String>> = lines.iter().cloned().map(Ok).collect();
    Box::pin(futures_util::stream::iter(lines))
}

/// Asserts that every operation on a session that is not there fails with `NotFound`, except
/// deletion, which succeeds.
pub(super) async fn assert_operations_find_nothing(log: &Log, key: &SessionKey, run: RunToken) {
    let append = Append::from(event("f"));
    let (mut tail, mut export) = (
        log.tail(key, 0),
        log.export(ExportScope::Session(key.clone())),
    );
    let failed: Vec<(&str, Result<()>)> = vec![
        ("append", log.append(key, append.clone()).await.map(drop)),
        (
            "append within a run",
            log.append(key, append.within_run(run)).await.map(drop),
        ),
        ("begin a run", begin(log, key, event("f")).await.map(drop)),
        ("renew_run", log.renew_run(key, run).await),
        ("end_run", log.end_run(key, run).await),
        ("state_at", log.state_at(key, 0).await.map(drop)),
        ("rewind", log.rewind(key, "i").await.map(drop)),
        ("fork", log.fork(key, None, Some("fork")).await.map(drop)),
        (
            "fork at 0",
            log.fork(key, Some(0), Some("fork")).await.map(drop),
        ),
        ("tail", tail.next().await.unwrap().map(drop)),
        ("export", export.next().await.unwrap().map(drop)),
    ];
    for (operation, failed) in failed {
        assert!(
            matches!(&failed, Err(SessionError::NotFound { key: found }) if found == key),
            "{operation}: {failed:?}"
        );
    }
    log.delete_session(&key.app, &key.user, &key.id)
        .await
        .unwrap();
}
