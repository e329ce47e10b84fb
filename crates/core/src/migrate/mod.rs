//! Moves everything that one store keeps to another: whatever they are, for only the ports are known
//! here.
//!
//! The way of a migration: [`Migration::run`] → look at the source → compare what the target has
//! already → copy what it lacks → compare everything → look at the source again. What is to be done
//! is said once a kind: `shared`, `sessions`, `memories`, `artifacts`, `keys`, each a [`Section`].

mod artifacts;
mod compare;
mod keys;
mod memories;
mod outcome;
mod rest;
mod sessions;
mod shared;
mod steps;

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use crate::{
    artifacts::ArtifactStore,
    keys::KeyStore,
    memory::MemoryStore,
    ports::{Clock, SystemClock},
    transfer_store::TransferStore,
};
use compare::Both;
pub use outcome::{
    MigrationCounts, MigrationError, MigrationPhase, MigrationReport, MigrationSurvey,
    MigrationWatch, Unwatched,
};
use outcome::{Result, failed};
use rest::Look;

/// One end of a migration: what a store keeps, kind by kind. `None`: nothing of this kind.
#[derive(Debug, Clone, Default)]
pub struct MigrationSide {
    /// Sessions, and the keys that they share.
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
/// The source is only read, and must be at rest: that something was written to it meanwhile is an
/// error at the end. In the target nothing is overwritten. A migration that was broken off goes on
/// when it is run again.
#[derive(Debug, Clone)]
pub struct Migration {
    from: MigrationSide,
    to: MigrationSide,
    clock: Arc<dyn Clock>,
    watch: Arc<dyn MigrationWatch>,
}

/// An end of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Source,
    Target,
}

/// What is done with one kind of things.
#[async_trait]
trait Section: fmt::Debug + Send + Sync {
    /// What the things are called, in plural.
    fn name(&self) -> &'static str;

    /// Counts what an end has.
    async fn look(&self, end: End) -> Result<Look>;

    /// Counts what the target has of it already. Anything that is not in the source, or different
    /// there, is an error.
    async fn there(&self) -> Result<MigrationCounts>;

    /// Copies what the target lacks, and says what that was.
    async fn copy(&self) -> Result<MigrationCounts>;

    /// Compares everything and counts it. The first difference is an error.
    async fn verify(&self, both: &mut Both) -> Result<MigrationCounts>;
}

impl Migration {
    /// A migration of everything that `from` keeps to `to`.
    pub fn new(from: MigrationSide, to: MigrationSide) -> Migration {
        Migration {
            from,
            to,
            clock: Arc::new(SystemClock),
            watch: Arc::new(Unwatched),
        }
    }

    /// Takes the time from `clock`.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Migration {
        self.clock = clock;
        self
    }

    /// Tells `watch` how far it is.
    pub fn with_watch(mut self, watch: Arc<dyn MigrationWatch>) -> Migration {
        self.watch = watch;
        self
    }

    /// What there is to do: writes nothing. Fails where [`run`](Self::run) would before it writes.
    pub async fn survey(&self) -> Result<MigrationSurvey> {
        self.check_apart().await?;
        let sections = self.sections().await?;
        Ok(self.look_around(&sections).await?.0)
    }

    /// Copies what the target lacks, then compares both sides as wholes.
    pub async fn run(&self) -> Result<MigrationReport> {
        self.check_apart().await?;
        let sections = self.sections().await?;
        let (survey, before) = self.look_around(&sections).await?;
        let missing = survey.found.total().saturating_sub(survey.there.total());
        self.watch.begin(MigrationPhase::Copy, Some(missing));
        let mut copied = MigrationCounts::default();
        for section in &sections {
            copied += section.copy().await?;
        }
        if let Some(sessions) = &self.to.sessions {
            sessions.flush().await.map_err(failed("the target"))?;
        }
        let total = survey.found.total();
        self.watch.begin(MigrationPhase::Verify, Some(total));
        let verified = self.verify(&sections).await;
        let after = self.look(&sections).await?;
        if let Some(what) = before.moved(&after, self.clock.now_us()) {
            return Err(MigrationError::Moved { what });
        }
        let (counts, digest) = verified?;
        Ok(MigrationReport {
            counts,
            copied,
            digest,
        })
    }

    async fn verify(&self, sections: &[Box<dyn Section>]) -> Result<(MigrationCounts, String)> {
        let mut both = Both::default();
        let mut counts = MigrationCounts::default();
        for section in sections {
            counts += section.verify(&mut both).await?;
        }
        let (from, to) = both.digests();
        if from != to {
            let difference = format!("the hash of the source is {from}, that of the target {to}");
            return Err(MigrationError::mismatch("the whole", difference));
        }
        Ok((counts, from))
    }

    async fn look_around(&self, sections: &[Box<dyn Section>]) -> Result<(MigrationSurvey, Look)> {
        self.watch.begin(MigrationPhase::Survey, None);
        let before = self.look(sections).await?;
        let mut there = MigrationCounts::default();
        for section in sections {
            there += section.there().await?;
        }
        let survey = MigrationSurvey {
            found: before.counts,
            there,
        };
        Ok((survey, before))
    }

    async fn look(&self, sections: &[Box<dyn Section>]) -> Result<Look> {
        let mut all = Look::default();
        for section in sections {
            all += section.look(End::Source).await?;
        }
        Ok(all)
    }

    /// Refuses a target that is the source.
    async fn check_apart(&self) -> Result<()> {
        let (Some(from), Some(to)) = (&self.from.sessions, &self.to.sessions) else {
            return Ok(());
        };
        let from = from.identity().await.map_err(failed("the source"))?;
        let to = to.identity().await.map_err(failed("the target"))?;
        match from.is_some() && from == to {
            true => Err(MigrationError::Same),
            false => Ok(()),
        }
    }

    /// A section for each kind that the source keeps. One that the target cannot keep is an error if
    /// there is anything of it.
    async fn sections(&self) -> Result<Vec<Box<dyn Section>>> {
        let (from, to, watch) = (&self.from, &self.to, &self.watch);
        let mut sections: Vec<(Box<dyn Section>, bool)> = Vec::new();
        if let Some(store) = &from.sessions {
            let target = to.sessions.as_ref();
            let ends = steps::Ends::of(store, target, watch);
            sections.push((
                Box::new(shared::Shared::new(ends.clone())),
                target.is_some(),
            ));
            let sessions = sessions::Sessions::new(ends, Arc::clone(&self.clock));
            sections.push((Box::new(sessions), target.is_some()));
        }
        if let Some(store) = &from.memory {
            let ends = steps::Ends::of(store, to.memory.as_ref(), watch);
            let memories = memories::Memories::new(ends);
            sections.push((Box::new(memories), to.memory.is_some()));
        }
        if let Some(store) = &from.artifacts {
            let ends = steps::Ends::of(store, to.artifacts.as_ref(), watch);
            let artifacts = artifacts::Artifacts::new(ends, from.sessions.clone());
            sections.push((Box::new(artifacts), to.artifacts.is_some()));
        }
        if let Some(store) = &from.keys {
            let ends = steps::Ends::of(store, to.keys.as_ref(), watch);
            sections.push((Box::new(keys::Keys::new(ends)), to.keys.is_some()));
        }
        let mut possible = Vec::new();
        for (section, has_place) in sections {
            if has_place {
                possible.push(section);
            } else if !section.look(End::Source).await?.is_empty() {
                return Err(MigrationError::NoPlace {
                    what: section.name(),
                });
            }
        }
        Ok(possible)
    }
}
