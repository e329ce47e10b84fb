//! Which names an artifact may have, and to whom a name belongs.
//!
//! The checks are the same for every store, so that an artifact can be moved from one to another
//! and every address of one can be read back.

use super::{
    reference::RESERVED,
    service::{ArtifactError, ArtifactKey},
};

/// Stands before the names of artifacts that belong to the user, and to all sessions of theirs.
pub const USER_ARTIFACT_PREFIX: &str = "user:";

/// The longest name of a file that file systems take, in bytes.
const SEGMENT_MAX: usize = 255;

/// Longer paths than this meet the limits of operating systems.
const PATH_MAX: usize = 2048;

/// What names mean to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactNames {
    /// Names are texts: any, and two are the same only if they are equal. A name without `user:`
    /// needs a session.
    Exact,
    /// Names are relative paths: `a//b`, `./a/b` and `a\b` are one file, and no path leads out of
    /// its scope. Without a session every name is the user's.
    Paths,
}

/// Where an artifact is kept: checked, and of one scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArtifactPlace {
    /// The app.
    pub app: String,
    /// The user.
    pub user: String,
    /// The session; `None` if the artifact is the user's.
    pub session: Option<String>,
    /// What tells it from others of the scope. For [`ArtifactNames::Paths`] the normal form of the
    /// path, without `user:`; else the name itself.
    pub name: String,
    /// The name as the caller said it.
    pub filename: String,
}

impl ArtifactPlace {
    /// The place of `key`, if its names are fit for one.
    pub fn of(key: &ArtifactKey, names: ArtifactNames) -> Result<ArtifactPlace, ArtifactError> {
        check_owner(&key.app_name, &key.user_id, names)?;
        let for_user = key.filename.starts_with(USER_ARTIFACT_PREFIX);
        let session = match (&key.session_id, names) {
            _ if for_user => None,
            (None, ArtifactNames::Paths) => None,
            (None, ArtifactNames::Exact) => {
                let reason =
                    "is missing; without one, only names that begin with `user:` can be used";
                return Err(ArtifactError::invalid("session id", reason));
            }
            (Some(session), _) => Some(session.clone()),
        };
        if let Some(session) = &session {
            check_segment("session id", session, names)?;
        }
        let name = match names {
            ArtifactNames::Exact => key.filename.clone(),
            ArtifactNames::Paths => normal_path(&key.filename)?,
        };
        Ok(ArtifactPlace {
            app: key.app_name.clone(),
            user: key.user_id.clone(),
            session,
            name,
            filename: key.filename.clone(),
        })
    }

    /// Refuses a path that a file of the layout itself has. Only saving asks: what was stored under
    /// such a name by others can still be read and removed.
    pub(super) fn check_free(&self) -> Result<(), ArtifactError> {
        let refused = |word: &str| {
            let reason = format!(
                "{:?} is reserved: no part of it may be `{word}`",
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
            return refused("metadata.json");
        }
        if segments.any(|segment| is_word(segment, "versions")) {
            return refused("versions");
        }
        Ok(())
    }
}

/// Checks the names that every address begins with.
pub(super) fn check_owner(
    app: &str,
    user: &str,
    names: ArtifactNames,
) -> Result<(), ArtifactError> {
    check_segment("app name", app, names)?;
    check_segment("user id", user, names)
}

/// Refuses what could lead an address or a path elsewhere.
pub(super) fn check_segment(
    what: &str,
    value: &str,
    names: ArtifactNames,
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
        return refuse("must not begin with a drive");
    }
    if value == "." || segments().any(|segment| segment == "..") {
        return refuse("must not lead upwards");
    }
    if segments().count() > 1 && segments().any(|segment| RESERVED.contains(&&*fold(segment))) {
        return refuse("must not contain a word that addresses are made of");
    }
    if names == ArtifactNames::Paths {
        // On a disk `a//b` is `a/b`: somebody else.
        if value
            .split('/')
            .any(|segment| segment.is_empty() || segment == ".")
        {
            return refuse("must not have empty parts: it would share a folder with another");
        }
        check_lengths(what, value)?;
    }
    Ok(())
}

fn check_lengths(what: &str, path: &str) -> Result<(), ArtifactError> {
    let too_long = path.split('/').any(|segment| segment.len() > SEGMENT_MAX);
    if too_long || path.len() > PATH_MAX {
        let reason =
            format!("is too long for a file: a part may have {SEGMENT_MAX} bytes, all {PATH_MAX}");
        return Err(ArtifactError::invalid(what, reason));
    }
    Ok(())
}

/// The path that a name means, relative to its scope, in its one normal form.
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
        return refuse("must not lead upwards");
    }
    let segments = stripped.split(['/', '\\']);
    let kept: Vec<&str> = segments
        .filter(|segment| !segment.is_empty() && *segment != ".")
        .collect();
    let path = match kept.is_empty() {
        true => "artifact".to_owned(),
        false => kept.join("/"),
    };
    check_lengths("artifact name", &path)?;
    Ok(path)
}

fn is_drive_qualified(value: &str) -> bool {
    matches!(value.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic())
}

/// What Python strips: Unicode's blanks and four separators.
fn is_python_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// As Python's `casefold`, for texts that are compared with small ASCII words.
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
        ArtifactPlace::of(&key, ArtifactNames::Paths).map(|place| place.name)
    }

    #[test]
    fn paths_have_one_normal_form() {
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
    fn owners_cannot_lead_elsewhere() {
        let check = |value| check_segment("user id", value, ArtifactNames::Exact);
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
        let check = |value| check_segment("user id", value, ArtifactNames::Paths);
        for value in ["a//b", "a/", "a/./b"] {
            assert!(check(value).is_err(), "{value:?}");
        }
    }
}
