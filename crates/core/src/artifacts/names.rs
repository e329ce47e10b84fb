//! The rules for artifact names, and the scope of a name.
//!
//! All stores share the checks, so that every artifact can be migrated and every URI can be parsed.

use super::{
    reference::RESERVED,
    service::{ArtifactError, ArtifactKey},
};

/// The prefix of artifacts that belong to the user and are visible in all of the user's sessions.
pub const USER_ARTIFACT_PREFIX: &str = "user:";

/// Maximum length of a file name in common file systems, in bytes.
const SEGMENT_MAX: usize = 255;

/// Maximum length of a normalized name, in bytes. Leaves room for the store's folder, because the
/// operating system limits the whole path, e.g. to 4096 bytes on Linux.
const PATH_MAX: usize = 2048;

/// How a store interprets names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactNaming {
    /// Names are arbitrary strings. A name without `user:` needs a session.
    Exact,
    /// Names are relative paths inside their scope: `a//b`, `./a/b` and `a\b` name the same file.
    /// Without a session, every name belongs to the user.
    Paths,
}

/// The validated address of an artifact in one scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArtifactAddress {
    /// The app.
    pub app: String,
    /// The user.
    pub user: String,
    /// The session; `None` if the artifact belongs to the user.
    pub session: Option<String>,
    /// The name, unique in its scope. With [`ArtifactNaming::Paths`] the normalized path without
    /// `user:`; with [`ArtifactNaming::Exact`] the same as `filename`.
    pub name: String,
    /// The name as the caller gave it.
    pub filename: String,
}

impl ArtifactAddress {
    /// Validates `key` and finds the scope of its name.
    pub fn from_key(
        key: &ArtifactKey,
        naming: ArtifactNaming,
    ) -> Result<ArtifactAddress, ArtifactError> {
        check_owner(&key.app_name, &key.user_id, naming)?;
        let for_user = key.filename.starts_with(USER_ARTIFACT_PREFIX);
        let session = match (&key.session_id, naming) {
            _ if for_user => None,
            (None, ArtifactNaming::Paths) => None,
            (None, ArtifactNaming::Exact) => {
                let reason =
                    "is missing; without one, only names that begin with `user:` can be used";
                return Err(ArtifactError::invalid("session id", reason));
            }
            (Some(session), _) => Some(session.clone()),
        };
        if let Some(session) = &session {
            check_segment("session id", session, naming)?;
        }
        let name = match naming {
            ArtifactNaming::Exact => key.filename.clone(),
            ArtifactNaming::Paths => normal_path(&key.filename)?,
        };
        Ok(ArtifactAddress {
            app: key.app_name.clone(),
            user: key.user_id.clone(),
            session,
            name,
            filename: key.filename.clone(),
        })
    }

    /// Rejects a path that the folder layout itself uses. Only a save calls this: an existing
    /// artifact with such a name can still be read and deleted.
    pub(super) fn check_not_reserved(&self) -> Result<(), ArtifactError> {
        let reject = |word: &str| {
            let reason = format!(
                "{:?} contains the reserved path segment `{word}`; choose another name",
                self.filename
            );
            Err(ArtifactError::invalid("artifact name", reason))
        };
        let is_word =
            |segment: &str, word: &str| fold(segment.trim_end_matches([' ', '.'])) == word;
        let mut segments = self.name.split('/');
        if self
            .name
            .rsplit('/')
            .next()
            .is_some_and(|last| is_word(last, "metadata.json"))
        {
            return reject("metadata.json");
        }
        if segments.any(|segment| is_word(segment, "versions")) {
            return reject("versions");
        }
        Ok(())
    }
}

/// Validates the app and user of an address.
pub(super) fn check_owner(
    app: &str,
    user: &str,
    naming: ArtifactNaming,
) -> Result<(), ArtifactError> {
    check_segment("app name", app, naming)?;
    check_segment("user id", user, naming)
}

/// Rejects names that would change the meaning of a URI or a path.
pub(super) fn check_segment(
    what: &str,
    value: &str,
    naming: ArtifactNaming,
) -> Result<(), ArtifactError> {
    let refuse = |reason: &str| {
        let reason = format!("{value:?} {reason}");
        Err(ArtifactError::invalid(what, reason))
    };
    let segments = || value.split(['/', '\\']);
    if value.chars().all(is_python_space) {
        return Err(ArtifactError::invalid(what, "must not be empty"));
    }
    if value.contains('\0') {
        return refuse("must not contain null bytes");
    }
    if value.starts_with(['/', '\\']) {
        return refuse("must not begin with a slash");
    }
    if is_drive_qualified(value) {
        return refuse("must not begin with a drive letter");
    }
    if value == "." || segments().any(|segment| segment == "..") {
        return refuse("must not contain `..`");
    }
    if segments().count() > 1 && segments().any(|segment| RESERVED.contains(&&*fold(segment))) {
        return refuse(
            "must not contain a path segment that artifact URIs reserve: apps, users, sessions, \
             artifacts or versions",
        );
    }
    if naming == ArtifactNaming::Paths {
        // On disk, `a//b` and `a/b` are the same path, so two users or apps would share it.
        if value
            .split('/')
            .any(|segment| segment.is_empty() || segment == ".")
        {
            return refuse("must not contain empty or `.` path segments");
        }
        check_lengths(what, value)?;
    }
    Ok(())
}

fn check_lengths(what: &str, path: &str) -> Result<(), ArtifactError> {
    let too_long = path.split('/').any(|segment| segment.len() > SEGMENT_MAX);
    if too_long || path.len() > PATH_MAX {
        let reason = format!(
            "is too long for a path: the limit is {SEGMENT_MAX} bytes per segment and {PATH_MAX} \
             bytes in total"
        );
        return Err(ArtifactError::invalid(what, reason));
    }
    Ok(())
}

/// Returns the normalized path of a name, relative to its scope.
fn normal_path(filename: &str) -> Result<String, ArtifactError> {
    let refuse = |reason: &str| {
        let reason = format!("{filename:?} {reason}");
        Err(ArtifactError::invalid("artifact name", reason))
    };
    let stripped = filename
        .strip_prefix(USER_ARTIFACT_PREFIX)
        .unwrap_or(filename);
    let stripped = stripped.trim_matches(is_python_space);
    if stripped.starts_with(['/', '\\']) || is_drive_qualified(stripped) {
        return refuse("must be a relative path");
    }
    if stripped.contains('\0') {
        return refuse("must not contain null bytes");
    }
    if stripped.split(['/', '\\']).any(|segment| segment == "..") {
        return refuse("must not contain `..`");
    }
    let segments = stripped.split(['/', '\\']);
    let segments: Vec<&str> = segments
        .filter(|segment| !segment.is_empty() && *segment != ".")
        .collect();
    let path = match segments.is_empty() {
        true => "artifact".to_owned(),
        false => segments.join("/"),
    };
    check_lengths("artifact name", &path)?;
    Ok(path)
}

fn is_drive_qualified(value: &str) -> bool {
    matches!(value.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic())
}

/// Whether Python's `strip` removes the character: Unicode white space and four separators.
fn is_python_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// Folds the case as Python's `casefold` does. Exact only for comparisons with ASCII words in lower
/// case.
fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            'ſ' => folded.push('s'),
            'ß' | 'ẞ' => folded.push_str("ss"),
            c => folded.extend(c.to_lowercase()),
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::SessionKey;

    fn path(filename: &str) -> Result<String, ArtifactError> {
        let key = ArtifactKey::in_session(&SessionKey::new("app", "ada", "s1"), filename);
        ArtifactAddress::from_key(&key, ArtifactNaming::Paths).map(|address| address.name)
    }

    #[test]
    fn artifact_name_is_normalized_or_rejected() {
        for (filename, expected) in [
            ("a.txt", "a.txt"),
            (" a//b/./c ", "a/b/c"),
            ("a\\b", "a/b"),
            ("user:x/y", "x/y"),
            ("user: x", "x"),
            ("", "artifact"),
            ("./.", "artifact"),
            ("...", "..."),
        ] {
            assert_eq!(path(filename).unwrap(), expected, "{filename:?}");
        }
        for filename in [
            "/a", "\\a", "user:/a", "C:a", "..", "a/../b", "a\\..", "a\0", " /a",
        ] {
            assert!(path(filename).is_err(), "{filename:?}");
        }
        assert!(path(&"x".repeat(256)).is_err());
        assert!(path(&"x/".repeat(2000)).is_err());
    }

    #[test]
    fn owner_that_is_unsafe_in_a_path_is_rejected() {
        let check = |value| check_segment("user id", value, ArtifactNaming::Exact);
        for value in ["ada", "a/b", "a b", "users", "Ärger", "a.b", "..a", "a//b"] {
            check(value).unwrap();
        }
        for value in [
            "", "  ", "\x1c", "a\0", "/a", "\\a", "C:x", ".", "..", "a/..", "a\\..\\b",
        ] {
            assert!(check(value).is_err(), "{value:?}");
        }
        for value in ["a/users", "Users/b", "x\\VERSIONS", "a/ſeßions", "a/apps/b"] {
            assert!(check(value).is_err(), "{value:?}");
        }
        let check = |value| check_segment("user id", value, ArtifactNaming::Paths);
        for value in ["a//b", "a/", "a/./b"] {
            assert!(check(value).is_err(), "{value:?}");
        }
    }
}
