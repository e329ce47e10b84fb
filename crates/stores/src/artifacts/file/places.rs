//! Which artifacts a folder has, of all apps and users: read from the paths, as `layout` makes them.

use std::path::{Path, PathBuf};

use retain_core::{ArtifactAddress, ArtifactError};

use super::{
    failed, folders_in,
    layout::{Shelf, VERSIONS},
    metadata::Metadata,
};

/// What places are ordered by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address {
    app: String,
    user: String,
    session: Option<String>,
    name: String,
}

impl Address {
    pub(super) fn of(place: &ArtifactAddress) -> Address {
        let place = place.clone();
        Address {
            app: place.app,
            user: place.user,
            session: place.session,
            name: place.name,
        }
    }
}

/// The first artifacts behind `after`, in the order of their addresses. All folders are looked at,
/// but only of those that are asked for is anything read.
pub(super) fn behind(
    root: &Path,
    after: Option<&Address>,
    limit: usize,
) -> Result<Vec<ArtifactAddress>, ArtifactError> {
    let mut found = all(root)?;
    found.retain(|(address, _)| after.is_none_or(|after| address > after));
    found.sort_unstable();
    let mut places = Vec::new();
    for (address, folder) in found {
        if places.len() == limit {
            break;
        }
        places.extend(place_at(root, address, &folder)?);
    }
    Ok(places)
}

/// Everything that looks like an artifact, with its folder, in no order.
fn all(root: &Path) -> Result<Vec<(Address, PathBuf)>, ArtifactError> {
    let error = |e| failed("list", e);
    let (mut found, mut open) = (Vec::new(), vec![root.join("apps")]);
    while let Some(folder) = open.pop() {
        for inner in folders_in(&folder).map_err(error)? {
            if !inner.ends_with(VERSIONS) {
                open.push(inner);
            } else if let Some(address) = address_of(relative(root, &folder)?) {
                found.push((address, folder.clone()));
            }
        }
    }
    Ok(found)
}

fn relative<'a>(root: &Path, folder: &'a Path) -> Result<&'a str, ArtifactError> {
    let relative = folder.strip_prefix(root).unwrap_or(folder);
    let not_unicode = || {
        let what = format!("artifact at {relative:?}");
        ArtifactError::invalid(what, "has a name that is not Unicode")
    };
    relative.to_str().ok_or_else(not_unicode)
}

/// The artifact whose versions are in `folder`; `None` if it has none.
fn place_at(
    root: &Path,
    address: Address,
    folder: &Path,
) -> Result<Option<ArtifactAddress>, ArtifactError> {
    let scope = root.join(scope_of(relative(root, folder)?, &address.name));
    let shelf = Shelf::found(&scope, folder);
    let numbers = shelf.numbers().map_err(|e| failed("list", e))?;
    let Some(&newest) = numbers.last() else {
        return Ok(None);
    };
    let Address {
        app,
        user,
        session,
        name,
    } = address;
    let metadata = Metadata::read(&shelf, newest)?.unwrap_or_default();
    let given = metadata.file_name.filter(|given| !given.is_empty());
    let filename = given.unwrap_or_else(|| match &session {
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

fn scope_of<'a>(relative: &'a str, name: &str) -> &'a str {
    relative
        .strip_suffix(name)
        .unwrap_or(relative)
        .trim_end_matches('/')
}

/// App, user, session and name from `apps/A/users/U/[sessions/S/]artifacts/N`. Each may have several
/// parts; one that has may not hold a word that addresses are made of.
fn address_of(relative: &str) -> Option<Address> {
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
    (!name.is_empty()).then(|| Address {
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
    fn addresses_are_read_back_from_paths() {
        let read = |path: &str| {
            let found = address_of(path)?;
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
