//! Promises about references. A store of files supports none and rejects them.

use std::sync::Arc;

use retain_core::{
    ArtifactError, ArtifactKey, ArtifactReference, ArtifactService, FileData, Part, SessionKey,
};

use super::{ArtifactHarness, key};

type Artifacts = Arc<dyn ArtifactService>;

fn part_with_uri(uri: impl ToString) -> Part {
    let file = FileData {
        file_uri: Some(uri.to_string()),
        ..FileData::default()
    };
    Part {
        file_data: Some(file),
        ..Part::default()
    }
}

fn reference(key: ArtifactKey, version: u64) -> Part {
    part_with_uri(ArtifactReference { key, version })
}

/// Returns the service if its store supports references; otherwise checks that it rejects one.
async fn with_references(harness: &ArtifactHarness) -> Option<Artifacts> {
    let artifacts = harness.service().await;
    if harness.accepts_any_part() {
        return Some(artifacts);
    }
    let saved = artifacts
        .save_artifact(&key("r"), reference(key("a"), 0), None)
        .await;
    assert!(
        matches!(saved, Err(ArtifactError::Invalid { .. })),
        "{saved:?}"
    );
    None
}

/// A reference loads the version it names, through a chain of up to five references.
pub async fn references_load_their_target(harness: ArtifactHarness) {
    let Some(artifacts) = with_references(&harness).await else {
        return;
    };
    artifacts
        .save_artifact(&key("0"), Part::text("old"), None)
        .await
        .unwrap();
    artifacts
        .save_artifact(&key("0"), Part::text("new"), None)
        .await
        .unwrap();
    for link in 1..=6 {
        let part = reference(key(&format!("{}", link - 1)), 0);
        artifacts
            .save_artifact(&key(&format!("{link}")), part, None)
            .await
            .unwrap();
    }
    for link in 1..=5 {
        let loaded = artifacts
            .load_artifact(&key(&format!("{link}")), None)
            .await;
        assert_eq!(loaded.unwrap(), Some(Part::text("old")), "{link}");
    }
    let loaded = artifacts.load_artifact(&key("6"), None).await;
    assert!(
        matches!(loaded, Err(ArtifactError::Reference { .. })),
        "{loaded:?}"
    );
    let missing = reference(key("nothing"), 7);
    artifacts
        .save_artifact(&key("m"), missing, None)
        .await
        .unwrap();
    assert_eq!(
        artifacts.load_artifact(&key("m"), None).await.unwrap(),
        None
    );
    let about = artifacts
        .get_artifact_version(&key("m"), None)
        .await
        .unwrap();
    assert_eq!(about.unwrap().mime_type, None);
}

/// Saving a reference to another app, user or session is rejected.
pub async fn references_to_another_scope_are_refused(harness: ArtifactHarness) {
    let Some(artifacts) = with_references(&harness).await else {
        return;
    };
    for (app, user, session) in [
        ("other", "ada", "s1"),
        ("app", "grace", "s1"),
        ("app", "ada", "s2"),
    ] {
        let target = ArtifactKey::in_session(&SessionKey::new(app, user, session), "a");
        let saved = artifacts
            .save_artifact(&key("r"), reference(target, 0), None)
            .await;
        assert!(
            matches!(saved, Err(ArtifactError::Reference { .. })),
            "{saved:?}"
        );
    }
    let of_user = ArtifactKey::of_user("app", "ada", "user:a");
    artifacts
        .save_artifact(&of_user, Part::text("x"), None)
        .await
        .unwrap();
    artifacts
        .save_artifact(&key("r"), reference(of_user, 0), None)
        .await
        .unwrap();
    let loaded = artifacts.load_artifact(&key("r"), None).await.unwrap();
    assert_eq!(loaded, Some(Part::text("x")));
    // Every session of a user may load the user's artifacts, so these must not refer to artifacts
    // of one session.
    let inner = reference(key("secret"), 0);
    artifacts
        .save_artifact(&key("user:r"), inner, None)
        .await
        .unwrap();
    let elsewhere = ArtifactKey::in_session(&SessionKey::new("app", "ada", "s2"), "user:r");
    let loaded = artifacts.load_artifact(&elsewhere, None).await;
    assert!(
        matches!(loaded, Err(ArtifactError::Reference { .. })),
        "{loaded:?}"
    );
}

/// A URI of another kind is stored unchanged; one with the reference prefix must be valid.
pub async fn invalid_references_are_refused(harness: ArtifactHarness) {
    let Some(artifacts) = with_references(&harness).await else {
        return;
    };
    for uri in [
        "artifact://",
        "artifact://apps/app/users/ada/artifacts/a/versions/x",
    ] {
        let saved = artifacts
            .save_artifact(&key("r"), part_with_uri(uri), None)
            .await;
        assert!(
            matches!(saved, Err(ArtifactError::Reference { .. })),
            "{saved:?}"
        );
    }
    let elsewhere = part_with_uri("gs://bucket/file");
    artifacts
        .save_artifact(&key("r"), elsewhere.clone(), None)
        .await
        .unwrap();
    let loaded = artifacts.load_artifact(&key("r"), None).await.unwrap();
    assert_eq!(loaded, Some(elsewhere));
}

/// Circular references are an error, not an endless loop.
pub async fn circular_references_are_an_error(harness: ArtifactHarness) {
    let Some(artifacts) = with_references(&harness).await else {
        return;
    };
    artifacts
        .save_artifact(&key("a"), reference(key("b"), 0), None)
        .await
        .unwrap();
    artifacts
        .save_artifact(&key("b"), reference(key("a"), 0), None)
        .await
        .unwrap();
    let loaded = artifacts.load_artifact(&key("a"), None).await;
    assert!(
        matches!(loaded, Err(ArtifactError::Reference { .. })),
        "{loaded:?}"
    );
}
