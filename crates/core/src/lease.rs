//! The lease decides which run may write a session. Every store applies this rule inside its
//! transaction.
//!
//! A lease carries a fencing token that only grows. If possible, runs take, renew and release the
//! lease as part of appends that they make anyway. A caller that finds the session busy leaves a
//! ticket, so that a process with many runs cannot starve a single run of another process.

use std::time::Duration;

use crate::ports::duration_us;

/// The lease of a session as stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lease {
    /// The token issued last. For a new session, the value before the first token.
    pub token: u64,
    /// When the lease expires, in microseconds by the store's clock. 0 if the session is free.
    pub until_us: i64,
}

impl Lease {
    /// Creates the lease of a new session. Tokens depend on the incarnation, so that a run of a
    /// deleted session cannot write to a later session with the same id.
    pub fn of_new_session(incarnation: u64) -> Lease {
        Lease {
            token: incarnation << 32,
            until_us: 0,
        }
    }
}

/// How an append uses the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseUse {
    /// Does not use the lease: the append is outside any run and always admitted.
    Outside,
    /// Takes the lease for a new run, if it is free and no other ticket is older.
    Take {
        /// The caller's ticket in the queue.
        ticket: String,
        /// How long the lease lasts; `None` releases it in the same append.
        ttl: Option<Duration>,
    },
    /// Writes inside the run that holds `token`.
    Hold {
        /// The run's token.
        token: u64,
        /// How long the lease lasts from now; `None` releases it in this append.
        ttl: Option<Duration>,
    },
}

/// Whether a store admits an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Write, and store this lease.
    Granted {
        /// The lease after the write.
        lease: Lease,
        /// The caller's token, if it now holds the lease.
        token: Option<u64>,
    },
    /// Another run holds the lease, or another ticket is older. Store a ticket and no events.
    Busy {
        /// When the holder's lease expires unless it is renewed; 0 if it is free.
        until_us: i64,
    },
    /// A later run has taken over, so the token is outdated. Write nothing.
    Lost,
}

impl Lease {
    /// Decides whether to admit an append at `now_us`; `first_ticket` is the oldest live ticket of
    /// the session.
    ///
    /// A token stays valid until a later run takes the lease. An expired lease that no other run
    /// took is renewed, because no other run can have written in between.
    pub fn admit(self, wanted: &LeaseUse, first_ticket: Option<&str>, now_us: i64) -> Admission {
        let until =
            |ttl: &Option<Duration>| ttl.map_or(0, |ttl| now_us.saturating_add(duration_us(ttl)));
        match wanted {
            LeaseUse::Outside => Admission::Granted {
                lease: self,
                token: None,
            },
            LeaseUse::Take { ticket, ttl } => {
                let is_first = first_ticket.is_none_or(|first| first == ticket);
                if self.until_us > now_us || !is_first {
                    return Admission::Busy {
                        until_us: self.until_us,
                    };
                }
                let token = self.token + 1;
                let lease = Lease {
                    token: token + u64::from(ttl.is_none()),
                    until_us: until(ttl),
                };
                let token = ttl.is_some().then_some(token);
                Admission::Granted { lease, token }
            }
            LeaseUse::Hold { token, .. } if *token != self.token => Admission::Lost,
            LeaseUse::Hold { token, ttl } => Admission::Granted {
                lease: Lease {
                    // Releasing the lease uses up the token, so that an ended run cannot write
                    // again.
                    token: *token + u64::from(ttl.is_none()),
                    until_us: until(ttl),
                },
                token: ttl.is_some().then_some(*token),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Option<Duration> = Some(Duration::from_micros(100));

    fn take(ticket: &str) -> LeaseUse {
        LeaseUse::Take {
            ticket: ticket.into(),
            ttl: TTL,
        }
    }

    fn granted(token: u64, until_us: i64) -> Admission {
        Admission::Granted {
            lease: Lease { token, until_us },
            token: (until_us != 0).then_some(token),
        }
    }

    #[test]
    fn free_lease_is_granted_to_the_oldest_ticket() {
        let free = Lease::default();
        assert_eq!(free.admit(&take("a"), None, 10), granted(1, 110));
        assert_eq!(free.admit(&take("a"), Some("a"), 10), granted(1, 110));
        let busy = Admission::Busy { until_us: 0 };
        assert_eq!(free.admit(&take("b"), Some("a"), 10), busy);
    }

    #[test]
    fn held_lease_is_busy_until_it_expires() {
        let held = Lease {
            token: 1,
            until_us: 110,
        };
        let busy = Admission::Busy { until_us: 110 };
        assert_eq!(held.admit(&take("b"), None, 109), busy);
        assert_eq!(held.admit(&take("b"), None, 110), granted(2, 210));
    }

    #[test]
    fn holder_renews_and_releases_but_an_older_token_is_refused() {
        let held = Lease {
            token: 2,
            until_us: 110,
        };
        let hold = |token, ttl| LeaseUse::Hold { token, ttl };
        assert_eq!(held.admit(&hold(2, TTL), None, 50), granted(2, 150));
        assert_eq!(held.admit(&hold(2, None), None, 50), granted(3, 0));
        // Expired, but no other run took over.
        assert_eq!(held.admit(&hold(2, TTL), None, 500), granted(2, 600));
        assert_eq!(held.admit(&hold(1, TTL), None, 50), Admission::Lost);
    }

    #[test]
    fn append_outside_a_run_does_not_change_the_lease() {
        let held = Lease {
            token: 2,
            until_us: 110,
        };
        let admitted = held.admit(&LeaseUse::Outside, Some("a"), 50);
        let untouched = Admission::Granted {
            lease: held,
            token: None,
        };
        assert_eq!(admitted, untouched);
    }
}
