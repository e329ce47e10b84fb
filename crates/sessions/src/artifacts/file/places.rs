//! Which artifacts a folder has, of all apps and users: read from the paths, as `layout` makes them.

use std::path::Path;

use retain_core::{ArtifactError, ArtifactPlace};

use super::{
    failed, folders_in,
    layout::{Shelf, VERSIONS},
    metadata::Metadata,
};

/// Everything that has a version, in no order.
pub(super) fn all(root: &Path) -> Result<Vec<ArtifactPlace>, ArtifactError> {
    let error = |e| failed("list", e);
    let (mut places, mut open) = (Vec::new(), vec![root.join("apps")]);
    while let Some(folder) = open.pop() {
        for inner in folders_in(&folder).map_err(error)? {
            if !inner.ends_with(VERSIONS) {
                open.push(inner);
            } else if let Some(place) = place_at(root, &folder)? {
                places.push(place);
            }
        }
    }
    Ok(places)
}

/// The artifact whose versions are in `folder`; `None` if it has none, or is none.
fn place_at(root: &Path, folder: &Path) -> Result<Option<ArtifactPlace>, ArtifactError> {
    let relative = folder.strip_prefix(root).unwrap_or(folder);
    let Some(relative) = relative.to_str() else {
        let what = format!("artifact at {relative:?}");
        return Err(ArtifactError::invalid(
            what,
            "has a name that is not Unicode",
        ));
    };
    let Some((app, user, session, name)) = address_of(relative) else {
        return Ok(None);
    };
    let shelf = Shelf::found(&root.join(scope_of(relative, &name)), folder);
    let numbers = shelf.numbers().map_err(|e| failed("list", e))?;
    let Some(&newest) = numbers.last() else {
        return Ok(None);
    };
    let metadata = Metadata::read(&shelf, newest)?.unwrap_or_default();
    let given = metadata.file_name.filter(|given| !given.is_empty());
    let filename = given.unwrap_or_else(|| match &session {
        Some(_) => name.clone(),
        None => format!("user:{name}"),
    });
    Ok(Some(ArtifactPlace {
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
fn address_of(relative: &str) -> Option<(String, String, Option<String>, String)> {
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
    (!name.is_empty()).then(|| (app, user, session, name.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_back_from_paths() {
        let read = |path: &str| {
            let (app, user, session, name) = address_of(path)?;
            Some(format!(
                "{app}|{user}|{}|{name}",
                session.unwrap_or_default()
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
