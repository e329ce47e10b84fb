//! Memories, artifacts and keys over interrupted connections: each write applies once, and the
//! caller gets its result.

use std::{sync::Arc, time::Duration};

use retain_core::{
    ApiKey, ArtifactKey, ArtifactService as _, Content, Forget, KeyScope, KeyStore as _,
    MemoryBatch, MemoryLimits, MemoryRows, MemoryScope, MemoryStore as _, NewMemory, Part,
    PreparedMemory, RepeatPolicy, SessionLog as _,
};
use retain_stores::PostgresArtifactService;

use super::{
    database, open,
    proxy::{Cut, Proxy},
};

/// Ends a transaction; `READ COMMITTED` at its start does not match.
const COMMIT: &str = "COMMIT\0";

fn batch(ids: [&str; 2]) -> Arc<MemoryBatch> {
    let memories = ids.map(|id| {
        let new = NewMemory {
            id: id.to_owned(),
            session: Some("s1".to_owned()),
            content: Content::user(id),
            ..NewMemory::default()
        };
        PreparedMemory::new(new).unwrap()
    });
    Arc::new(MemoryBatch {
        scope: MemoryScope::new("app", "ada"),
        memories: memories.into(),
        repeats: RepeatPolicy::Replace,
        limits: MemoryLimits::default(),
        now_us: 1,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_memory_writes_apply_once() {
    let Some(database) = database().await else {
        return;
    };
    let proxy = Proxy::new(&database).await;
    let (sessions, straight) = (open(proxy.uri()).await, open(&database.uri()).await);
    let (memory, scope) = (sessions.store().memory(), MemoryScope::new("app", "ada"));
    for (cut, ids, cuts) in [(Cut::Before, ["a", "b"], 0), (Cut::After, ["c", "d"], 2)] {
        proxy.cut_next(cut, COMMIT);
        let added = memory.add(batch(ids)).await.unwrap();
        assert_eq!((added.added, added.known), (2, 0), "{cut:?}");
        assert_eq!(proxy.cuts(), cuts + 1, "{cut:?}");
        proxy.cut_next(cut, COMMIT);
        let forget = Forget::Ids(vec![ids[0].to_owned()]);
        let receipt = memory.forget(&scope, Arc::new(forget)).await.unwrap();
        assert_eq!((receipt.memories, receipt.tombstones), (1, 1), "{cut:?}");
        assert_eq!(proxy.cuts(), cuts + 2, "{cut:?}");
    }
    let all = MemoryRows::After { seq: 0, limit: 10 };
    let rows = straight.store().memory().rows(&scope, all, false).await;
    let ids: Vec<String> = rows.unwrap().into_iter().map(|row| row.info.id).collect();
    assert_eq!(ids, ["b", "d"]);
    let mark = memory.mark(&scope).await.unwrap();
    assert_eq!((mark.revision, mark.last_seq), (4, 4));
    assert_eq!(straight.check().await.unwrap(), Vec::<String>::new());
}

/// A future that is held but no longer polled does not block others.
#[tokio::test(flavor = "multi_thread")]
async fn unpolled_memory_add_does_not_block_others() {
    let Some(database) = database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let memory = sessions.store().memory();
    memory.add(batch(["a", "b"])).await.unwrap();
    for number in 0..50 {
        let id = format!("kept {number}");
        let mut kept = memory.add(batch([&id, "b"]));
        // Poll it for this long, and no further.
        let patience = Duration::from_micros(number * 100);
        let done = tokio::time::timeout(patience, &mut kept).await;
        let other = format!("other {number}");
        let added = memory.add(batch([&other, "b"])).await.unwrap();
        assert_eq!(added.added, 1);
        if done.is_err() {
            kept.await.unwrap();
        }
    }
    let counted = memory.statistics(&MemoryScope::new("app", "ada"), 0).await;
    assert_eq!(counted.unwrap().entries, 102);
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_artifact_save_makes_one_version() {
    let Some(database) = database().await else {
        return;
    };
    let proxy = Proxy::new(&database).await;
    let artifacts = PostgresArtifactService::over(open(proxy.uri()).await.store().artifacts());
    let key = ArtifactKey::of_user("app", "ada", "user:a");
    for (number, cut) in [(0, Cut::Before), (1, Cut::After)] {
        proxy.cut_next(cut, "these bytes");
        let part = Part::bytes(&b"these bytes"[..], "x/y");
        let version = artifacts.save_artifact(&key, part.clone(), None).await;
        assert_eq!(version.unwrap(), number, "{cut:?}");
        assert_eq!(proxy.cuts() as u64, number + 1);
        let loaded = artifacts.load_artifact(&key, None).await.unwrap();
        assert_eq!(loaded, Some(part), "{cut:?}");
    }
    assert_eq!(artifacts.list_versions(&key).await.unwrap(), [0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_key_add_applies_once() {
    let Some(database) = database().await else {
        return;
    };
    let proxy = Proxy::new(&database).await;
    let keys = open(proxy.uri()).await.store().keys();
    for (id, cut) in [("a", Cut::Before), ("b", Cut::After)] {
        let key = ApiKey {
            id: id.to_owned(),
            name: "a key that is cut off".to_owned(),
            hash: [7; 32],
            app: None,
            user: None,
            scopes: vec![KeyScope::Run],
            created_us: 0,
            expires_us: None,
            revoked_us: None,
            last_used_us: None,
        };
        proxy.cut_next(cut, "a key that is cut off");
        keys.add(&key).await.unwrap();
        assert!(keys.add(&key).await.is_err(), "{cut:?}");
    }
    assert_eq!(keys.keys().await.unwrap().len(), 2);
    assert_eq!(proxy.cuts(), 2);
}
