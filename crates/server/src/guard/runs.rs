//! Limits on concurrent runs, per user and in total.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// The active runs and their limits. Clones share the counts.
#[derive(Debug, Clone)]
pub struct Runs {
    of_user: usize,
    of_all: usize,
    shared: Arc<RunCounters>,
}

#[derive(Debug, Default)]
struct RunCounters {
    running: Mutex<RunCounts>,
    begun: AtomicU64,
}

#[derive(Debug, Default)]
struct RunCounts {
    all: usize,
    users: HashMap<(String, String), usize>,
}

/// A permit for one run, released on drop.
#[derive(Debug)]
pub struct RunPermit {
    shared: Arc<RunCounters>,
    user: (String, String),
}

/// Too many active runs. Try again in about a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TooManyRuns {
    /// The user has reached the limit per user.
    #[error("this user has {0} active runs, the maximum; try again when one has ended")]
    OfUser(usize),
    /// The server has reached the limit of all users together.
    #[error("the server has {0} active runs, the maximum; try again when one has ended")]
    OfAll(usize),
}

impl Default for Runs {
    fn default() -> Runs {
        Runs::with_limits(8, 1024)
    }
}

impl Runs {
    /// Limits the runs of one user and of all users together.
    pub fn with_limits(of_user: usize, of_all: usize) -> Runs {
        Runs {
            of_user,
            of_all,
            shared: Arc::default(),
        }
    }

    /// Admits a run of a user unless a limit is reached.
    pub fn admit(&self, app: &str, user: &str) -> Result<RunPermit, TooManyRuns> {
        let user = (app.to_owned(), user.to_owned());
        let mut running = self.shared.lock();
        if running.all >= self.of_all {
            return Err(TooManyRuns::OfAll(self.of_all));
        }
        let of_user = running.users.entry(user.clone()).or_default();
        if *of_user >= self.of_user {
            return Err(TooManyRuns::OfUser(self.of_user));
        }
        *of_user += 1;
        running.all += 1;
        self.shared.begun.fetch_add(1, Ordering::Relaxed);
        Ok(RunPermit {
            shared: Arc::clone(&self.shared),
            user,
        })
    }

    /// Returns the number of active runs.
    pub fn running(&self) -> usize {
        self.shared.lock().all
    }

    /// Returns the number of runs since the server started.
    pub fn begun(&self) -> u64 {
        self.shared.begun.load(Ordering::Relaxed)
    }
}

impl RunCounters {
    fn lock(&self) -> MutexGuard<'_, RunCounts> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        let mut running = self.shared.lock();
        running.all = running.all.saturating_sub(1);
        if let Some(of_user) = running.users.get_mut(&self.user) {
            *of_user -= 1;
            if *of_user == 0 {
                running.users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_limited_per_user_and_in_total() {
        let runs = Runs::with_limits(2, 3);
        let first = runs.admit("app", "ada").unwrap();
        let second = runs.admit("app", "ada").unwrap();
        let refused = runs.admit("app", "ada").unwrap_err();
        assert_eq!(refused, TooManyRuns::OfUser(2));
        let third = runs.admit("other app", "ada").unwrap();
        let refused = runs.admit("app", "grace").unwrap_err();
        assert_eq!(refused, TooManyRuns::OfAll(3));
        drop(first);
        assert!(runs.admit("app", "ada").is_ok());
        drop((second, third));
        assert_eq!((runs.running(), runs.begun()), (0, 4));
        assert!(runs.shared.lock().users.is_empty());
    }
}
