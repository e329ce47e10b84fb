//! Erases a user by moving the user's folders to the trash and removing them there.
//!
//! `users/ada` contains the folders of user `ada` and also the folder of user `ada/b`. So an erase
//! removes only `artifacts` and `sessions` inside it. A user name of several parts must not contain
//! these two names, so they never belong to another user.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use retain_core::{ArtifactError, EraseReceipt};

use super::{
    Folder, failed, folders_in, is_absent,
    layout::{ARTIFACTS, ArtifactFolder, SESSIONS, VERSIONS},
    write,
};

/// A file with one byte for each erasure. Appending is atomic among processes.
const ERASURES: &str = ".erasures";

impl Folder {
    /// Returns how often users were erased from the folder.
    pub(super) fn count_erasures(&self) -> Result<u64, ArtifactError> {
        match fs::metadata(self.layout.root().join(ERASURES)) {
            Ok(file) => Ok(file.len()),
            Err(error) if is_absent(&error) => Ok(0),
            Err(error) => Err(failed("count erasures", error)),
        }
    }

    fn add_erasure(&self) -> io::Result<()> {
        let path = self.layout.root().join(ERASURES);
        let mut file = File::options().append(true).create(true).open(path)?;
        file.write_all(b".")?;
        file.sync_all()
    }

    /// Moves all artifacts of the user, also those in sessions, to the trash; then counts and
    /// removes them.
    pub(super) fn erase_user(&self, app: &str, user: &str) -> Result<EraseReceipt, ArtifactError> {
        let operation = "erase a user";
        self.check_writable(operation)?;
        let _exclusive = self.deleting.write();
        let user_folder = self.layout.user_folder(app, user)?;
        let own = user_folder.child(ARTIFACTS)?;
        let sessions = user_folder.child(SESSIONS)?;
        let erase = || -> io::Result<u64> {
            self.add_erasure()?;
            let own = self.move_to_trash(&own)?;
            let sessions = self.move_to_trash(&sessions)?;
            if own.is_none() && sessions.is_none() {
                return Ok(0);
            }
            write::sync_folder(user_folder.folder())?;
            user_folder.remove_empty_folders();
            let mut erased = 0;
            if let Some(own) = own {
                erased += count_versions(&own)?;
                fs::remove_dir_all(own)?;
            }
            if let Some(sessions) = sessions {
                for scope in find_scopes(&sessions)? {
                    erased += count_versions(&scope)?;
                }
                fs::remove_dir_all(sessions)?;
            }
            Ok(erased)
        };
        let artifacts = erase().map_err(|e| failed(operation, e))?;
        Ok(EraseReceipt::of_artifacts(artifacts))
    }
}

/// Finds the artifact folders of all sessions in `sessions`. A session may be called `artifacts`,
/// so a folder directly in `sessions` is a session; a deeper folder `artifacts` holds artifacts.
fn find_scopes(sessions: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut scopes, mut open) = (Vec::new(), folders_in(sessions)?);
    while let Some(folder) = open.pop() {
        for inner in folders_in(&folder)? {
            if inner.ends_with(ARTIFACTS) {
                scopes.push(inner);
            } else {
                open.push(inner);
            }
        }
    }
    Ok(scopes)
}

/// Counts the versions of all artifacts of a scope.
fn count_versions(scope: &Path) -> io::Result<u64> {
    let (mut versions, mut open) = (0, folders_in(scope)?);
    while let Some(folder) = open.pop() {
        versions += ArtifactFolder::new(scope, &folder).numbers()?.len() as u64;
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
    async fn erase_follows_no_symbolic_link() {
        let scratch = retain_testkit::scratch::folder;
        let (folder, outside) = (scratch(), scratch());
        let target = outside.path().join("artifacts/a/versions/0");
        fs::create_dir_all(&target).unwrap();
        fs::write(target.join("a"), "outside").unwrap();
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
        // A link inside the user's folder is removed; its target is neither counted nor removed.
        let erased = artifacts.erase_user("app", "ada").await.unwrap();
        assert_eq!(erased.artifacts, 1);
        assert!(!users.join("ada").exists());
        // If a folder to erase is itself a link, the erase must fail instead of reporting success.
        for user in ["bob", "eve"] {
            artifacts.erase_user("app", user).await.unwrap_err();
        }
        assert!(target.join("a").is_file());
    }
}
