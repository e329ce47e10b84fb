//! Artifacts in a folder: path traversal, symlinks, partial versions, corrupt files.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use retain_core::{
    ArtifactAddress, ArtifactError, ArtifactKey, ArtifactNaming, ArtifactService as _,
    ArtifactStore as _, Part, SessionKey,
};
use retain_stores::{FileArtifactService, FileArtifactStore};
use retain_testkit::{artifacts::hostile_name, random::Random};

fn open(root: &Path) -> FileArtifactService {
    FileArtifactService::over(FileArtifactStore::open(root).expect("a folder"))
}

fn key(filename: &str) -> ArtifactKey {
    ArtifactKey::in_session(&SessionKey::new("app", "ada", "s1"), filename)
}

async fn save(artifacts: &FileArtifactService, name: &str) -> Result<u64, ArtifactError> {
    let part = Part::text("x");
    artifacts.save_artifact(&key(name), part, None).await
}

/// Returns all files below a folder.
fn list_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(list_files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

#[tokio::test]
async fn artifact_names_stay_inside_the_root_and_their_scope() {
    let seed = 77_001;
    println!("seed {seed}");
    let outer = retain_testkit::scratch::folder();
    // The root is so deep that a path with a few `..` still ends inside `outer`, which is checked.
    let root = outer.path().join("1/2/3/4/5/6/7/8/root");
    let artifacts = open(&root);
    let mut random = Random::new(seed);
    let mut saved = 0;
    for _ in 0..500 {
        let mut names = [
            "app".to_owned(),
            "ada".to_owned(),
            "s1".to_owned(),
            "a".to_owned(),
        ];
        // Usually the file name is hostile; sometimes it is another name, or both.
        let index = random.pick(&[3, 3, 3, 2, 1, 0]);
        names[index] = hostile_name(&mut random);
        if random.chance(20) {
            names[3] = hostile_name(&mut random);
        }
        let [app, user, session, file] = names;
        let key = ArtifactKey::in_session(&SessionKey::new(app, user, session), file);
        match artifacts.save_artifact(&key, Part::text("x"), None).await {
            Ok(_) => saved += 1,
            Err(ArtifactError::Invalid { .. }) => {}
            Err(error) => panic!("{key:?}: {error:?}"),
        }
        let _ = artifacts.load_artifact(&key, None).await;
        if random.chance(10) {
            let _ = artifacts.delete_artifact(&key).await;
        }
    }
    assert!(saved > 60, "only {saved} saves succeeded");
    let apps = root.canonicalize().unwrap().join("apps");
    let all = list_files(&outer.path().canonicalize().unwrap());
    assert!(all.len() > 60, "only {} files", all.len());
    for file in all {
        let inside = file.strip_prefix(&apps);
        let inside = inside
            .unwrap_or_else(|_| panic!("{file:?} is outside"))
            .to_string_lossy()
            .into_owned();
        let components = ["/users/", "/artifacts/", "/versions/"];
        assert!(
            components
                .iter()
                .all(|component| inside.contains(component)),
            "{inside}"
        );
    }
}

#[test]
fn artifact_paths_have_no_parent_components() {
    let seed = 77_002;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut valid = 0;
    for _ in 0..50_000 {
        let mut names = ["app", "ada", "s1", "a"].map(str::to_owned);
        for name in &mut names {
            if random.chance(60) {
                *name = hostile_name(&mut random);
            }
        }
        let [app, user, session, file] = names;
        let key = ArtifactKey::in_session(&SessionKey::new(app, user, session), file);
        let Ok(address) = ArtifactAddress::from_key(&key, ArtifactNaming::Paths) else {
            continue;
        };
        valid += 1;
        let session = address.session.as_deref().unwrap_or("s");
        for name in [&*address.app, &*address.user, session, &*address.name] {
            let parts = Path::new(name).components();
            assert!(
                parts
                    .clone()
                    .all(|part| matches!(part, Component::Normal(_))),
                "{key:?}"
            );
            // No part of the name was removed, so two owners never share a folder.
            assert_eq!(parts.count(), name.split('/').count(), "{key:?}");
            assert!(!name.contains('\0') && name.len() <= 2048, "{key:?}");
        }
    }
    assert!(valid > 1000, "only {valid} names were valid");
}

#[tokio::test]
async fn folder_layout_matches_adk() {
    let folder = retain_testkit::scratch::folder();
    let artifacts = open(folder.path());
    let part = Part::bytes(vec![1, 2], "image/png");
    artifacts
        .save_artifact(&key("plans/a b.png"), part, None)
        .await
        .unwrap();
    artifacts
        .save_artifact(&key("user:me"), Part::text("x"), None)
        .await
        .unwrap();
    let root = folder.path().canonicalize().unwrap();
    let mut found: Vec<String> = list_files(&root)
        .iter()
        .map(|file| file.strip_prefix(&root).unwrap().display().to_string())
        .collect();
    found.sort();
    assert_eq!(
        found,
        [
            "apps/app/users/ada/artifacts/me/versions/0/me",
            "apps/app/users/ada/artifacts/me/versions/0/metadata.json",
            "apps/app/users/ada/sessions/s1/artifacts/plans/a b.png/versions/0/a b.png",
            "apps/app/users/ada/sessions/s1/artifacts/plans/a b.png/versions/0/metadata.json",
        ]
    );
    let about = artifacts
        .get_artifact_version(&key("plans/a b.png"), None)
        .await;
    let uri = about.unwrap().unwrap().canonical_uri;
    assert!(
        uri.starts_with("file:///") && uri.ends_with("/a%20b.png"),
        "{uri}"
    );
}

#[tokio::test]
async fn pending_files_of_a_killed_save_are_not_a_version() {
    let folder = retain_testkit::scratch::folder();
    let artifacts = open(folder.path());
    artifacts
        .save_artifact(&key("a"), Part::text("x"), None)
        .await
        .unwrap();
    let versions = folder
        .path()
        .join("apps/app/users/ada/sessions/s1/artifacts/a/versions");
    fs::create_dir(versions.join(".1.pending")).unwrap();
    fs::write(versions.join(".1.pending/a"), "half").unwrap();
    let pending = folder
        .path()
        .join("apps/app/users/ada/sessions/s1/artifacts/b/versions/.0.pending");
    fs::create_dir_all(&pending).unwrap();
    let artifacts = open(folder.path());
    assert_eq!(artifacts.list_versions(&key("a")).await.unwrap(), [0]);
    let loaded = artifacts.load_artifact(&key("a"), None).await.unwrap();
    assert_eq!(loaded, Some(Part::text("x")));
    let listed = artifacts.list_artifact_keys("app", "ada", Some("s1")).await;
    assert_eq!(listed.unwrap(), ["a"]);
    // The number stays reserved, because ADK may still be writing this version to the folder.
    let next = artifacts
        .save_artifact(&key("a"), Part::text("y"), None)
        .await;
    assert_eq!(next.unwrap(), 2);
}

#[tokio::test]
async fn deleted_artifact_leaves_no_files() {
    let folder = retain_testkit::scratch::folder();
    let artifacts = open(folder.path());
    for name in ["a/b/c", "user:d"] {
        artifacts
            .save_artifact(&key(name), Part::text("x"), None)
            .await
            .unwrap();
        artifacts.delete_artifact(&key(name)).await.unwrap();
    }
    assert_eq!(list_files(folder.path()), Vec::<PathBuf>::new());
    let scope = folder
        .path()
        .join("apps/app/users/ada/sessions/s1/artifacts");
    assert_eq!(fs::read_dir(scope).unwrap().count(), 0);
    // Opening the folder removes the files that an interrupted delete left in the trash.
    let left = folder.path().join(".deleted/1-1/0");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("a"), "x").unwrap();
    open(folder.path());
    assert_eq!(list_files(folder.path()), Vec::<PathBuf>::new());
}

#[cfg(unix)]
#[tokio::test]
async fn symlinks_are_not_followed() {
    use std::os::unix::fs::symlink;

    let (folder, outside) = (
        retain_testkit::scratch::folder(),
        retain_testkit::scratch::folder(),
    );
    let artifacts = open(folder.path());
    artifacts
        .save_artifact(&key("a"), Part::text("x"), None)
        .await
        .unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let scope = folder
        .path()
        .join("apps/app/users/ada/sessions/s1/artifacts");
    symlink(outside.path(), scope.join("link")).unwrap();
    let saved = artifacts
        .save_artifact(&key("link/b"), Part::text("x"), None)
        .await;
    assert!(
        matches!(saved, Err(ArtifactError::Invalid { .. })),
        "{saved:?}"
    );
    let file = scope.join("a/versions/0/a");
    fs::remove_file(&file).unwrap();
    symlink(outside.path().join("secret"), &file).unwrap();
    let loaded = artifacts.load_artifact(&key("a"), None).await;
    assert!(
        matches!(loaded, Err(ArtifactError::Corrupt { .. })),
        "{loaded:?}"
    );
    assert_eq!(list_files(outside.path()).len(), 1);
}

#[tokio::test]
async fn corrupt_error_names_the_version() {
    let folder = retain_testkit::scratch::folder();
    let artifacts = open(folder.path());
    artifacts
        .save_artifact(&key("a"), Part::text("x"), None)
        .await
        .unwrap();
    let version = folder
        .path()
        .join("apps/app/users/ada/sessions/s1/artifacts/a/versions/0");
    fs::write(version.join("a"), [0xff]).unwrap();
    let loaded = artifacts.load_artifact(&key("a"), None).await;
    assert!(
        matches!(loaded, Err(ArtifactError::Corrupt { version: 0, .. })),
        "{loaded:?}"
    );
    fs::write(version.join("metadata.json"), "{").unwrap();
    let about = artifacts.list_artifact_versions(&key("a")).await;
    assert!(
        matches!(about, Err(ArtifactError::Corrupt { version: 0, .. })),
        "{about:?}"
    );
}

#[tokio::test]
async fn read_only_store_does_not_change_the_folder() {
    let folder = retain_testkit::scratch::folder();
    let root = folder.path().join("root");
    assert!(FileArtifactStore::open_read_only(&root).is_err());
    assert!(!root.exists());
    save(&open(&root), "a").await.unwrap();
    let versions = "apps/app/users/ada/sessions/s1/artifacts/a/versions";
    let left = [
        root.join(".deleted/1-0"),
        root.join(versions).join(".1.pending"),
    ];
    for left in &left {
        fs::create_dir_all(left).unwrap();
        fs::write(left.join("a"), "half").unwrap();
    }
    let before = list_files(&root);
    let artifacts = FileArtifactService::over(FileArtifactStore::open_read_only(&root).unwrap());
    let loaded = artifacts.load_artifact(&key("a"), None).await.unwrap();
    assert_eq!(loaded, Some(Part::text("x")));
    assert!(save(&artifacts, "a").await.is_err());
    assert!(artifacts.delete_artifact(&key("a")).await.is_err());
    assert_eq!(list_files(&root), before);
    // Only a store with exclusive use removes pending saves.
    drop(FileArtifactStore::open(&root).unwrap());
    assert_eq!(left.each_ref().map(|left| left.exists()), [false, true]);
    drop(FileArtifactStore::open_alone(&root).unwrap());
    assert_eq!(left.each_ref().map(|left| left.exists()), [false, false]);
    assert_eq!(list_files(&root).len(), 2);
}

#[tokio::test]
async fn address_pages_are_ordered_and_complete() {
    let folder = retain_testkit::scratch::folder();
    let artifacts = open(folder.path());
    for name in ["b", "a/c", "user:z", "a", "é", "a-b"] {
        save(&artifacts, name).await.unwrap();
    }
    // A folder with only a pending save is not an artifact and does not count toward a page.
    let scope = folder
        .path()
        .join("apps/app/users/ada/sessions/s1/artifacts");
    fs::create_dir_all(scope.join("aa/versions/.0.pending")).unwrap();
    let (mut found, mut last): (Vec<String>, Option<ArtifactAddress>) = (Vec::new(), None);
    loop {
        let page = artifacts.store().addresses(last.as_ref(), 2).await.unwrap();
        assert!(page.len() == 2 || page.is_empty(), "{page:?}");
        found.extend(page.iter().map(|address| address.filename.clone()));
        match page.last() {
            Some(end) => last = Some(end.clone()),
            None => break,
        }
    }
    assert_eq!(found, ["user:z", "a", "a-b", "a/c", "b", "é"]);
}
