//! Promises about saving artifacts: version numbers, exact bytes and metadata.

use std::time::Duration;

use retain_core::{
    ArtifactError, Blob, Clock as _, FunctionCall, Json, JsonMap, Part, artifact_tombstone,
};
use tokio::task::JoinSet;

use super::{ArtifactHarness, key};

/// The first version is 0, and each save adds 1.
pub async fn artifact_versions_start_at_zero(harness: ArtifactHarness) {
    let artifacts = harness.service().await;
    for version in 0..12 {
        let saved = artifacts
            .save_artifact(&key("a.txt"), Part::text("x"), None)
            .await;
        assert_eq!(saved.unwrap(), version);
    }
    let versions = artifacts.list_versions(&key("a.txt")).await.unwrap();
    assert_eq!(versions, (0..12).collect::<Vec<u64>>());
    let other = artifacts
        .save_artifact(&key("b.txt"), Part::text("x"), None)
        .await;
    assert_eq!(other.unwrap(), 0);
}

/// Without a version, a load returns the newest; with one, exactly that version.
pub async fn load_returns_the_newest_or_the_requested_version(harness: ArtifactHarness) {
    let artifacts = harness.service().await;
    let texts: Vec<String> = (0..11).map(|n| format!("text {n}")).collect();
    for text in &texts {
        let part = Part::text(text.as_str());
        artifacts
            .save_artifact(&key("a"), part, None)
            .await
            .unwrap();
    }
    let newest = artifacts.load_artifact(&key("a"), None).await.unwrap();
    assert_eq!(newest, Some(Part::text("text 10")));
    for (version, text) in (0..).zip(texts) {
        let loaded = artifacts.load_artifact(&key("a"), Some(version)).await;
        assert_eq!(loaded.unwrap(), Some(Part::text(text)));
    }
}

/// An unknown name or version loads as `None`, not as an error.
pub async fn missing_artifact_loads_as_none(harness: ArtifactHarness) {
    let artifacts = harness.service().await;
    let nothing = artifacts.list_artifact_keys("app", "ada", Some("s1")).await;
    assert!(nothing.unwrap().is_empty());
    artifacts
        .save_artifact(&key("a"), Part::text("x"), None)
        .await
        .unwrap();
    for (name, version) in [
        ("b", None),
        ("b", Some(0)),
        ("a", Some(1)),
        ("a", Some(u64::MAX)),
    ] {
        let key = key(name);
        assert_eq!(artifacts.load_artifact(&key, version).await.unwrap(), None);
        let about = artifacts.get_artifact_version(&key, version).await;
        assert_eq!(about.unwrap(), None);
    }
    assert!(artifacts.list_versions(&key("b")).await.unwrap().is_empty());
    let about = artifacts.list_artifact_versions(&key("b")).await.unwrap();
    assert!(about.is_empty());
    artifacts.delete_artifact(&key("b")).await.unwrap();
}

/// Data, text and the display name are returned byte for byte.
pub async fn artifact_bytes_and_text_are_stored_exactly(harness: ArtifactHarness) {
    let artifacts = harness.service().await;
    let all: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let named = Blob {
        data: Some(vec![7].into()),
        display_name: Some("Photo é.png".to_owned()),
        mime_type: Some("image/png".to_owned()),
        ..Blob::default()
    };
    let named = Part {
        inline_data: Some(named),
        ..Part::default()
    };
    let parts = [
        Part::bytes(all, "application/octet-stream"),
        Part::bytes(Vec::new(), "text/plain"),
        Part::bytes(vec![0xff, 0xfe], "text/plain; charset=x"),
        named,
        Part::text(""),
        Part::text("a\r\nb\rc\n\0é\u{feff}"),
    ];
    for part in parts {
        let saved = artifacts.save_artifact(&key("a"), part.clone(), None).await;
        let loaded = artifacts
            .load_artifact(&key("a"), Some(saved.unwrap()))
            .await;
        assert_eq!(loaded.unwrap(), Some(part));
    }
}

/// Each version keeps its time, media type and custom metadata.
pub async fn artifact_versions_have_time_type_and_metadata(harness: ArtifactHarness) {
    let artifacts = harness.service().await;
    let metadata = JsonMap::from([("n", Json::parse(r#"{"a_b":[1,2.5,null]}"#).unwrap())]);
    let part = Part::bytes(vec![1], "image/png");
    let before = harness.clock.now();
    artifacts
        .save_artifact(&key("a"), part.clone(), Some(metadata.clone()))
        .await
        .unwrap();
    harness.clock.tick(Duration::from_secs(5));
    artifacts
        .save_artifact(&key("a"), part, None)
        .await
        .unwrap();
    let known = artifacts.list_artifact_versions(&key("a")).await.unwrap();
    assert_eq!(known.len(), 2);
    for (version, about) in (0..).zip(&known) {
        assert_eq!(about.version, version);
        assert_eq!(about.mime_type.as_deref(), Some("image/png"));
        assert!(about.canonical_uri.contains("://"), "{about:?}");
        let one = artifacts
            .get_artifact_version(&key("a"), Some(version))
            .await;
        assert_eq!(one.unwrap().as_ref(), Some(about));
    }
    assert_eq!(
        (known[0].create_time, known[1].create_time),
        (before, before + 5.0)
    );
    assert_eq!(known[0].custom_metadata, metadata);
    assert!(known[1].custom_metadata.is_empty());
    assert_ne!(known[0].canonical_uri, known[1].canonical_uri);
    let newest = artifacts
        .get_artifact_version(&key("a"), None)
        .await
        .unwrap();
    assert_eq!(newest.as_ref(), known.last());
}

/// A part without storable content is rejected and creates no version.
pub async fn parts_without_content_are_refused(harness: ArtifactHarness) {
    let artifacts = harness.service().await;
    let call = Part {
        function_call: Some(FunctionCall::new("f", JsonMap::new())),
        ..Part::default()
    };
    for part in [Part::default(), call] {
        let saved = artifacts.save_artifact(&key("a"), part, None).await;
        assert!(
            matches!(saved, Err(ArtifactError::Invalid { .. })),
            "{saved:?}"
        );
    }
    assert!(artifacts.list_versions(&key("a")).await.unwrap().is_empty());
    let listed = artifacts.list_artifact_keys("app", "ada", Some("s1")).await;
    assert!(listed.unwrap().is_empty());
}

/// The tombstone that a rewind saves loads as `None`; earlier versions stay.
pub async fn tombstone_of_an_artifact_loads_as_none(harness: ArtifactHarness) {
    let artifacts = harness.service().await;
    artifacts
        .save_artifact(&key("a"), Part::text("x"), None)
        .await
        .unwrap();
    let saved = artifacts
        .save_artifact(&key("a"), artifact_tombstone(), None)
        .await;
    assert_eq!(saved.unwrap(), 1);
    assert_eq!(
        artifacts.load_artifact(&key("a"), None).await.unwrap(),
        None
    );
    let before = artifacts.load_artifact(&key("a"), Some(0)).await.unwrap();
    assert_eq!(before, Some(Part::text("x")));
    assert_eq!(artifacts.list_versions(&key("a")).await.unwrap(), [0, 1]);
}

/// Deleting an artifact removes all its versions; its name starts again at version 0.
pub async fn deleting_an_artifact_removes_all_versions(harness: ArtifactHarness) {
    let artifacts = harness.service().await;
    for name in ["a", "b"] {
        for _ in 0..3 {
            artifacts
                .save_artifact(&key(name), Part::text("x"), None)
                .await
                .unwrap();
        }
    }
    artifacts.delete_artifact(&key("a")).await.unwrap();
    assert_eq!(
        artifacts.load_artifact(&key("a"), Some(1)).await.unwrap(),
        None
    );
    let listed = artifacts.list_artifact_keys("app", "ada", Some("s1")).await;
    assert_eq!(listed.unwrap(), ["b"]);
    assert_eq!(artifacts.list_versions(&key("b")).await.unwrap(), [0, 1, 2]);
    let again = artifacts
        .save_artifact(&key("a"), Part::text("y"), None)
        .await;
    assert_eq!(again.unwrap(), 0);
}

/// `doc` and `doc/nested` are two artifacts: deleting one keeps the other.
pub async fn deleting_an_artifact_keeps_nested_names(harness: ArtifactHarness) {
    let artifacts = harness.service().await;
    for name in ["doc", "doc/nested", "doc/nested/more"] {
        artifacts
            .save_artifact(&key(name), Part::text(name), None)
            .await
            .unwrap();
    }
    for (gone, left) in [
        ("doc", vec!["doc/nested", "doc/nested/more"]),
        ("doc/nested", vec!["doc/nested/more"]),
    ] {
        artifacts.delete_artifact(&key(gone)).await.unwrap();
        let listed = artifacts.list_artifact_keys("app", "ada", Some("s1")).await;
        assert_eq!(listed.unwrap(), left);
    }
    let loaded = artifacts.load_artifact(&key("doc/nested/more"), None).await;
    assert_eq!(loaded.unwrap(), Some(Part::text("doc/nested/more")));
}

/// Concurrent saves get distinct versions, and each version has the bytes of its save.
pub async fn concurrent_saves_get_distinct_versions(harness: ArtifactHarness) {
    let mut saves = JoinSet::new();
    for number in 0..24 {
        let artifacts = harness.service().await;
        saves.spawn(async move {
            let part = Part::text(format!("{number}"));
            let saved = artifacts.save_artifact(&key("a"), part.clone(), None).await;
            (saved.unwrap(), part)
        });
    }
    let artifacts = harness.service().await;
    let saved = saves.join_all().await;
    for (version, part) in &saved {
        let loaded = artifacts.load_artifact(&key("a"), Some(*version)).await;
        assert_eq!(loaded.unwrap().as_ref(), Some(part));
    }
    let versions = artifacts.list_versions(&key("a")).await.unwrap();
    assert_eq!(versions, (0..24).collect::<Vec<u64>>());
}

/// A second instance reads what the first one saved and continues its version numbers.
pub async fn second_instance_continues_the_version_numbers(harness: ArtifactHarness) {
    if !harness.is_durable() {
        return;
    }
    let first = harness.service().await;
    first
        .save_artifact(&key("a"), Part::text("x"), None)
        .await
        .unwrap();
    let known = first.list_artifact_versions(&key("a")).await.unwrap();
    drop(first);
    let second = harness.service().await;
    let loaded = second.load_artifact(&key("a"), None).await.unwrap();
    assert_eq!(loaded, Some(Part::text("x")));
    assert_eq!(
        second.list_artifact_versions(&key("a")).await.unwrap(),
        known
    );
    let next = second.save_artifact(&key("a"), Part::text("y"), None).await;
    assert_eq!(next.unwrap(), 1);
}
