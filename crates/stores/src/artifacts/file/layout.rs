//! Builds the paths of artifacts. No path leaves the root folder or follows a symbolic link.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use retain_core::{ArtifactAddress, ArtifactError, BoxError};

use super::{failed, folders_in, is_absent};

/// The folder with an artifact's versions. Artifact names must not contain it as a path part.
pub(super) const VERSIONS: &str = "versions";

/// The folder with the artifacts of a user or session.
pub(super) const ARTIFACTS: &str = "artifacts";

/// The folder with a user's sessions.
pub(super) const SESSIONS: &str = "sessions";

/// The characters that are percent-encoded in URIs, as Python's `quote` does.
const ENCODED_IN_URI: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'_')
    .remove(b'.')
    .remove(b'-')
    .remove(b'~');

/// Returns the URI of a path.
pub(super) fn file_uri(path: &Path) -> String {
    let path = percent_encode(path.as_os_str().as_encoded_bytes(), ENCODED_IN_URI);
    format!("file://{path}")
}

/// The root folder and the paths inside it.
#[derive(Debug)]
pub(super) struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Creates a layout. `root` must be absolute and free of symbolic links.
    pub(super) fn new(root: PathBuf) -> Layout {
        Layout { root }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the trash: a folder outside of every scope for artifacts that are being deleted.
    pub(super) fn trash(&self) -> PathBuf {
        self.root.join(".deleted")
    }

    /// Returns the folder of a session's artifacts; without a session, of the user's own artifacts.
    pub(super) fn scope(
        &self,
        app: &str,
        user: &str,
        session: Option<&str>,
    ) -> Result<PathBuf, ArtifactError> {
        let mut parts = vec!["apps", app, "users", user];
        if let Some(session) = session {
            parts.extend([SESSIONS, session]);
        }
        parts.push(ARTIFACTS);
        descend(self.root.clone(), &parts.join("/"))
    }

    /// Returns the folder of a user's artifacts and sessions.
    pub(super) fn user_folder(&self, app: &str, user: &str) -> Result<UserFolder, ArtifactError> {
        let users = descend(self.root.clone(), &["apps", app, "users"].join("/"))?;
        let folder = descend(users.clone(), user)?;
        Ok(UserFolder { users, folder })
    }

    /// Returns the folder of an artifact.
    pub(super) fn artifact_folder(
        &self,
        address: &ArtifactAddress,
    ) -> Result<ArtifactFolder, ArtifactError> {
        let scope = self.scope(&address.app, &address.user, address.session.as_deref())?;
        let folder = descend(scope.clone(), &address.name)?;
        // The versions folder must not be a link either; files in it are checked when they are read.
        descend(folder.clone(), VERSIONS)?;
        Ok(ArtifactFolder { scope, folder })
    }
}

/// Appends `path` to `from`, one name at a time. Rejects symbolic links and names such as `..`. The
/// callers have checked the names; this is a second defense.
fn descend(from: PathBuf, path: &str) -> Result<PathBuf, ArtifactError> {
    let mut at = from;
    for name in path.split('/') {
        if name.is_empty() || name == "." || name == ".." || name.contains('\0') {
            let reason = format!(
                "contains {name:?}; expected a relative path without empty names, `.` or `..`"
            );
            return Err(ArtifactError::invalid("artifact name", reason));
        }
        at.push(name);
        match fs::symlink_metadata(&at) {
            Ok(found) if found.is_symlink() => {
                let reason = format!(
                    "contains {name:?}, which is a symbolic link in the folder; remove the link"
                );
                return Err(ArtifactError::invalid("artifact name", reason));
            }
            Err(error) if !is_absent(&error) => return Err(failed("check a path", error)),
            _ => {}
        }
    }
    Ok(at)
}

/// The folder of one user. It may contain folders of other users, whose names have more parts.
#[derive(Debug)]
pub(super) struct UserFolder {
    users: PathBuf,
    folder: PathBuf,
}

impl UserFolder {
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the child folder with this name. Fails if it is a symbolic link.
    pub(super) fn child(&self, name: &str) -> Result<PathBuf, ArtifactError> {
        descend(self.folder.clone(), name)
    }

    /// Removes the folder, whose name may identify the user, and its empty ancestors below the
    /// folder of all users.
    pub(super) fn remove_empty_folders(&self) {
        remove_empty(&self.folder, &self.users);
    }
}

/// Removes a folder and its ancestors inside `end`, up to the first that is not empty.
fn remove_empty(folder: &Path, end: &Path) {
    let inside = |folder: &&Path| *folder != end && folder.starts_with(end);
    for folder in folder.ancestors().take_while(inside) {
        // Fails if the folder is not empty.
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

/// The folder of one artifact. It contains the versions, and may contain other artifacts.
#[derive(Debug)]
pub(super) struct ArtifactFolder {
    scope: PathBuf,
    folder: PathBuf,
}

impl ArtifactFolder {
    /// Describes `folder`, which must be inside `scope` and free of symbolic links.
    pub(super) fn new(scope: &Path, folder: &Path) -> ArtifactFolder {
        ArtifactFolder {
            scope: scope.to_owned(),
            folder: folder.to_owned(),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn versions_folder(&self) -> PathBuf {
        self.folder.join(VERSIONS)
    }

    pub(super) fn version(&self, version: u64) -> PathBuf {
        self.versions_folder().join(version.to_string())
    }

    /// Returns the file name of a version's bytes: the last part of the artifact's name.
    pub(super) fn payload_name(&self) -> &Path {
        Path::new(self.folder.file_name().unwrap_or_default())
    }

    /// Returns the artifact's path relative to its scope.
    pub(super) fn relative_name(&self) -> String {
        let relative = self.folder.strip_prefix(&self.scope);
        relative
            .unwrap_or(&self.folder)
            .to_string_lossy()
            .into_owned()
    }

    /// Returns the numbers of the versions, ascending.
    pub(super) fn numbers(&self) -> io::Result<Vec<u64>> {
        let folders = folders_in(&self.versions_folder())?;
        let numbers = folders.iter().filter_map(|folder| {
            let name = folder.file_name()?.to_str()?;
            let number: u64 = name.parse().ok()?;
            // `007` is not a version that Retain writes.
            (number.to_string() == name).then_some(number)
        });
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Reads the bytes of a version; `None` if the file does not exist.
    pub(super) fn read_payload(&self, version: u64) -> Result<Option<Vec<u8>>, ArtifactError> {
        let path = self.version(version).join(self.payload_name());
        self.read(version, &path)
    }

    /// Reads a version's file; `None` if it does not exist. Reports corruption if the path is a
    /// symbolic link or anything else that is not a regular file.
    pub(super) fn read(&self, version: u64, path: &Path) -> Result<Option<Vec<u8>>, ArtifactError> {
        let read = || -> io::Result<Vec<u8>> {
            if !fs::symlink_metadata(path)?.is_file() {
                let reason = "it is not a regular file";
                return Err(io::Error::new(ErrorKind::InvalidData, reason));
            }
            fs::read(path)
        };
        match read() {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                Err(self.corrupt(version, error))
            }
            Err(error) => Err(failed("load an artifact", error)),
        }
    }

    /// Returns the URI of a version's bytes.
    pub(super) fn uri(&self, version: u64) -> String {
        let path = self.version(version).join(self.payload_name());
        file_uri(&path)
    }

    /// Removes the empty folders of the artifact and of its user.
    pub(super) fn remove_empty_folders_of(&self, user: &UserFolder) {
        remove_empty(&self.versions_folder(), &user.users);
    }

    /// Removes the folder and its empty ancestors inside the scope.
    pub(super) fn remove_empty_folders(&self) {
        remove_empty(&self.folder, &self.scope);
    }

    pub(super) fn corrupt(&self, version: u64, cause: impl Into<BoxError>) -> ArtifactError {
        ArtifactError::Corrupt {
            address: self.relative_name(),
            version,
            source: cause.into(),
        }
    }
}
