//! Promises about rewinding artifacts: artifacts get their former content, even with concurrent
//! runs.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use retain_core::{
    Append, ArtifactAddress, ArtifactError, ArtifactNaming, ArtifactService, ArtifactStore,
    ArtifactVersion, Event, NewArtifact, Part, Result, Rewind, RunOptions, SessionError,
    SessionKey, StoreArtifactService, StoredArtifact,
};
use tokio::sync::Notify;

use super::common::*;
use crate::harness::Harness;

type Hook = Box<dyn Fn(usize) -> BoxFuture<'static, Result<(), ArtifactError>> + Send + Sync>;

/// Artifacts in memory, with a hook that runs before each save.
#[derive(Default)]
struct Files {
    files: Mutex<BTreeMap<String, Vec<NewArtifact>>>,
    before_save: Mutex<Option<Arc<Hook>>>,
    saves: Mutex<usize>,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Files")
    }
}

#[async_trait]
impl ArtifactStore for Files {
    fn naming(&self) -> ArtifactNaming {
        ArtifactNaming::Exact
    }

    async fn put(&self, place: &ArtifactAddress, new: NewArtifact) -> Result<u64, ArtifactError> {
        let hook = self.before_save.lock().unwrap().clone();
        if let Some(hook) = hook {
            let save = {
                let mut saves = self.saves.lock().unwrap();
                *saves += 1;
                *saves
            };
            hook(save).await?;
        }
        let mut files = self.files.lock().unwrap();
        let versions = files.entry(place.name.clone()).or_default();
        versions.push(new);
        Ok(versions.len() as u64 - 1)
    }

    async fn get(
        &self,
        place: &ArtifactAddress,
        version: Option<u64>,
    ) -> Result<Option<StoredArtifact>, ArtifactError> {
        let files = self.files.lock().unwrap();
        let versions = files
            .get(&place.name)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let version = version.unwrap_or((versions.len() as u64).saturating_sub(1));
        Ok(versions.get(version as usize).map(|found| StoredArtifact {
            part: found.part.clone(),
            version,
        }))
    }

    async fn versions(
        &self,
        _place: &ArtifactAddress,
    ) -> Result<Vec<ArtifactVersion>, ArtifactError> {
        Ok(Vec::new())
    }

    async fn delete(&self, place: &ArtifactAddress) -> Result<(), ArtifactError> {
        self.files.lock().unwrap().remove(&place.name);
        Ok(())
    }

    async fn list(
        &self,
        _app: &str,
        _user: &str,
        _session: Option<&str>,
    ) -> Result<Vec<String>, ArtifactError> {
        Ok(self.files.lock().unwrap().keys().cloned().collect())
    }

    async fn addresses(
        &self,
        _after: Option<&ArtifactAddress>,
        _limit: usize,
    ) -> Result<Vec<ArtifactAddress>, ArtifactError> {
        Ok(Vec::new())
    }
}

type Artifacts = StoreArtifactService<Files>;

/// Saves an artifact and appends an event that reports it, as a tool does.
async fn save(log: &Log, artifacts: &Artifacts, invocation: &str, name: &str, text: &str) {
    let key = key("s");
    let file = file(&key, name);
    let version = artifacts.save_artifact(&file, Part::text(text), None);
    let event = artifact_event(invocation, name, version.await.unwrap());
    append(log, &key, event).await;
}

fn artifact_event(invocation: &str, name: &str, version: u64) -> Event {
    let id = format!("{invocation}-{name}-{version}");
    let mut event = invocation_event(&id, invocation, "{}");
    event.actions.artifact_delta.insert(name, version);
    event
}

fn file(key: &SessionKey, name: &str) -> retain_core::ArtifactKey {
    retain_core::ArtifactKey::in_session(key, name)
}

/// Returns the current content of the artifact.
async fn text(artifacts: &Artifacts, name: &str) -> Option<String> {
    let loaded = artifacts.load_artifact(&file(&key("s"), name), None).await;
    loaded.unwrap().and_then(|part| part.text)
}

/// Creates a session in which `i1` creates `a`, and `i2` changes `a` and creates `b` and `user:c`.
async fn two_invocations(log: &Log) -> (SessionKey, Artifacts) {
    let key = create(log, "s").await;
    let artifacts = Artifacts::new();
    for (invocation, name, content) in [
        ("i1", "a", "a of i1"),
        ("i1", "same", "same"),
        ("i2", "a", "a of i2"),
        ("i2", "b", "b of i2"),
        ("i2", "user:c", "c of i2"),
        ("i2", "a", "a of i2 again"),
    ] {
        save(log, &artifacts, invocation, name, content).await;
    }
    (key, artifacts)
}

fn rewind(artifacts: &Artifacts) -> Rewind {
    Rewind::before("i2").with_artifacts(Arc::new(artifacts.clone()))
}

fn before_each_save<F>(artifacts: &Artifacts, hook: F)
where
    F: Fn(usize) -> BoxFuture<'static, Result<(), ArtifactError>> + Send + Sync + 'static,
{
    let hook: Hook = Box::new(hook);
    *artifacts.store().before_save.lock().unwrap() = Some(Arc::new(hook));
}

/// The session's artifacts are restored as new versions that the event reports. An artifact that
/// did not exist loads as `None`, and the user's artifacts stay.
pub async fn rewind_restores_artifacts(harness: Harness) {
    let log = harness.service();
    let (key, artifacts) = two_invocations(&log).await;
    let rewound = log.rewind_with(&key, rewind(&artifacts)).await.unwrap();
    let event = &rewound.events[0].1;
    assert_eq!(event.actions.artifact_delta, map(r#"{"a":3,"b":1}"#));
    assert_eq!(text(&artifacts, "a").await.as_deref(), Some("a of i1"));
    assert_eq!(text(&artifacts, "b").await, None);
    assert_eq!(text(&artifacts, "user:c").await.as_deref(), Some("c of i2"));
    // The rewind was a run of its own and has released its lease.
    begin(&log, &key, invocation_event("e9", "i3", "{}"))
        .await
        .unwrap();
}

/// A rewind without an artifact service leaves artifacts as they are.
pub async fn rewind_without_an_artifact_service_keeps_artifacts(harness: Harness) {
    let log = harness.service();
    let (key, artifacts) = two_invocations(&log).await;
    let rewound = log.rewind(&key, "i2").await.unwrap();
    assert!(rewound.events[0].1.actions.artifact_delta.is_empty());
    assert_eq!(
        text(&artifacts, "a").await.as_deref(),
        Some("a of i2 again")
    );
}

/// A rewind also undoes events appended outside a run while it restores artifacts, and artifacts
/// that are already restored get no further version.
pub async fn rewind_undoes_appends_made_while_artifacts_are_restored(harness: Harness) {
    let log = harness.service();
    let (key, artifacts) = two_invocations(&log).await;
    let (inner, second) = (artifacts.clone(), log.clone());
    before_each_save(&artifacts, move |number| {
        let (inner, log) = (inner.clone(), second.clone());
        Box::pin(async move {
            if number == 2 {
                // `a` is restored and `b` is not; now `a` changes and `late` is new.
                *inner.store().before_save.lock().unwrap() = None;
                save(&log, &inner, "late", "late", "late").await;
                save(&log, &inner, "late", "a", "a of late").await;
            }
            Ok(())
        })
    });
    let rewound = log.rewind_with(&key, rewind(&artifacts)).await.unwrap();
    let event = &rewound.events[0].1;
    let delta = map(r#"{"a":5,"b":1,"late":1}"#);
    assert_eq!(event.actions.artifact_delta, delta);
    assert_eq!(text(&artifacts, "a").await.as_deref(), Some("a of i1"));
    assert_eq!(text(&artifacts, "b").await, None);
    assert_eq!(text(&artifacts, "late").await, None);
}

/// No run begins while artifacts are restored, so the rewind cannot overwrite the artifacts of a
/// new run. The rewind renews its lease until all artifacts are restored.
pub async fn no_run_begins_while_artifacts_are_restored(harness: Harness) {
    let ttl = Duration::from_millis(300);
    let log = harness.second_with(|settings| settings.run_ttl = ttl).await;
    let (key, artifacts) = two_invocations(&log).await;
    let (clock, other, busy) = (harness.clock.clone(), log.clone(), key.clone());
    before_each_save(&artifacts, move |_| {
        let (clock, log, key) = (clock.clone(), other.clone(), busy.clone());
        Box::pin(async move {
            for _ in 0..2 {
                clock.tick(ttl * 2 / 3);
                // Wait longer than the renewal interval, in small steps so that it can run.
                for _ in 0..20 {
                    tokio::time::sleep(ttl / 40).await;
                }
            }
            let run = begin(&log, &key, invocation_event("e9", "i3", "{}")).await;
            assert_fails!(run, SessionError::RunBusy { .. });
            Ok(())
        })
    });
    log.rewind_with(&key, rewind(&artifacts)).await.unwrap();
    assert_eq!(artifacts.store().saves.lock().unwrap().to_owned(), 2);
}

/// A rewind that fails between two artifacts does not change the log and releases its lease.
/// Repeating it gives the result that the first attempt would have had.
pub async fn rewind_that_failed_at_an_artifact_can_be_repeated(harness: Harness) {
    let log = harness.service();
    let (key, artifacts) = two_invocations(&log).await;
    before_each_save(&artifacts, |number| {
        let failed = ArtifactError::Store {
            store: "files",
            operation: "save",
            source: "no".into(),
        };
        Box::pin(std::future::ready(match number {
            2 => Err(failed),
            _ => Ok(()),
        }))
    });
    let before = read(&log, &key).await;
    let failed = log.rewind_with(&key, rewind(&artifacts)).await;
    assert_fails!(failed, SessionError::Artifact { filename, .. } if filename == "b");
    assert_eq!(read(&log, &key).await, before);
    let rewound = log.rewind_with(&key, rewind(&artifacts)).await.unwrap();
    let delta = map(r#"{"a":4,"b":1}"#);
    assert_eq!(rewound.events[0].1.actions.artifact_delta, delta);
    assert_eq!(text(&artifacts, "a").await.as_deref(), Some("a of i1"));
    assert_eq!(text(&artifacts, "b").await, None);
}

/// A rewind waits for the active run and also undoes that run's later artifact changes.
pub async fn rewind_undoes_artifacts_of_an_active_run(harness: Harness) {
    let log = harness.service();
    let (key, artifacts) = two_invocations(&log).await;
    let run = begin(&log, &key, invocation_event("e7", "i3", "{}"))
        .await
        .unwrap();
    let mut rewinding = log.rewind_with(&key, rewind(&artifacts));
    assert_pending(&mut rewinding).await;
    save(&log, &artifacts, "i3", "d", "d of i3").await;
    log.end_run(&key, run).await.unwrap();
    let rewound = within_a_minute(rewinding).await.unwrap();
    let delta = map(r#"{"a":3,"b":1,"d":1}"#);
    assert_eq!(rewound.events[0].1.actions.artifact_delta, delta);
    assert_eq!(text(&artifacts, "d").await, None);
}

/// A dropped rewind stops at its current artifact and releases the lease immediately, not only when
/// it expires.
pub async fn dropped_rewind_releases_the_lease(harness: Harness) {
    let log = harness.service();
    let (key, artifacts) = two_invocations(&log).await;
    let restoring = Arc::new(Notify::new());
    let begun = Arc::clone(&restoring);
    before_each_save(&artifacts, move |_| {
        begun.notify_one();
        Box::pin(std::future::pending())
    });
    let before = read(&log, &key).await;
    let rewinding = log.rewind_with(&key, rewind(&artifacts));
    tokio::select! {
        _ = rewinding => panic!("the rewind ended although a save never returns"),
        () = restoring.notified() => {}
    }
    // The clock stands still, so no lease expires.
    let wait = Duration::from_secs(20);
    let event = invocation_event("e9", "i3", "{}");
    let run = log.append(
        &key,
        Append::from(event).beginning_run(RunOptions::default().with_wait(wait)),
    );
    run.await.unwrap();
    let events = read(&log, &key).await.events;
    assert_eq!(events.len(), before.events.len() + 1);
}

/// A rewind over a version that is not a number fails with the name of the artifact instead of
/// skipping it.
pub async fn rewind_error_for_an_invalid_version_names_the_file(harness: Harness) {
    let log = harness.service();
    let (key, artifacts) = two_invocations(&log).await;
    let mut event = invocation_event("odd", "i2", "{}");
    event.actions.artifact_delta.insert("b", "two");
    append(&log, &key, event).await;
    let before = read(&log, &key).await;
    let refused = log.rewind_with(&key, rewind(&artifacts)).await;
    assert_fails!(refused, SessionError::Artifact { filename, .. } if filename == "b");
    assert_eq!(read(&log, &key).await, before);
}
