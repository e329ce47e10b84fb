//! Artifacts in a folder, laid out as ADK 2.13 does, so that both can use one folder.
//!
//! `root/apps/A/users/U/[sessions/S/]artifacts/F/versions/N/{file, metadata.json}`. This file has
//! the operations, `layout` says where things are and that they are inside the root, `write` how a
//! version comes to be as a whole.

mod erase;
mod layout;
mod metadata;
mod places;
mod write;

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use retain_core::{
    ArtifactAddress, ArtifactError, ArtifactNaming, ArtifactStore, ArtifactVersion, Blob,
    NewArtifact, Part, StoreArtifactService, StoredArtifact,
};

use layout::{Layout, Shelf};
use metadata::Metadata;
use places::Address;

/// The store's name in errors.
const NAME: &str = "the artifact folder";

/// Artifacts in a folder, in the layout of ADK 2.13.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use retain_core::{ArtifactKey, ArtifactService as _, Part, SessionKey};
/// use retain_stores::{FileArtifactService, FileArtifactStore};
/// # let folder = tempfile::tempdir()?;
/// let artifacts = FileArtifactService::over(FileArtifactStore::open(folder.path())?);
/// let key = ArtifactKey::in_session(&SessionKey::new("app", "ada", "s1"), "plans/a.png");
/// artifacts.save_artifact(&key, Part::bytes(vec![1, 2, 3], "image/png"), None).await?;
/// assert_eq!(artifacts.list_artifact_keys("app", "ada", Some("s1")).await?, ["plans/a.png"]);
/// # Ok(()) }
/// ```
pub type FileArtifactService = StoreArtifactService<FileArtifactStore>;

/// The store behind [`FileArtifactService`]. It holds bytes with a media type, or text; references
/// and addresses of files are refused, as ADK does.
#[derive(Debug, Clone)]
pub struct FileArtifactStore {
    folder: Arc<Folder>,
}

#[derive(Debug)]
struct Folder {
    layout: Layout,
    is_read_only: bool,
    /// Saving shares it, deleting has it alone: a folder is not removed under a save.
    deleting: RwLock<()>,
    deleted: AtomicU64,
}

impl FileArtifactStore {
    /// Artifacts in the folder `root`, which is made if it is not there.
    pub fn open(root: impl AsRef<Path>) -> Result<FileArtifactStore, ArtifactError> {
        let opened = || -> io::Result<FileArtifactStore> {
            write::make_folders(root.as_ref())?;
            let store = FileArtifactStore::at(root.as_ref(), false)?;
            // What a delete had left when the program was killed.
            for left in folders_in(&store.folder.layout.trash())? {
                let _ = fs::remove_dir_all(left);
            }
            Ok(store)
        };
        opened().map_err(|e| failed("open", e))
    }

    /// The same for who is the only one to use the folder. What saves that were broken off have left
    /// is removed, so that versions are numbered without gaps: where somebody else saves at this
    /// moment, their version would be lost.
    pub fn open_alone(root: impl AsRef<Path>) -> Result<FileArtifactStore, ArtifactError> {
        let store = FileArtifactStore::open(root)?;
        let cleared = write::remove_pending(store.folder.layout.root());
        cleared.map_err(|e| failed("open", e))?;
        Ok(store)
    }

    /// Only reads the folder `root`, which must be there and stays as it is. Whatever would write
    /// fails.
    pub fn open_read_only(root: impl AsRef<Path>) -> Result<FileArtifactStore, ArtifactError> {
        FileArtifactStore::at(root.as_ref(), true).map_err(|e| failed("open", e))
    }

    fn at(root: &Path, is_read_only: bool) -> io::Result<FileArtifactStore> {
        Ok(FileArtifactStore {
            folder: Arc::new(Folder {
                layout: Layout::new(root.canonicalize()?),
                is_read_only,
                deleting: RwLock::default(),
                deleted: AtomicU64::default(),
            }),
        })
    }

    /// Does blocking work where it blocks nobody.
    async fn blocking<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Folder) -> Result<T, ArtifactError> + Send + 'static,
    ) -> Result<T, ArtifactError> {
        let folder = Arc::clone(&self.folder);
        let done = tokio::task::spawn_blocking(move || work(&folder)).await;
        done.unwrap_or_else(|e| Err(failed(operation, io::Error::other(e))))
    }
}

#[async_trait]
impl ArtifactStore for FileArtifactStore {
    fn naming(&self) -> ArtifactNaming {
        ArtifactNaming::Paths
    }

    async fn put(&self, place: &ArtifactAddress, new: NewArtifact) -> Result<u64, ArtifactError> {
        let place = place.clone();
        let put = move |folder: &Folder| folder.put(&place, &new, None);
        self.blocking("save", put).await
    }

    async fn put_at(
        &self,
        place: &ArtifactAddress,
        version: u64,
        new: NewArtifact,
    ) -> Result<(), ArtifactError> {
        let place = place.clone();
        let put = move |folder: &Folder| folder.put(&place, &new, Some(version)).map(drop);
        self.blocking("save", put).await
    }

    async fn get(
        &self,
        place: &ArtifactAddress,
        version: Option<u64>,
    ) -> Result<Option<StoredArtifact>, ArtifactError> {
        let place = place.clone();
        let get = move |folder: &Folder| folder.get(&place, version);
        self.blocking("load", get).await
    }

    async fn versions(
        &self,
        place: &ArtifactAddress,
    ) -> Result<Vec<ArtifactVersion>, ArtifactError> {
        let place = place.clone();
        let versions = move |folder: &Folder| folder.versions(&place);
        self.blocking("list versions", versions).await
    }

    async fn delete(&self, place: &ArtifactAddress) -> Result<(), ArtifactError> {
        let place = place.clone();
        let delete = move |folder: &Folder| folder.delete(&place);
        self.blocking("delete", delete).await
    }

    async fn list(
        &self,
        app: &str,
        user: &str,
        session: Option<&str>,
    ) -> Result<Vec<String>, ArtifactError> {
        let (app, user) = (app.to_owned(), user.to_owned());
        let session = session.map(str::to_owned);
        let list = move |folder: &Folder| folder.list(&app, &user, session.as_deref());
        self.blocking("list", list).await
    }

    async fn addresses(
        &self,
        after: Option<&ArtifactAddress>,
        limit: usize,
    ) -> Result<Vec<ArtifactAddress>, ArtifactError> {
        let after = after.map(Address::of);
        let list =
            move |folder: &Folder| places::behind(folder.layout.root(), after.as_ref(), limit);
        self.blocking("list", list).await
    }

    async fn erase_user(&self, app: &str, user: &str) -> Result<u64, ArtifactError> {
        let (app, user) = (app.to_owned(), user.to_owned());
        let erase = move |folder: &Folder| folder.erase_user(&app, &user);
        self.blocking("erase a user", erase).await
    }
}

impl Folder {
    fn put(
        &self,
        place: &ArtifactAddress,
        new: &NewArtifact,
        expected: Option<u64>,
    ) -> Result<u64, ArtifactError> {
        self.check_writable("save")?;
        let _saving = self.deleting.read().unwrap_or_else(PoisonError::into_inner);
        let shelf = self.layout.shelf(place)?;
        write::put(&shelf, &place.filename, new, expected)
    }

    fn check_writable(&self, operation: &'static str) -> Result<(), ArtifactError> {
        match self.is_read_only {
            true => {
                let error = io::Error::new(ErrorKind::PermissionDenied, "it is only read");
                Err(failed(operation, error))
            }
            false => Ok(()),
        }
    }

    fn get(
        &self,
        place: &ArtifactAddress,
        version: Option<u64>,
    ) -> Result<Option<StoredArtifact>, ArtifactError> {
        let shelf = self.layout.shelf(place)?;
        let versions = shelf.numbers().map_err(|e| failed("load", e))?;
        let version = match version {
            Some(version) => version,
            None => versions.last().copied().unwrap_or_default(),
        };
        if !versions.contains(&version) {
            return Ok(None);
        }
        let metadata = Metadata::read(&shelf, version)?.unwrap_or_default();
        let Some(bytes) = shelf.read_payload(version)? else {
            return Ok(None);
        };
        let part = match metadata.mime_type {
            Some(mime_type) => {
                let blob = Blob {
                    data: Some(bytes.into()),
                    display_name: metadata.display_name,
                    mime_type: Some(mime_type),
                    ..Blob::default()
                };
                Part {
                    inline_data: Some(blob),
                    ..Part::default()
                }
            }
            None => Part::text(String::from_utf8(bytes).map_err(|e| shelf.corrupt(version, e))?),
        };
        Ok(Some(StoredArtifact { part, version }))
    }

    fn versions(&self, place: &ArtifactAddress) -> Result<Vec<ArtifactVersion>, ArtifactError> {
        let shelf = self.layout.shelf(place)?;
        let numbers = shelf.numbers().map_err(|e| failed("list versions", e))?;
        let about = numbers.into_iter().map(|version| {
            let metadata = Metadata::read(&shelf, version)?.unwrap_or_default();
            // The address is never read from the file: a writer of the file must not choose it.
            Ok(metadata.about(version, shelf.uri(version)))
        });
        about.collect()
    }

    /// Takes all versions away at once, then removes them.
    fn delete(&self, place: &ArtifactAddress) -> Result<(), ArtifactError> {
        self.check_writable("delete")?;
        let _alone = self.deleting.write();
        let shelf = self.layout.shelf(place)?;
        let removed = || -> io::Result<()> {
            let Some(gone) = self.take_away(&shelf.versions_folder())? else {
                return Ok(());
            };
            write::sync_folder(shelf.folder())?;
            shelf.remove_empty_folders();
            fs::remove_dir_all(gone)
        };
        removed().map_err(|e| failed("delete", e))
    }

    /// Moves a folder with all that is in it to where things are deleted, at once, and says where it
    /// is then; `None` if there is no such folder.
    fn take_away(&self, folder: &Path) -> io::Result<Option<PathBuf>> {
        if !folder.is_dir() {
            return Ok(None);
        }
        let trash = self.layout.trash();
        write::make_folders(&trash)?;
        loop {
            let number = self.deleted.fetch_add(1, Ordering::Relaxed);
            let gone = trash.join(format!("{}-{number}", std::process::id()));
            match fs::rename(folder, &gone) {
                Ok(()) => return Ok(Some(gone)),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                // Left by a process that had our number before us.
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn list(
        &self,
        app: &str,
        user: &str,
        session: Option<&str>,
    ) -> Result<Vec<String>, ArtifactError> {
        let mut names = self.names_in(&self.layout.scope(app, user, None)?, "user:")?;
        if session.is_some() {
            names.extend(self.names_in(&self.layout.scope(app, user, session)?, "")?);
        }
        Ok(names)
    }

    /// The names of a scope, as they were given when their newest version was saved.
    fn names_in(&self, scope: &Path, prefix: &str) -> Result<Vec<String>, ArtifactError> {
        let error = |e| failed("list", e);
        let (mut names, mut open) = (Vec::new(), vec![scope.to_owned()]);
        while let Some(folder) = open.pop() {
            let inner = folders_in(&folder).map_err(error)?;
            let is_versions = |inner: &PathBuf| inner.ends_with(layout::VERSIONS);
            let is_artifact = inner.iter().any(is_versions);
            open.extend(inner.into_iter().filter(|inner| !is_versions(inner)));
            if !is_artifact || folder == scope {
                continue;
            }
            let shelf = Shelf::found(scope, &folder);
            let Some(&newest) = shelf.numbers().map_err(error)?.last() else {
                continue;
            };
            let metadata = Metadata::read(&shelf, newest)?.unwrap_or_default();
            let name = metadata.file_name.filter(|name| !name.is_empty());
            names.push(name.unwrap_or_else(|| format!("{prefix}{}", shelf.relative_name())));
        }
        Ok(names)
    }
}

/// The folders in a folder; none if it is not there. Links are not followed.
fn folders_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// What the file system said, as what a caller can do about it.
fn failed(operation: &'static str, error: io::Error) -> ArtifactError {
    match error.kind() {
        ErrorKind::StorageFull => ArtifactError::Full {
            store: NAME,
            operation,
            source: Box::new(error),
        },
        ErrorKind::InvalidFilename => {
            ArtifactError::invalid("artifact name", "is too long for this file system")
        }
        _ => ArtifactError::Store {
            store: NAME,
            operation,
            source: Box::new(error),
        },
    }
}
