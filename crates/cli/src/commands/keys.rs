//! `retain keys`: the API keys of a server.

use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use retain::{
    memory::timestamp_text,
    store::{ApiKey, Clock as _, Ids as _, KeyScope, KeyText, RandomIds, SystemClock},
};

use crate::output::{note, say};

use super::{
    Database, OpenMode,
    services::{DEFAULT_STORE, server_store_uri},
};

/// Create, list and revoke API keys.
#[derive(Debug, Args)]
pub(crate) struct Keys {
    /// URL of the server's session database: sqlite:///relative.db, sqlite:////absolute.db or
    /// postgresql://user@host/database [default: the store of `retain serve`
    /// in this folder]
    #[arg(
        long,
        alias = "session-service-uri",
        alias = "session_service_uri",
        global = true
    )]
    #[arg(env = "RETAIN_STORE", value_name = "URI")]
    store: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create an API key and print it once; the store keeps only its hash.
    Create(Create),
    /// List all API keys, including expired and revoked ones.
    List,
    /// Revoke an API key permanently; takes effect immediately.
    Revoke {
        /// Id of the key (see `retain keys list`), or the key itself
        id: String,
    },
}

#[derive(Debug, Args)]
struct Create {
    /// Label shown in the list
    #[arg(long, default_value = "")]
    name: String,
    /// Bind the key to this app
    #[arg(long)]
    app: Option<String>,
    /// Bind the key to this user
    #[arg(long)]
    user: Option<String>,
    /// Permissions: sessions:read, sessions:write, memory:read, memory:write,
    /// memory:delete, run, admin (everything) [default: all except admin]
    #[arg(long, value_delimiter = ',')]
    scopes: Vec<KeyScope>,
    /// Lifetime: 90d, 12h, 30m or 45s [default: until revoked]
    #[arg(long, value_parser = duration)]
    expires: Option<Duration>,
}

impl Keys {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let store = match self.store {
            Some(store) => store,
            None => server_store_uri()?,
        };
        if store == DEFAULT_STORE {
            std::fs::create_dir_all(".retain").context("cannot create the folder .retain")?;
        }
        let keys = Database::open(&store, OpenMode::Create).await?.keys();
        let now_us = SystemClock.now_us();
        match self.command {
            Command::Create(create) => {
                let mut secret = [0; retain::store::KEY_SECRET_BYTES];
                getrandom::fill(&mut secret)
                    .context("cannot get random bytes from the operating system")?;
                let text = KeyText::new(&RandomIds.new_id(), secret);
                let key = create.key(&text, now_us);
                keys.add(&key).await?;
                // Only the key goes to standard output, so that a script can read it.
                say!("{}", text.reveal());
                note!(
                    "This key is not shown again. A server that runs without keys requires one \
                     after its next start."
                );
            }
            Command::List => {
                for key in keys.keys().await? {
                    say!("{}", key_line(&key, now_us));
                }
            }
            Command::Revoke { id } => {
                let id = KeyText::parse(&id).map_or(id, |text| text.id);
                if !keys.revoke(&id, now_us).await? {
                    anyhow::bail!("API key {id:?} not found; see retain keys list");
                }
                say!("revoked {id}");
            }
        }
        Ok(())
    }
}

impl Create {
    fn key(self, text: &KeyText, now_us: i64) -> ApiKey {
        let default_scopes = || {
            let all = KeyScope::ALL.into_iter();
            all.filter(|scope| *scope != KeyScope::Admin).collect()
        };
        let micros = |lifetime: Duration| i64::try_from(lifetime.as_micros()).unwrap_or(i64::MAX);
        ApiKey {
            id: text.id.clone(),
            name: self.name,
            hash: text.hash(),
            app: self.app,
            user: self.user,
            scopes: match self.scopes.is_empty() {
                true => default_scopes(),
                false => self.scopes,
            },
            created_us: now_us,
            expires_us: self
                .expires
                .map(|lifetime| now_us.saturating_add(micros(lifetime))),
            revoked_us: None,
            last_used_us: None,
        }
    }
}

/// Describes an API key in one line.
fn key_line(key: &ApiKey, now_us: i64) -> String {
    let time = |us: i64| timestamp_text(us as f64 / 1e6).unwrap_or_else(|| us.to_string());
    let state = match (key.revoked_us, key.expires_us) {
        (Some(us), _) => format!("revoked {}", time(us)),
        (None, Some(us)) if us <= now_us => format!("expired {}", time(us)),
        (None, Some(us)) => format!("valid until {}", time(us)),
        (None, None) => "valid".to_owned(),
    };
    let used = key
        .last_used_us
        .map_or("never used".to_owned(), |us| format!("used {}", time(us)));
    let bound = |what: &str, to: &Option<String>| {
        to.as_ref()
            .map_or(String::new(), |to| format!("  {what} {to:?}"))
    };
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.name()).collect();
    format!(
        "{}  {:?}  {state}  {used}{}{}  {}",
        key.id,
        key.name,
        bound("app", &key.app),
        bound("user", &key.user),
        scopes.join(",")
    )
}

/// Parses a duration. clap prints the option and the value before the error.
fn duration(text: &str) -> anyhow::Result<Duration> {
    const EXPECTED: &str = "expected a whole number with a unit, such as 90d, 12h, 30m or 45s";
    let unit = text.chars().last().unwrap_or_default();
    let seconds = match unit {
        'd' => 86_400,
        'h' => 3_600,
        'm' => 60,
        's' => 1,
        _ => anyhow::bail!(EXPECTED),
    };
    let number = text.strip_suffix(unit).unwrap_or_default();
    let number: u64 = number.parse().map_err(|_| anyhow::anyhow!(EXPECTED))?;
    let seconds = number
        .checked_mul(seconds)
        .context("the duration is too long")?;
    if seconds == 0 {
        anyhow::bail!("must be greater than 0");
    }
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_is_a_positive_number_with_a_unit() {
        assert_eq!(duration("90d").unwrap(), Duration::from_secs(90 * 86_400));
        assert_eq!(duration("45s").unwrap(), Duration::from_secs(45));
        for text in ["", "d", "5", "-5d", "0d", "5dd", "99999999999999999999d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
