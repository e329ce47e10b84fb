//! The numbers of embedding models. The row of a vector refers to its model by number.

use retain_core::MemoryVector;
use rusqlite::{Connection, OptionalExtension as _};

use crate::sql::memory::Models;

pub(super) fn load_models(connection: &Connection) -> rusqlite::Result<Models> {
    let mut statement = connection.prepare_cached("SELECT number, id, dims FROM memory_models")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    rows.collect()
}

/// Returns a vector's bytes and the number of its model, which it creates if the model is new.
pub(super) fn encode_vector<'a>(
    connection: &Connection,
    vector: Option<&'a MemoryVector>,
) -> rusqlite::Result<(Option<i64>, Option<&'a [u8]>)> {
    let Some(vector) = vector else {
        return Ok((None, None));
    };
    let find = "SELECT number FROM memory_models WHERE id = ?1 AND dims = ?2";
    let model = (&vector.model, vector.dims);
    let mut statement = connection.prepare_cached(find)?;
    let existing: Option<i64> = statement.query_row(model, |row| row.get(0)).optional()?;
    let number = match existing {
        Some(number) => number,
        None => {
            let sql = "INSERT INTO memory_models (id, dims) VALUES (?1, ?2)";
            connection.prepare_cached(sql)?.execute(model)?;
            connection.last_insert_rowid()
        }
    };
    Ok((Some(number), Some(&vector.bytes)))
}
