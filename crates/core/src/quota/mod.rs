//! Quotas: how much an app and each of its users may store.
//!
//! A service reserves room for a write with the `meter`. Only the store knows which events of a
//! batch are new, so if the whole batch might not fit, the store checks what it adds against the
//! reserved room.

mod count;
mod meter;

use std::{
    fmt,
    ops::{Add, AddAssign, Sub},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

pub(crate) use count::{count_log_bytes, count_usage};
pub use meter::{QuotaMeter, QuotaReservation};

use crate::{store::NewEvent, transfer_store::StateOwner};

/// The kinds of data that have a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuotaKind {
    /// Sessions that have not expired.
    Sessions,
    /// Events of these sessions.
    Events,
    /// Bytes of these events as JSON.
    EventBytes,
    /// Bytes of all versions of artifacts.
    ArtifactBytes,
    /// Memories.
    Memories,
}

impl QuotaKind {
    /// All kinds.
    pub const ALL: [QuotaKind; 5] = [
        QuotaKind::Sessions,
        QuotaKind::Events,
        QuotaKind::EventBytes,
        QuotaKind::ArtifactBytes,
        QuotaKind::Memories,
    ];

    /// Returns its name, e.g. `event-bytes`.
    pub fn as_str(self) -> &'static str {
        match self {
            QuotaKind::Sessions => "sessions",
            QuotaKind::Events => "events",
            QuotaKind::EventBytes => "event-bytes",
            QuotaKind::ArtifactBytes => "artifact-bytes",
            QuotaKind::Memories => "memories",
        }
    }

    /// Whether it counts bytes, not records.
    pub fn is_bytes(self) -> bool {
        matches!(self, QuotaKind::EventBytes | QuotaKind::ArtifactBytes)
    }
}

/// Whose data a quota limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuotaScope {
    /// Each user of each app.
    User,
    /// Each app.
    App,
}

impl QuotaScope {
    /// Both scopes.
    pub const ALL: [QuotaScope; 2] = [QuotaScope::User, QuotaScope::App];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            QuotaScope::User => "user",
            QuotaScope::App => "app",
        }
    }
}

/// Amounts of data by kind: what an app or a user has stored, or how much it may store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Number of sessions that have not expired.
    pub sessions: u64,
    /// Number of their events.
    pub events: u64,
    /// Bytes of their events as JSON.
    pub event_bytes: u64,
    /// Bytes of all versions of artifacts, as the store keeps them.
    pub artifact_bytes: u64,
    /// Number of memories.
    pub memories: u64,
}

impl Usage {
    /// Sets the number of sessions.
    pub fn with_sessions(mut self, sessions: u64) -> Usage {
        self.sessions = sessions;
        self
    }

    /// Sets the number of events.
    pub fn with_events(mut self, events: u64) -> Usage {
        self.events = events;
        self
    }

    /// Sets the bytes of events.
    pub fn with_event_bytes(mut self, bytes: u64) -> Usage {
        self.event_bytes = bytes;
        self
    }

    /// Sets the bytes of artifacts.
    pub fn with_artifact_bytes(mut self, bytes: u64) -> Usage {
        self.artifact_bytes = bytes;
        self
    }

    /// Sets the number of memories.
    pub fn with_memories(mut self, memories: u64) -> Usage {
        self.memories = memories;
        self
    }

    /// Returns the amount of one kind.
    pub fn get(&self, kind: QuotaKind) -> u64 {
        match kind {
            QuotaKind::Sessions => self.sessions,
            QuotaKind::Events => self.events,
            QuotaKind::EventBytes => self.event_bytes,
            QuotaKind::ArtifactBytes => self.artifact_bytes,
            QuotaKind::Memories => self.memories,
        }
    }

    /// Combines the amounts of two values, kind by kind.
    fn zip_with(self, other: Usage, combine: fn(u64, u64) -> u64) -> Usage {
        Usage {
            sessions: combine(self.sessions, other.sessions),
            events: combine(self.events, other.events),
            event_bytes: combine(self.event_bytes, other.event_bytes),
            artifact_bytes: combine(self.artifact_bytes, other.artifact_bytes),
            memories: combine(self.memories, other.memories),
        }
    }

    /// Returns what these events add to a log.
    pub(crate) fn of_events<'a>(events: impl IntoIterator<Item = &'a NewEvent>) -> Usage {
        let mut usage = Usage::default();
        for new in events {
            usage.events += 1;
            usage.event_bytes += new.body.len() as u64;
        }
        usage
    }
}

impl Add for Usage {
    type Output = Usage;

    fn add(self, more: Usage) -> Usage {
        self.zip_with(more, u64::saturating_add)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Usage) {
        *self = *self + more;
    }
}

/// Saturates at zero.
impl Sub for Usage {
    type Output = Usage;

    fn sub(self, less: Usage) -> Usage {
        self.zip_with(less, u64::saturating_sub)
    }
}

/// How much every user and every app may store. Zero means unlimited.
///
/// Give clones of one value to the services of sessions, memories and artifacts: they share the
/// number of rejections.
///
/// ```
/// use retain_core::{Quotas, Usage};
/// let quotas = Quotas::default().with_user(Usage::default().with_sessions(100));
/// assert_eq!(quotas.user().sessions, 100);
/// assert_eq!(quotas.app().sessions, 0);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Quotas {
    user: Usage,
    app: Usage,
    rejections: Arc<[[AtomicU64; QuotaKind::ALL.len()]; QuotaScope::ALL.len()]>,
}

impl Quotas {
    /// Sets the quotas of each user. For memories, use
    /// [`MemoryLimits::entries`](crate::MemoryLimits::entries).
    pub fn with_user(mut self, limits: Usage) -> Quotas {
        self.user = limits;
        self
    }

    /// Sets the quotas of each app.
    pub fn with_app(mut self, limits: Usage) -> Quotas {
        self.app = limits;
        self
    }

    /// Returns the quotas of each user.
    pub fn user(&self) -> Usage {
        self.user
    }

    /// Returns the quotas of each app.
    pub fn app(&self) -> Usage {
        self.app
    }

    /// Returns the quotas of a scope.
    pub fn limits(&self, scope: QuotaScope) -> Usage {
        match scope {
            QuotaScope::User => self.user,
            QuotaScope::App => self.app,
        }
    }

    /// Whether there is no quota of these kinds.
    pub fn are_unlimited(&self, kinds: &[QuotaKind]) -> bool {
        let limits = self.user + self.app;
        kinds.iter().all(|kind| limits.get(*kind) == 0)
    }

    /// Counts a rejected write, for the metrics.
    pub fn count_rejection(&self, rejected: &QuotaExceeded) {
        let count = &self.rejections[rejected.scope() as usize][rejected.kind as usize];
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of rejected writes by quota, since these quotas were created.
    pub fn rejections(&self) -> impl Iterator<Item = (QuotaScope, QuotaKind, u64)> + '_ {
        QuotaScope::ALL.into_iter().flat_map(move |scope| {
            let count = move |kind: QuotaKind| {
                let count = &self.rejections[scope as usize][kind as usize];
                (scope, kind, count.load(Ordering::Relaxed))
            };
            QuotaKind::ALL.into_iter().map(count)
        })
    }
}

/// A write that does not fit a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotaExceeded {
    /// What the quota limits.
    pub kind: QuotaKind,
    /// Whose quota it is.
    pub owner: StateOwner,
    /// The quota.
    pub limit: u64,
    /// What the owner had stored or was about to store before this write.
    pub used: u64,
}

impl QuotaExceeded {
    /// Creates the error for an owner that uses `used` of `limit`.
    pub fn new(kind: QuotaKind, owner: StateOwner, limit: u64, used: u64) -> QuotaExceeded {
        QuotaExceeded {
            kind,
            owner,
            limit,
            used,
        }
    }

    /// Whether the quota is one of the user or of the app.
    pub fn scope(&self) -> QuotaScope {
        match self.owner.user {
            Some(_) => QuotaScope::User,
            None => QuotaScope::App,
        }
    }

    /// Returns the name of the quota: the option that sets it, e.g. `max-events-per-user`.
    pub fn name(&self) -> String {
        format!("max-{}-per-{}", self.kind.as_str(), self.scope().as_str())
    }
}

impl fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.as_str().replace('-', " ");
        let (owner, used, limit, name) = (&self.owner, self.used, self.limit, self.name());
        write!(
            f,
            "quota exceeded: {owner} uses {used} of {limit} {kind}, and the request does not fit \
             ({name}); delete data or raise the quota"
        )
    }
}

impl std::error::Error for QuotaExceeded {}

/// The room that is left under a quota for a batch that may be larger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaRoom {
    /// How much the batch may add at most.
    pub left: u64,
    /// The error if it adds more.
    pub exceeded: QuotaExceeded,
}

/// Fails if `added` does not fit into one of the rooms.
pub fn check_rooms(rooms: &[QuotaRoom], added: Usage) -> Result<(), QuotaExceeded> {
    let full = rooms
        .iter()
        .find(|room| added.get(room.exceeded.kind) > room.left);
    full.map_or(Ok(()), |room| Err(room.exceeded.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_the_quota_its_limit_and_the_use() {
        let owner = StateOwner::user("shop", "ada");
        let error = QuotaExceeded::new(QuotaKind::EventBytes, owner, 1000, 990);
        assert_eq!(
            error.to_string(),
            "quota exceeded: user \"ada\" of app \"shop\" uses 990 of 1000 event bytes, and the \
             request does not fit (max-event-bytes-per-user); delete data or raise the quota"
        );
        let error = QuotaExceeded::new(QuotaKind::Sessions, StateOwner::app("shop"), 5, 5);
        assert_eq!(error.name(), "max-sessions-per-app");
    }

    #[test]
    fn rejections_are_counted_by_quota_and_shared_by_clones() {
        let quotas = Quotas::default();
        let owner = StateOwner::app("shop");
        let error = QuotaExceeded::new(QuotaKind::Events, owner, 1, 1);
        quotas.clone().count_rejection(&error);
        let counted = quotas.rejections().filter(|(_, _, count)| *count > 0);
        let counted: Vec<_> = counted.collect();
        assert_eq!(counted, [(QuotaScope::App, QuotaKind::Events, 1)]);
    }
}
