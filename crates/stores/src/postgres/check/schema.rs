//! Compares the schema with the one that the migrations create, as temporary tables that are rolled
//! back.

use tokio_postgres::{Client, Error};

use crate::{
    postgres::{
        PostgresOptions,
        pool::{Database, Failure},
        schema,
    },
    sql::check::schema::{SchemaDifference, SchemaObject, compare},
};

/// Selects the parts of Retain's tables: the temporary ones if $1 is true. `pg_get_indexdef` and the
/// like name a visible table without its schema, so that equal definitions are equal texts.
const OBJECTS: &str = "WITH tables AS (SELECT oid, relname::text AS name FROM pg_class \
    WHERE relkind IN ('r', 'p') AND relname LIKE 'retain\\_%' \
    AND CASE WHEN $1 THEN relnamespace = pg_my_temp_schema() \
    ELSE relpersistence <> 't' AND pg_table_is_visible(oid) END) \
    SELECT 'table', name, '', NULL::text, true, name FROM tables \
    UNION ALL SELECT 'column', t.name || '.' || a.attname, \
    format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END \
    || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid, true), '') \
    || CASE WHEN a.attidentity <> '' THEN ' IDENTITY' ELSE '' END \
    || coalesce(' COLLATE ' || c.collname, ''), NULL, false, t.name \
    FROM tables t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped \
    LEFT JOIN pg_attrdef d ON d.adrelid = t.oid AND d.adnum = a.attnum \
    LEFT JOIN pg_collation c ON c.oid = a.attcollation \
    UNION ALL SELECT 'constraint', t.name || '.' || c.conname, pg_get_constraintdef(c.oid, true), \
    format('ALTER TABLE %I ADD CONSTRAINT %I %s', t.name, c.conname, \
    pg_get_constraintdef(c.oid, true)), false, t.name \
    FROM tables t JOIN pg_constraint c ON c.conrelid = t.oid AND c.contype IN ('p', 'u', 'f', 'c', 'x') \
    UNION ALL SELECT 'index', i.relname, pg_get_indexdef(x.indexrelid, 0, true) \
    || CASE WHEN x.indisvalid THEN '' ELSE ' INVALID' END, \
    pg_get_indexdef(x.indexrelid, 0, true), NOT x.indisunique, t.name \
    FROM tables t JOIN pg_index x ON x.indrelid = t.oid JOIN pg_class i ON i.oid = x.indexrelid \
    WHERE NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = x.indexrelid) \
    UNION ALL SELECT 'trigger', t.name || '.' || g.tgname, pg_get_triggerdef(g.oid, true), NULL, false, t.name \
    FROM tables t JOIN pg_trigger g ON g.tgrelid = t.oid AND NOT g.tgisinternal \
    UNION ALL SELECT 'rule', t.name || '.' || r.rulename, pg_get_ruledef(r.oid, true), NULL, false, t.name \
    FROM tables t JOIN pg_rewrite r ON r.ev_class = t.oid";

/// Returns what differs from the schema that the migrations create.
pub(super) async fn differences(
    database: &Database,
    options: &PostgresOptions,
) -> Result<Vec<SchemaDifference>, Failure> {
    let (statements, has_newer_objects) = schema::fresh_statements(database, options).await?;
    // Temporary tables would hide the real ones from a pooled connection.
    let client = database.dedicated_connection().await?;
    client.batch_execute("BEGIN").await?;
    let found = objects(&client, false).await?;
    client
        .batch_execute("SET LOCAL search_path = pg_temp")
        .await?;
    for statement in statements {
        client.batch_execute(statement).await?;
    }
    let expected = objects(&client, true).await?;
    client.batch_execute("ROLLBACK").await?;
    Ok(compare(found, expected, has_newer_objects))
}

async fn objects(client: &Client, is_temporary: bool) -> Result<Vec<SchemaObject>, Error> {
    let rows = client.query(OBJECTS, &[&is_temporary]).await?;
    let objects = rows.iter().map(|row| {
        Ok(SchemaObject {
            kind: row.try_get(0)?,
            name: row.try_get(1)?,
            definition: row.try_get(2)?,
            create: row.try_get(3)?,
            is_harmless: row.try_get(4)?,
            table: row.try_get(5)?,
        })
    });
    objects.collect()
}
