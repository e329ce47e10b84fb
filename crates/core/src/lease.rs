//! Who may write a session now: the rule behind runs, applied by every store inside its transaction.
//!
//! A run holds the session by a lease with a token that only ever grows. Taking, renewing and
//! releasing ride on appends that are made anyway. Callers that find the session taken leave a
//! ticket, so that a process with many runs cannot starve another one's single run.

use std::time::Duration;

use crate::ports::duration_us;

/// The lease of a session as stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lease {
    /// The last token given out, or the one before the first.
    pub token: u64,
    /// Until when that run holds the session, in microseconds by the store's clock. 0 when free.
    pub until_us: i64,
}

impl Lease {
    /// The lease of a new session. Tokens of different sessions differ, so that a run does not
    /// outlive its session in another one of the same id.
    pub fn of_new_session(incarnation: u64) -> Lease {
        Lease {
            token: incarnation << 32,
            until_us: 0,
        }
    }
}

/// What an append wants with the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseUse {
    /// Nothing: written from outside any run, always welcome.
    Outside,
    /// Take it for a new run, if it is free and no other caller came first.
    Take {
        /// This caller's name in the queue.
        ticket: String,
        /// Keep it so long; `None` gives it back with the same append.
        ttl: Option<Duration>,
    },
    /// Write inside the run that holds `token`.
    Hold {
        /// The run's token.
        token: u64,
        /// Keep it so long from now; `None` gives it back with this append.
        ttl: Option<Duration>,
    },
}

/// What a store does about the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Write, and store this lease. `token` goes to the caller if it holds a run now.
    Granted {
        /// The lease after the write.
        lease: Lease,
        /// The caller's token, if it holds a run.
        token: Option<u64>,
    },
    /// Another run holds it, or another caller is first in line. Leave a ticket; write nothing.
    Busy {
        /// When the holder's lease ends if it is not renewed; 0 when it is free.
        until_us: i64,
    },
    /// The run's token is outdated. Write nothing.
    Lost,
}

impl Lease {
    /// Decides about an append at `now_us`; `first_ticket` is the oldest live ticket of the session.
    ///
    /// A token stays good until a later run has taken over: an expired lease that nobody wanted is
    /// simply renewed, since no other run can have been harmed.
    pub fn admit(self, wanted: &LeaseUse, first_ticket: Option<&str>, now_us: i64) -> Admission {
        let until =
            |ttl: &Option<Duration>| ttl.map_or(0, |ttl| now_us.saturating_add(duration_us(ttl)));
        match wanted {
            LeaseUse::Outside => Admission::Granted {
                lease: self,
                token: None,
            },
            LeaseUse::Take { ticket, ttl } => {
                let mine_is_first = first_ticket.is_none_or(|first| first == ticket);
                if self.until_us > now_us || !mine_is_first {
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
                    // A run that has ended cannot go on writing: its token is used up.
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
    fn a_free_lease_is_given_to_the_first_in_line() {
        let free = Lease::default();
        assert_eq!(free.admit(&take("a"), None, 10), granted(1, 110));
        assert_eq!(free.admit(&take("a"), Some("a"), 10), granted(1, 110));
        let busy = Admission::Busy { until_us: 0 };
        assert_eq!(free.admit(&take("b"), Some("a"), 10), busy);
    }

    #[test]
    fn a_held_lease_is_busy_until_it_expires() {
        let held = Lease {
            token: 1,
            until_us: 110,
        };
        let busy = Admission::Busy { until_us: 110 };
        assert_eq!(held.admit(&take("b"), None, 109), busy);
        assert_eq!(held.admit(&take("b"), None, 110), granted(2, 210));
    }

    #[test]
    fn the_holder_renews_and_releases_and_an_older_token_is_lost() {
        let held = Lease {
            token: 2,
            until_us: 110,
        };
        let hold = |token, ttl| LeaseUse::Hold { token, ttl };
        assert_eq!(held.admit(&hold(2, TTL), None, 50), granted(2, 150));
        assert_eq!(held.admit(&hold(2, None), None, 50), granted(3, 0));
        // Expired, but nobody took over.
        assert_eq!(held.admit(&hold(2, TTL), None, 500), granted(2, 600));
        assert_eq!(held.admit(&hold(1, TTL), None, 50), Admission::Lost);
    }

    #[test]
    fn writers_outside_a_run_disturb_nobody() {
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
