//! The journal file. Every transaction is one line, appended under a lock between processes.
//!
//! The first line is a header. An erase or a compaction writes a new file with another header and
//! renames it over the old one. A reader that finds another header replays the file from the start.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use retain::{BoxError, Json, state::JsonMap};

use crate::{
    change::{self, Change},
    tables::Tables,
};

/// The file and the data that its lines build.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// The header of the file from which `tables` were built; `None` if they must be built again.
    header: Option<Header>,
    /// `tables` contain all lines before this byte offset.
    end: u64,
    tables: Tables,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Header {
    /// Number of rewrites of the file.
    rewrites: u64,
    /// The highest incarnation at the last rewrite. The file may no longer have that session.
    last_incarnation: u64,
}

/// The lock between processes, released on drop.
pub(crate) struct FileLock<'a>(&'a File);

impl FileLock<'_> {
    /// Waits until no other store holds the lock.
    pub(crate) fn acquire(file: &File) -> io::Result<FileLock<'_>> {
        file.lock()?;
        Ok(FileLock(file))
    }
}

impl Drop for FileLock<'_> {
    fn drop(&mut self) {
        // Closing the file releases the lock as well.
        let _ = self.0.unlock();
    }
}

// Every method that reads or writes the file needs the lock.
impl Journal {
    pub(crate) fn open(path: &Path) -> io::Result<Journal> {
        Ok(Journal {
            path: path.to_owned(),
            file: open_file(path)?,
            header: None,
            end: 0,
            tables: Tables::default(),
        })
    }

    /// Returns the data as of the last [`refresh`](Self::refresh) or [`commit`](Self::commit).
    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Drops the data; the next [`refresh`](Self::refresh) builds it again.
    pub(crate) fn invalidate(&mut self) {
        self.header = None;
    }

    /// Returns the number of rewrites of the file.
    pub(crate) fn rewrites(&self) -> u64 {
        self.header.map_or(0, |header| header.rewrites)
    }

    /// Applies the lines that other stores have appended.
    pub(crate) fn refresh(&mut self) -> Result<(), BoxError> {
        // After an error, the next call replays the file from the start.
        let known_header = self.header.take();
        self.file = open_file(&self.path)?;
        let length = self.file.metadata()?.len();
        let mut reader = BufReader::new(&self.file);
        let mut line = String::new();
        let header_length = reader.read_line(&mut line)? as u64;
        if !line.ends_with('\n') {
            // The file is new: create it with a header.
            self.tables = Tables::default();
            return self.rewrite();
        }
        let header = Header::decode(&line)?;
        if known_header != Some(header) || length < self.end {
            self.end = header_length;
            self.tables = Tables {
                last_incarnation: header.last_incarnation,
                ..Tables::default()
            };
        }
        reader.seek(SeekFrom::Start(self.end))?;
        while self.end < length {
            line.clear();
            let read = reader.read_line(&mut line)? as u64;
            if !line.ends_with('\n') {
                // A writer died in the middle of this line, so it was not acknowledged. Remove it.
                self.file.set_len(self.end)?;
                break;
            }
            let changes = change::decode(&line);
            let applied = changes.and_then(|changes| self.tables.apply_all(changes));
            applied.map_err(|why| format!("the line at byte {} is corrupt: {why}", self.end))?;
            self.end += read;
        }
        self.header = Some(header);
        Ok(())
    }

    /// Writes a transaction, then applies it. After an error, the line might be in the file; if so,
    /// the next [`refresh`](Self::refresh) applies it.
    pub(crate) fn commit(&mut self, transaction: Vec<Change>) -> Result<(), BoxError> {
        if transaction.is_empty() {
            return Ok(());
        }
        let line = change::encode(&transaction);
        self.file.write_all(line.as_bytes())?;
        self.file.sync_data()?;
        self.tables.apply_all(transaction)?;
        self.end += line.len() as u64;
        Ok(())
    }

    /// Edits the data, then replaces the file with one that contains only this data.
    pub(crate) fn rewrite_with<T>(
        &mut self,
        edit: impl FnOnce(&mut Tables) -> T,
    ) -> Result<T, BoxError> {
        let edited = edit(&mut self.tables);
        let rewritten = self.rewrite();
        if rewritten.is_err() {
            self.invalidate();
        }
        rewritten.map(|()| edited)
    }

    fn rewrite(&mut self) -> Result<(), BoxError> {
        let header = Header {
            rewrites: self.rewrites() + 1,
            last_incarnation: self.tables.last_incarnation,
        };
        let new = sibling_path(&self.path, ".new");
        let mut writer = BufWriter::new(File::create(&new)?);
        writer.write_all(header.encode().as_bytes())?;
        for transaction in self.tables.snapshot() {
            writer.write_all(change::encode(&transaction).as_bytes())?;
        }
        writer.into_inner()?.sync_all()?;
        // The rename is atomic: after a crash, either file is complete.
        fs::rename(&new, &self.path)?;
        sync_folder(&self.path)?;
        self.file = open_file(&self.path)?;
        self.end = self.file.metadata()?.len();
        self.header = Some(header);
        Ok(())
    }
}

impl Tables {
    fn apply_all(&mut self, transaction: Vec<Change>) -> Result<(), BoxError> {
        let mut changes = transaction.into_iter();
        changes.try_for_each(|change| self.apply(change))
    }
}

impl Header {
    fn encode(self) -> String {
        let fields = JsonMap::from([
            ("rewrites", self.rewrites),
            ("last_incarnation", self.last_incarnation),
        ]);
        format!("{}\n", Json::from(fields))
    }

    fn decode(line: &str) -> Result<Header, BoxError> {
        let header = Json::parse(line)?;
        let field = |name: &str| header[name].as_u64().ok_or("the header is corrupt");
        Ok(Header {
            rewrites: field("rewrites")?,
            last_incarnation: field("last_incarnation")?,
        })
    }
}

/// Returns the path of a file in the same folder: the name of `path` with `suffix` appended.
pub(crate) fn sibling_path(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

fn open_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).open(path)
}

/// Makes a rename survive a power failure. Windows cannot open a folder as a file.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if cfg!(unix) => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}
