//! The damages.

/// A damage, done by a statement of each database.
pub(super) struct DamageCase {
    pub(super) name: &'static str,
    pub(super) sqlite: &'static str,
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "no such database")
    )]
    pub(super) postgres: &'static str,
    /// A part of the line that reports it.
    pub(super) report: &'static str,
    pub(super) is_repairable: bool,
    /// Whether the repair removes something, such as rows that refer to nothing.
    pub(super) loses_data: bool,
}

const fn repairable(
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
    report: &'static str,
) -> DamageCase {
    DamageCase {
        name,
        sqlite,
        postgres,
        report,
        is_repairable: true,
        loses_data: false,
    }
}

const fn permanent(
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
    report: &'static str,
) -> DamageCase {
    DamageCase {
        is_repairable: false,
        ..repairable(name, sqlite, postgres, report)
    }
}

const fn removed(
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
    report: &'static str,
) -> DamageCase {
    DamageCase {
        loses_data: true,
        ..repairable(name, sqlite, postgres, report)
    }
}

/// The log of the session that the damages of sessions choose.
macro_rules! sqlite_log {
    () => {
        "(SELECT number FROM sessions WHERE app = 'app' AND user = 'ada' AND id = 'long')"
    };
}
macro_rules! postgres_log {
    () => {
        "(SELECT number FROM retain_sessions WHERE app = 'app' AND user_id = 'ada' AND id = 'long')"
    };
}

pub(super) const CASES: &[DamageCase] = &[
    permanent(
        "unreadable event",
        concat!(
            "UPDATE events SET body = '{\"author\": 7}' WHERE key = ",
            sqlite_log!(),
            " << 32 | 3"
        ),
        concat!(
            "UPDATE retain_events SET body = '{\"author\": 7}' WHERE position = 3 AND log = ",
            postgres_log!()
        ),
        "event 3 of session \"app\"/\"ada\"/\"long\": cannot be read",
    ),
    permanent(
        "event that is not text",
        concat!(
            "UPDATE events SET body = x'ff' WHERE key = ",
            sqlite_log!(),
            " << 32 | 4"
        ),
        concat!(
            "UPDATE retain_events SET body = '\\xff' WHERE position = 4 AND log = ",
            postgres_log!()
        ),
        "event 4 of session \"app\"/\"ada\"/\"long\": cannot be read",
    ),
    permanent(
        "missing event",
        concat!(
            "DELETE FROM events WHERE key = ",
            sqlite_log!(),
            " << 32 | 7"
        ),
        concat!(
            "DELETE FROM retain_events WHERE position = 7 AND log = ",
            postgres_log!()
        ),
        "event 7 of session \"app\"/\"ada\"/\"long\": the event is missing",
    ),
    permanent(
        "missing newest event",
        concat!(
            "DELETE FROM events WHERE key = ",
            sqlite_log!(),
            " << 32 | 33"
        ),
        concat!(
            "DELETE FROM retain_events WHERE position = 33 AND log = ",
            postgres_log!()
        ),
        "event 33 of session \"app\"/\"ada\"/\"long\": the event is missing",
    ),
    permanent(
        "missing initial state",
        concat!("DELETE FROM events WHERE key = ", sqlite_log!(), " << 32"),
        concat!(
            "DELETE FROM retain_events WHERE position = 0 AND log = ",
            postgres_log!()
        ),
        "initial state of session \"app\"/\"ada\"/\"long\": the event is missing",
    ),
    repairable(
        "changed current state",
        concat!(
            "UPDATE state SET value = '\"other\"' WHERE key = 'k1' AND log = ",
            sqlite_log!()
        ),
        concat!(
            "UPDATE retain_state SET value = '\"other\"' WHERE key = 'k1' AND log = ",
            postgres_log!()
        ),
        "state key \"k1\" of session \"app\"/\"ada\"/\"long\"",
    ),
    repairable(
        "unreadable current state",
        concat!(
            "UPDATE state SET value = 'NaN' WHERE key = 'k1' AND log = ",
            sqlite_log!()
        ),
        concat!(
            "UPDATE retain_state SET value = 'NaN' WHERE key = 'k1' AND log = ",
            postgres_log!()
        ),
        "state key \"k1\" of session \"app\"/\"ada\"/\"long\": cannot be read",
    ),
    repairable(
        "missing state key",
        concat!(
            "DELETE FROM state WHERE key = 'k2' AND log = ",
            sqlite_log!()
        ),
        concat!(
            "DELETE FROM retain_state WHERE key = 'k2' AND log = ",
            postgres_log!()
        ),
        "state key \"k2\" of session \"app\"/\"ada\"/\"long\"",
    ),
    repairable(
        "state key that no event sets",
        concat!(
            "INSERT INTO state SELECT ",
            sqlite_log!(),
            ", 'extra', 1, '1'"
        ),
        concat!(
            "INSERT INTO retain_state SELECT ",
            postgres_log!(),
            ", 'extra', 1, '1'"
        ),
        "state key \"extra\" of session \"app\"/\"ada\"/\"long\": a value that no event has set",
    ),
    repairable(
        "changed past state",
        concat!(
            "UPDATE state_past SET value = '99' WHERE key = 'a' AND position = 5 AND log = ",
            sqlite_log!()
        ),
        concat!(
            "UPDATE retain_state_past SET value = '99' WHERE key = 'a' AND position = 5 AND log = ",
            postgres_log!()
        ),
        "state key \"a\" of session \"app\"/\"ada\"/\"long\"",
    ),
    repairable(
        "missing past state",
        concat!(
            "DELETE FROM state_past WHERE key = 'a' AND position = 0 AND log = ",
            sqlite_log!()
        ),
        concat!(
            "DELETE FROM retain_state_past WHERE key = 'a' AND position = 0 AND log = ",
            postgres_log!()
        ),
        "state key \"a\" of session \"app\"/\"ada\"/\"long\"",
    ),
    repairable(
        "wrong size of the state",
        "UPDATE sessions SET state_bytes = state_bytes + 1 WHERE app = 'app' AND id = 'long'",
        "UPDATE retain_sessions SET state_bytes = state_bytes + 1 WHERE app = 'app' AND id = 'long'",
        "session \"app\"/\"ada\"/\"long\": the size of the state is ",
    ),
    repairable(
        "wrong size of the log",
        "UPDATE sessions SET log_bytes = 7, sized_to = 2 WHERE app = 'app' AND id = 'long'",
        "UPDATE retain_sessions SET log_bytes = 7, sized_to = 2 WHERE app = 'app' AND id = 'long'",
        "session \"app\"/\"ada\"/\"long\": the size of the log is 7",
    ),
    repairable(
        "head before the end of the log",
        "UPDATE sessions SET position = 32 WHERE app = 'app' AND user = 'ada' AND id = 'long'",
        "UPDATE retain_sessions SET position = 32 WHERE app = 'app' AND user_id = 'ada' AND id = 'long'",
        "session \"app\"/\"ada\"/\"long\": the last position is 32, but its data gives 33",
    ),
    repairable(
        "wrong time of the last update",
        "UPDATE sessions SET last_update = 5 WHERE app = 'app' AND user = 'ada' AND id = 'long'",
        "UPDATE retain_sessions SET last_update = 5 WHERE app = 'app' AND user_id = 'ada' AND id = 'long'",
        "session \"app\"/\"ada\"/\"long\": the time of the last update is 5",
    ),
    repairable(
        "times marked as in order",
        "UPDATE sessions SET in_order = 1 WHERE app = 'app' AND user = 'ada' AND id = 'long'",
        "UPDATE retain_sessions SET in_order = true WHERE app = 'app' AND user_id = 'ada' AND id = 'long'",
        "session \"app\"/\"ada\"/\"long\": the mark that times are in order is true",
    ),
    repairable(
        "event under another id",
        concat!(
            "UPDATE events SET event_id = 'other' WHERE key = ",
            sqlite_log!(),
            " << 32 | 3"
        ),
        concat!(
            "UPDATE retain_events SET event_id = 'other' WHERE position = 3 AND log = ",
            postgres_log!()
        ),
        "event 3 of session \"app\"/\"ada\"/\"long\": the column of its id",
    ),
    repairable(
        "event under another invocation",
        concat!(
            "UPDATE events SET invocation = 'other' WHERE key = ",
            sqlite_log!(),
            " << 32 | 3"
        ),
        concat!(
            "UPDATE retain_events SET invocation = 'other' WHERE position = 3 AND log = ",
            postgres_log!()
        ),
        "event 3 of session \"app\"/\"ada\"/\"long\": the column of its invocation",
    ),
    repairable(
        "event with another time",
        concat!(
            "UPDATE events SET timestamp = 3 WHERE key = ",
            sqlite_log!(),
            " << 32 | 3"
        ),
        concat!(
            "UPDATE retain_events SET timestamp = 3 WHERE position = 3 AND log = ",
            postgres_log!()
        ),
        "event 3 of session \"app\"/\"ada\"/\"long\": the column of its time",
    ),
    permanent(
        "events without a log",
        "INSERT INTO events VALUES (999 << 32 | 1, 'e', 'i', 1, '{}')",
        "INSERT INTO retain_events VALUES (999, 1, 'e', 'i', 1, '{}')",
        "log 999: is orphaned: its log does not exist",
    ),
    permanent(
        "state without a log",
        "INSERT INTO state VALUES (998, 'k', 1, '1')",
        "INSERT INTO retain_state VALUES (998, 'k', 1, '1')",
        "log 998: is orphaned: its log does not exist",
    ),
    removed(
        "past state without a log",
        "INSERT INTO state_past VALUES (997, 'k', 1, '1')",
        "INSERT INTO retain_state_past VALUES (997, 'k', 1, '1')",
        "log 997: is orphaned: its log does not exist",
    ),
    repairable(
        "session without a log row",
        concat!("DELETE FROM logs WHERE number = ", sqlite_log!()),
        concat!("DELETE FROM retain_logs WHERE number = ", postgres_log!()),
        "session \"app\"/\"ada\"/\"long\": is orphaned: the row of its log",
    ),
    repairable(
        "log of a session that is marked for deletion",
        concat!(
            "UPDATE logs SET purge_after_us = 9223372036854775807 WHERE number = ",
            sqlite_log!()
        ),
        concat!(
            "UPDATE retain_logs SET purge_after_us = 9223372036854775807 WHERE number = ",
            postgres_log!()
        ),
        "session \"app\"/\"ada\"/\"long\": its log is marked for deletion",
    ),
    permanent(
        "log without a session",
        "DELETE FROM sessions WHERE app = 'app' AND user = 'Ada'",
        "DELETE FROM retain_sessions WHERE app = 'app' AND user_id = 'Ada'",
        ": is orphaned: its session does not exist",
    ),
    removed(
        "ticket without a session",
        "INSERT INTO tickets (session, ticket, until_us) VALUES (996, 't', 1)",
        "ALTER TABLE retain_tickets DROP CONSTRAINT retain_tickets_session_fkey; \
         INSERT INTO retain_tickets (session, ticket, until_us) VALUES (996, 't', 1)",
        "log 996: is orphaned: the session of a ticket",
    ),
    permanent(
        "unreadable shared state",
        "UPDATE shared_state SET value = '[1' WHERE app = 'app' AND key = 'p'",
        "UPDATE retain_shared_state SET value = '[1' WHERE app = 'app' AND key = 'p'",
        "state key \"p\" of app \"app\": cannot be read",
    ),
    repairable(
        "wrong size of shared state",
        "UPDATE shared_bytes SET bytes = 1 WHERE app = 'app' AND user = 'ada'",
        "UPDATE retain_shared_bytes SET bytes = 1 WHERE app = 'app' AND user_id = 'ada'",
        "state of user \"ada\" of app \"app\": its size in bytes is 1",
    ),
    repairable(
        "missing size of shared state",
        "DELETE FROM shared_bytes WHERE app = 'app' AND user = ''",
        "DELETE FROM retain_shared_bytes WHERE app = 'app' AND user_id = ''",
        "state of app \"app\": its size in bytes is 0",
    ),
    repairable(
        "wrong totals of memories",
        "UPDATE memory_scopes SET entries = entries + 1 WHERE user = 'ada'",
        "UPDATE retain_memory_scopes SET entries = entries + 1 WHERE user_id = 'ada'",
        "/ada: the recorded total is 18 entries",
    ),
    repairable(
        "wrong number of tombstones",
        "UPDATE memory_scopes SET tombstones = 0 WHERE user = 'ada'",
        "UPDATE retain_memory_scopes SET tombstones = 0 WHERE user_id = 'ada'",
        "/ada: the recorded total is 17 entries",
    ),
    repairable(
        "number that a new memory would reuse",
        "UPDATE memory_scopes SET last_seq = 3 WHERE user = 'ada'",
        "UPDATE retain_memory_scopes SET last_seq = 3 WHERE user_id = 'ada'",
        "/ada: the number of the newest memory or change differs",
    ),
    repairable(
        "revision before that of a memory",
        "UPDATE memory_scopes SET revision = 0, floor = 0 WHERE user = 'ada'",
        "UPDATE retain_memory_scopes SET revision = 0, floor = 0 WHERE user_id = 'ada'",
        "/ada: the number of the newest memory or change differs",
    ),
    permanent(
        "unreadable memory",
        "UPDATE memories SET content = '{' WHERE id = 'm7'",
        "UPDATE retain_memories SET content = '{' WHERE id = 'm7'",
        "memory \"m7\" (number 8) of ",
    ),
    removed(
        "vector of another size",
        "UPDATE memories SET embedding = x'00' WHERE id = 'm4'",
        "UPDATE retain_memories SET embedding = '\\x00' WHERE id = 'm4'",
        "memory \"m4\" (number 5) of ",
    ),
    removed(
        "vector of an unknown model",
        "UPDATE memories SET embedding_model = 77 WHERE id = 'm4'",
        "UPDATE retain_memories SET embedding_model = 77 WHERE id = 'm4'",
        "memory \"m4\" (number 5) of ",
    ),
    permanent(
        "memories without a scope",
        "UPDATE memories SET key = (995 << 32) + (key & 4294967295) WHERE id = 'm7' AND key >> 32 = 1",
        "UPDATE retain_memories SET scope = 995 WHERE id = 'm7' AND scope = 1",
        "memories of scope 995: is orphaned",
    ),
    removed(
        "recorded change without a scope",
        "INSERT INTO memory_touched VALUES (994, 1, 1)",
        "INSERT INTO retain_memory_touched VALUES (994, 1, 1)",
        "memories of scope 994: is orphaned",
    ),
    permanent(
        "tombstone without a scope",
        "INSERT INTO memory_tombstones VALUES (993, x'00')",
        "INSERT INTO retain_memory_tombstones VALUES (993, '\\x00')",
        "memories of scope 993: is orphaned",
    ),
    permanent(
        "unreadable artifact",
        "UPDATE artifacts SET part = '{' WHERE name = 'a.txt' AND version = 1",
        "UPDATE retain_artifacts SET part = '{' WHERE name = 'a.txt' AND version = 1",
        "version 1 of artifact \"a.txt\" of session \"app\"/\"ada\"/\"long\": cannot be read",
    ),
    permanent(
        "unreadable metadata of an artifact",
        "UPDATE artifacts SET custom_metadata = '7' WHERE name = 'a.txt' AND version = 0",
        "UPDATE retain_artifacts SET custom_metadata = '7' WHERE name = 'a.txt' AND version = 0",
        "version 0 of artifact \"a.txt\" of session \"app\"/\"ada\"/\"long\": cannot be read",
    ),
    permanent(
        "artifact without its bytes",
        "UPDATE artifacts SET data = NULL WHERE name = 'a.txt' AND version = 1",
        "UPDATE retain_artifacts SET data = NULL WHERE name = 'a.txt' AND version = 1",
        "version 1 of artifact \"a.txt\" of session \"app\"/\"ada\"/\"long\": its content is missing",
    ),
    permanent(
        "missing version of an artifact",
        "DELETE FROM artifacts WHERE name = 'a.txt' AND version = 1",
        "DELETE FROM retain_artifacts WHERE name = 'a.txt' AND version = 1",
        "artifact \"a.txt\" of session \"app\"/\"ada\"/\"long\": an earlier version is missing",
    ),
    permanent(
        "API key with an unknown scope",
        "UPDATE api_keys SET scopes = 'fly' WHERE id = 'm'",
        "UPDATE retain_api_keys SET scopes = 'fly' WHERE id = 'm'",
        "API key \"m\": cannot be read",
    ),
    permanent(
        "API key with a short hash",
        "UPDATE api_keys SET hash = x'00' WHERE id = 'm'",
        "UPDATE retain_api_keys SET hash = '\\x00' WHERE id = 'm'",
        "API key \"m\": cannot be read",
    ),
    repairable(
        "missing index",
        "DROP INDEX events_by_id",
        "DROP INDEX retain_memories_by_id",
        "_by_id\": is missing",
    ),
    repairable(
        "changed index",
        "DROP INDEX memories_by_id; CREATE INDEX memories_by_id ON memories (id)",
        "DROP INDEX retain_memories_by_id; CREATE INDEX retain_memories_by_id ON retain_memories (id)",
        "memories_by_id\": differs from the one that Retain creates",
    ),
    permanent(
        "missing column",
        "ALTER TABLE sessions DROP COLUMN pending_work",
        "ALTER TABLE retain_sessions DROP COLUMN pending_work",
        "schema, ",
    ),
    permanent(
        "missing table",
        "DROP TABLE memory_touched",
        "DROP TABLE retain_memory_touched",
        "memory_touched\": is missing",
    ),
    permanent(
        "trigger that Retain did not create",
        "CREATE TRIGGER hidden AFTER INSERT ON events BEGIN DELETE FROM state; END",
        "CREATE FUNCTION hidden() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
         CREATE TRIGGER hidden BEFORE INSERT ON retain_events FOR EACH ROW EXECUTE FUNCTION hidden()",
        "hidden\": was not created by Retain",
    ),
];
