//! Refuses writes that add data before the disk is full, so that deletions still have space.
//!
//! A full disk fails every write, also a deletion, which writes to the write-ahead log first.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use retain_core::{Clock, FreeSpace, Result, SessionError};

use super::{NAME, SqliteOptions};

/// How long a measurement is current, in microseconds.
const MEASURE_US: i64 = 250_000;

/// Minimum free space, unless the write-ahead log needs more or the file system is small.
const MIN_FREE: u64 = 64 * 1024 * 1024;

/// The part of a file system that the default keeps free at most: 1/20.
const MIN_FREE_PART: u64 = 20;

/// Bytes of a page. A database of another program may have other pages, but Retain creates these.
pub(super) const PAGE_BYTES: u64 = 4096;

/// The space of a file system, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskSpace {
    /// Free for this program.
    pub free: u64,
    /// In total.
    pub total: u64,
}

/// Measures the space of the file system of a path. Tests replace it.
pub trait SpaceProbe: fmt::Debug + Send + Sync + 'static {
    /// Returns the space of the file system that has `path`.
    fn measure(&self, path: &Path) -> io::Result<DiskSpace>;
}

/// Asks the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SystemProbe;

impl SpaceProbe for SystemProbe {
    #[cfg(unix)]
    fn measure(&self, path: &Path) -> io::Result<DiskSpace> {
        let found = rustix::fs::statvfs(path)?;
        Ok(DiskSpace {
            free: found.f_bavail.saturating_mul(found.f_frsize),
            total: found.f_blocks.saturating_mul(found.f_frsize),
        })
    }

    /// Without a measurement, the guard admits every write.
    #[cfg(not(unix))]
    fn measure(&self, _: &Path) -> io::Result<DiskSpace> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Admits writes while enough space is free.
#[derive(Debug)]
pub(super) struct SpaceGuard {
    /// The folder of the database.
    folder: PathBuf,
    /// The configured minimum; `None` for the default.
    min_free: Option<u64>,
    checkpoint_pages: u32,
    probe: Arc<dyn SpaceProbe>,
    clock: Arc<dyn Clock>,
    state: Mutex<Measured>,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Measured {
    /// The last measurement; `None` if the operating system did not tell.
    space: Option<DiskSpace>,
    /// Bytes in the database that deleted rows have left.
    reusable: u64,
    /// When to measure again.
    until_us: i64,
    /// Bytes of the writes admitted since.
    written: u64,
}

/// Estimates the space that a write takes: data goes to the write-ahead log first and then to the
/// file, and every write changes some pages of indexes and heads.
pub(super) fn write_cost(data: usize) -> u64 {
    const CHANGED_PAGES: u64 = 8;
    2 * data as u64 + CHANGED_PAGES * PAGE_BYTES
}

/// Why a write was refused.
#[derive(Debug)]
struct LowSpace {
    folder: PathBuf,
    free: u64,
    min_free: u64,
    needed: u64,
}

impl fmt::Display for LowSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (folder, free, min_free) = (self.folder.display(), self.free, self.min_free);
        write!(
            f,
            "the file system of {folder} has {free} bytes free, the write needs about {} bytes, and \
             {min_free} bytes must stay free; free some space, or lower min_free_space",
            self.needed
        )
    }
}

impl std::error::Error for LowSpace {}

impl SpaceGuard {
    /// Creates the guard of a database; `None` if it is in memory or has no minimum.
    pub(super) fn new(options: &SqliteOptions) -> Option<SpaceGuard> {
        let path = options.path.as_ref()?;
        if options.min_free_space == Some(0) || options.read_only {
            return None;
        }
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        Some(SpaceGuard {
            folder: folder.unwrap_or(Path::new(".")).to_owned(),
            min_free: options.min_free_space,
            checkpoint_pages: options.checkpoint_pages,
            probe: Arc::clone(&options.space_probe),
            clock: Arc::clone(&options.clock),
            state: Mutex::default(),
            refused: AtomicU64::default(),
        })
    }

    /// Fails if a write of about `bytes` would leave less than the minimum. `reusable` returns the
    /// bytes of deleted rows in the database, which SQLite fills before the file grows; `None` if
    /// they are unknown now.
    pub(super) fn admit(
        &self,
        operation: &'static str,
        bytes: u64,
        reusable: impl Fn() -> Option<u64>,
    ) -> Result<()> {
        let mut state = self.state();
        self.measure_if_due(&mut state, &reusable);
        if !self.fits(&state, bytes) && state.written > 0 {
            // The estimate of what was written since may be too high.
            self.measure(&mut state, &reusable);
        }
        if self.fits(&state, bytes) {
            state.written += bytes;
            return Ok(());
        }
        let space = state.space.unwrap_or_default();
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(SessionError::Full {
            store: NAME,
            operation,
            source: Box::new(LowSpace {
                folder: self.folder.clone(),
                free: space.free,
                min_free: self.min_free(space),
                needed: bytes,
            }),
        })
    }

    /// Whether a write of about `bytes` leaves the minimum. Rows may go where deleted rows were, but
    /// the write-ahead log needs space of the file system in any case.
    fn fits(&self, state: &Measured, bytes: u64) -> bool {
        let Some(space) = state.space else {
            return true;
        };
        let min_free = self.min_free(space);
        let for_log = (min_free / 2).saturating_add(bytes);
        let for_rows = min_free.saturating_add(state.written).saturating_add(bytes);
        space.free >= for_log && space.free.saturating_add(state.reusable) >= for_rows
    }

    /// Returns what is free now, the minimum, and whether writes are refused.
    pub(super) fn free_space(&self, reusable: impl Fn() -> Option<u64>) -> Option<FreeSpace> {
        let mut state = self.state();
        self.measure_if_due(&mut state, &reusable);
        let space = state.space?;
        let refused = self.refused.load(Ordering::Relaxed);
        let is_low = !self.fits(&state, 1);
        Some(FreeSpace::new(
            space.free,
            self.min_free(space),
            refused,
            is_low,
        ))
    }

    fn measure_if_due(&self, state: &mut Measured, reusable: &impl Fn() -> Option<u64>) {
        if self.clock.now_us() >= state.until_us {
            self.measure(state, reusable);
        }
    }

    fn measure(&self, state: &mut Measured, reusable: &impl Fn() -> Option<u64>) {
        *state = Measured {
            space: self.probe.measure(&self.folder).ok(),
            reusable: reusable().unwrap_or(state.reusable),
            until_us: self.clock.now_us().saturating_add(MEASURE_US),
            written: 0,
        };
    }

    /// Returns the bytes that must stay free: enough for a write-ahead log of deletions, but at most a part
    /// of a small file system.
    fn min_free(&self, space: DiskSpace) -> u64 {
        let for_log = 2 * u64::from(self.checkpoint_pages) * PAGE_BYTES;
        let default = MIN_FREE.max(for_log).min(space.total / MIN_FREE_PART);
        self.min_free.unwrap_or(default)
    }

    fn state(&self) -> MutexGuard<'_, Measured> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use super::*;

    const MB: u64 = 1024 * 1024;

    #[derive(Debug, Default)]
    struct ManualClock(AtomicI64);

    impl Clock for ManualClock {
        fn now_us(&self) -> i64 {
            self.0.load(Ordering::SeqCst)
        }
    }

    /// A disk with this much free space.
    #[derive(Debug)]
    struct TestDisk {
        free: AtomicU64,
        total: u64,
        measured: AtomicU64,
    }

    impl SpaceProbe for TestDisk {
        fn measure(&self, _: &Path) -> io::Result<DiskSpace> {
            self.measured.fetch_add(1, Ordering::SeqCst);
            Ok(DiskSpace {
                free: self.free.load(Ordering::SeqCst),
                total: self.total,
            })
        }
    }

    fn guard(free: u64, total: u64) -> (SpaceGuard, Arc<TestDisk>, Arc<ManualClock>) {
        let (free, measured) = (AtomicU64::new(free), AtomicU64::default());
        let disk = Arc::new(TestDisk {
            free,
            total,
            measured,
        });
        let clock = Arc::<ManualClock>::default();
        let options = SqliteOptions::file("/data/a.db")
            .with_clock(Arc::clone(&clock) as Arc<dyn Clock>)
            .with_space_probe(Arc::clone(&disk) as Arc<dyn SpaceProbe>);
        (SpaceGuard::new(&options).unwrap(), disk, clock)
    }

    #[test]
    fn write_is_refused_below_the_minimum_and_admitted_once_space_is_free() {
        let (guard, disk, clock) = guard(65 * MB, 1000 * 1000 * MB);
        guard.admit("append events", MB, || None).unwrap();
        let refused = guard.admit("append events", 2 * MB, || None).unwrap_err();
        let SessionError::Full { source, .. } = &refused else {
            panic!("{refused:?}");
        };
        let text = source.to_string();
        assert!(text.contains("/data has 68157440 bytes free"), "{text}");
        assert!(text.contains("67108864 bytes must stay free"), "{text}");
        disk.free.store(100 * MB, Ordering::SeqCst);
        clock.0.fetch_add(MEASURE_US, Ordering::SeqCst);
        guard.admit("append events", 2 * MB, || None).unwrap();
        let found = guard.free_space(|| None).unwrap();
        assert_eq!(
            (found.free, found.min_free, found.refused),
            (100 * MB, 64 * MB, 1)
        );
        assert!(!found.is_low);
    }

    #[test]
    fn space_is_measured_at_most_four_times_a_second_while_there_is_enough() {
        let (guard, disk, clock) = guard(1000 * MB, 1000 * 1000 * MB);
        for _ in 0..100 {
            guard.admit("append events", 1000, || None).unwrap();
        }
        assert_eq!(disk.measured.load(Ordering::SeqCst), 1);
        clock.0.fetch_add(MEASURE_US, Ordering::SeqCst);
        guard.admit("append events", 1000, || None).unwrap();
        assert_eq!(disk.measured.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn large_writes_between_two_measurements_are_counted() {
        let (guard, disk, _) = guard(164 * MB, 1000 * 1000 * MB);
        guard.admit("save an artifact", 60 * MB, || None).unwrap();
        disk.free.store(104 * MB, Ordering::SeqCst);
        guard
            .admit("save an artifact", 60 * MB, || None)
            .unwrap_err();
        guard.admit("save an artifact", 30 * MB, || None).unwrap();
    }

    #[test]
    fn space_of_deleted_rows_is_filled_while_the_log_has_space() {
        let (guard, disk, clock) = guard(40 * MB, 1000 * 1000 * MB);
        guard.admit("append events", MB, || Some(0)).unwrap_err();
        assert!(guard.free_space(|| None).unwrap().is_low);
        clock.0.fetch_add(MEASURE_US, Ordering::SeqCst);
        guard.admit("append events", MB, || Some(100 * MB)).unwrap();
        disk.free.store(32 * MB, Ordering::SeqCst);
        clock.0.fetch_add(MEASURE_US, Ordering::SeqCst);
        guard
            .admit("append events", MB, || Some(100 * MB))
            .unwrap_err();
    }

    #[test]
    fn default_minimum_is_a_part_of_a_small_disk() {
        let (guard, ..) = guard(2 * MB, 20 * MB);
        assert_eq!(guard.free_space(|| None).unwrap().min_free, MB);
    }
}
