//! Erasing a user: the folders that only they have are taken away as they are.
//!
//! `users/ada` has the folders of the user `ada`, and that of the user `ada/b` too. So it is not
//! removed as a whole: only `artifacts` and `sessions` in it, which are not part of a user's name.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use retain_core::ArtifactError;

use super::{
    Folder, failed, folders_in,
    layout::{ARTIFACTS, SESSIONS, Shelf, VERSIONS},
    write,
};

impl Folder {
    /// Takes away what the user and their sessions have, then counts and removes it.
    pub(super) fn erase_user(&self, app: &str, user: &str) -> Result<u64, ArtifactError> {
        let operation = "erase a user";
        self.check_writable(operation)?;
        let _alone = self.deleting.write();
        let home = self.layout.home(app, user)?;
        let (own, sessions) = (home.child(ARTIFACTS)?, home.child(SESSIONS)?);
        let erased = || -> io::Result<u64> {
            let own = self.take_away(&own)?;
            let sessions = self.take_away(&sessions)?;
            if own.is_none() && sessions.is_none() {
                return Ok(0);
            }
            write::sync_folder(home.folder())?;
            home.remove_empty_folders();
            let mut erased = 0;
            if let Some(own) = own {
                erased += versions_in(&own)?;
                fs::remove_dir_all(own)?;
            }
            if let Some(sessions) = sessions {
                for scope in scopes_in(&sessions)? {
                    erased += versions_in(&scope)?;
                }
                fs::remove_dir_all(sessions)?;
            }
            Ok(erased)
        };
        erased().map_err(|e| failed(operation, e))
    }
}

/// The artifact folders of all sessions in `sessions`. A session may have any name, but after its
/// first part a folder called `artifacts` is not part of the name.
fn scopes_in(sessions: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut scopes, mut open) = (Vec::new(), folders_in(sessions)?);
    while let Some(folder) = open.pop() {
        for inner in folders_in(&folder)? {
            match inner.ends_with(ARTIFACTS) {
                true => scopes.push(inner),
                false => open.push(inner),
            }
        }
    }
    Ok(scopes)
}

/// How many versions the artifacts of a scope have.
fn versions_in(scope: &Path) -> io::Result<u64> {
    let (mut versions, mut open) = (0, folders_in(scope)?);
    while let Some(folder) = open.pop() {
        versions += Shelf::found(scope, &folder).numbers()?.len() as u64;
        let inner = folders_in(&folder)?;
        open.extend(inner.into_iter().filter(|inner| !inner.ends_with(VERSIONS)));
    }
    Ok(versions)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use retain_core::{ArtifactKey, ArtifactService as _, Part, SessionKey};

    use super::*;
    use crate::{FileArtifactService, FileArtifactStore};

    #[tokio::test]
    async fn no_link_is_followed() {
        let scratch = retain_testkit::scratch::folder;
        let (folder, outside) = (scratch(), scratch());
        let target = outside.path().join("artifacts/a/versions/0");
        fs::create_dir_all(&target).unwrap();
        fs::write(target.join("a"), "somebody else's").unwrap();
        let store = FileArtifactStore::open(folder.path()).unwrap();
        let artifacts = FileArtifactService::over(store);
        let key = ArtifactKey::in_session(&SessionKey::new("app", "ada", "s1"), "a");
        let saved = artifacts.save_artifact(&key, Part::text("x"), None);
        saved.await.unwrap();
        let users = folder.path().join("apps/app/users");
        symlink(outside.path(), users.join("ada/sessions/s2")).unwrap();
        symlink(outside.path(), users.join("bob")).unwrap();
        fs::create_dir(users.join("eve")).unwrap();
        symlink(outside.path(), users.join("eve/sessions")).unwrap();
        // A link inside goes, and what it leads to is not counted either.
        assert_eq!(artifacts.erase_user("app", "ada").await.unwrap(), 1);
        assert!(!users.join("ada").exists());
        // Where everything is elsewhere, nobody is told that it is gone.
        for user in ["bob", "eve"] {
            artifacts.erase_user("app", user).await.unwrap_err();
        }
        assert!(target.join("a").is_file());
    }
}
