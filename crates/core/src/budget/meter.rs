//! `Meter`: counts the bytes of one request against the budget, wherever they are allocated.
//!
//! The traits of services are ADK's and have no parameter for it, so the meter of a request is a
//! task-local value. Code without a meter, such as background work, is not limited.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{BudgetUse, ByteBudget, OverBudget, Reservation, lock};

tokio::task_local! {
    static CURRENT: Meter;
}

/// Counts the bytes of one request. Clones count together, and release all bytes when the last one
/// is dropped.
#[derive(Clone)]
pub struct Meter(Arc<Shared>);

struct Shared {
    budget: ByteBudget,
    kind: BudgetUse,
    charges: Mutex<Charges>,
    /// Whether the work must not fail any more.
    is_admitted: AtomicBool,
    /// Whether a charge has failed.
    is_refused: AtomicBool,
}

struct Charges {
    reservation: Reservation,
    /// The charged bytes; the reservation may be larger.
    charged: usize,
    /// Reservations of others that the request shares, such as those of cached sessions.
    held: Vec<Arc<Reservation>>,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Meter({} bytes)", self.charged())
    }
}

/// Charges bytes to the current request; without one, does nothing.
pub fn charge(bytes: usize) -> Result<(), OverBudget> {
    let charged = CURRENT.try_with(|meter| meter.charge(bytes));
    charged.unwrap_or(Ok(()))
}

impl Meter {
    /// Creates a meter that counts against `budget`.
    pub fn new(budget: &ByteBudget, kind: BudgetUse) -> Meter {
        Meter(Arc::new(Shared {
            budget: budget.clone(),
            kind,
            charges: Mutex::new(Charges {
                reservation: budget.empty(kind),
                charged: 0,
                held: Vec::new(),
            }),
            is_admitted: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
        }))
    }

    /// An empty meter with the same budget.
    pub fn renew(&self) -> Meter {
        Meter::new(&self.0.budget, self.0.kind)
    }

    /// The meter of the current request.
    pub fn current() -> Option<Meter> {
        CURRENT.try_with(Meter::clone).ok()
    }

    /// A new meter with the budget of the current request; one without a limit if there is none.
    pub fn part(kind: BudgetUse) -> Meter {
        let budget = CURRENT.try_with(|meter| meter.0.budget.clone());
        Meter::new(&budget.unwrap_or_default(), kind)
    }

    /// Runs `work` with this meter as that of the current request.
    pub async fn scope<F: Future>(&self, work: F) -> F::Output {
        CURRENT.scope(self.clone(), work).await
    }

    /// Like [`scope`](Self::scope), for work on another thread.
    pub fn sync_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.clone(), work)
    }

    /// Number of bytes charged so far.
    pub fn charged(&self) -> usize {
        lock(&self.0.charges).charged
    }

    /// Charges bytes, or fails immediately. The request is then refused.
    pub fn charge(&self, bytes: usize) -> Result<(), OverBudget> {
        let charged = self.try_charge(bytes);
        charged.inspect_err(|_| self.0.is_refused.store(true, Ordering::Relaxed))
    }

    /// Like [`charge`](Self::charge), for a caller that can wait instead.
    pub fn try_charge(&self, bytes: usize) -> Result<(), OverBudget> {
        let mut charges = lock(&self.0.charges);
        let after = charges.charged.saturating_add(bytes);
        let more = after.saturating_sub(charges.reservation.bytes());
        match self.0.is_admitted.load(Ordering::Relaxed) {
            true => charges.reservation.force_grow(more),
            false => charges.reservation.try_grow(more)?,
        }
        charges.charged = after;
        Ok(())
    }

    /// Charges bytes. Waits up to two seconds for them, unless the work was admitted.
    pub async fn reserve(&self, bytes: usize) -> Result<(), OverBudget> {
        if self.0.is_admitted.load(Ordering::Relaxed) {
            return self.try_charge(bytes);
        }
        self.prepay(bytes).await?;
        lock(&self.0.charges).charged += bytes;
        Ok(())
    }

    /// Reserves bytes for later charges. Waits up to two seconds for them.
    pub async fn prepay(&self, bytes: usize) -> Result<(), OverBudget> {
        // Not on the meter's own reservation: its lock must not be held during the wait.
        let mut more = self.0.budget.empty(self.0.kind);
        let grown = more.grow(bytes).await;
        grown.inspect_err(|_| self.0.is_refused.store(true, Ordering::Relaxed))?;
        lock(&self.0.charges).reservation.merge(more);
        Ok(())
    }

    /// Releases prepaid bytes that were not charged.
    pub fn settle(&self) {
        let mut charges = lock(&self.0.charges);
        let charged = charges.charged;
        charges.reservation.shrink_to(charged);
    }

    /// Shares a reservation of somebody else until this request ends.
    pub fn hold(&self, reservation: Arc<Reservation>) {
        lock(&self.0.charges).held.push(reservation);
    }

    /// Lets all further charges succeed: the work has begun and must not fail.
    pub fn admit(&self) {
        self.0.is_admitted.store(true, Ordering::Relaxed);
    }

    /// Whether a charge has failed.
    pub fn is_refused(&self) -> bool {
        self.0.is_refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KB: usize = 1024;

    #[tokio::test]
    async fn charges_of_a_request_are_released_with_its_last_meter() {
        let budget = ByteBudget::new(64 * KB);
        let meter = Meter::new(&budget, BudgetUse::Requests);
        let on_thread = meter.clone();
        let charged = meter.scope(async move {
            charge(16 * KB).unwrap();
            let current = Meter::current().unwrap();
            let thread = std::thread::spawn(move || current.sync_scope(|| charge(16 * KB)));
            thread.join().unwrap().unwrap();
            charge(64 * KB)
        });
        charged.await.unwrap_err();
        assert!(meter.is_refused());
        assert_eq!((on_thread.charged(), budget.used()), (32 * KB, 32 * KB));
        drop(meter);
        assert_eq!(budget.used(), 32 * KB);
        drop(on_thread);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn admitted_request_is_never_refused() {
        let budget = ByteBudget::new(64 * KB);
        let meter = Meter::new(&budget, BudgetUse::Requests);
        meter.admit();
        meter.charge(100 * KB).unwrap();
        assert_eq!(budget.used(), 100 * KB);
        assert!(budget.try_reserve(BudgetUse::Requests, 1).is_err());
        drop(meter);
        assert!(budget.try_reserve(BudgetUse::Requests, 64 * KB).is_ok());
    }

    #[tokio::test]
    async fn prepaid_bytes_are_used_first_and_the_rest_is_released() {
        let budget = ByteBudget::new(64 * KB);
        let meter = Meter::new(&budget, BudgetUse::Streams);
        meter.prepay(32 * KB).await.unwrap();
        meter.charge(8 * KB).unwrap();
        assert_eq!((meter.charged(), budget.used()), (8 * KB, 32 * KB));
        meter.settle();
        assert_eq!(budget.used(), 8 * KB);
        let page = meter.scope(async { Meter::part(BudgetUse::Streams) }).await;
        page.reserve(56 * KB).await.unwrap();
        assert!(
            meter.charge(4 * KB).is_err(),
            "both count against one budget"
        );
    }

    #[test]
    fn charge_without_a_request_succeeds() {
        charge(usize::MAX).unwrap();
        Meter::part(BudgetUse::Streams)
            .charge(usize::MAX / 2)
            .unwrap();
    }
}
