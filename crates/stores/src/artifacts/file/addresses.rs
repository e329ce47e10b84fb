//! Lists the addresses of all artifacts in the folder by parsing the paths that `layout` builds, and
//! sums the bytes of their content.

use std::{
    fs,
    path::{Path, PathBuf},
};

use retain_core::{ArtifactAddress, ArtifactError};

use super::{
    failed, folders_in, is_absent,
    layout::{ArtifactFolder, VERSIONS},
    metadata::Metadata,
};

/// The fields by which artifact addresses are ordered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ArtifactSortKey {
    app: String,
    user: String,
    session: Option<String>,
    name: String,
}

impl ArtifactSortKey {
    pub(super) fn from_address(address: &ArtifactAddress) -> ArtifactSortKey {
        let address = address.clone();
        ArtifactSortKey {
            app: address.app,
            user: address.user,
            session: address.session,
            name: address.name,
        }
    }
}

/// Lists up to `limit` artifacts after `after`, ordered by address. Walks all folders, but reads
/// the metadata only of the artifacts that it returns.
pub(super) fn list_after(
    root: &Path,
    after: Option<&ArtifactSortKey>,
    limit: usize,
) -> Result<Vec<ArtifactAddress>, ArtifactError> {
    let mut found = find_all(root)?;
    found.retain(|(key, _)| after.is_none_or(|after| key > after));
    found.sort_unstable();
    let mut addresses = Vec::new();
    for (key, folder) in found {
        if addresses.len() == limit {
            break;
        }
        addresses.extend(read_address(root, key, &folder)?);
    }
    Ok(addresses)
}

/// Sums the bytes of the content of all versions of an app or of one of its users.
pub(super) fn stored_bytes(
    root: &Path,
    app: &str,
    user: Option<&str>,
) -> Result<u64, ArtifactError> {
    let mut bytes = 0;
    for (key, folder) in find_all(root)? {
        if key.app != app || user.is_some_and(|user| key.user != user) {
            continue;
        }
        let artifact = ArtifactFolder::new(root, &folder);
        let numbers = artifact.numbers();
        for number in numbers.map_err(|e| failed("measure usage", e))? {
            let file = artifact.version(number).join(artifact.payload_name());
            match fs::symlink_metadata(file) {
                Ok(found) if found.is_file() => bytes += found.len(),
                Ok(_) => {}
                // It was deleted meanwhile.
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(failed("measure usage", error)),
            }
        }
    }
    Ok(bytes)
}

/// Finds the folders of all artifacts, unordered. Each has a child folder `versions`.
fn find_all(root: &Path) -> Result<Vec<(ArtifactSortKey, PathBuf)>, ArtifactError> {
    let error = |e| failed("list artifacts", e);
    let (mut found, mut open) = (Vec::new(), vec![root.join("apps")]);
    while let Some(folder) = open.pop() {
        for inner in folders_in(&folder).map_err(error)? {
            if !inner.ends_with(VERSIONS) {
                open.push(inner);
            } else if let Some(key) = parse_path(relative_path(root, &folder)?) {
                found.push((key, folder.clone()));
            }
        }
    }
    Ok(found)
}

fn relative_path<'a>(root: &Path, folder: &'a Path) -> Result<&'a str, ArtifactError> {
    let relative = folder.strip_prefix(root).unwrap_or(folder);
    let not_unicode = || {
        let what = format!("artifact at {relative:?}");
        ArtifactError::invalid(what, "has a name that is not valid UTF-8; rename it")
    };
    relative.to_str().ok_or_else(not_unicode)
}

/// Reads the address of the artifact in `folder`; `None` if it has no versions.
fn read_address(
    root: &Path,
    key: ArtifactSortKey,
    folder: &Path,
) -> Result<Option<ArtifactAddress>, ArtifactError> {
    let scope = root.join(strip_name(relative_path(root, folder)?, &key.name));
    let artifact = ArtifactFolder::new(&scope, folder);
    let numbers = artifact
        .numbers()
        .map_err(|e| failed("list artifacts", e))?;
    let Some(&newest) = numbers.last() else {
        return Ok(None);
    };
    let ArtifactSortKey {
        app,
        user,
        session,
        name,
    } = key;
    // The path names the artifact too, so corrupt metadata must not hide the other artifacts.
    let metadata = match Metadata::read(&artifact, newest) {
        Err(ArtifactError::Corrupt { .. }) => None,
        metadata => metadata?,
    };
    let metadata = metadata.unwrap_or_default();
    let file_name = metadata.file_name.filter(|name| !name.is_empty());
    let filename = file_name.unwrap_or_else(|| match &session {
        Some(_) => name.clone(),
        None => format!("user:{name}"),
    });
    Ok(Some(ArtifactAddress {
        app,
        user,
        session,
        name,
        filename,
    }))
}

/// Removes the artifact name from the end of a path, which leaves the path of its scope.
fn strip_name<'a>(relative: &'a str, name: &str) -> &'a str {
    relative
        .strip_suffix(name)
        .unwrap_or(relative)
        .trim_end_matches('/')
}

/// Parses `apps/A/users/U/[sessions/S/]artifacts/N`. A value may span several path parts. Its first
/// part is never read as `users`, `sessions` or `artifacts`, so a user may be called `sessions`.
fn parse_path(relative: &str) -> Option<ArtifactSortKey> {
    let mut parts = relative.strip_prefix("apps/")?.split('/');
    let mut until = |words: &[&str]| -> Option<(String, String)> {
        let mut value = parts.next()?.to_owned();
        loop {
            let part = parts.next()?;
            if words.contains(&part) {
                return Some((value, part.to_owned()));
            }
            value = format!("{value}/{part}");
        }
    };
    let app = until(&["users"])?.0;
    let (user, next) = until(&["sessions", "artifacts"])?;
    let session = match next.as_str() {
        "sessions" => Some(until(&["artifacts"])?.0),
        _ => None,
    };
    let name: Vec<&str> = parts.collect();
    (!name.is_empty()).then(|| ArtifactSortKey {
        app,
        user,
        session,
        name: name.join("/"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parsed_into_addresses() {
        let read = |path: &str| {
            let found = parse_path(path)?;
            let session = found.session.unwrap_or_default();
            Some(format!(
                "{}|{}|{session}|{}",
                found.app, found.user, found.name
            ))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read("apps/a/users/u/artifacts/x/y"), some("a|u||x/y"));
        assert_eq!(
            read("apps/a/b/users/u/v/sessions/s/t/artifacts/x"),
            some("a/b|u/v|s/t|x")
        );
        assert_eq!(
            read("apps/users/users/sessions/artifacts/x"),
            some("users|sessions||x")
        );
        assert_eq!(
            read("apps/a/users/u/sessions/artifacts/artifacts/x"),
            some("a|u|artifacts|x")
        );
        for path in [
            "apps",
            "apps/a/users/u/artifacts",
            "apps/a/users/u/sessions/s/x",
        ] {
            assert_eq!(read(path), None, "{path}");
        }
    }
}
