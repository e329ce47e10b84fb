//! `ArtifactReference`: an artifact whose content is another artifact, given by an `artifact://`
//! URI.

use std::fmt;

use super::service::{ArtifactError, ArtifactKey};
use crate::content::Part;

const SCHEME: &str = "artifact://";

/// The segments that separate the names in a URI. App names, user ids and session ids that consist
/// of several segments must not contain one of them.
pub(super) const RESERVED: [&str; 5] = ["apps", "users", "sessions", "artifacts", "versions"];

/// One version of an artifact, as in a URI.
///
/// ```
/// use retain_core::ArtifactReference;
/// let uri = "artifact://apps/a/users/u/sessions/s/artifacts/b/c.txt/versions/3";
/// let reference = ArtifactReference::parse(uri).unwrap();
/// assert_eq!((reference.key.filename.as_str(), reference.version), ("b/c.txt", 3));
/// assert_eq!(reference.to_string(), uri);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactReference {
    /// The artifact.
    pub key: ArtifactKey,
    /// Its version.
    pub version: u64,
}

impl fmt::Display for ArtifactReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, version) = (&self.key, self.version);
        write!(f, "{SCHEME}apps/{}/users/{}", key.app_name, key.user_id)?;
        if let Some(session) = &key.session_id {
            write!(f, "/sessions/{session}")?;
        }
        write!(f, "/artifacts/{}/versions/{version}", key.filename)
    }
}

impl ArtifactReference {
    /// Parses a URI; `None` if it is not an artifact URI.
    pub fn parse(uri: &str) -> Option<ArtifactReference> {
        // ADK's pattern does not match line breaks.
        let rest = uri.strip_prefix(SCHEME).filter(|rest| !rest.contains('\n'));
        let rest = rest?.strip_prefix("apps/")?;
        let (app_name, rest) = name_before(rest, "users")?;
        let (user_id, session_id, rest) = match name_before(rest, "sessions") {
            Some((user, rest)) => {
                let (session, rest) = name_before(rest, "artifacts")?;
                (user, Some(session.to_owned()), rest)
            }
            None => {
                let (user, rest) = name_before(rest, "artifacts")?;
                (user, None, rest)
            }
        };
        let (filename, version) = rest.rsplit_once("/versions/")?;
        if filename.is_empty() || !version.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(ArtifactReference {
            key: ArtifactKey {
                app_name: app_name.to_owned(),
                user_id: user_id.to_owned(),
                session_id,
                filename: filename.to_owned(),
            },
            version: version.parse().ok()?,
        })
    }

    /// Returns the URI in a part, if the part is a reference.
    pub(super) fn uri_of(part: &Part) -> Option<&str> {
        let uri = part.file_data.as_ref()?.file_uri.as_deref()?;
        uri.starts_with(SCHEME).then_some(uri)
    }

    /// Parses `uri` and checks that `key` may refer to it: same app and user, and the same session
    /// or none.
    pub(super) fn within(key: &ArtifactKey, uri: &str) -> Result<ArtifactReference, ArtifactError> {
        let reject = |reason| ArtifactError::Reference {
            uri: uri.to_owned(),
            reason,
        };
        let parsed = ArtifactReference::parse(uri);
        let parsed = parsed.ok_or_else(|| reject("is not a valid artifact URI"))?;
        if (&parsed.key.app_name, &parsed.key.user_id) != (&key.app_name, &key.user_id) {
            return Err(reject("points to another app or user"));
        }
        if parsed.key.session_id.is_some() && parsed.key.session_id != key.session_id {
            return Err(reject("points to another session"));
        }
        Ok(parsed)
    }
}

/// Splits `text` at its first reserved segment, which must be `word`: returns the name before the
/// segment and the rest after it.
fn name_before<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let separators = text.match_indices('/').filter_map(|(at, _)| {
        let (next, rest) = text[at + 1..].split_once('/')?;
        RESERVED.contains(&next).then_some((at, next, rest))
    });
    let (at, separator, rest) = { separators }.next()?;
    (at > 0 && separator == word).then_some((&text[..at], rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifact_reference_uri_round_trips() {
        for uri in [
            "artifact://apps/a/users/u/artifacts/user:x/versions/0",
            "artifact://apps/a/b/users/u/sessions/s t/artifacts/x/versions/y/versions/12",
            "artifact://apps/users/users/sessions/sessions/artifacts/artifacts/f/versions/1",
        ] {
            let parsed = ArtifactReference::parse(uri).unwrap();
            assert_eq!(parsed.to_string(), uri);
        }
        let odd = ArtifactReference::parse(
            "artifact://apps/users/users/sessions/sessions/artifacts/artifacts/f/versions/1",
        );
        let key = odd.unwrap().key;
        assert_eq!((&*key.app_name, &*key.user_id), ("users", "sessions"));
        assert_eq!(key.session_id.as_deref(), Some("artifacts"));
    }

    #[test]
    fn malformed_artifact_reference_uri_is_rejected() {
        for uri in [
            "",
            "artifact://",
            "memory://apps/a/users/u/artifacts/x/versions/0",
            "artifact://apps/a/users/u/artifacts/x/versions/",
            "artifact://apps/a/users/u/artifacts/x/versions/-1",
            "artifact://apps/a/users/u/artifacts/x/versions/99999999999999999999",
            "artifact://apps/a/users/u/artifacts//versions/1",
            "artifact://apps//users/u/artifacts/x/versions/1",
            "artifact://apps/a/users/u/sessions/s/users/t/artifacts/x/versions/1",
            "artifact://apps/a/users/u/artifacts/x\n/versions/1",
        ] {
            assert_eq!(ArtifactReference::parse(uri), None, "{uri}");
        }
    }
}
