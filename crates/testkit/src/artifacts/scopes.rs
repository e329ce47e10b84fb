//! Promises about names and scopes: artifacts are isolated, and no name escapes its scope.

use std::collections::BTreeMap;

use retain_core::{ArtifactAddress, ArtifactError, ArtifactKey, EraseReceipt, Part, SessionKey};

use super::{ArtifactHarness, hostile_name, key};
use crate::random::Random;

/// A list for a session has the session's own names and those of the user, sorted. A list without a
/// session has only those of the user.
pub async fn artifact_names_are_listed_in_order(harness: ArtifactHarness) {
    let artifacts = harness.service().await;
    for name in ["b.txt", "user:a", "a/b", "Z", "é", "user:zz/x"] {
        artifacts
            .save_artifact(&key(name), Part::text("x"), None)
            .await
            .unwrap();
    }
    let listed = artifacts.list_artifact_keys("app", "ada", Some("s1")).await;
    assert_eq!(
        listed.unwrap(),
        ["Z", "a/b", "b.txt", "user:a", "user:zz/x", "é"]
    );
    let listed = artifacts.list_artifact_keys("app", "ada", None).await;
    assert_eq!(listed.unwrap(), ["user:a", "user:zz/x"]);
}

/// A `user:` name is the same artifact from every session and without one.
pub async fn user_artifacts_are_visible_in_every_session(harness: ArtifactHarness) {
    let artifacts = harness.service().await;
    artifacts
        .save_artifact(&key("user:a"), Part::text("x"), None)
        .await
        .unwrap();
    let elsewhere = ArtifactKey::in_session(&SessionKey::new("app", "ada", "s2"), "user:a");
    let nowhere = ArtifactKey::of_user("app", "ada", "user:a");
    for other in [elsewhere.clone(), nowhere] {
        let loaded = artifacts.load_artifact(&other, None).await.unwrap();
        assert_eq!(loaded, Some(Part::text("x")));
    }
    let next = artifacts.save_artifact(&elsewhere, Part::text("y"), None);
    assert_eq!(next.await.unwrap(), 1);
    let listed = artifacts.list_artifact_keys("app", "ada", Some("s3")).await;
    assert_eq!(listed.unwrap(), ["user:a"]);
    // The same name without the colon belongs to the session.
    assert_eq!(
        artifacts.load_artifact(&key("a"), None).await.unwrap(),
        None
    );
}

/// Sessions, users and apps do not share artifacts, even if their concatenated names are equal.
pub async fn artifacts_are_isolated_by_scope(harness: ArtifactHarness) {
    let artifacts = harness.service().await;
    let owners = [
        ("app", "ada", "s1"),
        ("app", "ada", "s2"),
        ("app", "ada", "s1/a"),
        ("app", "grace", "s1"),
        ("app", "ada/s1", "a"),
        ("other", "ada", "s1"),
        ("app/ada", "s1", "a"),
    ];
    let address = |(app, user, session), name| {
        ArtifactKey::in_session(&SessionKey::new(app, user, session), name)
    };
    for owner in owners {
        for name in ["a", "a/a", "user:a", "user:a/a"] {
            let part = Part::text(format!("{owner:?} {name}"));
            artifacts
                .save_artifact(&address(owner, name), part, None)
                .await
                .unwrap();
        }
    }
    for owner in owners {
        let (app, user, session) = owner;
        let listed = artifacts.list_artifact_keys(app, user, Some(session)).await;
        assert_eq!(
            listed.unwrap(),
            ["a", "a/a", "user:a", "user:a/a"],
            "{owner:?}"
        );
        let own = artifacts.load_artifact(&address(owner, "a"), None).await;
        assert_eq!(own.unwrap(), Some(Part::text(format!("{owner:?} a"))));
        let versions = artifacts.list_versions(&address(owner, "a/a")).await;
        assert_eq!(versions.unwrap(), [0], "{owner:?}");
    }
}

/// A session may have the name `user` or another word that a store uses in its paths.
pub async fn session_names_do_not_collide_with_the_user_scope(harness: ArtifactHarness) {
    let artifacts = harness.service().await;
    for session in ["user", "users", "artifacts", "s 1", "é", "a.b", "..."] {
        let key = ArtifactKey::in_session(&SessionKey::new("app", "ada", session), "a");
        artifacts
            .save_artifact(&key, Part::text(session), None)
            .await
            .unwrap();
        let listed = artifacts
            .list_artifact_keys("app", "ada", Some(session))
            .await;
        assert_eq!(listed.unwrap(), ["a"]);
        let loaded = artifacts.load_artifact(&key, None).await.unwrap();
        assert_eq!(loaded, Some(Part::text(session)));
    }
    let of_user = artifacts.list_artifact_keys("app", "ada", None).await;
    assert!(of_user.unwrap().is_empty());
}

/// Without a session, a name must belong to the user; otherwise it is rejected.
pub async fn name_without_a_session_belongs_to_the_user_or_is_refused(harness: ArtifactHarness) {
    let artifacts = harness.service().await;
    let bare = ArtifactKey::of_user("app", "ada", "a");
    let saved = artifacts.save_artifact(&bare, Part::text("x"), None).await;
    if harness.accepts_any_part() {
        assert!(
            matches!(saved, Err(ArtifactError::Invalid { .. })),
            "{saved:?}"
        );
        return;
    }
    assert_eq!(saved.unwrap(), 0);
    let loaded = artifacts.load_artifact(&key("user:a"), None).await.unwrap();
    assert_eq!(loaded, Some(Part::text("x")));
    assert_eq!(
        artifacts.load_artifact(&key("a"), None).await.unwrap(),
        None
    );
}

/// Every method rejects an app, user or session name that could be read as path traversal.
pub async fn owners_with_path_traversal_are_refused(harness: ArtifactHarness) {
    let artifacts = harness.service().await;
    for name in [
        "",
        " ",
        "..",
        ".",
        "/a",
        "a/../b",
        "\\a",
        "C:a",
        "a\0",
        "a/users/b",
        "x/Versions",
    ] {
        for place in 0..3 {
            let mut owner = ["app", "ada", "s1"];
            owner[place] = name;
            let [app, user, session] = owner;
            let key = ArtifactKey::in_session(&SessionKey::new(app, user, session), "a");
            let refused = [
                artifacts
                    .save_artifact(&key, Part::text("x"), None)
                    .await
                    .err(),
                artifacts.load_artifact(&key, None).await.err(),
                artifacts.delete_artifact(&key).await.err(),
                artifacts.list_versions(&key).await.err(),
                artifacts
                    .list_artifact_keys(app, user, Some(session))
                    .await
                    .err(),
            ];
            for error in refused {
                assert!(
                    matches!(error, Some(ArtifactError::Invalid { .. })),
                    "{owner:?}: {error:?}"
                );
            }
        }
    }
}

/// A hostile name is either stored unchanged and listed, or rejected. It never reaches another
/// artifact, unless both names mean the same path.
pub async fn hostile_names_are_stored_separately_or_refused(harness: ArtifactHarness) {
    let seed = 20_261_116;
    println!("seed {seed}");
    let artifacts = harness.service().await;
    let mut random = Random::new(seed);
    let mut stored: BTreeMap<(Option<String>, String), (String, u64)> = BTreeMap::new();
    for number in 0..500 {
        let name = hostile_name(&mut random);
        let part = Part::text(format!("{number}"));
        match artifacts
            .save_artifact(&key(&name), part.clone(), None)
            .await
        {
            Ok(version) => {
                let place = ArtifactAddress::from_key(&key(&name), harness.names).unwrap();
                let before = stored.insert((place.session, place.name), (name.clone(), version));
                let expected = before.map_or(0, |(_, before)| before + 1);
                assert_eq!(version, expected, "{name:?}");
                let loaded = artifacts.load_artifact(&key(&name), None).await;
                assert_eq!(loaded.unwrap(), Some(part), "{name:?}");
            }
            Err(ArtifactError::Invalid { .. }) => {}
            Err(error) => panic!("{name:?}: {error:?}"),
        }
    }
    assert!(stored.len() > 80, "only {} names were stored", stored.len());
    let mut expected: Vec<String> = stored.into_values().map(|(name, _)| name).collect();
    expected.sort();
    let listed = artifacts.list_artifact_keys("app", "ada", Some("s1")).await;
    assert_eq!(listed.unwrap(), expected);
    let other = artifacts
        .list_artifact_keys("app", "grace", Some("s1"))
        .await;
    assert!(other.unwrap().is_empty());
}

/// Listing in pages of any size returns every artifact of all apps, users and sessions once, under
/// the name that loads it.
pub async fn every_artifact_is_listed_once_in_order(harness: ArtifactHarness) {
    let (artifacts, store) = (harness.service().await, harness.store().await);
    assert_eq!(store.addresses(None, 10).await.unwrap(), []);
    let mut expected = Vec::new();
    for (app, user, session) in [
        ("b", "ada", "s1"),
        ("a", "ü", "s1"),
        ("a", "ada", "s2"),
        ("a", "ada", "s/1"),
        ("a", "grace", "s1"),
    ] {
        let session = SessionKey::new(app, user, session);
        for name in ["user:mine", "x", "X", "dir/é", "x 1"] {
            let key = ArtifactKey::in_session(&session, name);
            for text in ["one", "two"] {
                let saved = artifacts.save_artifact(&key, Part::text(text), None);
                saved.await.unwrap();
            }
            expected.push(ArtifactAddress::from_key(&key, store.naming()).unwrap());
        }
    }
    let address = |it: &ArtifactAddress| {
        let it = it.clone();
        (it.app, it.user, it.session, it.name)
    };
    expected.sort_by_key(address);
    expected.dedup();
    for step in [1, 4, 100] {
        let mut all: Vec<ArtifactAddress> = Vec::new();
        loop {
            let page = store.addresses(all.last(), step).await.unwrap();
            if page.is_empty() {
                break;
            }
            all.extend(page);
        }
        assert_eq!(all, expected, "{step}");
    }
}

/// Erasing a user removes and counts all versions of the user and of their sessions. It does not
/// consult a session store, so the sessions need not exist. Artifacts of other users stay, even if
/// their names share a prefix.
pub async fn erasing_a_user_keeps_other_users_artifacts(harness: ArtifactHarness) {
    let artifacts = harness.service().await;
    let at = |app: &str, user: &str, session: &str, name: &str| {
        ArtifactKey::in_session(&SessionKey::new(app, user, session), name)
    };
    let sessions = ["s1", "s1/a", "users", "versions", "artifacts", "é"];
    let theirs = sessions.map(|session| at("app", "ada", session, "a"));
    let theirs = theirs.into_iter().chain(
        ["a/a", "user:a", "user:a/a"]
            .into_iter()
            .map(|name| at("app", "ada", "s1", name)),
    );
    let theirs: Vec<ArtifactKey> = theirs.collect();
    let of_others = [
        ("app", "ada2"),
        ("app", "ad"),
        ("app", "ada/s1"),
        ("app", "a_a"),
        ("app", "%"),
        ("app2", "ada"),
        ("app/ada", "s1"),
        ("other", "ada"),
    ]
    .map(|(app, user)| ["a", "user:a"].map(|name| at(app, user, "s1", name)));
    for key in theirs.iter().chain(of_others.iter().flatten()) {
        for text in ["one", "two"] {
            let saved = artifacts.save_artifact(key, Part::text(text), None);
            saved.await.unwrap();
        }
    }
    let erased = artifacts.erase_user("app", "ada").await.unwrap();
    assert_eq!(erased.artifacts, 2 * theirs.len() as u64);
    for user in ["ada", "nobody"] {
        let erased = artifacts.erase_user("app", user).await.unwrap();
        assert_eq!(erased, EraseReceipt::default(), "{user}");
    }
    for key in &theirs {
        assert!(
            artifacts.list_versions(key).await.unwrap().is_empty(),
            "{key}"
        );
        assert_eq!(artifacts.load_artifact(key, None).await.unwrap(), None);
    }
    for key in of_others.iter().flatten() {
        assert_eq!(artifacts.list_versions(key).await.unwrap(), [0, 1], "{key}");
    }
    // A new artifact of the same user starts again at version 0.
    let again = artifacts.save_artifact(&theirs[0], Part::text("three"), None);
    assert_eq!(again.await.unwrap(), 0);
}

/// Erasing a user with an invalid name removes nothing, not even data of other users.
pub async fn erasing_an_invalid_user_removes_nothing(harness: ArtifactHarness) {
    let artifacts = harness.service().await;
    artifacts
        .save_artifact(&key("user:a"), Part::text("x"), None)
        .await
        .unwrap();
    for (app, user) in [
        ("app", ".."),
        ("app", "."),
        ("app", ""),
        ("app", "../ada"),
        ("app", "x/../ada"),
        ("app", "/ada"),
        ("app", "ada/"),
        ("app", "ada\0"),
        ("..", "ada"),
        ("", "ada"),
    ] {
        let erased = artifacts.erase_user(app, user).await.unwrap();
        assert_eq!(erased.artifacts, 0, "{app:?} {user:?}");
    }
    let versions = artifacts.list_versions(&key("user:a")).await.unwrap();
    assert_eq!(versions, [0]);
}
