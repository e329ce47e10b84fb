//! Runs CPU-bound work on large data so that small requests are not delayed by it.

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
};

/// Data of at least this size takes a millisecond or more to parse.
const LARGE_BYTES: usize = 128 * 1024;

/// Limits how many requests work on large data at a time. The others wait, while small requests
/// share the processor with few of them.
#[derive(Debug)]
pub(crate) struct LargeWork {
    permits: Semaphore,
}

impl Default for LargeWork {
    fn default() -> LargeWork {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        LargeWork {
            permits: Semaphore::new(cores),
        }
    }
}

impl LargeWork {
    /// Does `work` on data of this size: if it is large, in turn, and without blocking the other
    /// tasks of the executor.
    pub(crate) async fn run<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        if bytes < LARGE_BYTES {
            return work();
        }
        // Acquiring fails only if the semaphore is closed, which never happens.
        let _permit = self.permits.acquire().await;
        let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
        match flavor {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
            _ => work(),
        }
    }
}
