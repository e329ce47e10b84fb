//! What makes vectors has a number. Numbers are never taken back, so they are looked up once.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use retain_core::MemoryVector;
use tokio::join;

use super::{Outcome, rows::signed};
use crate::postgres::pool::{Database, Failure};

/// The numbers that this process has met.
#[derive(Debug, Default)]
pub(super) struct ModelNumbers {
    known: Mutex<HashMap<(String, usize), i64>>,
}

impl ModelNumbers {
    fn lock(&self) -> MutexGuard<'_, HashMap<(String, usize), i64>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the numbers of what made these vectors known. To be called before a transaction: a new
    /// number is everybody's at once, and nobody waits for another's transaction to have it.
    pub(super) async fn meet(
        &self,
        database: &Database,
        vectors: Vec<&MemoryVector>,
    ) -> Outcome<()> {
        let mut new: Vec<&MemoryVector> = Vec::new();
        for vector in vectors {
            let is_met = |met: &&MemoryVector| met.model == vector.model && met.dims == vector.dims;
            if self.number(Some(vector)).is_none() && !new.iter().any(is_met) {
                new.push(vector);
            }
        }
        for vector in new {
            let number = find_or_make(database, vector).await?;
            let model = (vector.model.clone(), vector.dims);
            self.lock().insert(model, number);
        }
        Ok(())
    }

    /// The number of what made this vector, if it was met.
    pub(super) fn number(&self, vector: Option<&MemoryVector>) -> Option<i64> {
        let vector = vector?;
        let known = self.lock();
        // A name is long and met often: it is compared, not copied.
        let mut known = known.iter();
        let met = known.find(|((model, dims), _)| *dims == vector.dims && *model == vector.model);
        met.map(|(_, number)| *number)
    }
}

async fn find_or_make(database: &Database, vector: &MemoryVector) -> Outcome<i64> {
    let find = "SELECT number FROM retain_memory_models WHERE id = $1 AND dims = $2";
    let make = "INSERT INTO retain_memory_models (id, dims) VALUES ($1, $2) \
                ON CONFLICT (id, dims) DO NOTHING";
    let (model, dims) = (vector.model.as_bytes(), signed(vector.dims as u64));
    let client = database.connection().await?;
    let (find, make) = join!(biased; client.prepare_cached(find), client.prepare_cached(make));
    let (find, make) = (find?, make?);
    if let Some(row) = client.query_opt(&find, &[&model, &dims]).await? {
        return Ok(row.try_get(0)?);
    }
    client.execute(&make, &[&model, &dims]).await?;
    match client.query_opt(&find, &[&model, &dims]).await? {
        Some(row) => Ok(row.try_get(0)?),
        None => Err(Failure::Again("what makes vectors has no number yet")),
    }
}
