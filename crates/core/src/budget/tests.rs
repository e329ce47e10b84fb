//! Tests of the byte budget.

use super::*;

const KB: usize = 1024;
const USE: BudgetUse = BudgetUse::Requests;

#[test]
fn reservations_are_released_on_drop_and_never_exceed_the_limit() {
    let budget = ByteBudget::new(64 * KB);
    let mut first = budget.try_reserve(USE, 40 * KB).unwrap();
    let refused = budget.try_reserve(USE, 40 * KB).unwrap_err();
    assert_eq!((refused.needed, refused.limit), (40 * KB, 64 * KB));
    assert_eq!((budget.used(), budget.rejections()), (40 * KB, 1));
    first.shrink_to(10 * KB);
    let second = budget.try_reserve(BudgetUse::Streams, 40 * KB).unwrap();
    first.try_grow(2 * KB).unwrap();
    let used = [USE, BudgetUse::Streams].map(|kind| budget.used_for(kind));
    assert_eq!(used, [12 * KB, 40 * KB]);
    drop((first, second));
    assert_eq!(budget.used(), 0);
    budget.try_reserve(USE, 64 * KB).unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_work_is_served_in_order() {
    let budget = ByteBudget::new(64 * KB);
    let held = budget.try_reserve(USE, 64 * KB).unwrap();
    let (send, mut served) = tokio::sync::mpsc::unbounded_channel();
    for (number, kilobytes) in [(1, 60), (2, 4), (3, 60)] {
        let (budget, send) = (budget.clone(), send.clone());
        tokio::spawn(async move {
            let reserved = budget.reserve(USE, kilobytes * KB).await;
            send.send((number, reserved)).unwrap();
        });
        tokio::task::yield_now().await;
    }
    assert!(served.try_recv().is_err());
    // The small reservations would fit, but the first one comes first.
    drop(held);
    let (first, reserved) = served.recv().await.unwrap();
    let (second, _also_reserved) = served.recv().await.unwrap();
    assert_eq!((first, second, budget.waits()), (1, 2, 3));
    drop(reserved);
    assert_eq!(served.recv().await.unwrap().0, 3);
}

#[tokio::test(start_paused = true)]
async fn wait_ends_with_an_error_after_its_time_limit() {
    let budget = ByteBudget::new(64 * KB);
    let held = budget.try_reserve(USE, 60 * KB).unwrap();
    let start = tokio::time::Instant::now();
    budget.reserve(USE, 8 * KB).await.unwrap_err();
    assert_eq!(start.elapsed(), WAIT);
    // Waiting for more than the limit is useless.
    budget.reserve(USE, 65 * KB).await.unwrap_err();
    assert_eq!(start.elapsed(), WAIT);
    assert_eq!(budget.rejections(), 2);
    drop(held);
    budget.try_reserve(USE, 64 * KB).unwrap();
}

#[tokio::test(start_paused = true)]
async fn part_is_limited_by_itself_and_by_the_whole() {
    let whole = ByteBudget::new(64 * KB);
    let parts = [whole.part(40 * KB), whole.part(40 * KB)];
    let first = parts[0].try_reserve(USE, 40 * KB).unwrap();
    assert!(parts[0].try_reserve(USE, 4 * KB).is_err());
    let second = parts[1].try_reserve(USE, 24 * KB).unwrap();
    assert_eq!(whole.used(), 64 * KB);
    // Neither an error nor a cancelled wait keeps bytes of the part.
    assert!(parts[1].try_reserve(USE, 4 * KB).is_err());
    let cancelled = timeout(WAIT / 2, parts[1].reserve(USE, 4 * KB));
    assert!(cancelled.await.is_err());
    drop((first, second));
    parts[1].try_reserve(USE, 40 * KB).unwrap();
    assert_eq!(whole.used(), 0);
}

#[test]
fn forced_growth_is_paid_back_before_new_work_gets_bytes() {
    let budget = ByteBudget::new(64 * KB);
    let mut running = budget.try_reserve(USE, 60 * KB).unwrap();
    running.force_grow(20 * KB);
    assert_eq!(budget.used(), 80 * KB);
    running.shrink_to(64 * KB);
    assert!(budget.try_reserve(USE, 1).is_err());
    running.shrink_to(60 * KB);
    assert!(budget.try_reserve(USE, 1).is_ok());
}

struct Cache {
    entries: Mutex<Vec<Reservation>>,
}

impl EvictBytes for Cache {
    fn evict_bytes(&self, bytes: usize) {
        let mut evicted = 0;
        let mut entries = lock(&self.entries);
        while evicted < bytes
            && let Some(entry) = entries.pop()
        {
            evicted += entry.bytes();
        }
    }
}

#[tokio::test]
async fn caches_evict_when_requests_need_bytes() {
    let budget = ByteBudget::new(64 * KB);
    let cache = Arc::new(Cache {
        entries: Mutex::default(),
    });
    let as_cache: Arc<dyn EvictBytes> = cache.clone();
    budget.register(Arc::downgrade(&as_cache));
    for _ in 0..16 {
        let mut entry = budget.empty(BudgetUse::Sessions);
        entry.try_grow_cache(4 * KB).unwrap();
        lock(&cache.entries).push(entry);
    }
    // A cache does not evict for another cache.
    assert!(budget.empty(BudgetUse::Sessions).try_grow_cache(1).is_err());
    let mut first = budget.try_reserve(USE, 8 * KB).unwrap();
    assert_eq!(lock(&cache.entries).len(), 14);
    let second = budget.reserve(USE, 16 * KB).await.unwrap();
    assert_eq!((lock(&cache.entries).len(), budget.waits()), (10, 0));
    first.force_grow(40 * KB);
    assert_eq!(budget.used(), 64 * KB);
    assert!(lock(&cache.entries).is_empty());
    drop((first, second));
}

#[test]
fn budget_without_a_limit_counts_nothing() {
    let budget = ByteBudget::default();
    let reservation = budget.try_reserve(USE, usize::MAX).unwrap();
    assert_eq!((budget.limit(), budget.used()), (None, 0));
    assert_eq!(budget.part(1).limit(), None);
    drop(reservation);
}
