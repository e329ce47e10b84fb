//! Shared state: the keys of apps and users.

use async_trait::async_trait;
use futures_util::{TryStreamExt as _, future::try_join, stream::BoxStream};

use super::{
    End, Section,
    compare::{Both, Line},
    outcome::{MigrationCounts, MigrationError, Result, failed},
    rest::Look,
    steps::{Ends, PAGE, pages},
};
use crate::{
    json::JsonMap,
    transfer_store::{StateOwner, TransferStore},
};

#[derive(Debug)]
pub(super) struct Shared {
    ends: Ends<dyn TransferStore>,
}

impl Shared {
    pub(super) fn new(ends: Ends<dyn TransferStore>) -> Shared {
        Shared { ends }
    }

    fn owners(&self, end: End) -> BoxStream<'_, Result<Vec<StateOwner>>> {
        pages(move |after: Option<StateOwner>| {
            Box::pin(async move {
                let owners = self.ends.at(end).state_owners(after.as_ref(), PAGE).await;
                owners.map_err(failed("the list of shared state"))
            })
        })
    }

    async fn keys(&self, end: End, owner: &StateOwner) -> Result<JsonMap> {
        let store = self.ends.at(end);
        let keys = store.shared_state(&owner.app, owner.user.as_deref()).await;
        keys.map_err(failed(name_of(owner)))
    }

    async fn both_keys(&self, owner: &StateOwner) -> Result<(JsonMap, JsonMap)> {
        try_join(self.keys(End::Source, owner), self.keys(End::Target, owner)).await
    }
}

fn name_of(owner: &StateOwner) -> String {
    format!("shared state of {owner}")
}

fn lines(owner: &StateOwner, keys: &JsonMap) -> Result<Vec<Line>> {
    let mut sorted: Vec<_> = keys.iter().collect();
    sorted.sort_unstable_by_key(|(key, _)| *key);
    let lines = sorted.into_iter().map(|(key, value)| {
        let value = value.to_json().map_err(failed(name_of(owner)))?;
        Ok(Line::new(format!("key {key:?}"), value))
    });
    lines.collect()
}

fn count(keys: &JsonMap) -> MigrationCounts {
    MigrationCounts {
        shared_keys: keys.len() as u64,
        ..MigrationCounts::default()
    }
}

#[async_trait]
impl Section for Shared {
    fn name(&self) -> &'static str {
        "shared state"
    }

    async fn look(&self, end: End) -> Result<Look> {
        let mut look = Look::default();
        let mut pages = self.owners(end);
        while let Some(page) = pages.try_next().await? {
            for owner in page {
                let keys = self.keys(end, &owner).await?;
                look.counts += count(&keys);
                let line = Line::of_keys(name_of(&owner), &keys)?;
                look.add(&[format!("{line:?}").as_bytes()], None);
            }
        }
        Ok(look)
    }

    async fn there(&self) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.owners(End::Target);
        while let Some(page) = pages.try_next().await? {
            for owner in page {
                let (from, to) = self.both_keys(&owner).await?;
                let what = name_of(&owner);
                if from.is_empty() {
                    return Err(MigrationError::Extra { what });
                }
                let (from, there) = (lines(&owner, &from)?, lines(&owner, &to)?);
                if let Some(difference) = Both::default().compare(&from, &there) {
                    return Err(MigrationError::differs(what, difference));
                }
                counts += count(&to);
            }
        }
        Ok(counts)
    }

    async fn copy(&self) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.owners(End::Source);
        while let Some(page) = pages.try_next().await? {
            for owner in page {
                let (from, to) = self.both_keys(&owner).await?;
                if to.is_empty() {
                    let added = self.ends.to.add_shared_state(&owner, &from).await;
                    added.map_err(failed(name_of(&owner)))?;
                    counts += count(&from);
                    self.ends.watch.advance(from.len() as u64);
                }
            }
        }
        Ok(counts)
    }

    async fn verify(&self, both: &mut Both) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.owners(End::Source);
        while let Some(page) = pages.try_next().await? {
            for owner in page {
                let (from, to) = self.both_keys(&owner).await?;
                let compared = both.compare(&lines(&owner, &from)?, &lines(&owner, &to)?);
                if let Some(difference) = compared {
                    return Err(MigrationError::mismatch(name_of(&owner), difference));
                }
                counts += count(&from);
                self.ends.watch.advance(from.len() as u64);
            }
        }
        let mut pages = self.owners(End::Target);
        while let Some(page) = pages.try_next().await? {
            for owner in page {
                if self.keys(End::Source, &owner).await?.is_empty() {
                    let difference = "it is in the target only";
                    return Err(MigrationError::mismatch(name_of(&owner), difference));
                }
            }
        }
        Ok(counts)
    }
}
