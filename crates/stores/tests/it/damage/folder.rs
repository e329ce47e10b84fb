//! Damages of an artifact folder.

use std::fs;

use retain_core::{ArtifactKey, ArtifactService as _, Part, SessionKey, check_artifacts};
use retain_stores::{FileArtifactService, FileArtifactStore};

use super::texts;

#[tokio::test]
async fn check_reports_files_of_artifacts_that_are_missing_or_unreadable() {
    let folder = retain_testkit::scratch::folder();
    let store = FileArtifactStore::open(folder.path()).unwrap();
    let artifacts = FileArtifactService::over(store.clone());
    let key = SessionKey::new("app", "ada", "s1");
    for name in ["a/text", "b"] {
        let key = ArtifactKey::in_session(&key, name);
        artifacts
            .save_artifact(&key, Part::text("x"), None)
            .await
            .unwrap();
    }
    assert_eq!(check_artifacts(&store).await.unwrap(), []);
    let version = |name: &str| {
        let path = format!("apps/app/users/ada/sessions/s1/artifacts/{name}/versions/0");
        folder.path().join(path)
    };
    fs::remove_file(version("a/text").join("text")).unwrap();
    fs::write(version("b").join("metadata.json"), "{").unwrap();
    let found = texts(&check_artifacts(&store).await.unwrap());
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), 2, "{found}");
    let of =
        |name: &str| format!("version 0 of artifact {name:?} of session \"app\"/\"ada\"/\"s1\": ");
    assert!(
        lines[0].starts_with(&(of("a/text") + "its content is missing")),
        "{found}"
    );
    assert!(
        lines[1].starts_with(&(of("b") + "cannot be read")),
        "{found}"
    );
}
