//! The artifact store in a folder, with the layout of ADK 2.13, so that both can share the folder.
//!
//! `root/apps/A/users/U/[sessions/S/]artifacts/F/versions/N/{file, metadata.json}`. This file has
//! the operations; `layout` builds paths and keeps them inside the root; `write` saves versions
//! atomically.

mod addresses;
mod erase;
mod layout;
mod metadata;
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
    EraseNote, EraseReceipt, NewArtifact, Part, StoreArtifactService, StoreLabel, StoredArtifact,
};

use addresses::ArtifactSortKey;
use layout::{ArtifactFolder, Layout};
use metadata::Metadata;

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

/// The store behind [`FileArtifactService`]. It stores bytes with a media type, or text. Like ADK,
/// it rejects artifact references and file URIs.
#[derive(Debug, Clone)]
pub struct FileArtifactStore {
    folder: Arc<Folder>,
}

#[derive(Debug)]
struct Folder {
    layout: Layout,
    is_read_only: bool,
    /// A save takes a shared lock, a delete an exclusive one, so that no folder is removed during a
    /// save.
    deleting: RwLock<()>,
    /// Number of folders moved to the trash, for unique names in it.
    deleted: AtomicU64,
}

impl FileArtifactStore {
    /// Opens the folder `root`, and creates it if it does not exist.
    pub fn open(root: impl AsRef<Path>) -> Result<FileArtifactStore, ArtifactError> {
        let open = || -> io::Result<FileArtifactStore> {
            write::create_folders(root.as_ref())?;
            let store = FileArtifactStore::open_existing(root.as_ref(), false)?;
            // Remove the folders that an interrupted delete left in the trash.
            for left in folders_in(&store.folder.layout.trash())? {
                let _ = fs::remove_dir_all(left);
            }
            Ok(store)
        };
        open().map_err(|e| failed("open", e))
    }

    /// Opens the folder for exclusive use, and removes the pending folders of interrupted saves, so
    /// that version numbers have no gaps. A version that another process is saving at this time is
    /// lost.
    pub fn open_alone(root: impl AsRef<Path>) -> Result<FileArtifactStore, ArtifactError> {
        let store = FileArtifactStore::open(root)?;
        let cleared = write::remove_pending(store.folder.layout.root());
        cleared.map_err(|e| failed("open", e))?;
        Ok(store)
    }

    /// Opens the existing folder `root` read-only. Writes fail.
    pub fn open_read_only(root: impl AsRef<Path>) -> Result<FileArtifactStore, ArtifactError> {
        FileArtifactStore::open_existing(root.as_ref(), true).map_err(|e| failed("open", e))
    }

    fn open_existing(root: &Path, is_read_only: bool) -> io::Result<FileArtifactStore> {
        Ok(FileArtifactStore {
            folder: Arc::new(Folder {
                layout: Layout::new(root.canonicalize()?),
                is_read_only,
                deleting: RwLock::default(),
                deleted: AtomicU64::default(),
            }),
        })
    }

    /// Runs `work` on Tokio's thread pool for blocking tasks.
    async fn run_blocking<T: Send + 'static>(
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

    async fn put(&self, address: &ArtifactAddress, new: NewArtifact) -> Result<u64, ArtifactError> {
        let address = address.clone();
        let put = move |folder: &Folder| folder.put(&address, &new, None);
        self.run_blocking("save an artifact", put).await
    }

    async fn erasures(&self) -> Result<u64, ArtifactError> {
        self.run_blocking("count erasures", Folder::count_erasures)
            .await
    }

    async fn put_unless_erased(
        &self,
        address: &ArtifactAddress,
        new: NewArtifact,
        erasures: u64,
    ) -> Result<Option<u64>, ArtifactError> {
        let address = address.clone();
        let put = move |folder: &Folder| folder.put_unless_erased(&address, &new, erasures);
        self.run_blocking("save an artifact", put).await
    }

    fn label(&self) -> StoreLabel {
        let root = self.folder.layout.root();
        StoreLabel::new("folder")
            .with_unique_address(layout::file_uri(root))
            .with_erase_notes(&[EraseNote::FileCopies])
    }

    async fn put_at(
        &self,
        address: &ArtifactAddress,
        version: u64,
        new: NewArtifact,
    ) -> Result<(), ArtifactError> {
        let address = address.clone();
        let put = move |folder: &Folder| folder.put(&address, &new, Some(version)).map(drop);
        self.run_blocking("save an artifact", put).await
    }

    async fn get(
        &self,
        address: &ArtifactAddress,
        version: Option<u64>,
    ) -> Result<Option<StoredArtifact>, ArtifactError> {
        let address = address.clone();
        let get = move |folder: &Folder| folder.get(&address, version);
        self.run_blocking("load an artifact", get).await
    }

    async fn versions(
        &self,
        address: &ArtifactAddress,
    ) -> Result<Vec<ArtifactVersion>, ArtifactError> {
        let address = address.clone();
        let versions = move |folder: &Folder| folder.versions(&address);
        self.run_blocking("list artifact versions", versions).await
    }

    async fn delete(&self, address: &ArtifactAddress) -> Result<(), ArtifactError> {
        let address = address.clone();
        let delete = move |folder: &Folder| folder.delete(&address);
        self.run_blocking("delete an artifact", delete).await
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
        self.run_blocking("list artifacts", list).await
    }

    async fn addresses(
        &self,
        after: Option<&ArtifactAddress>,
        limit: usize,
    ) -> Result<Vec<ArtifactAddress>, ArtifactError> {
        let after = after.map(ArtifactSortKey::from_address);
        let list = move |folder: &Folder| {
            addresses::list_after(folder.layout.root(), after.as_ref(), limit)
        };
        self.run_blocking("list artifacts", list).await
    }

    /// Returns the bytes of the content alone. The metadata is in a file of its own.
    fn stored_bytes(&self, new: &NewArtifact) -> u64 {
        write::payload(new).len() as u64
    }

    async fn usage(&self, app: &str, user: Option<&str>) -> Result<u64, ArtifactError> {
        let (app, user) = (app.to_owned(), user.map(str::to_owned));
        let sum = move |folder: &Folder| {
            addresses::stored_bytes(folder.layout.root(), &app, user.as_deref())
        };
        self.run_blocking("measure usage", sum).await
    }

    async fn erase_user(&self, app: &str, user: &str) -> Result<EraseReceipt, ArtifactError> {
        let (app, user) = (app.to_owned(), user.to_owned());
        let erase = move |folder: &Folder| folder.erase_user(&app, &user);
        self.run_blocking("erase a user", erase).await
    }
}

impl Folder {
    fn put(
        &self,
        address: &ArtifactAddress,
        new: &NewArtifact,
        expected: Option<u64>,
    ) -> Result<u64, ArtifactError> {
        self.check_writable("save an artifact")?;
        let _saving = self.deleting.read().unwrap_or_else(PoisonError::into_inner);
        let artifact = self.layout.artifact_folder(address)?;
        write::put(&artifact, &address.filename, new, expected)
    }

    /// Saves a version, and removes it again if users were erased since their number was `erasures`: a
    /// folder has no transactions. Another process may erase at any time, so the number is compared
    /// after the version is published.
    fn put_unless_erased(
        &self,
        address: &ArtifactAddress,
        new: &NewArtifact,
        erasures: u64,
    ) -> Result<Option<u64>, ArtifactError> {
        if self.count_erasures()? != erasures {
            return Ok(None);
        }
        let version = self.put(address, new, None)?;
        if self.count_erasures()? == erasures {
            return Ok(Some(version));
        }
        let _exclusive = self.deleting.write();
        let artifact = self.layout.artifact_folder(address)?;
        let user = self.layout.user_folder(&address.app, &address.user)?;
        let remove = || -> io::Result<()> {
            if let Some(trashed) = self.move_to_trash(&artifact.version(version))? {
                fs::remove_dir_all(trashed)?;
            }
            artifact.remove_empty_folders_of(&user);
            Ok(())
        };
        remove().map_err(|e| failed("remove an artifact of an erased user", e))?;
        Ok(None)
    }

    fn check_writable(&self, operation: &'static str) -> Result<(), ArtifactError> {
        if !self.is_read_only {
            return Ok(());
        }
        let reason = "the artifact folder was opened read-only";
        let error = io::Error::new(ErrorKind::PermissionDenied, reason);
        Err(failed(operation, error))
    }

    fn get(
        &self,
        address: &ArtifactAddress,
        version: Option<u64>,
    ) -> Result<Option<StoredArtifact>, ArtifactError> {
        let artifact = self.layout.artifact_folder(address)?;
        let versions = artifact
            .numbers()
            .map_err(|e| failed("load an artifact", e))?;
        let version = match version {
            Some(version) => version,
            None => versions.last().copied().unwrap_or_default(),
        };
        if !versions.contains(&version) {
            return Ok(None);
        }
        let metadata = Metadata::read(&artifact, version)?.unwrap_or_default();
        let Some(bytes) = artifact.read_payload(version)? else {
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
            None => Part::text(String::from_utf8(bytes).map_err(|e| artifact.corrupt(version, e))?),
        };
        Ok(Some(StoredArtifact { part, version }))
    }

    fn versions(&self, address: &ArtifactAddress) -> Result<Vec<ArtifactVersion>, ArtifactError> {
        let artifact = self.layout.artifact_folder(address)?;
        let numbers = artifact
            .numbers()
            .map_err(|e| failed("list artifact versions", e))?;
        let versions = numbers.into_iter().map(|version| {
            let metadata = Metadata::read(&artifact, version)?.unwrap_or_default();
            // Never read the URI from the file: someone who can edit the file must not choose it.
            Ok(metadata.into_version(version, artifact.uri(version)))
        });
        versions.collect()
    }

    /// Moves all versions to the trash at once, then removes them.
    fn delete(&self, address: &ArtifactAddress) -> Result<(), ArtifactError> {
        self.check_writable("delete an artifact")?;
        let _exclusive = self.deleting.write();
        let artifact = self.layout.artifact_folder(address)?;
        let remove = || -> io::Result<()> {
            let Some(trashed) = self.move_to_trash(&artifact.versions_folder())? else {
                return Ok(());
            };
            write::sync_folder(artifact.folder())?;
            artifact.remove_empty_folders();
            fs::remove_dir_all(trashed)
        };
        remove().map_err(|e| failed("delete an artifact", e))
    }

    /// Moves a folder to the trash with one rename and returns its new path; `None` if the folder
    /// does not exist.
    fn move_to_trash(&self, folder: &Path) -> io::Result<Option<PathBuf>> {
        if !folder.is_dir() {
            return Ok(None);
        }
        let trash = self.layout.trash();
        write::create_folders(&trash)?;
        loop {
            let number = self.deleted.fetch_add(1, Ordering::Relaxed);
            let trashed = trash.join(format!("{}-{number}", std::process::id()));
            match fs::rename(folder, &trashed) {
                Ok(()) => return Ok(Some(trashed)),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                // A process with the same id crashed and left a folder with this name.
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
        let mut names = self.list_scope(&self.layout.scope(app, user, None)?, "user:")?;
        if session.is_some() {
            names.extend(self.list_scope(&self.layout.scope(app, user, session)?, "")?);
        }
        Ok(names)
    }

    /// Lists the artifact names of a scope, each spelled as in its newest version if the metadata
    /// records the name.
    fn list_scope(&self, scope: &Path, prefix: &str) -> Result<Vec<String>, ArtifactError> {
        let error = |e| failed("list artifacts", e);
        let (mut names, mut open) = (Vec::new(), vec![scope.to_owned()]);
        while let Some(folder) = open.pop() {
            let inner = folders_in(&folder).map_err(error)?;
            let is_versions = |inner: &PathBuf| inner.ends_with(layout::VERSIONS);
            let is_artifact = inner.iter().any(is_versions);
            open.extend(inner.into_iter().filter(|inner| !is_versions(inner)));
            if !is_artifact || folder == scope {
                continue;
            }
            let artifact = ArtifactFolder::new(scope, &folder);
            let Some(&newest) = artifact.numbers().map_err(error)?.last() else {
                continue;
            };
            let metadata = Metadata::read(&artifact, newest)?.unwrap_or_default();
            let name = metadata.file_name.filter(|name| !name.is_empty());
            names.push(name.unwrap_or_else(|| format!("{prefix}{}", artifact.relative_name())));
        }
        Ok(names)
    }
}

/// Lists the folders in a folder, without symbolic links; empty if the folder does not exist.
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

/// Converts an I/O error to an artifact error.
fn failed(operation: &'static str, error: io::Error) -> ArtifactError {
    match error.kind() {
        ErrorKind::StorageFull => ArtifactError::Full {
            store: NAME,
            operation,
            source: Box::new(error),
        },
        ErrorKind::InvalidFilename => ArtifactError::invalid(
            "artifact name",
            "is too long for this file system; shorten it",
        ),
        _ => ArtifactError::Store {
            store: NAME,
            operation,
            source: Box::new(error),
        },
    }
}
