//! Migrates API keys in the order of their creation. If all keys were erased, it migrates the
//! record that keys existed: a server that required a key must still require one after a migration.

use async_trait::async_trait;
use futures_util::future::try_join;

use super::{
    Section, Side,
    compare::{HashPair, RecordField},
    outcome::{MigrationCounts, MigrationError, Result, failed},
    steps::StorePair,
    survey::SideSurvey,
};
use crate::keys::{ApiKey, KeyStore};

const WHAT: &str = "API keys";

/// The keys of one side, and whether that side ever had a key.
type SideKeys = (Vec<ApiKey>, bool);

#[derive(Debug)]
pub(super) struct Keys {
    stores: StorePair<dyn KeyStore>,
}

impl Keys {
    pub(super) fn new(stores: StorePair<dyn KeyStore>) -> Keys {
        Keys { stores }
    }

    async fn load(&self, side: Side) -> Result<SideKeys> {
        let store = self.stores.at(side);
        let found = try_join(store.keys(), store.had_any()).await;
        found.map_err(failed(WHAT))
    }

    async fn load_both(&self) -> Result<(SideKeys, SideKeys)> {
        try_join(self.load(Side::Source), self.load(Side::Target)).await
    }
}

fn fields(keys: &[ApiKey]) -> Vec<RecordField> {
    // Only the hash is secret, and errors do not show the text of these fields.
    let field = |key: &ApiKey| RecordField::new(format!("key {:?}", key.id), format!("{key:?}"));
    keys.iter().map(field).collect()
}

fn had_any_field(had_any: bool) -> RecordField {
    RecordField::plain("whether there ever was a key", had_any)
}

fn count(keys: usize) -> MigrationCounts {
    MigrationCounts {
        api_keys: keys as u64,
        ..MigrationCounts::default()
    }
}

#[async_trait]
impl Section for Keys {
    fn name(&self) -> &'static str {
        WHAT
    }

    async fn survey(&self, side: Side) -> Result<SideSurvey> {
        let (keys, had_any) = self.load(side).await?;
        let mut survey = SideSurvey::default();
        survey.counts += count(keys.len());
        for key in &keys {
            survey.add(&[format!("{key:?}").as_bytes()], None);
        }
        if had_any {
            survey.add(&[b"there was ever a key"], None);
        }
        Ok(survey)
    }

    async fn count_present(&self) -> Result<MigrationCounts> {
        let ((from, from_had), (to, to_had)) = self.load_both().await?;
        let shared = from.len().min(to.len());
        let difference = HashPair::default().compare(&fields(&from[..shared]), &fields(&to));
        if let Some(difference) = difference {
            return Err(MigrationError::differs(WHAT, difference));
        }
        if to_had && !from_had {
            let what = "the mark that this store has had API keys".to_owned();
            return Err(MigrationError::Extra { what });
        }
        Ok(count(to.len()))
    }

    async fn copy(&self) -> Result<MigrationCounts> {
        let ((from, from_had), (to, to_had)) = self.load_both().await?;
        let missing = from.get(to.len()..).unwrap_or_default();
        for key in missing {
            let added = self.stores.to.add(key).await;
            added.map_err(failed(format!("API key {:?}", key.id)))?;
            self.stores.observer.advance(1);
        }
        if from_had && !to_had && from.is_empty() {
            self.stores.to.note_had_any().await.map_err(failed(WHAT))?;
        }
        Ok(count(missing.len()))
    }

    async fn verify(&self, both: &mut HashPair) -> Result<MigrationCounts> {
        let ((from, from_had), (to, to_had)) = self.load_both().await?;
        let (mut source, mut target) = (fields(&from), fields(&to));
        source.push(had_any_field(from_had));
        target.push(had_any_field(to_had));
        if let Some(difference) = both.compare(&source, &target) {
            return Err(MigrationError::mismatch(WHAT, difference));
        }
        self.stores.observer.advance(from.len() as u64);
        Ok(count(from.len()))
    }
}
