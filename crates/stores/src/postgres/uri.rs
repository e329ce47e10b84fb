//! Where a PostgreSQL database is: addresses as libpq reads them, and a few words of our own.

use std::{borrow::Cow, path::PathBuf};

use percent_encoding::percent_decode_str;
use retain_core::{Result, SessionError};
use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};

use super::{PostgresOptions, tls::TlsMode};

/// The schemes of an address. The second part of one names a driver of Python's, which ADK's users
/// write and which means nothing here.
const SCHEMES: [&str; 2] = ["postgresql", "postgres"];

/// What an address may say beside what the driver knows.
const OURS: &str = "sslmode=disable|allow|prefer|require|verify-ca|verify-full, sslrootcert=FILE|system, \
                    pool_size=N";

/// Whether `uri` is the address of a PostgreSQL database.
pub(super) fn is_address(uri: &str) -> bool {
    without_driver(uri).is_some()
}

/// Reads `postgresql://user:password@host:port/database?sslmode=…`.
pub(super) fn parse(uri: &str) -> Result<PostgresOptions> {
    let shown = hide_password(uri);
    let error = |reason: String, source| SessionError::Open {
        uri: shown.clone(),
        reason,
        source,
    };
    let rest = without_driver(uri).ok_or_else(|| {
        let reason = "the address of a PostgreSQL database begins with postgresql://";
        error(reason.to_owned(), None)
    })?;
    if is_ambiguous(rest) {
        let reason = "user and password end at the first @; write / as %2F and @ as %40 in them, and \
                      @ as %40 in options";
        return Err(error(reason.to_owned(), None));
    }
    let (address, query) = halves(rest);
    let mut ours = Ours::default();
    let mut theirs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match ours.take(pair) {
            Ok(true) => (),
            Ok(false) => theirs.push(pair),
            Err(reason) => return Err(error(reason, None)),
        }
    }
    let joined = match theirs.is_empty() {
        true => format!("postgresql://{address}"),
        false => format!("postgresql://{address}?{}", theirs.join("&")),
    };
    let config: Config = joined.parse().map_err(|cause: tokio_postgres::Error| {
        let reason = format!("the address cannot be read; beside libpq's words there are {OURS}");
        error(reason, Some(cause.into()))
    })?;
    ours.options(config).map_err(|reason| error(reason, None))
}

/// What stands behind `postgresql://`, `postgres://` or `postgresql+driver://`.
fn without_driver(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once("://")?;
    let (name, _) = scheme.split_once('+').unwrap_or((scheme, ""));
    SCHEMES.contains(&name).then_some(rest)
}

/// Where user and password end, as the driver reads it: behind the first @ that there is.
fn owner_end(rest: &str) -> usize {
    rest.find('@').map_or(0, |at| at + 1)
}

/// Whether the driver, libpq and people may read different things in it: a / before the first @ ends
/// the host for some of them, and behind it a second one may be meant to end a password. What stands
/// there would be taken for something else, and a `sslmode` be overlooked.
fn is_ambiguous(rest: &str) -> bool {
    let (owner, place) = rest.split_at(owner_end(rest));
    owner.contains('/') || place.contains('@')
}

/// What stands before the question mark that the query begins with, and the query. A password may
/// hold one too.
fn halves(rest: &str) -> (&str, &str) {
    let owner = owner_end(rest);
    match rest[owner..].find('?') {
        Some(at) => (&rest[..owner + at], &rest[owner + at + 1..]),
        None => (rest, ""),
    }
}

/// The address as it may be shown: without the password, and without what is asked of the driver.
fn hide_password(uri: &str) -> String {
    let split = uri.split_once("://");
    let Some((scheme, rest)) = split.filter(|(_, rest)| !is_ambiguous(rest)) else {
        // Nobody can say what of it is a password.
        return "the given address".to_owned();
    };
    let (rest, query) = halves(rest);
    let rest = match rest.split_once('@') {
        Some((owner, place)) => match owner.split_once(':') {
            Some((user, _)) => format!("{user}@{place}"),
            None => rest.to_owned(),
        },
        None => rest.to_owned(),
    };
    let shown = query.split('&').filter(|pair| pair.starts_with("sslmode="));
    let shown: Vec<&str> = shown.collect();
    match shown.is_empty() {
        true => format!("{scheme}://{rest}"),
        false => format!("{scheme}://{rest}?{}", shown.join("&")),
    }
}

/// What is ours to read, as far as it was said.
#[derive(Debug, Default)]
struct Ours {
    mode: Option<String>,
    roots: Option<String>,
    pool_size: Option<usize>,
}

impl Ours {
    /// Takes `pair` up if it is one of ours.
    fn take(&mut self, pair: &str) -> Result<bool, String> {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let unreadable = || format!("{name:?} is not readable");
        let value = percent_decoded(value).ok_or_else(unreadable)?;
        // The driver decodes names too.
        match percent_decoded(name).ok_or_else(unreadable)?.as_ref() {
            "sslmode" => self.mode = Some(value.into_owned()),
            "sslrootcert" => self.roots = Some(value.into_owned()),
            "pool_size" => match value.parse() {
                Ok(size) if (1..=1000).contains(&size) => self.pool_size = Some(size),
                _ => return Err("pool_size is a number from 1 to 1000".to_owned()),
            },
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(self, mut config: Config) -> Result<PostgresOptions, String> {
        // As libpq has it: the system trusts many, so that only the whole of it means something.
        let is_system = self.roots.as_deref() == Some("system");
        let usual = if is_system { "verify-full" } else { "prefer" };
        let mode = self.mode.as_deref().unwrap_or(usual);
        let roots = self.roots.filter(|_| !is_system).map(PathBuf::from);
        if is_system && mode != "verify-full" {
            return Err("sslrootcert=system goes with sslmode=verify-full only".to_owned());
        }
        if mode == "verify-ca" && roots.is_none() {
            let reason = "sslmode=verify-ca needs sslrootcert: any authority that the system trusts \
                          may sign for any name; or use verify-full";
            return Err(reason.to_owned());
        }
        let (mode, tls) = match mode {
            "disable" => (SslMode::Disable, TlsMode::Unverified),
            // As in libpq, a given root certificate is verified.
            // `allow` uses TLS where the server offers it, which is stricter than libpq.
            "allow" | "prefer" if roots.is_none() => (SslMode::Prefer, TlsMode::Unverified),
            "allow" | "prefer" => (SslMode::Prefer, TlsMode::Chain),
            "require" if roots.is_none() => (SslMode::Require, TlsMode::Unverified),
            "require" | "verify-ca" => (SslMode::Require, TlsMode::Chain),
            "verify-full" => (SslMode::Require, TlsMode::Full),
            other => {
                return Err(format!("sslmode={other} is not known; there are {OURS}"));
            }
        };
        // As libpq has it: there is no TLS on a socket of this machine.
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

/// Decode `%XX`. As libpq does and the library does not, reject a `%` without two hexadecimal digits.
fn percent_decoded(text: &str) -> Option<Cow<'_, str>> {
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

/// The address of a database for people, without any password.
pub(super) fn shown(config: &Config) -> String {
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
    fn sslmode_means_what_it_means_to_libpq() {
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
    fn the_roots_of_trust_are_a_file_or_the_systems() {
        let roots = |query: &str| parse(&format!("postgres://h/d?{query}")).unwrap().roots;
        assert_eq!(roots("sslmode=verify-full"), None);
        assert_eq!(roots("sslmode=verify-full&sslrootcert=system"), None);
        assert_eq!(
            roots("sslmode=verify-full&sslrootcert=/a%20b/root.crt"),
            Some(PathBuf::from("/a b/root.crt"))
        );
    }

    #[test]
    fn the_drivers_own_words_go_to_the_driver() {
        let uri = "postgresql+asyncpg://ada:s%40cret@h:5433/d?connect_timeout=3&pool_size=7";
        let options = parse(uri).unwrap();
        assert_eq!(options.pool_size, 7);
        assert_eq!(options.config.get_password(), Some(&b"s@cret"[..]));
        assert_eq!(options.config.get_ports(), [5433]);
        assert_eq!(options.config.get_dbname(), Some("d"));
        let timeout = options.config.get_connect_timeout();
        assert_eq!(timeout, Some(&std::time::Duration::from_secs(3)));
        assert_eq!(shown(&options.config), "postgresql://ada@h:5433/d");
    }

    #[test]
    fn a_socket_of_this_machine_has_no_tls() {
        for place in ["/d?host=/run/postgresql&", "%2Frun%2Fpostgresql/d?"] {
            let uri = format!("postgresql://{place}sslmode=verify-full");
            assert_eq!(modes(&uri).0, SslMode::Disable, "{uri}");
        }
    }

    /// A password with signs that should be written otherwise: where the driver agrees it is read,
    /// where not, nobody guesses.
    #[test]
    fn an_odd_password_hides_no_sslmode() {
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
