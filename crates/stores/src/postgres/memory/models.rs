//! The numbers of embedding models. A model's number never changes, so each process caches it.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use retain_core::MemoryVector;
use tokio::join;

use super::{Outcome, rows::signed};
use crate::postgres::pool::{Database, Failure};

/// The model numbers that this process has cached.
#[derive(Debug, Default)]
pub(super) struct ModelNumbers {
    cached: Mutex<HashMap<(String, usize), i64>>,
}

impl ModelNumbers {
    fn lock(&self) -> MutexGuard<'_, HashMap<(String, usize), i64>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds or creates the numbers of the models of these vectors, and caches them. Call this
    /// before a transaction begins: a new number then commits immediately and blocks no other
    /// writer.
    pub(super) async fn register_models(
        &self,
        database: &Database,
        vectors: Vec<&MemoryVector>,
    ) -> Outcome<()> {
        let mut new: Vec<&MemoryVector> = Vec::new();
        for vector in vectors {
            let is_same =
                |other: &&MemoryVector| other.model == vector.model && other.dims == vector.dims;
            if self.number(Some(vector)).is_none() && !new.iter().any(is_same) {
                new.push(vector);
            }
        }
        for vector in new {
            let number = find_or_create(database, vector).await?;
            let model = (vector.model.clone(), vector.dims);
            self.lock().insert(model, number);
        }
        Ok(())
    }

    /// Returns the number of the vector's model, if it is cached.
    pub(super) fn number(&self, vector: Option<&MemoryVector>) -> Option<i64> {
        let vector = vector?;
        let cached = self.lock();
        // Scan the few models: a map lookup would need a copy of the model name.
        let mut cached = cached.iter();
        let found =
            cached.find(|((model, dims), _)| *dims == vector.dims && *model == vector.model);
        found.map(|(_, number)| *number)
    }
}

async fn find_or_create(database: &Database, vector: &MemoryVector) -> Outcome<i64> {
    let find = "SELECT number FROM retain_memory_models WHERE id = $1 AND dims = $2";
    let create = "INSERT INTO retain_memory_models (id, dims) VALUES ($1, $2) \
                  ON CONFLICT (id, dims) DO NOTHING";
    let (model, dims) = (vector.model.as_bytes(), signed(vector.dims as u64));
    let client = database.connection().await?;
    let (find, create) = join!(biased; client.prepare_cached(find), client.prepare_cached(create));
    let (find, create) = (find?, create?);
    if let Some(row) = client.query_opt(&find, &[&model, &dims]).await? {
        return Ok(row.try_get(0)?);
    }
    client.execute(&create, &[&model, &dims]).await?;
    match client.query_opt(&find, &[&model, &dims]).await? {
        Some(row) => Ok(row.try_get(0)?),
        None => Err(Failure::Transient(
            "PostgreSQL returned no number for the embedding model",
        )),
    }
}
