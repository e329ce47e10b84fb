//! `ByteBudget`: one limit on the memory that all requests and caches of a process use together.
//!
//! Work reserves bytes before it allocates them, and releases them when it drops the
//! [`Reservation`]. Past the limit, caches evict first; then new work waits for a bounded time or
//! fails with [`OverBudget`]. The budget counts estimates and not allocations, so a process needs
//! some memory in addition to its limit.

mod cost;
mod meter;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Semaphore, time::timeout};

pub use cost::{event_cost, json_cost, parsed_body_cost};
pub use meter::{Meter, charge};

/// Bytes are reserved in multiples of this size, so that most growth needs no lock.
const GRANULE: usize = 4096;

/// How long new work waits for bytes before it fails.
const WAIT: Duration = Duration::from_secs(2);

/// What a reservation is for, as shown in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetUse {
    /// Bodies and results of requests.
    Requests,
    /// Pages of tails and exports.
    Streams,
    /// Sessions that runners keep between runs.
    Sessions,
    /// Indexes of memories.
    MemoryIndexes,
}

impl BudgetUse {
    /// All uses.
    pub const ALL: [BudgetUse; 4] = [
        BudgetUse::Requests,
        BudgetUse::Streams,
        BudgetUse::Sessions,
        BudgetUse::MemoryIndexes,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            BudgetUse::Requests => "requests",
            BudgetUse::Streams => "streams",
            BudgetUse::Sessions => "sessions",
            BudgetUse::MemoryIndexes => "memory_indexes",
        }
    }
}

/// The budget has too few free bytes. Try again later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not enough memory: {needed} more bytes are needed and the memory limit of {limit} bytes is \
     reached; try again later"
)]
pub struct OverBudget {
    /// Number of bytes that could not be reserved.
    pub needed: usize,
    /// The limit that was reached.
    pub limit: usize,
}

/// A cache that can release bytes. Its entries hold reservations of the budget.
pub trait EvictBytes: Send + Sync {
    /// Evicts entries until about `bytes` bytes are free or the cache is empty.
    fn evict_bytes(&self, bytes: usize);
}

/// A limit on bytes. Clones share it. The default is unlimited and counts nothing.
#[derive(Clone, Default)]
pub struct ByteBudget {
    pool: Option<Arc<Pool>>,
}

struct Pool {
    limit: usize,
    parent: Option<Arc<Pool>>,
    /// The free granules. The semaphore is fair: it serves waiting work in order.
    free: Semaphore,
    /// Granules that were reserved beyond the limit, which the next releases pay back.
    debt: Mutex<usize>,
    used: [AtomicUsize; BudgetUse::ALL.len()],
    waits: AtomicU64,
    rejections: AtomicU64,
    caches: Mutex<Vec<Weak<dyn EvictBytes>>>,
}

fn granules(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(GRANULE)).unwrap_or(u32::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for ByteBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ByteBudget");
        shown
            .field("limit", &self.limit())
            .field("used", &self.used());
        shown.finish_non_exhaustive()
    }
}

impl ByteBudget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: usize) -> ByteBudget {
        ByteBudget::with_parent(limit, None)
    }

    /// Creates a part of this budget with a limit of its own. Its reservations count in both.
    pub fn part(&self, limit: usize) -> ByteBudget {
        match &self.pool {
            Some(parent) => ByteBudget::with_parent(limit.min(parent.limit), Some(parent)),
            None => ByteBudget::default(),
        }
    }

    fn with_parent(limit: usize, parent: Option<&Arc<Pool>>) -> ByteBudget {
        ByteBudget {
            pool: Some(Arc::new(Pool {
                limit,
                parent: parent.cloned(),
                free: Semaphore::new(limit / GRANULE),
                debt: Mutex::default(),
                used: Default::default(),
                waits: AtomicU64::default(),
                rejections: AtomicU64::default(),
                caches: Mutex::default(),
            })),
        }
    }

    /// The limit; `None` if there is none.
    pub fn limit(&self) -> Option<usize> {
        self.pool.as_ref().map(|pool| pool.limit)
    }

    /// Number of reserved bytes.
    pub fn used(&self) -> usize {
        BudgetUse::ALL
            .into_iter()
            .map(|kind| self.used_for(kind))
            .sum()
    }

    /// Number of bytes reserved for one use.
    pub fn used_for(&self, kind: BudgetUse) -> usize {
        let pool = self.pool.as_ref();
        pool.map_or(0, |pool| pool.used[kind as usize].load(Ordering::Relaxed))
    }

    /// How often work had to wait for bytes, in all parts.
    pub fn waits(&self) -> u64 {
        let pool = self.pool.as_ref();
        pool.map_or(0, |pool| pool.root().waits.load(Ordering::Relaxed))
    }

    /// How often work failed because a limit was reached, in all parts.
    pub fn rejections(&self) -> u64 {
        let pool = self.pool.as_ref();
        pool.map_or(0, |pool| pool.root().rejections.load(Ordering::Relaxed))
    }

    /// Asks this cache to evict entries when other work needs bytes.
    pub fn register(&self, cache: Weak<dyn EvictBytes>) {
        for pool in self.pool.iter().flat_map(|pool| pool.chain()) {
            let mut caches = lock(&pool.caches);
            caches.retain(|cache| cache.strong_count() > 0);
            caches.push(Weak::clone(&cache));
        }
    }

    /// An empty reservation, which can grow.
    pub fn empty(&self, kind: BudgetUse) -> Reservation {
        Reservation {
            pool: self.pool.clone(),
            kind,
            granules: 0,
            bytes: 0,
        }
    }

    /// Reserves bytes, or fails immediately.
    pub fn try_reserve(&self, kind: BudgetUse, bytes: usize) -> Result<Reservation, OverBudget> {
        let mut reservation = self.empty(kind);
        reservation.try_grow(bytes)?;
        Ok(reservation)
    }

    /// Reserves bytes. Waits up to two seconds, in the order of the calls.
    pub async fn reserve(&self, kind: BudgetUse, bytes: usize) -> Result<Reservation, OverBudget> {
        let mut reservation = self.empty(kind);
        reservation.grow(bytes).await?;
        Ok(reservation)
    }
}

impl Pool {
    /// This pool and the pools that it is a part of.
    fn chain(&self) -> impl Iterator<Item = &Pool> {
        std::iter::successors(Some(self), |pool| pool.parent.as_deref())
    }

    /// The pool of the whole budget, which counts waits and rejections.
    fn root(&self) -> &Pool {
        self.chain().last().unwrap_or(self)
    }

    fn try_take(&self, count: u32, with_caches: bool) -> Result<(), OverBudget> {
        for (depth, pool) in self.chain().enumerate() {
            let is_taken = match with_caches {
                true => pool.try_take_or_evict_here(count),
                false => pool.try_take_here(count),
            };
            if !is_taken {
                self.chain()
                    .take(depth)
                    .for_each(|pool| pool.give_here(count));
                return Err(pool.over_budget(count));
            }
        }
        Ok(())
    }

    async fn take(&self, count: u32) -> Result<(), OverBudget> {
        let mut taken = Taken {
            pool: self,
            count,
            pools: 0,
        };
        for pool in self.chain() {
            if !pool.try_take_or_evict_here(count) {
                pool.wait_here(count).await?;
            }
            taken.pools += 1;
        }
        std::mem::forget(taken);
        Ok(())
    }

    async fn wait_here(&self, count: u32) -> Result<(), OverBudget> {
        // More than the limit never fits.
        if count as usize <= self.limit / GRANULE {
            self.root().waits.fetch_add(1, Ordering::Relaxed);
            if let Ok(Ok(permits)) = timeout(WAIT, self.free.acquire_many(count)).await {
                permits.forget();
                return Ok(());
            }
        }
        self.root().rejections.fetch_add(1, Ordering::Relaxed);
        Err(self.over_budget(count))
    }

    fn over_budget(&self, count: u32) -> OverBudget {
        OverBudget {
            needed: count as usize * GRANULE,
            limit: self.limit,
        }
    }

    fn try_take_here(&self, count: u32) -> bool {
        let permits = self.free.try_acquire_many(count);
        permits.map(tokio::sync::SemaphorePermit::forget).is_ok()
    }

    /// Takes granules, if necessary at the expense of caches.
    fn try_take_or_evict_here(&self, count: u32) -> bool {
        self.try_take_here(count) || (self.evict(count) && self.try_take_here(count))
    }

    fn give_here(&self, count: u32) {
        let mut debt = lock(&self.debt);
        let paid = (*debt).min(count as usize);
        *debt -= paid;
        self.free.add_permits(count as usize - paid);
    }

    /// Takes granules even if there are none left.
    fn force_here(&self, count: u32) {
        let mut debt = lock(&self.debt);
        *debt += count as usize - self.free.forget_permits(count as usize);
    }

    /// Makes room for `count` granules at the expense of caches. Returns whether there are any.
    fn evict(&self, count: u32) -> bool {
        // Evicting drops reservations of this pool, so no lock may be held.
        let caches: Vec<_> = lock(&self.caches)
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        for cache in &caches {
            let free = self.free.available_permits();
            let missing = (count as usize + *lock(&self.debt)).saturating_sub(free);
            if missing == 0 {
                break;
            }
            cache.evict_bytes(missing * GRANULE);
        }
        !caches.is_empty()
    }

    fn count(&self, kind: BudgetUse, before: usize, after: usize) {
        for pool in self.chain() {
            let used = &pool.used[kind as usize];
            used.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        }
    }
}

/// Granules that a wait has taken so far. A cancelled wait releases them.
struct Taken<'a> {
    pool: &'a Pool,
    count: u32,
    pools: usize,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let taken = self.pool.chain().take(self.pools);
        taken.for_each(|pool| pool.give_here(self.count));
    }
}

/// Bytes of a [`ByteBudget`], released on drop.
pub struct Reservation {
    pool: Option<Arc<Pool>>,
    kind: BudgetUse,
    granules: u32,
    bytes: usize,
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Reservation");
        shown.field("kind", &self.kind).field("bytes", &self.bytes);
        shown.finish_non_exhaustive()
    }
}

impl Reservation {
    /// Number of reserved bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Grows by `bytes`, or fails immediately and stays as it is.
    pub fn try_grow(&mut self, bytes: usize) -> Result<(), OverBudget> {
        let more = self.missing(bytes);
        if let Some(pool) = self.pool.as_ref().filter(|_| more > 0) {
            pool.try_take(more, true).inspect_err(|_| {
                pool.root().rejections.fetch_add(1, Ordering::Relaxed);
            })?;
        }
        self.add(bytes, more);
        Ok(())
    }

    /// Like [`try_grow`](Self::try_grow) for a cache, which must not evict other caches.
    pub fn try_grow_cache(&mut self, bytes: usize) -> Result<(), OverBudget> {
        let more = self.missing(bytes);
        if let Some(pool) = self.pool.as_ref().filter(|_| more > 0) {
            pool.try_take(more, false)?;
        }
        self.add(bytes, more);
        Ok(())
    }

    /// Grows by `bytes`. Waits up to two seconds; stays as it is if it fails or is cancelled.
    pub async fn grow(&mut self, bytes: usize) -> Result<(), OverBudget> {
        let more = self.missing(bytes);
        if let Some(pool) = self.pool.as_ref().filter(|_| more > 0) {
            pool.take(more).await?;
        }
        self.add(bytes, more);
        Ok(())
    }

    /// Grows by `bytes` even beyond the limit, for work that must not fail any more. Other work
    /// waits until the budget is below its limit again.
    pub fn force_grow(&mut self, bytes: usize) {
        let more = self.missing(bytes);
        if let Some(pool) = self.pool.as_ref().filter(|_| more > 0)
            && pool.try_take(more, true).is_err()
        {
            pool.chain().for_each(|pool| pool.force_here(more));
        }
        self.add(bytes, more);
    }

    /// Adds another reservation of the same budget to this one.
    pub fn merge(&mut self, mut other: Reservation) {
        let granules = std::mem::take(&mut other.granules);
        self.granules = self.granules.saturating_add(granules);
        self.bytes = self.bytes.saturating_add(std::mem::take(&mut other.bytes));
    }

    /// Releases all but `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        let kept = granules(bytes).min(self.granules);
        if let Some(pool) = &self.pool {
            let released = self.granules - kept;
            pool.chain().for_each(|pool| pool.give_here(released));
            pool.count(self.kind, self.bytes, bytes);
        }
        (self.granules, self.bytes) = (kept, bytes);
    }

    /// Number of granules that growth by `bytes` needs.
    fn missing(&self, bytes: usize) -> u32 {
        granules(self.bytes.saturating_add(bytes)).saturating_sub(self.granules)
    }

    fn add(&mut self, bytes: usize, granules: u32) {
        let after = self.bytes.saturating_add(bytes);
        if let Some(pool) = &self.pool {
            pool.count(self.kind, self.bytes, after);
        }
        self.granules += granules;
        self.bytes = after;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests;
