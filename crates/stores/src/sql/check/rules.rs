//! Rules about rows that refer to each other: a query for the rows that break the rule, and the
//! statements that repair them.
//!
//! The names in braces differ between the databases; [`Dialect::expand`] replaces them.

use retain_core::{ArtifactAddress, Damage, Location, MemoryScope, Problem, SessionKey};

use super::state_owner;
use crate::sql::memory::memory_bytes;

/// How a database names what the rules use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    #[cfg(feature = "sqlite")]
    Sqlite,
    #[cfg(feature = "postgres")]
    Postgres,
}

impl Dialect {
    /// Replaces the names in braces.
    pub(crate) fn expand(self, template: &str) -> String {
        let mut sql = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            sql.push_str(before);
            sql.push_str(&self.name(name));
            rest = after;
        }
        sql + rest
    }

    fn name(self, name: &str) -> String {
        let special = match (self, name) {
            #[cfg(feature = "sqlite")]
            (Dialect::Sqlite, _) => match name {
                "event_log" | "memory_scope" => "key >> 32",
                "memory_seq" => "key & 4294967295",
                "of_scope" => "key BETWEEN s.number << 32 AND (s.number << 32 | 4294967295)",
                "artifact_name" => "name",
                "greatest" => "max",
                "numbered" => "",
                other => other,
            },
            #[cfg(feature = "postgres")]
            (Dialect::Postgres, _) => match name {
                "user" => "user_id",
                "event_log" => "log",
                "memory_scope" => "scope",
                "memory_seq" => "seq",
                "of_scope" => "scope = s.number",
                "artifact_name" => "encode(name, 'escape')",
                "greatest" => "greatest",
                "numbered" => "OVERRIDING SYSTEM VALUE",
                table => return format!("retain_{table}"),
            },
        };
        special.to_owned()
    }
}

/// The columns that every query of a rule returns.
#[derive(Debug, Default)]
pub(crate) struct Finding {
    pub(crate) app: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) number: Option<i64>,
    pub(crate) stored: Option<String>,
    pub(crate) derived: Option<String>,
}

impl Finding {
    fn key(self) -> SessionKey {
        let text = Option::unwrap_or_default;
        SessionKey::new(text(self.app), text(self.user), text(self.id))
    }

    fn scope(&self) -> MemoryScope {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        MemoryScope::new(text(&self.app), text(&self.user))
    }

    fn number(&self) -> i64 {
        self.number.unwrap_or_default()
    }

    fn values(&mut self) -> Option<(String, String)> {
        self.stored.take().zip(self.derived.take())
    }
}

/// A rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// Selects the rows that break the rule: app, user, id, number, stored and derived value.
    pub(crate) find: &'static str,
    pub(crate) problem: fn(Finding) -> Problem,
    /// The tables that no other program may write during the repair.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) locks: &'static [&'static str],
    /// The statements that repair all rows, in one transaction.
    pub(crate) repair: &'static [&'static str],
}

fn orphaned(location: Location, missing: &str) -> Problem {
    let missing = missing.to_owned();
    Problem::repairable(location, Damage::Orphaned { missing })
}

fn orphaned_rows(found: Finding) -> Problem {
    let number = found.number();
    orphaned(Location::Log { number }, "its log")
}

fn orphaned_memories(found: Finding) -> Problem {
    let scope = found.number();
    orphaned(Location::MemoryRows { scope }, "their user")
}

/// Makes a rule about rows that may be all that is left of a session or a user. A repair keeps them.
const fn kept(rule: Rule, problem: fn(Finding) -> Problem) -> Rule {
    Rule {
        problem,
        repair: &[],
        ..rule
    }
}

fn kept_rows(found: Finding) -> Problem {
    let missing = "its log".to_owned();
    let location = Location::Log {
        number: found.number(),
    };
    Problem::permanent(location, Damage::Orphaned { missing })
}

fn kept_memories(found: Finding) -> Problem {
    let missing = "their user".to_owned();
    let location = Location::MemoryRows {
        scope: found.number(),
    };
    Problem::permanent(location, Damage::Orphaned { missing })
}

/// A rule about rows whose log does not exist.
macro_rules! rows_need_a_log {
    ($table:literal, $log:literal) => {
        Rule {
            find: concat!(
                "SELECT NULL, NULL, NULL, ",
                $log,
                ", CAST(count(*) AS text), NULL FROM ",
                $table,
                " WHERE NOT EXISTS (SELECT 1 FROM {logs} l WHERE l.number = ",
                $log,
                ") AND NOT EXISTS (SELECT 1 FROM {sessions} s WHERE s.number = ",
                $log,
                ") GROUP BY 4"
            ),
            problem: orphaned_rows,
            locks: &[],
            repair: &[concat!(
                "DELETE FROM ",
                $table,
                " WHERE NOT EXISTS (SELECT 1 FROM {logs} l WHERE l.number = ",
                $log,
                ") AND NOT EXISTS (SELECT 1 FROM {sessions} s WHERE s.number = ",
                $log,
                ")"
            )],
        }
    };
}

/// A rule about rows of memories whose scope does not exist.
macro_rules! rows_need_a_scope {
    ($table:literal, $scope:literal) => {
        Rule {
            find: concat!(
                "SELECT NULL, NULL, NULL, ",
                $scope,
                ", CAST(count(*) AS text), NULL FROM ",
                $table,
                " WHERE NOT EXISTS (SELECT 1 FROM {memory_scopes} s WHERE s.number = ",
                $scope,
                ") GROUP BY 4"
            ),
            problem: orphaned_memories,
            locks: &[],
            repair: &[concat!(
                "DELETE FROM ",
                $table,
                " WHERE NOT EXISTS (SELECT 1 FROM {memory_scopes} s WHERE s.number = ",
                $scope,
                ")"
            )],
        }
    };
}

/// Deletes recorded changes that no index asks for any more.
const DELETE_OLD_CHANGES: &str = "DELETE FROM {memory_touched} WHERE revision <= \
    (SELECT floor FROM {memory_scopes} s WHERE s.number = scope)";

/// A rule about the vectors of memories: each has a model, and the size that the model gives.
macro_rules! vectors_fit_their_model {
    ($model:literal, $vector:literal, $width:literal, $what:literal) => {
        Rule {
            find: concat!(
                "SELECT s.app, s.{user}, id, {memory_seq}, NULL, NULL FROM {memories} \
                 JOIN {memory_scopes} s ON s.number = {memory_scope} WHERE ",
                bad_vector!($model, $vector, $width)
            ),
            problem: |found| {
                let (scope, seq) = (found.scope(), found.number() as u64);
                let id = found.id.unwrap_or_default();
                let damage = Damage::Differs {
                    what: $what.to_owned(),
                    values: None,
                };
                Problem::repairable(Location::Memory { scope, seq, id }, damage)
            },
            locks: &["{memory_scopes}"],
            // Without a vector, the memory gets a new one. All indexes of the scope are rebuilt.
            repair: &[
                concat!(
                    "UPDATE {memory_scopes} SET revision = revision + 1, floor = revision + 1, \
                     touched = 0 WHERE number IN (SELECT {memory_scope} FROM {memories} WHERE ",
                    bad_vector!($model, $vector, $width),
                    ")"
                ),
                concat!(
                    "UPDATE {memories} SET ",
                    $model,
                    " = NULL, ",
                    $vector,
                    " = NULL WHERE ",
                    bad_vector!($model, $vector, $width)
                ),
                DELETE_OLD_CHANGES,
            ],
        }
    };
}

macro_rules! bad_vector {
    ($model:literal, $vector:literal, $width:literal) => {
        concat!(
            "((",
            $model,
            " IS NULL) <> (",
            $vector,
            " IS NULL) OR ",
            $model,
            " IS NOT NULL AND \
             NOT EXISTS (SELECT 1 FROM {memory_models} d WHERE d.number = ",
            $model,
            " AND octet_length(",
            $vector,
            ") = d.dims * ",
            $width,
            "))"
        )
    };
}

/// The totals that the rows of a scope give, beside the recorded ones.
macro_rules! scope_totals {
    () => {
        concat!(
            "SELECT s.*, (SELECT count(*) FROM {memories} WHERE {of_scope}) AS true_entries, \
             (SELECT coalesce(sum(", memory_bytes!(), "), 0) FROM {memories} WHERE {of_scope}) \
             AS true_bytes, \
             (SELECT count(*) FROM {memory_tombstones} WHERE scope = s.number) AS true_tombstones, \
             (SELECT count(*) FROM {memory_touched} WHERE scope = s.number) AS least_touched, \
             (SELECT coalesce(max({memory_seq}), 0) FROM {memories} WHERE {of_scope}) AS least_seq, \
             {greatest}((SELECT coalesce(max(revision), 0) FROM {memories} WHERE {of_scope}), \
             (SELECT coalesce(max(revision), 0) FROM {memory_touched} WHERE scope = s.number), floor) \
             AS least_revision FROM {memory_scopes} s"
        )
    };
}

/// The condition for scopes whose recorded totals are wrong. The number of recorded changes may be
/// too high: a batch can change a memory twice.
macro_rules! wrong_totals {
    () => {
        "entries <> true_entries OR bytes <> true_bytes OR tombstones <> true_tombstones \
         OR touched < least_touched OR last_seq < least_seq OR revision < least_revision"
    };
}

/// All rules, in the order of their repairs.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        find: "SELECT app, {user}, id, number, NULL, NULL FROM {sessions} s \
               WHERE NOT EXISTS (SELECT 1 FROM {logs} l WHERE l.number = s.number)",
        problem: |found| orphaned(Location::Session { key: found.key() }, "the row of its log"),
        locks: &[],
        repair: &[
            "INSERT INTO {logs} (number) {numbered} SELECT number FROM {sessions} s \
                   WHERE NOT EXISTS (SELECT 1 FROM {logs} l WHERE l.number = s.number)",
        ],
    },
    Rule {
        find: "SELECT s.app, s.{user}, s.id, s.number, 'marked for deletion', 'not marked' \
               FROM {sessions} s JOIN {logs} l ON l.number = s.number \
               WHERE l.purge_after_us IS NOT NULL",
        problem: |mut found| {
            let values = found.values();
            let damage = Damage::Differs {
                what: "its log".to_owned(),
                values,
            };
            Problem::repairable(Location::Session { key: found.key() }, damage)
        },
        locks: &[],
        repair: &[
            "UPDATE {logs} SET purge_after_us = NULL, app = NULL, {user} = NULL \
                   WHERE purge_after_us IS NOT NULL AND number IN (SELECT number FROM {sessions})",
        ],
    },
    // Not repairable: the address of the session cannot be derived, and its events may be all that
    // is left of it.
    Rule {
        find: "SELECT NULL, NULL, NULL, number, NULL, NULL FROM {logs} l \
               WHERE purge_after_us IS NULL \
               AND NOT EXISTS (SELECT 1 FROM {sessions} s WHERE s.number = l.number)",
        problem: |found| {
            let missing = "its session".to_owned();
            let location = Location::Log {
                number: found.number(),
            };
            Problem::permanent(location, Damage::Orphaned { missing })
        },
        locks: &[],
        repair: &[],
    },
    kept(rows_need_a_log!("{events}", "{event_log}"), kept_rows),
    kept(rows_need_a_log!("{state}", "log"), kept_rows),
    rows_need_a_log!("{state_past}", "log"),
    Rule {
        find: "SELECT NULL, NULL, NULL, session, NULL, NULL FROM {tickets} \
               WHERE NOT EXISTS (SELECT 1 FROM {sessions} s WHERE s.number = session) GROUP BY 4",
        problem: |found| {
            let number = found.number();
            orphaned(Location::Log { number }, "the session of a ticket")
        },
        locks: &[],
        repair: &["DELETE FROM {tickets} \
                   WHERE NOT EXISTS (SELECT 1 FROM {sessions} s WHERE s.number = session)"],
    },
    Rule {
        find: "SELECT o.app, o.{user}, NULL, CAST(NULL AS bigint), \
               CAST(coalesce(b.bytes, 0) AS text), CAST(coalesce(k.bytes, 0) AS text) \
               FROM (SELECT app, {user} FROM {shared_bytes} UNION \
               SELECT app, {user} FROM {shared_state}) o \
               LEFT JOIN {shared_bytes} b ON b.app = o.app AND b.{user} = o.{user} \
               LEFT JOIN (SELECT app, {user}, sum(octet_length(key) + octet_length(value)) AS bytes \
               FROM {shared_state} GROUP BY app, {user}) k \
               ON k.app = o.app AND k.{user} = o.{user} \
               WHERE coalesce(b.bytes, 0) <> coalesce(k.bytes, 0)",
        problem: |mut found| {
            let damage = Damage::Differs {
                what: "its size in bytes".to_owned(),
                values: found.values(),
            };
            let text = Option::unwrap_or_default;
            let owner = state_owner(text(found.app), text(found.user));
            Problem::repairable(Location::SharedState { owner, name: None }, damage)
        },
        locks: &["{shared_bytes}"],
        repair: &[
            "INSERT INTO {shared_bytes} (app, {user}, bytes) \
             SELECT app, {user}, sum(octet_length(key) + octet_length(value)) FROM {shared_state} \
             WHERE true GROUP BY app, {user} \
             ON CONFLICT (app, {user}) DO UPDATE SET bytes = excluded.bytes \
             WHERE {shared_bytes}.bytes <> excluded.bytes",
            "UPDATE {shared_bytes} SET bytes = 0 WHERE bytes <> 0 AND NOT EXISTS \
             (SELECT 1 FROM {shared_state} k WHERE k.app = {shared_bytes}.app \
             AND k.{user} = {shared_bytes}.{user})",
        ],
    },
    kept(
        rows_need_a_scope!("{memories}", "{memory_scope}"),
        kept_memories,
    ),
    rows_need_a_scope!("{memory_touched}", "scope"),
    // Without its tombstone, a forgotten memory could be ingested again.
    kept(
        rows_need_a_scope!("{memory_tombstones}", "scope"),
        kept_memories,
    ),
    vectors_fit_their_model!("fixed_model", "fixed", "1", "its built-in vector"),
    vectors_fit_their_model!("embedding_model", "embedding", "4", "its embedding"),
    Rule {
        find: concat!(
            "SELECT app, {user}, NULL, number, CAST(entries AS text) || ' entries with ' || \
             CAST(bytes AS text) || ' bytes and ' || CAST(tombstones AS text) || ' tombstones', \
             CAST(true_entries AS text) || ' entries with ' || CAST(true_bytes AS text) || \
             ' bytes and ' || CAST(true_tombstones AS text) || ' tombstones' FROM (",
            scope_totals!(),
            ") t WHERE ",
            wrong_totals!()
        ),
        problem: |mut found| {
            let values = found.values();
            let is_shown = values
                .as_ref()
                .is_some_and(|(stored, derived)| stored != derived);
            let what = match is_shown {
                true => "the recorded total",
                false => "the number of the newest memory or change",
            };
            let damage = Damage::Differs {
                what: what.to_owned(),
                values: values.filter(|_| is_shown),
            };
            let scope = found.scope();
            Problem::repairable(Location::Memories { scope }, damage)
        },
        locks: &["{memory_scopes}"],
        repair: &[
            concat!(
                "UPDATE {memory_scopes} SET (entries, bytes, tombstones, last_seq, revision, floor, \
                 touched) = (SELECT true_entries, true_bytes, true_tombstones, \
                 {greatest}(last_seq, least_seq), {greatest}(revision, least_revision) + 1, \
                 {greatest}(revision, least_revision) + 1, 0 FROM (",
                scope_totals!(),
                ") t WHERE t.number = {memory_scopes}.number) \
                 WHERE number IN (SELECT number FROM (",
                scope_totals!(),
                ") t WHERE ",
                wrong_totals!(),
                ")"
            ),
            DELETE_OLD_CHANGES,
        ],
    },
    Rule {
        find: "SELECT app, {user}, session, max(version), {artifact_name}, CAST(count(*) AS text) \
               FROM {artifacts} GROUP BY app, {user}, session, name \
               HAVING count(*) <> max(version) + 1",
        problem: |mut found| {
            let text = Option::unwrap_or_default;
            let name = text(found.stored.take());
            let address = ArtifactAddress {
                app: text(found.app),
                user: text(found.user),
                session: found.id.filter(|id| !id.is_empty()),
                filename: name.clone(),
                name,
            };
            let what = "an earlier version".to_owned();
            let location = Location::Artifact {
                address: Box::new(address),
                version: None,
            };
            Problem::permanent(location, Damage::Missing { what })
        },
        locks: &[],
        repair: &[],
    },
];

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;

    #[test]
    fn names_in_braces_are_replaced() {
        let sql = "SELECT {user} FROM {sessions} WHERE {event_log} = 1";
        let expanded = Dialect::Sqlite.expand(sql);
        assert_eq!(expanded, "SELECT user FROM sessions WHERE key >> 32 = 1");
        for rule in RULES {
            for sql in rule.repair.iter().chain([&rule.find]) {
                assert!(!Dialect::Sqlite.expand(sql).contains(['{', '}']), "{sql}");
            }
        }
    }
}
