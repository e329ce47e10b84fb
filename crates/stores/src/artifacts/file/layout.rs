//! Where an artifact is in the folder, and that it is inside: no name leads out, no link is followed.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use retain_core::{ArtifactAddress, ArtifactError, BoxError};

use super::{failed, folders_in, is_absent};

/// The folder that an artifact's versions are in. No artifact has a path with this word.
pub(super) const VERSIONS: &str = "versions";

/// The folder that a user's artifacts are in, or a session's.
pub(super) const ARTIFACTS: &str = "artifacts";

/// The folder that a user's sessions are in.
pub(super) const SESSIONS: &str = "sessions";

/// What Python's `quote` leaves unencoded in a path is not in this set.
const ENCODED_IN_URI: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'_')
    .remove(b'.')
    .remove(b'-')
    .remove(b'~');

/// The whole folder.
#[derive(Debug)]
pub(super) struct Layout {
    root: PathBuf,
}

impl Layout {
    /// `root` is absolute and without links.
    pub(super) fn new(root: PathBuf) -> Layout {
        Layout { root }
    }

    /// The folder itself.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where versions go that are being deleted: outside of every scope.
    pub(super) fn trash(&self) -> PathBuf {
        self.root.join(".deleted")
    }

    /// The folder of a session's artifacts, or of the user's.
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

    /// Where everything of a user is.
    pub(super) fn home(&self, app: &str, user: &str) -> Result<Home, ArtifactError> {
        let users = descend(self.root.clone(), &["apps", app, "users"].join("/"))?;
        let folder = descend(users.clone(), user)?;
        Ok(Home { users, folder })
    }

    /// The place of an artifact.
    pub(super) fn shelf(&self, place: &ArtifactAddress) -> Result<Shelf, ArtifactError> {
        let scope = self.scope(&place.app, &place.user, place.session.as_deref())?;
        let folder = descend(scope.clone(), &place.name)?;
        // Nothing below may be a link either; what is there is looked at when it is read.
        descend(folder.clone(), VERSIONS)?;
        Ok(Shelf { scope, folder })
    }
}

/// Goes down from `from`, a name at a time. The names were checked before, and are again: one that
/// is not a plain name, or that is a link on the disk, leads nowhere.
fn descend(from: PathBuf, path: &str) -> Result<PathBuf, ArtifactError> {
    let mut at = from;
    for name in path.split('/') {
        if name.is_empty() || name == "." || name == ".." || name.contains('\0') {
            return Err(ArtifactError::invalid("artifact name", "is not a path"));
        }
        at.push(name);
        match fs::symlink_metadata(&at) {
            Ok(found) if found.is_symlink() => {
                let reason = "leads over a symbolic link, which is not followed";
                return Err(ArtifactError::invalid("artifact name", reason));
            }
            Err(error) if !is_absent(&error) => return Err(failed("look", error)),
            _ => {}
        }
    }
    Ok(at)
}

/// The folder of one user, in which those of others may be: of whom has a name with more parts.
#[derive(Debug)]
pub(super) struct Home {
    users: PathBuf,
    folder: PathBuf,
}

impl Home {
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder in it with this name; an error if that is a link.
    pub(super) fn child(&self, name: &str) -> Result<PathBuf, ArtifactError> {
        descend(self.folder.clone(), name)
    }

    /// Removes the folder, whose name may say who it was, and those above it that nothing is left
    /// in, up to that of all users.
    pub(super) fn remove_empty_folders(&self) {
        remove_empty(&self.folder, &self.users);
    }
}

/// Removes a folder and those above it that nothing is left in, as long as they are inside `end`.
fn remove_empty(folder: &Path, end: &Path) {
    let inside = |folder: &&Path| *folder != end && folder.starts_with(end);
    for folder in folder.ancestors().take_while(inside) {
        // Fails, as it should, where something is left.
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

/// The place of one artifact: a folder, in which its versions are and perhaps further artifacts.
#[derive(Debug)]
pub(super) struct Shelf {
    scope: PathBuf,
    folder: PathBuf,
}

impl Shelf {
    /// The artifact at `folder`, which was found inside `scope`.
    pub(super) fn found(scope: &Path, folder: &Path) -> Shelf {
        Shelf {
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

    /// What the file of a version is called: as the artifact.
    pub(super) fn payload_name(&self) -> &Path {
        Path::new(self.folder.file_name().unwrap_or_default())
    }

    /// Its path in the scope.
    pub(super) fn relative_name(&self) -> String {
        let relative = self.folder.strip_prefix(&self.scope);
        relative
            .unwrap_or(&self.folder)
            .to_string_lossy()
            .into_owned()
    }

    /// The versions there are, ascending.
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

    /// The bytes of a version; `None` if they are gone.
    pub(super) fn read_payload(&self, version: u64) -> Result<Option<Vec<u8>>, ArtifactError> {
        let path = self.version(version).join(self.payload_name());
        self.read(version, &path)
    }

    /// A file of a version; `None` if it is not there. Only a plain file is read.
    pub(super) fn read(&self, version: u64, path: &Path) -> Result<Option<Vec<u8>>, ArtifactError> {
        let read = || -> io::Result<Vec<u8>> {
            if !fs::symlink_metadata(path)?.is_file() {
                return Err(io::Error::new(ErrorKind::InvalidData, "it is not a file"));
            }
            fs::read(path)
        };
        match read() {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                Err(self.corrupt(version, error))
            }
            Err(error) => Err(failed("load", error)),
        }
    }

    /// The address of a version's bytes.
    pub(super) fn uri(&self, version: u64) -> String {
        let path = self.version(version).join(self.payload_name());
        let path = percent_encode(path.as_os_str().as_encoded_bytes(), ENCODED_IN_URI);
        format!("file://{path}")
    }

    /// Removes the folder and those above it that nothing is left in, up to the scope.
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
