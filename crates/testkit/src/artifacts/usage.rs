//! Promises about the bytes of artifacts: they are counted exactly, and no quota is exceeded.

use retain_core::{
    ArtifactError, ArtifactKey, ArtifactService, NewArtifact, Part, QuotaKind, Usage,
};
use tokio::task::JoinSet;

use super::{ArtifactHarness, key};

/// The bytes that a part takes in the store.
async fn size(harness: &ArtifactHarness, part: &Part) -> u64 {
    let new = NewArtifact {
        part: part.clone(),
        mime_type: None,
        custom_metadata: Default::default(),
        create_time: 0.0,
    };
    harness.store().await.stored_bytes(&new)
}

async fn used(service: &dyn ArtifactService, user: Option<&str>) -> u64 {
    service.usage("app", user).await.unwrap().unwrap()
}

/// The usage of a user and of an app is the sum over all versions; deleted ones do not count.
pub async fn usage_is_the_sum_of_the_stored_bytes(harness: ArtifactHarness) {
    let service = harness.service().await;
    let parts = [
        Part::bytes(vec![7; 1000], "image/png"),
        Part::text("caf\u{e9} \"x\""),
        Part::bytes(vec![0; 3], "image/png"),
    ];
    assert_eq!(used(&*service, None).await, 0);
    let mut sum = 0;
    for part in parts {
        sum += size(&harness, &part).await;
        let own = ArtifactKey::of_user("app", "ada", "user:own");
        service
            .save_artifact(&key("a"), part.clone(), None)
            .await
            .unwrap();
        service
            .save_artifact(&own, part.clone(), None)
            .await
            .unwrap();
        let bob = ArtifactKey::of_user("app", "bob", "user:own");
        service
            .save_artifact(&bob, part.clone(), None)
            .await
            .unwrap();
        let other = ArtifactKey::of_user("other", "ada", "user:own");
        service.save_artifact(&other, part, None).await.unwrap();
        assert_eq!(used(&*service, Some("ada")).await, 2 * sum);
        assert_eq!(used(&*service, None).await, 3 * sum);
    }
    service.delete_artifact(&key("a")).await.unwrap();
    assert_eq!(used(&*service, Some("ada")).await, sum);
    service.erase_user("app", "ada").await.unwrap();
    assert_eq!(used(&*service, Some("ada")).await, 0);
    assert_eq!(used(&*service, None).await, sum);
}

/// A version that does not fit is not saved; a deletion makes room at once.
pub async fn artifact_beyond_a_quota_is_not_saved(harness: ArtifactHarness) {
    let part = Part::bytes(vec![7; 100], "image/png");
    let one = size(&harness, &part).await;
    let limit = 2 * one + 1;
    let service = harness
        .limited(Usage::default().with_artifact_bytes(limit))
        .await;
    for version in 0..2 {
        let saved = service.save_artifact(&key("a"), part.clone(), None).await;
        assert_eq!(saved.unwrap(), version);
    }
    match service.save_artifact(&key("b"), part.clone(), None).await {
        Err(ArtifactError::QuotaExceeded(error)) => {
            assert_eq!(error.kind, QuotaKind::ArtifactBytes);
            assert_eq!((error.used, error.limit), (2 * one, limit));
        }
        other => panic!("expected QuotaExceeded, got {other:?}"),
    }
    assert_eq!(service.load_artifact(&key("b"), None).await.unwrap(), None);
    service.delete_artifact(&key("a")).await.unwrap();
    service.save_artifact(&key("b"), part, None).await.unwrap();
}

/// Saves that run at the same time store exactly as much as fits.
pub async fn artifact_quota_is_never_exceeded_by_concurrent_saves(harness: ArtifactHarness) {
    let part = Part::bytes(vec![7; 100], "image/png");
    let one = size(&harness, &part).await;
    let service = harness
        .limited(Usage::default().with_artifact_bytes(5 * one))
        .await;
    let mut saves = JoinSet::new();
    for number in 0..12 {
        let (service, part) = (service.clone(), part.clone());
        let name = format!("file{number}");
        saves.spawn(async move { service.save_artifact(&key(&name), part, None).await });
    }
    let results = saves.join_all().await;
    assert_eq!(results.iter().filter(|saved| saved.is_ok()).count(), 5);
    assert_eq!(used(&*service, Some("ada")).await, 5 * one);
}
