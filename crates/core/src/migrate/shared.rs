//! Migrates shared state: the state keys of apps and users.

use async_trait::async_trait;
use futures_util::{TryStreamExt as _, future::try_join, stream::BoxStream};

use super::{
    Section, Side,
    compare::{HashPair, RecordField},
    outcome::{MigrationCounts, MigrationError, Result, failed},
    steps::{PAGE, StorePair, pages},
    survey::SideSurvey,
};
use crate::{
    json::JsonMap,
    transfer_store::{StateOwner, TransferStore},
};

#[derive(Debug)]
pub(super) struct SharedStates {
    stores: StorePair<dyn TransferStore>,
}

impl SharedStates {
    pub(super) fn new(stores: StorePair<dyn TransferStore>) -> SharedStates {
        SharedStates { stores }
    }

    fn owners(&self, side: Side) -> BoxStream<'_, Result<Vec<StateOwner>>> {
        pages(move |after: Option<StateOwner>| {
            Box::pin(async move {
                let owners = self
                    .stores
                    .at(side)
                    .state_owners(after.as_ref(), PAGE)
                    .await;
                owners.map_err(failed("the list of shared state"))
            })
        })
    }

    async fn keys(&self, side: Side, owner: &StateOwner) -> Result<JsonMap> {
        let store = self.stores.at(side);
        let keys = store.shared_state(&owner.app, owner.user.as_deref()).await;
        keys.map_err(failed(name_of(owner)))
    }

    async fn both_keys(&self, owner: &StateOwner) -> Result<(JsonMap, JsonMap)> {
        try_join(
            self.keys(Side::Source, owner),
            self.keys(Side::Target, owner),
        )
        .await
    }
}

fn name_of(owner: &StateOwner) -> String {
    format!("shared state of {owner}")
}

fn fields(owner: &StateOwner, keys: &JsonMap) -> Result<Vec<RecordField>> {
    let mut sorted: Vec<_> = keys.iter().collect();
    sorted.sort_unstable_by_key(|(key, _)| *key);
    let fields = sorted.into_iter().map(|(key, value)| {
        let value = value.to_json().map_err(failed(name_of(owner)))?;
        Ok(RecordField::new(format!("key {key:?}"), value))
    });
    fields.collect()
}

fn count(keys: &JsonMap) -> MigrationCounts {
    MigrationCounts {
        shared_keys: keys.len() as u64,
        ..MigrationCounts::default()
    }
}

#[async_trait]
impl Section for SharedStates {
    fn name(&self) -> &'static str {
        "shared state"
    }

    async fn survey(&self, side: Side) -> Result<SideSurvey> {
        let mut survey = SideSurvey::default();
        let mut pages = self.owners(side);
        while let Some(page) = pages.try_next().await? {
            for owner in page {
                let keys = self.keys(side, &owner).await?;
                survey.counts += count(&keys);
                let field = RecordField::of_keys(name_of(&owner), &keys)?;
                survey.add(&[format!("{field:?}").as_bytes()], None);
            }
        }
        Ok(survey)
    }

    async fn count_present(&self) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.owners(Side::Target);
        while let Some(page) = pages.try_next().await? {
            for owner in page {
                let (from, to) = self.both_keys(&owner).await?;
                let what = name_of(&owner);
                if from.is_empty() {
                    return Err(MigrationError::Extra { what });
                }
                let (source, target) = (fields(&owner, &from)?, fields(&owner, &to)?);
                if let Some(difference) = HashPair::default().compare(&source, &target) {
                    return Err(MigrationError::differs(what, difference));
                }
                counts += count(&to);
            }
        }
        Ok(counts)
    }

    async fn copy(&self) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.owners(Side::Source);
        while let Some(page) = pages.try_next().await? {
            for owner in page {
                let (from, to) = self.both_keys(&owner).await?;
                if to.is_empty() {
                    let added = self.stores.to.add_shared_state(&owner, &from).await;
                    added.map_err(failed(name_of(&owner)))?;
                    counts += count(&from);
                    self.stores.observer.advance(from.len() as u64);
                }
            }
        }
        Ok(counts)
    }

    async fn verify(&self, both: &mut HashPair) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.owners(Side::Source);
        while let Some(page) = pages.try_next().await? {
            for owner in page {
                let (from, to) = self.both_keys(&owner).await?;
                let compared = both.compare(&fields(&owner, &from)?, &fields(&owner, &to)?);
                if let Some(difference) = compared {
                    return Err(MigrationError::mismatch(name_of(&owner), difference));
                }
                counts += count(&from);
                self.stores.observer.advance(from.len() as u64);
            }
        }
        let mut pages = self.owners(Side::Target);
        while let Some(page) = pages.try_next().await? {
            for owner in page {
                if self.keys(Side::Source, &owner).await?.is_empty() {
                    let difference = "it is in the target only";
                    return Err(MigrationError::mismatch(name_of(&owner), difference));
                }
            }
        }
        Ok(counts)
    }
}
