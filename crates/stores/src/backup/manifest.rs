//! The manifest of a backup: what it has, when it was made, and the hash of each file.

use std::{fs, io::ErrorKind, path::Path};

use retain_core::{Json, JsonMap};

use super::{
    error::{BackupError, failed},
    files::write_new,
};

/// The name of the manifest. A backup without it is incomplete.
pub(super) const MANIFEST: &str = "manifest.json";

/// The version of the format that this program writes and reads.
const FORMAT: u64 = 1;

/// The description of a backup.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct BackupManifest {
    /// The version of the program that wrote it.
    pub program: String,
    /// When the backup began, in UTC.
    pub created: String,
    /// The stores in the backup.
    pub stores: Vec<BackupPartInfo>,
    /// The stores that are backed up in another way.
    pub elsewhere: Vec<String>,
    /// All files.
    pub files: Vec<BackupFile>,
}

/// A store in a backup.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct BackupPartInfo {
    /// The kind of the store, such as `sessions`.
    pub store: String,
    /// `sqlite` or `folder`.
    pub storage: String,
    /// The file or folder in the backup.
    pub path: String,
    /// The schema version of a database.
    pub schema: Option<u64>,
}

/// A file in a backup.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct BackupFile {
    /// Its path in the backup, with `/` between names.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

impl BackupManifest {
    /// The sum of the sizes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Writes the manifest under a temporary name and renames it, after everything else is on disk.
    pub(super) fn write(&self, folder: &Path) -> Result<(), BackupError> {
        let partial = folder.join(".manifest.partial");
        write_new(&partial, self.encode().as_bytes())?;
        let path = folder.join(MANIFEST);
        fs::rename(&partial, &path).map_err(failed("write", &path))
    }

    /// Reads the manifest of a backup.
    pub(super) fn read(folder: &Path) -> Result<BackupManifest, BackupError> {
        let path = folder.join(MANIFEST);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let path = folder.to_owned();
                return Err(BackupError::Incomplete { path });
            }
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(corrupt("it is not text"));
            }
            Err(error) => return Err(failed("read", &path)(error)),
        };
        let json = Json::parse(&text).map_err(|e| corrupt(&e.to_string()))?;
        let version = json["version"].as_u64();
        if json["format"].as_str() != Some("retain-backup") || version.is_none() {
            return Err(corrupt("it does not describe a backup of Retain"));
        }
        if version != Some(FORMAT) {
            let version = &json["version"];
            let reason = format!(
                "the backup has format version {version}, and this program reads version \
                 {FORMAT}; use a newer Retain"
            );
            return Err(BackupError::Stores { reason });
        }
        BackupManifest::decode(&json).ok_or_else(|| corrupt("a field is missing or invalid"))
    }

    fn encode(&self) -> String {
        let stores = self.stores.iter().map(|part| {
            let mut map = JsonMap::from([
                ("store", part.store.as_str()),
                ("storage", &part.storage),
                ("path", &part.path),
            ]);
            if let Some(schema) = part.schema {
                map.insert("schemaVersion", schema);
            }
            Json::from(map)
        });
        let files = self.files.iter().map(|file| {
            Json::from(JsonMap::from([
                ("path", Json::from(file.path.as_str())),
                ("bytes", file.bytes.into()),
                ("sha256", file.sha256.as_str().into()),
            ]))
        });
        let elsewhere = self.elsewhere.iter().map(|name| Json::from(name.as_str()));
        let map = JsonMap::from([
            ("format", Json::from("retain-backup")),
            ("version", FORMAT.into()),
            ("program", self.program.as_str().into()),
            ("created", self.created.as_str().into()),
            ("stores", stores.collect::<Vec<Json>>().into()),
            ("elsewhere", elsewhere.collect::<Vec<Json>>().into()),
            ("files", files.collect::<Vec<Json>>().into()),
        ]);
        format!("{}\n", Json::from(map))
    }

    fn decode(json: &Json) -> Option<BackupManifest> {
        let text = |value: &Json| value.as_str().map(str::to_owned);
        let list = |name: &str| json[name].as_array();
        let stores = list("stores")?.iter().map(|part| {
            Some(BackupPartInfo {
                store: text(&part["store"])?,
                storage: text(&part["storage"])?,
                path: text(&part["path"]).filter(|path| is_inside(path))?,
                schema: part["schemaVersion"].as_u64(),
            })
        });
        let files = list("files")?.iter().map(|file| {
            Some(BackupFile {
                path: text(&file["path"]).filter(|path| is_inside(path))?,
                bytes: file["bytes"].as_u64()?,
                sha256: text(&file["sha256"])?,
            })
        });
        Some(BackupManifest {
            program: text(&json["program"])?,
            created: text(&json["created"])?,
            stores: stores.collect::<Option<_>>()?,
            elsewhere: list("elsewhere")?.iter().map(text).collect::<Option<_>>()?,
            files: files.collect::<Option<_>>()?,
        })
    }
}

/// Whether a path stays in its folder.
fn is_inside(path: &str) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && name != "." && name != ".." && !name.contains('\\');
    !path.contains('\0') && path.split('/').all(is_name)
}

fn corrupt(reason: &str) -> BackupError {
    BackupError::Corrupt {
        file: MANIFEST.to_owned(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_is_read_as_it_was_written() {
        let folder = retain_testkit::scratch::folder();
        let manifest = BackupManifest {
            program: "1.2.3".to_owned(),
            created: "2026-01-02T03:04:05.000006Z".to_owned(),
            stores: vec![BackupPartInfo {
                store: "sessions".to_owned(),
                storage: "sqlite".to_owned(),
                path: "sessions.db".to_owned(),
                schema: Some(6),
            }],
            elsewhere: vec!["memories".to_owned()],
            files: vec![BackupFile {
                path: "sessions.db".to_owned(),
                bytes: 7,
                sha256: "ab".to_owned(),
            }],
        };
        manifest.write(folder.path()).unwrap();
        assert_eq!(BackupManifest::read(folder.path()).unwrap(), manifest);
    }

    #[test]
    fn invalid_manifest_is_refused() {
        let refuse = |text: &str| {
            let folder = retain_testkit::scratch::folder();
            fs::write(folder.path().join(MANIFEST), text).unwrap();
            BackupManifest::read(folder.path()).unwrap_err().to_string()
        };
        assert!(refuse("{").contains("manifest.json"));
        assert!(refuse("{}").contains("does not describe a backup"));
        let newer = r#"{"format":"retain-backup","version":2}"#;
        assert!(refuse(newer).contains("use a newer Retain"));
        let outside = r#"{"format":"retain-backup","version":1,"program":"1","created":"x",
            "stores":[],"elsewhere":[],"files":[{"path":"../a","bytes":1,"sha256":""}]}"#;
        assert!(refuse(outside).contains("invalid"));
        let empty = retain_testkit::scratch::folder();
        let error = BackupManifest::read(empty.path()).unwrap_err();
        assert!(matches!(error, BackupError::Incomplete { .. }), "{error}");
    }
}
