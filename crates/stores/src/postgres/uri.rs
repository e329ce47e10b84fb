//! Parses PostgreSQL URIs as libpq does, plus the parameters that Retain adds.

use std::{borrow::Cow, path::PathBuf};

use percent_encoding::percent_decode_str;
use retain_core::{Result, SessionError};
use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};

use super::{PostgresOptions, tls::TlsMode};

/// The URI schemes. The URIs of ADK users may name a Python driver (`postgresql+asyncpg`), which
/// Retain ignores.
const SCHEMES: [&str; 2] = ["postgresql", "postgres"];

/// The parameters that Retain reads itself, for error messages.
const RETAIN_PARAMETERS: &str = "sslmode=disable|allow|prefer|require|verify-ca|verify-full, \
                                 sslrootcert=FILE|system, pool_size=N";

/// Whether `uri` is a PostgreSQL URI.
pub(super) fn is_address(uri: &str) -> bool {
    strip_scheme(uri).is_some()
}

/// Parses `postgresql://user:password@host:port/database?sslmode=…`.
pub(super) fn parse(uri: &str) -> Result<PostgresOptions> {
    let shown = hide_password(uri);
    let error = |reason: String, source| SessionError::Open {
        uri: shown.clone(),
        reason,
        source,
    };
    let rest = strip_scheme(uri).ok_or_else(|| {
        let reason = "unsupported URI; expected postgresql://user@host:port/database";
        error(reason.to_owned(), None)
    })?;
    if is_ambiguous(rest) {
        let reason = "ambiguous URI: percent-encode / as %2F and @ as %40 in the user name and the \
                      password, and @ as %40 in parameters";
        return Err(error(reason.to_owned(), None));
    }
    let (address, query) = split_query(rest);
    let mut parameters = RetainParameters::default();
    let mut driver_pairs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match parameters.read(pair) {
            Ok(true) => (),
            Ok(false) => driver_pairs.push(pair),
            Err(reason) => return Err(error(reason, None)),
        }
    }
    let driver_uri = if driver_pairs.is_empty() {
        format!("postgresql://{address}")
    } else {
        format!("postgresql://{address}?{}", driver_pairs.join("&"))
    };
    let config: Config = driver_uri.parse().map_err(|cause: tokio_postgres::Error| {
        let reason = format!(
            "invalid URI; besides the parameters of libpq, Retain accepts {RETAIN_PARAMETERS}"
        );
        error(reason, Some(cause.into()))
    })?;
    parameters
        .into_options(config)
        .map_err(|reason| error(reason, None))
}

/// Strips `postgresql://`, `postgres://` or `postgresql+driver://`.
fn strip_scheme(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once("://")?;
    let (name, _) = scheme.split_once('+').unwrap_or((scheme, ""));
    SCHEMES.contains(&name).then_some(rest)
}

/// Returns where the driver ends the user name and password: the index after the first @.
fn credentials_end(rest: &str) -> usize {
    rest.find('@').map_or(0, |at| at + 1)
}

/// Whether the driver and libpq might parse the URI differently: it has a / before the first @, or
/// a second @. Part of a password might then become a host or path, and `sslmode` be ignored.
fn is_ambiguous(rest: &str) -> bool {
    let (credentials, location) = rest.split_at(credentials_end(rest));
    credentials.contains('/') || location.contains('@')
}

/// Splits off the query at the first question mark after the password, which may contain one.
fn split_query(rest: &str) -> (&str, &str) {
    let start = credentials_end(rest);
    match rest[start..].find('?') {
        Some(at) => (&rest[..start + at], &rest[start + at + 1..]),
        None => (rest, ""),
    }
}

/// Returns the URI for error messages, without the password and the parameters except `sslmode`.
fn hide_password(uri: &str) -> String {
    let split = uri.split_once("://");
    let Some((scheme, rest)) = split.filter(|(_, rest)| !is_ambiguous(rest)) else {
        // In an ambiguous URI, any part may be the password.
        return "the given URI".to_owned();
    };
    let (rest, query) = split_query(rest);
    let rest = match rest.split_once('@') {
        Some((credentials, location)) => match credentials.split_once(':') {
            Some((user, _)) => format!("{user}@{location}"),
            None => rest.to_owned(),
        },
        None => rest.to_owned(),
    };
    let shown = query.split('&').filter(|pair| pair.starts_with("sslmode="));
    let shown: Vec<&str> = shown.collect();
    if shown.is_empty() {
        format!("{scheme}://{rest}")
    } else {
        format!("{scheme}://{rest}?{}", shown.join("&"))
    }
}

/// The given values of the parameters that Retain reads itself.
#[derive(Debug, Default)]
struct RetainParameters {
    mode: Option<String>,
    roots: Option<String>,
    pool_size: Option<usize>,
}

impl RetainParameters {
    /// Reads `pair`; false if it is a parameter of the driver.
    fn read(&mut self, pair: &str) -> Result<bool, String> {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let invalid = || format!("invalid percent-encoding in the parameter {name:?}");
        let value = percent_decode(value).ok_or_else(invalid)?;
        // Decode the name too, as the driver does.
        match percent_decode(name).ok_or_else(invalid)?.as_ref() {
            "sslmode" => self.mode = Some(value.into_owned()),
            "sslrootcert" => self.roots = Some(value.into_owned()),
            "pool_size" => match value.parse() {
                Ok(size) if (1..=1000).contains(&size) => self.pool_size = Some(size),
                _ => {
                    return Err(format!(
                        "invalid pool_size {value:?}; expected a number from 1 to 1000"
                    ));
                }
            },
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn into_options(self, mut config: Config) -> Result<PostgresOptions, String> {
        // As in libpq: the system trusts many CAs, so only verify-full protects the connection.
        let is_system = self.roots.as_deref() == Some("system");
        let default = if is_system { "verify-full" } else { "prefer" };
        let mode = self.mode.as_deref().unwrap_or(default);
        let roots = self.roots.filter(|_| !is_system).map(PathBuf::from);
        if is_system && mode != "verify-full" {
            return Err("sslrootcert=system requires sslmode=verify-full".to_owned());
        }
        if mode == "verify-ca" && roots.is_none() {
            let reason = "sslmode=verify-ca requires sslrootcert=FILE, because every CA that the \
                          system trusts can sign for any name; or use verify-full";
            return Err(reason.to_owned());
        }
        let (mode, tls) = match mode {
            "disable" => (SslMode::Disable, TlsMode::Unverified),
            // As in libpq, a given root certificate makes every mode verify the chain. Unlike
            // libpq, `allow` uses TLS if the server offers it.
            "allow" | "prefer" if roots.is_none() => (SslMode::Prefer, TlsMode::Unverified),
            "allow" | "prefer" => (SslMode::Prefer, TlsMode::Chain),
            "require" if roots.is_none() => (SslMode::Require, TlsMode::Unverified),
            "require" | "verify-ca" => (SslMode::Require, TlsMode::Chain),
            "verify-full" => (SslMode::Require, TlsMode::Full),
            other => {
                return Err(format!(
                    "unsupported sslmode {other:?}; expected disable, allow, prefer, require, \
                     verify-ca or verify-full"
                ));
            }
        };
        // As in libpq, a Unix socket uses no TLS.
        let is_local = !config.get_hosts().is_empty() && config.get_hosts().iter().all(is_socket);
        config.ssl_mode(if is_local { SslMode::Disable } else { mode });
        if config.get_user().is_none() {
            let user = std::env::var("USER").unwrap_or_else(|_| "postgres".to_owned());
            config.user(user);
        }
        if config.get_application_name().is_none() {
            config.application_name("retain");
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            config.host("localhost");
        }
        let mut options = PostgresOptions::new(config);
        options.tls = tls;
        options.roots = roots;
        options.pool_size = self.pool_size.unwrap_or(options.pool_size);
        Ok(options)
    }
}

fn is_socket(host: &Host) -> bool {
    !matches!(host, Host::Tcp(_))
}

/// Decodes `%XX`. Unlike the library, and like libpq, rejects a `%` without two hex digits.
fn percent_decode(text: &str) -> Option<Cow<'_, str>> {
    let is_code = |after: &str| {
        let code = after.as_bytes().first_chunk::<2>();
        code.is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit))
    };
    let is_encoded = text.split('%').skip(1).all(is_code);
    percent_decode_str(text)
        .decode_utf8()
        .ok()
        .filter(|_| is_encoded)
}

/// Returns the URI of a database for messages, without the password.
pub(super) fn display_uri(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => config
            .get_hostaddrs()
            .first()
            .map_or_else(String::new, ToString::to_string),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    format!("postgresql://{user}@{host}:{port}/{database}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes(uri: &str) -> (SslMode, TlsMode) {
        let options = parse(uri).unwrap();
        (options.config.get_ssl_mode(), options.tls)
    }

    #[test]
    fn sslmode_is_interpreted_as_in_libpq() {
        let base = "postgresql://ada@db.example/shop";
        assert_eq!(modes(base), (SslMode::Prefer, TlsMode::Unverified));
        for (query, expected) in [
            ("sslmode=disable", (SslMode::Disable, TlsMode::Unverified)),
            ("sslmode=allow", (SslMode::Prefer, TlsMode::Unverified)),
            ("sslmode=prefer", (SslMode::Prefer, TlsMode::Unverified)),
            ("sslmode=require", (SslMode::Require, TlsMode::Unverified)),
            (
                "sslmode=require&sslrootcert=/a/root.crt",
                (SslMode::Require, TlsMode::Chain),
            ),
            (
                "sslmode=verify-ca&sslrootcert=/a/root.crt",
                (SslMode::Require, TlsMode::Chain),
            ),
            ("sslrootcert=system", (SslMode::Require, TlsMode::Full)),
            ("ssl%6Dode=require", (SslMode::Require, TlsMode::Unverified)),
            ("sslmode=verify-full", (SslMode::Require, TlsMode::Full)),
        ] {
            assert_eq!(modes(&format!("{base}?{query}")), expected, "{query}");
        }
    }

    #[test]
    fn sslrootcert_names_a_file_or_the_system() {
        let roots = |query: &str| parse(&format!("postgres://h/d?{query}")).unwrap().roots;
        assert_eq!(roots("sslmode=verify-full"), None);
        assert_eq!(roots("sslmode=verify-full&sslrootcert=system"), None);
        assert_eq!(
            roots("sslmode=verify-full&sslrootcert=/a%20b/root.crt"),
            Some(PathBuf::from("/a b/root.crt"))
        );
    }

    #[test]
    fn unknown_parameters_are_passed_to_the_driver() {
        let uri = "postgresql+asyncpg://ada:s%40cret@h:5433/d?connect_timeout=3&pool_size=7";
        let options = parse(uri).unwrap();
        assert_eq!(options.pool_size, 7);
        assert_eq!(options.config.get_password(), Some(&b"s@cret"[..]));
        assert_eq!(options.config.get_ports(), [5433]);
        assert_eq!(options.config.get_dbname(), Some("d"));
        let timeout = options.config.get_connect_timeout();
        assert_eq!(timeout, Some(&std::time::Duration::from_secs(3)));
        assert_eq!(display_uri(&options.config), "postgresql://ada@h:5433/d");
    }

    #[test]
    fn unix_socket_disables_tls() {
        for location in ["/d?host=/run/postgresql&", "%2Frun%2Fpostgresql/d?"] {
            let uri = format!("postgresql://{location}sslmode=verify-full");
            assert_eq!(modes(&uri).0, SslMode::Disable, "{uri}");
        }
    }

    /// A password with unencoded characters is accepted if it is unambiguous; otherwise the URI is
    /// rejected.
    #[test]
    fn unencoded_password_does_not_hide_sslmode() {
        let uri = "postgresql://ada:a?b:c@h/d?sslmode=require";
        assert_eq!(modes(uri), (SslMode::Require, TlsMode::Unverified));
        let password = parse(uri)
            .unwrap()
            .config
            .get_password()
            .map(<[u8]>::to_vec);
        assert_eq!(password, Some(b"a?b:c".to_vec()));
        for uri in [
            "postgresql://ada:hunter2/x?y@h/d?sslmode=verify-full",
            "postgresql://ada:x/hunter2@h/d?sslmode=verify-full",
            "postgresql://ada:x@hunter2@h/d?sslmode=verify-full",
            "postgresql://ada:x@hunter2?@h/d?sslmode=verify-full",
            "postgresql://h/d?password=hunter2@x&sslmode=verify-full",
        ] {
            let error = parse(uri).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn invalid_uri_is_rejected_without_printing_the_password() {
        for uri in [
            "postgresql://ada:hunter2@h/d?sslmode=maybe",
            "postgresql://ada:hunter2@h/d?pool_size=0",
            "postgresql://ada:hunter2@h/d?nonsense=1",
            "postgresql://ada:hunter2@h:port/d",
            "postgresql://ada:hunter2?x@h:port/d",
            "postgresql://ada:hunter2@h/d?sslrootcert=system&sslmode=require",
            "postgresql://ada:hunter2@h/d?sslmode=verify-ca",
            "postgresql://ada:hunter2@h/d?sslrootcert=%zz",
            "mysql://ada:hunter2@h/d",
            "ada:hunter2@h/d",
        ] {
            let error = parse(uri).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter2"), "{shown}");
            assert!(matches!(error, SessionError::Open { .. }), "{shown}");
        }
        assert!(!is_address("sqlite:///a.db") && is_address("postgres://h"));
    }
}
