//! Migrates API keys in the order of their creation, and the mark that keys existed if all were
//! erased: a server that required a key must still require one after a migration.

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

/// The keys of one side, and whether it ever had one.
type SideKeys = (Vec<ApiKey>, bool);

#[derive(Debug)]
pub(super) struct Keys {
    stores: StorePair<dyn KeyStore>,
}

impl Keys {
    pub(super) fn new(stores: StorePair<dyn KeyStore>) -> Keys {
        Keys { stores }
    }

    async fn find(&self, side: Side) -> Result<SideKeys> {
        let store = self.stores.at(side);
        let found = try_join(store.keys(), store.had_any()).await;
        found.map_err(failed(WHAT))
    }

    async fn find_both(&self) -> Result<(SideKeys, SideKeys)> {
        try_join(self.find(Side::Source), self.find(Side::Target)).await
    }
}

fn lines(keys: &[ApiKey]) -> Vec<RecordField> {
    // The only secret is the hash, and errors do not show lines of this kind.
    let line = |key: &ApiKey| RecordField::new(format!("key {:?}", key.id), format!("{key:?}"));
    keys.iter().map(line).collect()
}

fn mark(had_any: bool) -> RecordField {
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
        let (keys, had_any) = self.find(side).await?;
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
        let ((from, from_had), (to, to_had)) = self.find_both().await?;
        let shared = from.len().min(to.len());
        let difference = HashPair::default().compare(&lines(&from[..shared]), &lines(&to));
        if let Some(difference) = difference {
            return Err(MigrationError::differs(WHAT, difference));
        }
        if to_had && !from_had {
            let what = "the record that API keys have existed".to_owned();
            return Err(MigrationError::Extra { what });
        }
        Ok(count(to.len()))
    }

    async fn copy(&self) -> Result<MigrationCounts> {
        let ((from, from_had), (to, to_had)) = self.find_both().await?;
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
        let ((from, from_had), (to, to_had)) = self.find_both().await?;
        let (mut here, mut there) = (lines(&from), lines(&to));
        here.push(mark(from_had));
        there.push(mark(to_had));
        if let Some(difference) = both.compare(&here, &there) {
            return Err(MigrationError::mismatch(WHAT, difference));
        }
        self.stores.observer.advance(from.len() as u64);
        Ok(count(from.len()))
    }
}
