//! Migration of artifacts between a database and a folder, which store different metadata.

use std::{fs, path::Path, sync::Arc};

use retain_core::{
    ArtifactAddress, ArtifactStore as _, Migration, MigrationCounts, MigrationError,
    MigrationPhase, MigrationSide, NewArtifact, Part,
};
use retain_stores::{FileArtifactStore, SqliteStore};
use retain_testkit::TestClock;

use super::{
    MigrationTest, error_text,
    fixture::{open, open_source, side},
    no_observer, run_at, stop_migration,
};

fn only_artifacts(side: MigrationSide) -> MigrationSide {
    artifact_side(side.artifacts)
}

fn artifact_side(artifacts: Option<Arc<dyn retain_core::ArtifactStore>>) -> MigrationSide {
    MigrationSide {
        artifacts,
        ..MigrationSide::default()
    }
}

/// Opens a folder for exclusive use.
fn open_folder(path: &Path) -> MigrationSide {
    artifact_side(Some(Arc::new(FileArtifactStore::open_alone(path).unwrap())))
}

fn address(name: &str) -> ArtifactAddress {
    ArtifactAddress {
        app: "app".into(),
        user: "ada".into(),
        session: Some("long".into()),
        name: name.into(),
        filename: name.into(),
    }
}

fn new_artifact(part: Part) -> NewArtifact {
    NewArtifact {
        part,
        mime_type: None,
        custom_metadata: Default::default(),
        create_time: 1.0,
    }
}

async fn put(store: &SqliteStore, name: &str, part: Part) {
    let artifacts = store.artifacts();
    artifacts
        .put(&address(name), new_artifact(part))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn artifacts_migrate_to_a_folder_and_back() {
    let test = MigrationTest::new().await;
    let folder = || open_folder(&test.path("folder"));
    let from = open_source(&test.path("from.db"), &test.clock).await;
    let error = error_text(Migration::new(from.clone(), folder()).run().await);
    assert!(error.contains("the target cannot store"), "{error}");
    let to_folder = Migration::new(only_artifacts(from.clone()), folder());
    let there = to_folder.run().await.unwrap();
    assert_eq!(there.counts.artifact_versions, 5);
    let back = only_artifacts(side(open(&test.path("back.db"), &test.clock).await));
    let report = Migration::new(folder(), back.clone()).run().await.unwrap();
    assert_eq!(report.counts, there.counts);
    // The copy that came back equals the source, so the migration copies nothing.
    let compared = Migration::new(only_artifacts(from), back)
        .run()
        .await
        .unwrap();
    assert_eq!(compared.copied, MigrationCounts::default());
    // A name with `..` is valid in a database, but not in a folder.
    let store = open(&test.path("from.db"), &test.clock).await;
    put(&store, "../x", Part::text("x")).await;
    let to_folder = Migration::new(only_artifacts(side(store)), folder());
    let error = to_folder.run().await.unwrap_err();
    assert!(matches!(error, MigrationError::Rejected { .. }), "{error}");
    assert!(error.to_string().contains("../x"), "{error}");
}

/// The folder of the versions of `a.txt`.
const VERSIONS: &str = "apps/app/users/ada/sessions/long/artifacts/a.txt/versions";

/// Creates a pending version, as an interrupted save leaves it; its number stays reserved.
fn leave_pending(root: &Path) {
    let versions = root.join(VERSIONS);
    let saved = fs::read_dir(&versions).map_or(0, Iterator::count);
    let pending = versions.join(format!(".{saved}.pending"));
    fs::create_dir_all(&pending).unwrap();
    fs::write(pending.join("a.txt"), "ha").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_killed_during_a_save_resumes_in_a_folder() {
    let test = MigrationTest::new().await;
    let from = || async { only_artifacts(open_source(&test.path("from.db"), &test.clock).await) };
    let whole = test.migrate_between(
        from().await,
        open_folder(&test.path("whole")),
        no_observer(),
    );
    let whole = whole.await.unwrap();
    for step in 0..whole.counts.total() {
        let root = test.path(&format!("to-{step}"));
        let folder = root.clone();
        let kill = run_at(MigrationPhase::Copy, step, move || {
            leave_pending(&folder);
            stop_migration();
        });
        let error = error_text(
            test.migrate_between(from().await, open_folder(&root), kill)
                .await,
        );
        assert!(
            error.contains("reading or writing stopped"),
            "{step}: {error}"
        );
        let rest = test.migrate_between(from().await, open_folder(&root), no_observer());
        let rest = rest.await.unwrap();
        assert_eq!(rest.copied.total() + step, whole.counts.total(), "{step}");
        assert_eq!(rest.digest, whole.digest, "{step}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_fails_if_another_writer_reserved_the_version() {
    let test = MigrationTest::new().await;
    let from = only_artifacts(open_source(&test.path("from.db"), &test.clock).await);
    let root = test.path("folder");
    leave_pending(&root);
    // Do not open the folder for exclusive use, so the pending version of another writer stays.
    let store = FileArtifactStore::open(&root).unwrap();
    let migration = test.migrate_between(
        from,
        artifact_side(Some(Arc::new(store.clone()))),
        no_observer(),
    );
    let error = error_text(migration.await);
    assert!(error.contains("the next version is 1"), "{error}");
    assert_eq!(store.versions(&address("a.txt")).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_rejects_artifacts_a_folder_cannot_store_before_writing() {
    let clock = TestClock::default();
    let thought = Part {
        thought: Some(true),
        ..Part::text("hm")
    };
    let mut untyped = Part::bytes(vec![1], "x/y");
    untyped.inline_data.as_mut().unwrap().mime_type = None;
    let plain = || Part::text("x");
    for (named, artifacts) in [
        (
            "artifact \"thought\"",
            [("a", plain()), ("thought", thought)],
        ),
        (
            "artifact \"untyped\"",
            [("a", plain()), ("untyped", untyped)],
        ),
        ("artifact \"a/b\"", [("a//b", plain()), ("a/b", plain())]),
    ] {
        let folder = retain_testkit::scratch::folder();
        let store = open(&folder.path().join("from.db"), &clock).await;
        for (name, part) in artifacts {
            put(&store, name, part).await;
        }
        let root = folder.path().join("folder");
        let migration = Migration::new(only_artifacts(side(store)), open_folder(&root));
        for error in [
            migration.survey().await.unwrap_err(),
            migration.run().await.unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(matches!(error, MigrationError::Rejected { .. }), "{text}");
            assert!(text.contains(named), "{named}: {text}");
        }
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0, "{named}");
    }
}
