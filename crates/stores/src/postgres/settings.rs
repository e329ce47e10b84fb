//! Checks the server's durability and encoding settings.

use retain_core::{Result, SessionError};
use tokio_postgres::Client;

use super::{
    PostgresOptions,
    pool::{Database, Failure, Retry},
};

/// Warns of settings that risk data loss, and rejects an encoding other than UTF-8.
pub(super) async fn check(database: &Database, options: &PostgresOptions) -> Result<(), Failure> {
    let mut retry = Retry::new(database);
    let client = loop {
        match database.connection().await {
            Ok(client) => break client,
            Err(failure) => retry.wait_or_fail(failure).await?,
        }
    };
    let settings = read_settings(&client).await?;
    for name in settings.unsafe_names {
        tracing::warn!(
            "PostgreSQL at {} has {name} = off: acknowledged writes can be lost; set it to on",
            options.uri()
        );
    }
    if settings.encoding != "UTF8" {
        let reason = format!(
            "the database has the encoding {}, which cannot store all text; create it with \
             ENCODING 'UTF8'",
            settings.encoding
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

/// The server settings that Retain depends on.
#[derive(Debug, Default)]
struct ServerSettings {
    encoding: String,
    /// Names of the durability settings that are off.
    unsafe_names: Vec<String>,
}

async fn read_settings(client: &Client) -> Result<ServerSettings, tokio_postgres::Error> {
    let sql = "SELECT name, setting FROM pg_settings WHERE name IN \
               ('fsync', 'full_page_writes', 'synchronous_commit', 'server_encoding')";
    let mut settings = ServerSettings::default();
    for row in client.query(sql, &[]).await? {
        let (name, setting): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        match name.as_str() {
            "server_encoding" => settings.encoding = setting,
            _ if setting == "off" => settings.unsafe_names.push(name),
            _ => (),
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use retain_testkit::postgres::{TestDatabase, is_there};

    use retain_core::ConnectStore as _;

    use super::*;
    use crate::postgres::PostgresStore;

    #[tokio::test(flavor = "multi_thread")]
    async fn disabled_durability_setting_is_detected_and_does_not_prevent_opening() {
        if !is_there() {
            return;
        }
        let test = TestDatabase::new().await;
        let safe = read_settings(&test.client().await).await.unwrap();
        assert_eq!(safe.encoding, "UTF8");
        assert!(!safe.unsafe_names.contains(&"synchronous_commit".to_owned()));
        let name = test.uri().rsplit('/').next().unwrap().to_owned();
        let sql = format!("ALTER DATABASE {name} SET synchronous_commit = off");
        test.client().await.batch_execute(&sql).await.unwrap();
        let risky = read_settings(&test.client().await).await.unwrap();
        assert!(
            risky
                .unsafe_names
                .contains(&"synchronous_commit".to_owned())
        );
        PostgresStore::connect(&test.uri()).await.unwrap();
    }
}
