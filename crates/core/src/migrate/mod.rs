//! Migrates all data of one store to another. It uses only the ports, so it works between any two
//! stores.
//!
//! [`Migration::run`] surveys the source, compares the data that the target already has, copies the
//! missing data, compares everything, and surveys the source again. Each kind of data is a
//! [`Section`]: `shared`, `sessions`, `memories`, `artifacts`, `keys`.

mod artifacts;
mod compare;
mod keys;
mod memories;
mod outcome;
mod sessions;
mod shared;
mod steps;
mod survey;

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use crate::{
    artifacts::ArtifactStore,
    keys::KeyStore,
    memory::MemoryStore,
    ports::{Clock, SystemClock},
    transfer_store::TransferStore,
};
pub(crate) use artifacts::artifact_key;
use compare::HashPair;
pub(crate) use compare::hex;
pub(crate) use memories::read_hashed_memories;
pub use outcome::{
    MigrationCounts, MigrationError, MigrationObserver, MigrationPhase, MigrationReport,
    MigrationSurvey, NoObserver,
};
use outcome::{Result, failed};
pub(crate) use steps::BatchSize;
use survey::SideSurvey;

/// One side of a migration: a store for each kind of data. `None` means that the side has no such
/// store.
#[derive(Debug, Clone, Default)]
pub struct MigrationSide {
    /// Sessions and their shared state.
    pub sessions: Option<Arc<dyn TransferStore>>,
    /// Memories.
    pub memory: Option<Arc<dyn MemoryStore>>,
    /// Artifacts.
    pub artifacts: Option<Arc<dyn ArtifactStore>>,
    /// API keys.
    pub keys: Option<Arc<dyn KeyStore>>,
}

/// A migration from one store to another.
///
/// A migration only reads the source. No program may write to the source meanwhile; a write is
/// reported as an error at the end. It overwrites nothing in the target. Run an interrupted
/// migration again to resume it.
#[derive(Debug, Clone)]
pub struct Migration {
    from: MigrationSide,
    to: MigrationSide,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn MigrationObserver>,
}

/// The source or the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Target,
}

/// The steps of a migration for one kind of data.
#[async_trait]
trait Section: fmt::Debug + Send + Sync {
    /// Returns the plural name of this kind of data.
    fn name(&self) -> &'static str;

    /// Counts the data of one side.
    async fn survey(&self, side: Side) -> Result<SideSurvey>;

    /// Counts the data that the target already has. Fails if the target has data that is missing in
    /// the source or differs there.
    async fn count_present(&self) -> Result<MigrationCounts>;

    /// Copies the data that the target lacks, and counts it.
    async fn copy(&self) -> Result<MigrationCounts>;

    /// Compares and counts all data. Fails at the first difference.
    async fn verify(&self, both: &mut HashPair) -> Result<MigrationCounts>;
}

impl Migration {
    /// Creates a migration of all data of `from` to `to`.
    pub fn new(from: MigrationSide, to: MigrationSide) -> Migration {
        Migration {
            from,
            to,
            clock: Arc::new(SystemClock),
            observer: Arc::new(NoObserver),
        }
    }

    /// Takes the time from `clock`.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Migration {
        self.clock = clock;
        self
    }

    /// Reports progress to `observer`.
    pub fn with_observer(mut self, observer: Arc<dyn MigrationObserver>) -> Migration {
        self.observer = observer;
        self
    }

    /// Counts the data to copy without writing anything. Fails where [`run`](Self::run) would fail
    /// before its first write.
    pub async fn survey(&self) -> Result<MigrationSurvey> {
        self.check_different_stores().await?;
        let sections = self.sections().await?;
        Ok(self.survey_both(&sections).await?.0)
    }

    /// Copies the data that the target lacks, then compares both sides completely.
    pub async fn run(&self) -> Result<MigrationReport> {
        self.check_different_stores().await?;
        let sections = self.sections().await?;
        let (survey, before) = self.survey_both(&sections).await?;
        let missing = survey.found.total().saturating_sub(survey.present.total());
        self.observer.begin(MigrationPhase::Copy, Some(missing));
        let mut copied = MigrationCounts::default();
        for section in &sections {
            copied += section.copy().await?;
        }
        if let Some(sessions) = &self.to.sessions {
            sessions.flush().await.map_err(failed("the target"))?;
        }
        let total = survey.found.total();
        self.observer.begin(MigrationPhase::Verify, Some(total));
        let verified = self.verify(&sections).await;
        let after = self.survey_source(&sections).await?;
        if let Some(what) = before.describe_change(&after, self.clock.now_us()) {
            return Err(MigrationError::SourceChanged { what });
        }
        let (counts, digest) = verified?;
        Ok(MigrationReport {
            counts,
            copied,
            digest,
        })
    }

    /// Compares both sides completely, without writing. Fails at the first difference.
    pub async fn compare(&self) -> Result<MigrationReport> {
        self.check_different_stores().await?;
        let sections = self.sections().await?;
        self.observer.begin(MigrationPhase::Verify, None);
        let (counts, digest) = self.verify(&sections).await?;
        Ok(MigrationReport {
            counts,
            copied: MigrationCounts::default(),
            digest,
        })
    }

    async fn verify(&self, sections: &[Box<dyn Section>]) -> Result<(MigrationCounts, String)> {
        let mut both = HashPair::default();
        let mut counts = MigrationCounts::default();
        for section in sections {
            counts += section.verify(&mut both).await?;
        }
        let (from, to) = both.digests();
        if from != to {
            let difference = format!("the hash of the source is {from}, that of the target {to}");
            return Err(MigrationError::mismatch("all data", difference));
        }
        Ok((counts, from))
    }

    async fn survey_both(
        &self,
        sections: &[Box<dyn Section>],
    ) -> Result<(MigrationSurvey, SideSurvey)> {
        self.observer.begin(MigrationPhase::Survey, None);
        let before = self.survey_source(sections).await?;
        let mut present = MigrationCounts::default();
        for section in sections {
            present += section.count_present().await?;
        }
        let survey = MigrationSurvey {
            found: before.counts,
            present,
        };
        Ok((survey, before))
    }

    async fn survey_source(&self, sections: &[Box<dyn Section>]) -> Result<SideSurvey> {
        let mut all = SideSurvey::default();
        for section in sections {
            all += section.survey(Side::Source).await?;
        }
        Ok(all)
    }

    /// Fails if source and target are the same store.
    async fn check_different_stores(&self) -> Result<()> {
        let (Some(from), Some(to)) = (&self.from.sessions, &self.to.sessions) else {
            return Ok(());
        };
        let from = from.identity().await.map_err(failed("the source"))?;
        let to = to.identity().await.map_err(failed("the target"))?;
        match from.is_some() && from == to {
            true => Err(MigrationError::SameStore),
            false => Ok(()),
        }
    }

    /// Returns a section for each kind of data that the source has. Fails if the source has data of
    /// a kind that the target cannot store.
    async fn sections(&self) -> Result<Vec<Box<dyn Section>>> {
        let (from, to, observer) = (&self.from, &self.to, &self.observer);
        let mut sections: Vec<(Box<dyn Section>, bool)> = Vec::new();
        if let Some(store) = &from.sessions {
            let target = to.sessions.as_ref();
            let stores = steps::StorePair::new(store, target, observer);
            sections.push((
                Box::new(shared::SharedStates::new(stores.clone())),
                target.is_some(),
            ));
            let sessions = sessions::Sessions::new(stores, Arc::clone(&self.clock));
            sections.push((Box::new(sessions), target.is_some()));
        }
        if let Some(store) = &from.memory {
            let stores = steps::StorePair::new(store, to.memory.as_ref(), observer);
            let memories = memories::Memories::new(stores);
            sections.push((Box::new(memories), to.memory.is_some()));
        }
        if let Some(store) = &from.artifacts {
            let stores = steps::StorePair::new(store, to.artifacts.as_ref(), observer);
            let artifacts = artifacts::Artifacts::new(stores, from.sessions.clone());
            sections.push((Box::new(artifacts), to.artifacts.is_some()));
        }
        if let Some(store) = &from.keys {
            let stores = steps::StorePair::new(store, to.keys.as_ref(), observer);
            sections.push((Box::new(keys::Keys::new(stores)), to.keys.is_some()));
        }
        let mut supported = Vec::new();
        for (section, has_target) in sections {
            if has_target {
                supported.push(section);
            } else if !section.survey(Side::Source).await?.is_empty() {
                return Err(MigrationError::Unsupported {
                    what: section.name(),
                });
            }
        }
        Ok(supported)
    }
}
