//! Parses SQLite URIs as ADK does.

use std::path::PathBuf;

use retain_core::{Result, SessionError};

use super::{Durability, SqliteOptions};

/// Parses `sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite::memory:` and
/// `sqlite://:memory:`, with `?synchronous=full` (the default), `normal` or `off`,
/// `checkpoint_pages=N`, and `min_free_space=BYTES`.
pub(super) fn parse(uri: &str) -> Result<SqliteOptions> {
    let error = |reason: &str| SessionError::Open {
        uri: uri.to_owned(),
        reason: reason.to_owned(),
        source: None,
    };
    let (address, query) = uri.split_once('?').unwrap_or((uri, ""));
    let rest = ["sqlite:", "sqlite+aiosqlite:"]
        .iter()
        .find_map(|scheme| address.strip_prefix(scheme))
        .ok_or_else(|| error("a SQLite URI must begin with sqlite:"))?;
    let mut options = match rest {
        ":memory:" | "//:memory:" | "///:memory:" | "//" => SqliteOptions::in_memory(),
        _ => {
            let path = rest.strip_prefix("///").filter(|path| !path.is_empty());
            let reason = "write sqlite:///relative.db or sqlite:////absolute.db (three slashes, \
                          then the path), or sqlite::memory:";
            SqliteOptions::file(PathBuf::from(path.ok_or_else(|| error(reason))?))
        }
    };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (pages, bytes) = (value.parse::<u32>(), value.parse::<u64>());
        match (name, value, pages, bytes) {
            ("synchronous", "full", ..) => options.durability = Durability::Full,
            ("synchronous", "normal", ..) => options.durability = Durability::Normal,
            ("synchronous", "off", ..) => options.durability = Durability::Off,
            ("checkpoint_pages", _, Ok(pages), _) if pages > 0 => options.checkpoint_pages = pages,
            ("min_free_space", _, _, Ok(bytes)) => options.min_free_space = Some(bytes),
            _ => {
                let reason = format!(
                    "invalid option {pair:?}; expected synchronous=full|normal|off, checkpoint_pages=N with \
                     N > 0, or min_free_space=BYTES"
                );
                return Err(error(&reason));
            }
        };
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn path_is_parsed_as_in_adk() {
        let path = |uri: &str| parse(uri).unwrap().path;
        assert_eq!(
            path("sqlite:///a/b.db").as_deref(),
            Some(Path::new("a/b.db"))
        );
        assert_eq!(
            path("sqlite:////a/b.db").as_deref(),
            Some(Path::new("/a/b.db"))
        );
        for uri in [
            "sqlite::memory:",
            "sqlite://:memory:",
            "sqlite:///:memory:",
            "sqlite://",
        ] {
            assert_eq!(path(uri), None, "{uri}");
        }
    }

    #[test]
    fn invalid_uri_is_rejected_with_a_hint() {
        for uri in [
            "postgres://x",
            "sqlite:a.db",
            "sqlite://a.db",
            "sqlite:///",
            "a.db",
            "",
        ] {
            let message = parse(uri).unwrap_err().to_string();
            assert!(message.contains("sqlite:"), "{message}");
        }
        let message = parse("sqlite:///a.db?sync=1").unwrap_err().to_string();
        assert!(message.contains("synchronous=full"), "{message}");
    }

    #[test]
    fn query_sets_durability_and_checkpoint_pages() {
        let options = parse("sqlite:///a.db?synchronous=normal").unwrap();
        assert_eq!(options.durability, Durability::Normal);
        let options = parse("sqlite:///a.db?synchronous=off&checkpoint_pages=7").unwrap();
        assert_eq!(
            (options.durability, options.checkpoint_pages),
            (Durability::Off, 7)
        );
        let options = parse("sqlite:///a.db?min_free_space=0").unwrap();
        assert_eq!(options.min_free_space, Some(0));
        assert!(parse("sqlite:///a.db?min_free_space=1GB").is_err());
        assert!(parse("sqlite:///a.db?checkpoint_pages=0").is_err());
        assert_eq!(
            parse("sqlite:///a.db").unwrap().durability,
            Durability::Full
        );
    }
}
