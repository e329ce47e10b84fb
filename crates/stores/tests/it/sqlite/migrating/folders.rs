//! Artifacts between a database and a folder, which store different metadata of a file.

use std::{fs, path::Path, sync::Arc};

use retain_core::{
    ArtifactAddress, ArtifactStore as _, Migration, MigrationCounts, MigrationError,
    MigrationPhase, MigrationSide, NewArtifact, Part,
};
use retain_stores::{FileArtifactStore, SqliteStore};
use retain_testkit::TestClock;

use super::{
    Move, at, nobody, stopped, told,
    world::{open, side, source},
};

fn only_artifacts(side: MigrationSide) -> MigrationSide {
    of(side.artifacts)
}

fn of(artifacts: Option<Arc<dyn retain_core::ArtifactStore>>) -> MigrationSide {
    MigrationSide {
        artifacts,
        ..MigrationSide::default()
    }
}

/// A folder that no other process uses.
fn alone(path: &Path) -> MigrationSide {
    of(Some(Arc::new(FileArtifactStore::open_alone(path).unwrap())))
}

fn place(name: &str) -> ArtifactAddress {
    ArtifactAddress {
        app: "app".into(),
        user: "ada".into(),
        session: Some("long".into()),
        name: name.into(),
        filename: name.into(),
    }
}

fn new(part: Part) -> NewArtifact {
    NewArtifact {
        part,
        mime_type: None,
        custom_metadata: Default::default(),
        create_time: 1.0,
    }
}

async fn put(store: &SqliteStore, name: &str, part: Part) {
    let artifacts = store.artifacts();
    artifacts.put(&place(name), new(part)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn artifacts_migrate_to_a_folder_and_back() {
    let it = Move::new().await;
    let folder = || alone(&it.path("folder"));
    let from = source(&it.path("from.db"), &it.clock).await;
    let refused = Migration::new(from.clone(), folder()).run().await;
    let refused = told(refused);
    assert!(refused.contains("the target cannot store"), "{refused}");
    let to_folder = Migration::new(only_artifacts(from.clone()), folder());
    let there = to_folder.run().await.unwrap();
    assert_eq!(there.counts.artifact_versions, 5);
    let back = only_artifacts(side(open(&it.path("back.db"), &it.clock).await));
    let report = Migration::new(folder(), back.clone()).run().await.unwrap();
    assert_eq!(report.counts, there.counts);
    // Database to folder to database: nothing was lost.
    let compared = Migration::new(only_artifacts(from), back)
        .run()
        .await
        .unwrap();
    assert_eq!(compared.copied, MigrationCounts::default());
    // A name that leads upward is valid in a database, but not in a folder.
    let store = open(&it.path("from.db"), &it.clock).await;
    put(&store, "../x", Part::text("x")).await;
    let to_folder = Migration::new(only_artifacts(side(store)), folder());
    let refused = to_folder.run().await.unwrap_err();
    assert!(
        matches!(refused, MigrationError::Rejected { .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("../x"), "{refused}");
}

/// The folder of the versions of `a.txt`.
const VERSIONS: &str = "apps/app/users/ada/sessions/long/artifacts/a.txt/versions";

/// Leave a pending version, as a killed save does: its number stays reserved.
fn leave_pending(root: &Path) {
    let versions = root.join(VERSIONS);
    let saved = fs::read_dir(&versions).map_or(0, Iterator::count);
    let pending = versions.join(format!(".{saved}.pending"));
    fs::create_dir_all(&pending).unwrap();
    fs::write(pending.join("a.txt"), "ha").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_killed_during_a_save_resumes_in_a_folder() {
    let it = Move::new().await;
    let from = || async { only_artifacts(source(&it.path("from.db"), &it.clock).await) };
    let whole = it.between(from().await, alone(&it.path("whole")), nobody());
    let whole = whole.await.unwrap();
    for step in 0..whole.counts.total() {
        let root = it.path(&format!("to-{step}"));
        let folder = root.clone();
        let kill = at(MigrationPhase::Copy, step, move || {
            leave_pending(&folder);
            stopped();
        });
        let error = told(it.between(from().await, alone(&root), kill).await);
        assert!(error.starts_with("stopped"), "{step}: {error}");
        let rest = it.between(from().await, alone(&root), nobody());
        let rest = rest.await.unwrap();
        assert_eq!(rest.copied.total() + step, whole.counts.total(), "{step}");
        assert_eq!(rest.digest, whole.digest, "{step}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn version_number_taken_by_another_writer_is_not_skipped() {
    let it = Move::new().await;
    let from = only_artifacts(source(&it.path("from.db"), &it.clock).await);
    let root = it.path("folder");
    leave_pending(&root);
    // Not opened for exclusive use: another process may be saving.
    let store = FileArtifactStore::open(&root).unwrap();
    let refused = it.between(from, of(Some(Arc::new(store.clone()))), nobody());
    let refused = told(refused.await);
    assert!(refused.contains("the next version is 1"), "{refused}");
    assert_eq!(store.versions(&place("a.txt")).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn artifacts_a_folder_cannot_hold_are_rejected_before_writing() {
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
        let migration = Migration::new(only_artifacts(side(store)), alone(&root));
        for error in [
            migration.survey().await.unwrap_err(),
            migration.run().await.unwrap_err(),
        ] {
            let told = error.to_string();
            assert!(matches!(error, MigrationError::Rejected { .. }), "{told}");
            assert!(told.contains(named), "{named}: {told}");
        }
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0, "{named}");
    }
}
