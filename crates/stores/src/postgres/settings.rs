//! Checks the server's settings.

use retain_core::{Result, SessionError};
use tokio_postgres::Client;

use super::{
    PostgresOptions,
    pool::{Database, Failure, Retry},
};

/// Looks at the server's settings: says which of them break promises, refuses what cannot work.
pub(super) async fn check(database: &Database, options: &PostgresOptions) -> Result<(), Failure> {
    let mut retry = Retry::new(database);
    let client = loop {
        match database.connection().await {
            Ok(client) => break client,
            Err(failure) => retry.again(failure).await?,
        }
    };
    let found = look_at_settings(&client).await?;
    for name in found.are_off {
        tracing::warn!(
            "PostgreSQL at {} has {name} = off: what is acknowledged can be lost",
            options.uri()
        );
    }
    if found.encoding != "UTF8" {
        let reason = format!(
            "has the encoding {}, which cannot hold every text; create the database with \
             ENCODING 'UTF8'",
            found.encoding
        );
        return Err(SessionError::Open {
            uri: options.uri(),
            reason,
            source: None,
        }
        .into());
    }
    Ok(())
}

/// What matters of a server's settings.
#[derive(Debug, Default)]
struct ServerSettings {
    encoding: String,
    /// Those without which a commit is not for ever.
    are_off: Vec<String>,
}

async fn look_at_settings(client: &Client) -> Result<ServerSettings, tokio_postgres::Error> {
    let sql = "SELECT name, setting FROM pg_settings WHERE name IN \
               ('fsync', 'full_page_writes', 'synchronous_commit', 'server_encoding')";
    let mut found = ServerSettings::default();
    for row in client.query(sql, &[]).await? {
        let (name, setting): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        match name.as_str() {
            "server_encoding" => found.encoding = setting,
            _ if setting == "off" => found.are_off.push(name),
            _ => (),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use retain_testkit::postgres::{TestDatabase, is_there};

    use retain_core::ConnectStore as _;

    use super::*;
    use crate::postgres::PostgresStore;

    #[tokio::test(flavor = "multi_thread")]
    async fn settings_that_break_promises_are_seen() {
        if !is_there() {
            return;
        }
        let test = TestDatabase::new().await;
        let safe = look_at_settings(&test.client().await).await.unwrap();
        assert_eq!(safe.encoding, "UTF8");
        assert!(!safe.are_off.contains(&"synchronous_commit".to_owned()));
        let name = test.uri().rsplit('/').next().unwrap().to_owned();
        let sql = format!("ALTER DATABASE {name} SET synchronous_commit = off");
        test.client().await.batch_execute(&sql).await.unwrap();
        let risky = look_at_settings(&test.client().await).await.unwrap();
        assert!(risky.are_off.contains(&"synchronous_commit".to_owned()));
        // It is said, and no more than said.
        PostgresStore::connect(&test.uri()).await.unwrap();
    }
}
