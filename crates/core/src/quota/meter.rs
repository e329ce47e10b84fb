//! `QuotaMeter`: counts what apps and users have stored, so that a check needs no query.
//!
//! The first write of an owner loads the use from the store. Writes of this process are counted
//! at once; those of other processes are seen by the next load. A load may overlap with writes of
//! this process: it then counts them twice until the next load, and never misses one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{QuotaExceeded, QuotaKind, QuotaRoom, QuotaScope, Quotas, Usage};
use crate::{ports::Clock, transfer_store::StateOwner};

/// How long a loaded use is current. Until then, writes of other processes are not counted.
const RELOAD_US: i64 = 2_000_000;

/// A use is loaded again after this many times the duration of the last load, so that loads take
/// at most 5 % of the time.
const LOAD_SHARE: i64 = 20;

/// Number of owners from which on those that must be loaded again are dropped.
const OWNERS_MIN: usize = 1024;

/// The use of each owner that wrote lately, against its quotas.
#[derive(Debug)]
pub struct QuotaMeter {
    quotas: Quotas,
    owners: Mutex<Owners>,
}

#[derive(Debug, Default)]
struct Owners {
    meters: HashMap<StateOwner, Arc<OwnerMeter>>,
    /// Number of owners at which the next cleanup runs.
    clean_at: usize,
}

/// The use of one app or user.
#[derive(Debug, Default)]
struct OwnerMeter {
    counts: Mutex<Counts>,
    /// Held while the use is loaded, so that one load serves all that wait for it.
    loading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Counts {
    /// What is stored, as far as this process knows.
    used: Usage,
    /// What writes in progress may add.
    reserved: Usage,
    /// What this process has added in total.
    added: Usage,
    /// When to load again; `None` before the first load.
    reload_us: Option<i64>,
    /// Number of deletions by this process.
    deletions: u64,
    /// The value of `deletions` at the last load.
    deletions_loaded: u64,
}

/// Whether an owner's use must be loaded.
#[derive(Debug, PartialEq, Eq)]
enum Freshness {
    Current,
    Outdated,
    Unknown,
}

impl QuotaMeter {
    /// Creates a meter of the quotas; `None` if there is no quota of these kinds.
    pub fn new(quotas: &Quotas, kinds: &[QuotaKind]) -> Option<Arc<QuotaMeter>> {
        let meter = || QuotaMeter {
            quotas: quotas.clone(),
            owners: Mutex::default(),
        };
        (!quotas.are_unlimited(kinds)).then(|| Arc::new(meter()))
    }

    /// Returns the quotas.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Reserves room for `wanted` under the quotas of the user and of the app, or as much as is
    /// left. `load` returns the use of the user, or of the app if it gets `None`.
    pub async fn reserve<'a, E: Send, F>(
        &self,
        clock: &dyn Clock,
        app: &'a str,
        user: &'a str,
        wanted: Usage,
        load: impl Fn(Option<&'a str>) -> F + Send + Sync,
    ) -> Result<QuotaReservation, E>
    where
        F: Future<Output = Result<Usage, E>> + Send,
    {
        let mut reservation = QuotaReservation::default();
        for scope in QuotaScope::ALL {
            let limits = self.quotas.limits(scope);
            let is_limited = |kind: &QuotaKind| limits.get(*kind) > 0 && wanted.get(*kind) > 0;
            if !QuotaKind::ALL.iter().any(is_limited) {
                continue;
            }
            let user = (scope == QuotaScope::User).then_some(user);
            let owner = StateOwner {
                app: app.to_owned(),
                user: user.map(str::to_owned),
            };
            let meter = self.owner(&owner, clock.now_us());
            meter.refresh(clock, || load(user)).await?;
            let mut rooms = meter.take(limits, wanted, &owner, &mut reservation);
            if !rooms.is_empty() && meter.has_deletions() {
                // Something was deleted since the load, so the use may be lower.
                reservation.give_back_last();
                meter.load_deletions(clock, || load(user)).await?;
                rooms = meter.take(limits, wanted, &owner, &mut reservation);
            }
            reservation.rooms.extend(rooms);
        }
        Ok(reservation)
    }

    /// Records that data of a user was deleted.
    pub fn record_deletion(&self, app: &str, user: &str) {
        let owners = self.owners();
        for owner in [StateOwner::user(app, user), StateOwner::app(app)] {
            if let Some(meter) = owners.meters.get(&owner) {
                meter.counts().deletions += 1;
            }
        }
    }

    /// Records that data of any user may have been deleted.
    pub fn record_deletions(&self) {
        for meter in self.owners().meters.values() {
            meter.counts().deletions += 1;
        }
    }

    fn owner(&self, owner: &StateOwner, now_us: i64) -> Arc<OwnerMeter> {
        let mut owners = self.owners();
        if let Some(meter) = owners.meters.get(owner) {
            return Arc::clone(meter);
        }
        if owners.meters.len() >= owners.clean_at.max(OWNERS_MIN) {
            let is_kept = |meter: &Arc<OwnerMeter>| {
                Arc::strong_count(meter) > 1 || meter.freshness(now_us) == Freshness::Current
            };
            owners.meters.retain(|_, meter| is_kept(meter));
            owners.clean_at = 2 * owners.meters.len();
        }
        let meter = Arc::<OwnerMeter>::default();
        owners.meters.insert(owner.clone(), Arc::clone(&meter));
        meter
    }

    fn owners(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OwnerMeter {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn freshness(&self, now_us: i64) -> Freshness {
        match self.counts().reload_us {
            None => Freshness::Unknown,
            Some(reload_us) if now_us < reload_us => Freshness::Current,
            Some(_) => Freshness::Outdated,
        }
    }

    fn has_deletions(&self) -> bool {
        let counts = self.counts();
        counts.deletions != counts.deletions_loaded
    }

    /// Loads the use if it is unknown or outdated. While one caller loads an outdated use, the
    /// others take it as it is.
    async fn refresh<E, F: Future<Output = Result<Usage, E>>>(
        &self,
        clock: &dyn Clock,
        load: impl FnOnce() -> F,
    ) -> Result<(), E> {
        match self.freshness(clock.now_us()) {
            Freshness::Current => Ok(()),
            Freshness::Outdated => match self.loading.try_lock() {
                Ok(_loading) => self.load(clock, load).await,
                Err(_) => Ok(()),
            },
            Freshness::Unknown => {
                let _loading = self.loading.lock().await;
                match self.freshness(clock.now_us()) {
                    Freshness::Unknown => self.load(clock, load).await,
                    _ => Ok(()),
                }
            }
        }
    }

    /// Loads the use unless another caller has loaded it since the last deletion.
    async fn load_deletions<E, F: Future<Output = Result<Usage, E>>>(
        &self,
        clock: &dyn Clock,
        load: impl FnOnce() -> F,
    ) -> Result<(), E> {
        let _loading = self.loading.lock().await;
        match self.has_deletions() {
            true => self.load(clock, load).await,
            false => Ok(()),
        }
    }

    async fn load<E, F: Future<Output = Result<Usage, E>>>(
        &self,
        clock: &dyn Clock,
        load: impl FnOnce() -> F,
    ) -> Result<(), E> {
        let (added, deletions) = {
            let counts = self.counts();
            (counts.added, counts.deletions)
        };
        let begun_us = clock.now_us();
        let loaded = load().await?;
        let now_us = clock.now_us();
        let pause_us = now_us.saturating_sub(begun_us).saturating_mul(LOAD_SHARE);
        let mut counts = self.counts();
        // What was added during the load may not be in it.
        counts.used = loaded + (counts.added - added);
        counts.reload_us = Some(now_us.saturating_add(pause_us.max(RELOAD_US)));
        counts.deletions_loaded = deletions;
        Ok(())
    }

    /// Reserves as much of `wanted` as the limits leave, and returns the kinds of which that is
    /// not all.
    fn take(
        self: &Arc<Self>,
        limits: Usage,
        wanted: Usage,
        owner: &StateOwner,
        reservation: &mut QuotaReservation,
    ) -> Vec<QuotaRoom> {
        let mut counts = self.counts();
        let taken = counts.used + counts.reserved;
        let room = |limit: u64, taken: u64| match limit {
            0 => u64::MAX,
            limit => limit.saturating_sub(taken),
        };
        let left = limits.zip_with(taken, room);
        let granted = left.zip_with(wanted, u64::min);
        let short = QuotaKind::ALL.into_iter();
        let short = short.filter(|kind| granted.get(*kind) < wanted.get(*kind));
        let rooms = short.map(|kind| QuotaRoom {
            left: granted.get(kind),
            exceeded: QuotaExceeded::new(kind, owner.clone(), limits.get(kind), taken.get(kind)),
        });
        counts.reserved += granted;
        reservation.parts.push((Arc::clone(self), granted));
        rooms.collect()
    }

    /// Ends a reservation of `granted`, of which `added` was stored.
    fn settle(&self, granted: Usage, added: Usage) {
        let mut counts = self.counts();
        counts.reserved = counts.reserved - granted;
        counts.used += added;
        counts.added += added;
    }
}

/// Reserved room. Dropping it gives the room back, unless the write was begun.
#[derive(Debug, Default)]
pub struct QuotaReservation {
    parts: Vec<(Arc<OwnerMeter>, Usage)>,
    rooms: Vec<QuotaRoom>,
    is_begun: bool,
}

impl QuotaReservation {
    /// Returns the quotas under which less was reserved than wanted.
    pub fn rooms(&self) -> &[QuotaRoom] {
        &self.rooms
    }

    /// Fails if less was reserved than wanted.
    pub fn require_all(&self) -> Result<(), QuotaExceeded> {
        match self.rooms.first() {
            None => Ok(()),
            Some(room) => Err(room.exceeded.clone()),
        }
    }

    /// Records that the write begins. If the reservation is dropped after this, because the store
    /// failed or the caller was cancelled, all of it counts as stored until the next load.
    pub fn begin_write(&mut self) {
        self.is_begun = true;
    }

    /// Ends the reservation: `added` was stored.
    pub fn settle(mut self, added: Usage) {
        for (meter, granted) in self.parts.drain(..) {
            meter.settle(granted, added);
        }
    }

    fn give_back_last(&mut self) {
        if let Some((meter, granted)) = self.parts.pop() {
            meter.settle(granted, Usage::default());
        }
    }
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        for (meter, granted) in self.parts.drain(..) {
            let added = match self.is_begun {
                true => granted,
                false => Usage::default(),
            };
            meter.settle(granted, added);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicI64, AtomicU64, Ordering},
    };

    use super::*;

    #[derive(Debug, Default)]
    struct ManualClock(AtomicI64);

    impl Clock for ManualClock {
        fn now_us(&self) -> i64 {
            self.0.load(Ordering::SeqCst)
        }
    }

    /// A meter with a quota of 10 events per user, and a store with a number of events.
    struct Fixture {
        meter: Arc<QuotaMeter>,
        clock: ManualClock,
        stored: AtomicU64,
        loads: AtomicU64,
    }

    impl Fixture {
        fn new(stored: u64) -> Fixture {
            let quotas = Quotas::default().with_user(events(10));
            Fixture {
                meter: QuotaMeter::new(&quotas, &[QuotaKind::Events]).unwrap(),
                clock: ManualClock::default(),
                stored: AtomicU64::new(stored),
                loads: AtomicU64::default(),
            }
        }

        async fn reserve(&self, wanted: u64) -> QuotaReservation {
            let load = |_: Option<&str>| async {
                self.loads.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Infallible>(events(self.stored.load(Ordering::SeqCst)))
            };
            let reserved = self
                .meter
                .reserve(&self.clock, "a", "u", events(wanted), load);
            reserved.await.unwrap()
        }

        fn loads(&self) -> u64 {
            self.loads.load(Ordering::SeqCst)
        }
    }

    fn events(events: u64) -> Usage {
        Usage::default().with_events(events)
    }

    #[test]
    fn meter_exists_only_with_a_quota_of_its_kinds() {
        let quotas = Quotas::default().with_app(events(1));
        assert!(QuotaMeter::new(&quotas, &[QuotaKind::Memories]).is_none());
        assert!(QuotaMeter::new(&quotas, &[QuotaKind::Memories, QuotaKind::Events]).is_some());
    }

    #[tokio::test]
    async fn concurrent_reservations_share_the_room() {
        let fixture = Fixture::new(7);
        let first = fixture.reserve(2).await;
        assert!(first.require_all().is_ok());
        let second = fixture.reserve(2).await;
        let refused = second.require_all().unwrap_err();
        assert_eq!((refused.used, refused.limit), (9, 10));
        assert_eq!(second.rooms()[0].left, 1);
        drop(first);
        drop(second);
        assert!(fixture.reserve(3).await.require_all().is_ok());
        assert_eq!(fixture.loads(), 1);
    }

    #[tokio::test]
    async fn stored_amount_counts_and_an_unknown_outcome_counts_in_full() {
        let fixture = Fixture::new(0);
        let reservation = fixture.reserve(6).await;
        reservation.settle(events(2));
        let mut unknown = fixture.reserve(4).await;
        unknown.begin_write();
        drop(unknown);
        assert_eq!(fixture.reserve(9).await.rooms()[0].left, 4);
        // The next load tells what was stored.
        fixture.stored.store(2, Ordering::SeqCst);
        fixture.clock.0.fetch_add(RELOAD_US, Ordering::SeqCst);
        assert_eq!(fixture.reserve(9).await.rooms()[0].left, 8);
    }

    #[tokio::test]
    async fn deletion_is_seen_before_a_refusal_and_costs_nothing_otherwise() {
        let fixture = Fixture::new(10);
        assert!(fixture.reserve(1).await.require_all().is_err());
        fixture.stored.store(5, Ordering::SeqCst);
        assert!(fixture.reserve(1).await.require_all().is_err());
        fixture.meter.record_deletion("a", "u");
        assert!(fixture.reserve(1).await.require_all().is_ok());
        fixture.meter.record_deletion("a", "u");
        assert!(fixture.reserve(1).await.require_all().is_ok());
        assert_eq!(fixture.loads(), 2);
    }

    #[tokio::test]
    async fn owners_that_stopped_writing_are_dropped() {
        let fixture = Fixture::new(0);
        let load = |_: Option<&str>| async { Ok::<_, Infallible>(Usage::default()) };
        for number in 0..3 * OWNERS_MIN {
            fixture.clock.0.fetch_add(RELOAD_US / 10, Ordering::SeqCst);
            let user = format!("user{number}");
            let reserved = fixture
                .meter
                .reserve(&fixture.clock, "a", &user, events(1), load);
            drop(reserved.await);
        }
        assert!(fixture.meter.owners().meters.len() <= OWNERS_MIN);
    }
}
