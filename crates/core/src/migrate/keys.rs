//! API keys in the order of their creation, and the mark that keys existed if all were erased: a
//! server that required a key must still require one after a migration.

use async_trait::async_trait;
use futures_util::future::try_join;

use super::{
    End, Section,
    compare::{Both, Line},
    outcome::{MigrationCounts, MigrationError, Result, failed},
    rest::Look,
    steps::Ends,
};
use crate::keys::{ApiKey, KeyStore};

const WHAT: &str = "API keys";

/// The keys of a side, and whether there ever was one.
type Found = (Vec<ApiKey>, bool);

#[derive(Debug)]
pub(super) struct Keys {
    ends: Ends<dyn KeyStore>,
}

impl Keys {
    pub(super) fn new(ends: Ends<dyn KeyStore>) -> Keys {
        Keys { ends }
    }

    async fn find(&self, end: End) -> Result<Found> {
        let store = self.ends.at(end);
        let found = try_join(store.keys(), store.had_any()).await;
        found.map_err(failed(WHAT))
    }

    async fn find_both(&self) -> Result<(Found, Found)> {
        try_join(self.find(End::Source), self.find(End::Target)).await
    }
}

fn lines(keys: &[ApiKey]) -> Vec<Line> {
    // The only secret is the hash, and errors do not show lines of this kind.
    let line = |key: &ApiKey| Line::new(format!("key {:?}", key.id), format!("{key:?}"));
    keys.iter().map(line).collect()
}

fn mark(had_any: bool) -> Line {
    Line::plain("that there was ever a key", had_any)
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

    async fn look(&self, end: End) -> Result<Look> {
        let (keys, had_any) = self.find(end).await?;
        let mut look = Look::default();
        look.counts += count(keys.len());
        for key in &keys {
            look.add(&[format!("{key:?}").as_bytes()], None);
        }
        if had_any {
            look.add(&[b"there was ever a key"], None);
        }
        Ok(look)
    }

    async fn there(&self) -> Result<MigrationCounts> {
        let ((from, from_had), (to, to_had)) = self.find_both().await?;
        let shared = from.len().min(to.len());
        let difference = Both::default().compare(&lines(&from[..shared]), &lines(&to));
        if let Some(difference) = difference {
            return Err(MigrationError::differs(WHAT, difference));
        }
        if to_had && !from_had {
            let what = "the mark that there were API keys once".to_owned();
            return Err(MigrationError::Extra { what });
        }
        Ok(count(to.len()))
    }

    async fn copy(&self) -> Result<MigrationCounts> {
        let ((from, from_had), (to, to_had)) = self.find_both().await?;
        let missing = from.get(to.len()..).unwrap_or_default();
        for key in missing {
            let added = self.ends.to.add(key).await;
            added.map_err(failed(format!("API key {:?}", key.id)))?;
            self.ends.watch.advance(1);
        }
        if from_had && !to_had && from.is_empty() {
            self.ends.to.note_had_any().await.map_err(failed(WHAT))?;
        }
        Ok(count(missing.len()))
    }

    async fn verify(&self, both: &mut Both) -> Result<MigrationCounts> {
        let ((from, from_had), (to, to_had)) = self.find_both().await?;
        let (mut here, mut there) = (lines(&from), lines(&to));
        here.push(mark(from_had));
        there.push(mark(to_had));
        if let Some(difference) = both.compare(&here, &there) {
            return Err(MigrationError::mismatch(WHAT, difference));
        }
        self.ends.watch.advance(from.len() as u64);
        Ok(count(from.len()))
    }
}
