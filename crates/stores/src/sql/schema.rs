//! Schema versions: which migrations a database has, and which programs may use it.
//!
//! A migration has two halves. Its expand half adds what the new version needs and keeps everything
//! that the previous version uses, so that programs of both versions work on the database while an
//! operator replaces replicas one by one. Its contract half, if it has one, removes what only the
//! previous version used; `retain upgrade --finish`, or else the next migration, runs it.

use retain_core::SchemaReport;
use sha2::{Digest as _, Sha256};

/// The version of this program, which the database records with each migration.
pub(crate) const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// A schema migration. A released one must not change: databases store its checksum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    pub(crate) name: &'static str,
    pub(crate) expand: &'static str,
    pub(crate) contract: Option<&'static str>,
}

impl Migration {
    /// Creates a migration that only adds.
    pub(crate) const fn expanding(name: &'static str, expand: &'static str) -> Migration {
        Migration {
            name,
            expand,
            contract: None,
        }
    }

    /// Returns the SHA-256 of both halves, in hexadecimal.
    pub(crate) fn checksum(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.expand);
        if let Some(contract) = self.contract {
            hash.update("\0");
            hash.update(contract);
        }
        let hash = hash.finalize();
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A row of the table `retain_migrations`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AppliedMigration {
    pub(crate) version: u64,
    pub(crate) name: String,
    pub(crate) checksum: String,
    /// The lowest schema version of the programs that work on the database. The contract half raises
    /// it to the migration's own version.
    pub(crate) oldest_program: u64,
    /// The version of the program that applied the migration.
    pub(crate) program: String,
}

impl AppliedMigration {
    /// Creates the row that records the expand half of the migration with this version.
    pub(crate) fn expanded(migration: &Migration, version: u64) -> AppliedMigration {
        AppliedMigration {
            version,
            name: migration.name.to_owned(),
            checksum: migration.checksum(),
            oldest_program: version.saturating_sub(1),
            program: PROGRAM.to_owned(),
        }
    }
}

/// The schema of a database that this program may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Schema {
    /// Number of applied migrations. It may be higher than this program's number of migrations.
    pub(crate) version: u64,
    /// The versions whose contract half is pending, in order.
    pub(crate) unfinished: Vec<u64>,
}

impl Schema {
    /// Reads the applied migrations. An error says why this program must not use the database.
    pub(crate) fn read(
        migrations: &[Migration],
        applied: &[AppliedMigration],
    ) -> Result<Schema, String> {
        let supported = migrations.len() as u64;
        let mut schema = Schema::default();
        for (row, expected) in applied.iter().zip(1..) {
            let (version, name) = (row.version, &row.name);
            if version != expected {
                return Err(format!(
                    "the database's list of migrations has version {version} in place {expected}; \
                     restore a backup"
                ));
            }
            match migrations.get(expected as usize - 1) {
                Some(migration) if row.checksum != migration.checksum() => {
                    let found = &row.checksum;
                    return Err(format!(
                        "migration {version} ({name}) of the database differs from this \
                         program's: its checksum is {found}; use the program that created the \
                         database"
                    ));
                }
                Some(migration) if migration.contract.is_some() && row.oldest_program < version => {
                    schema.unfinished.push(version);
                }
                None if row.oldest_program > supported => return Err(too_new(row, supported)),
                Some(_) | None => {}
            }
            schema.version = version;
        }
        Ok(schema)
    }

    /// Describes the schema for operators.
    pub(crate) fn report(&self, migrations: &[Migration]) -> SchemaReport {
        let name = |version: &u64| {
            let migration = migrations.get(*version as usize - 1);
            migration.map_or_else(String::new, |migration| migration.name.to_owned())
        };
        SchemaReport::new(
            self.version,
            migrations.len() as u64,
            self.unfinished.iter().map(name).collect(),
        )
    }
}

fn too_new(row: &AppliedMigration, supported: u64) -> String {
    let AppliedMigration {
        version,
        name,
        oldest_program,
        program,
        ..
    } = row;
    format!(
        "the database has schema version {version} ({name}) and needs a program that supports \
         schema version {oldest_program} or later, such as Retain {program}; this is Retain \
         {PROGRAM}, which supports schema version {supported}"
    )
}

/// Returns the error for a database that this program can use only after an upgrade.
pub(crate) fn too_old(version: u64, supported: u64) -> String {
    format!(
        "the database has schema version {version}, but this program reads schema version \
         {supported}; run `retain upgrade` to upgrade the database"
    )
}

/// Returns the migrations of a backend. Adds one with these two halves if `RETAIN_TEST_MIGRATION`
/// is set.
pub(crate) fn with_test_migration(
    migrations: &[Migration],
    expand: &'static str,
    contract: &'static str,
) -> Vec<Migration> {
    let is_wanted = cfg!(feature = "test-migration")
        && std::env::var_os("RETAIN_TEST_MIGRATION").is_some_and(|value| !value.is_empty());
    let test = is_wanted.then_some(Migration {
        name: "test-migration",
        expand,
        contract: Some(contract),
    });
    migrations.iter().copied().chain(test).collect()
}

/// Fails if a released migration has changed. `expected` has the name and the first 16 digits of the
/// checksum of each.
#[cfg(test)]
pub(crate) fn assert_unchanged(migrations: &[Migration], expected: &[(&str, &str)]) {
    let found: Vec<(&str, String)> = migrations
        .iter()
        .map(|migration| (migration.name, migration.checksum()[..16].to_owned()))
        .collect();
    let expected: Vec<(&str, String)> = expected
        .iter()
        .map(|(name, checksum)| (*name, (*checksum).to_owned()))
        .collect();
    assert_eq!(found, expected);
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Migration = Migration::expanding("first", "CREATE TABLE a (x)");
    const SECOND: Migration = Migration {
        name: "second",
        expand: "CREATE TABLE b (x)",
        contract: Some("DROP TABLE a"),
    };

    fn rows(migrations: &[Migration]) -> Vec<AppliedMigration> {
        let rows = migrations.iter().zip(1..);
        rows.map(|(migration, version)| AppliedMigration::expanded(migration, version))
            .collect()
    }

    #[test]
    fn program_works_on_the_next_schema_until_its_contract_half_ran() {
        let mut applied = rows(&[FIRST, SECOND]);
        let old = Schema::read(&[FIRST], &applied).unwrap();
        assert_eq!(old.version, 2);
        let new = Schema::read(&[FIRST, SECOND], &applied).unwrap();
        assert_eq!(new.unfinished, [2]);
        applied[1].oldest_program = 2;
        let error = Schema::read(&[FIRST], &applied).unwrap_err();
        let expected = format!(
            "the database has schema version 2 (second) and needs a program that supports schema \
             version 2 or later, such as Retain {PROGRAM}; this is Retain {PROGRAM}, which \
             supports schema version 1"
        );
        assert_eq!(error, expected);
        let new = Schema::read(&[FIRST, SECOND], &applied).unwrap();
        assert_eq!(new.unfinished, [] as [u64; 0]);
    }

    #[test]
    fn program_rejects_a_schema_that_is_two_versions_newer() {
        let third = Migration::expanding("third", "CREATE TABLE c (x)");
        let applied = rows(&[FIRST, SECOND, third]);
        assert!(Schema::read(&[FIRST], &applied).is_err());
        assert!(Schema::read(&[FIRST, SECOND], &applied).is_ok());
    }

    #[test]
    fn changed_migration_is_rejected() {
        let applied = rows(&[FIRST, SECOND]);
        let changed = Migration {
            contract: Some("DROP TABLE other"),
            ..SECOND
        };
        let error = Schema::read(&[FIRST, changed], &applied).unwrap_err();
        assert!(
            error.starts_with("migration 2 (second) of the database differs"),
            "{error}"
        );
        let mut gap = rows(&[FIRST, SECOND]);
        gap[1].version = 3;
        assert!(Schema::read(&[FIRST, SECOND], &gap).is_err());
    }
}
