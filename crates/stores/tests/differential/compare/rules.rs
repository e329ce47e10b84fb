//! The differences that are meant to be, each with its reason.

use std::collections::BTreeMap;

macro_rules! rules {
    ($($(#[doc = $reason:literal])+ $name:ident,)+) => {
        /// A difference that is meant to be. `docs/differences-from-adk.md` says the same to users.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum Rule {
            $($(#[doc = $reason])+ $name,)+
        }

        impl Rule {
            pub(crate) const ALL: &[Rule] = &[$(Rule::$name,)+];
        }
    };
}

rules! {
    /// ADK's durable services refuse an append through a copy that is older than the store. Here
    /// it is accepted: nothing is lost by it, as state is merged key by key in the store.
    StaleWritersAreAccepted,
    /// ADK's durable services give events back sorted by timestamp. Here the log is in the order
    /// of arrival, as clocks go back and differ.
    OrderIsArrival,
    /// `DatabaseSessionService` sorts events of one time by id. Part of the above.
    EqualTimesStayInOrder,
    /// ADK in memory takes the newest N first and then cuts off everything up to the last event
    /// that is too old. Here it is as in ADK's durable services: by time first, then the newest N.
    WindowIsByTimeThenCount,
    /// The same event again fails in ADK's durable services (and is stored twice in memory if it
    /// carries `temp:` keys). Here it succeeds and changes nothing, so that a retry is safe.
    ExactRepeatsSucceed,
    /// Another event under a known id fails in ADK's durable services with the error of the
    /// database, and is stored beside the first one in memory. Here it is a conflict.
    OtherBodiesAreConflicts,
    /// An append that fails in ADK's durable services leaves its `temp:` keys in the held copy.
    FailedAppendsChangeNothing,
    /// ADK takes a copy of a deleted session for one of the session that was created under its id
    /// since, and writes there (or refuses it for its age). Here it is a session that is gone.
    CopiesDieWithTheirSession,
    /// `DatabaseSessionService` takes a blank session id as it is. Here one is made, as in ADK's
    /// other services.
    BlankIdsAreMade,
    /// ADK in memory and on SQLite cuts the spaces off session ids. Here an id is what it is.
    IdsAreNotTrimmed,
    /// After a rewind ADK leaves `null` under keys that did not exist. Here they are gone.
    RewindRemovesKeys,
    /// A rewind in ADK forgets the state given at creation. Here it is restored.
    RewindRestoresInitialState,
    /// ADK replays the deltas of what it reads to find the state to go back to, and that is sorted
    /// by timestamp. Here the log is in the order of arrival.
    RewindFollowsArrival,
    /// ADK writes a `null` for a key that is `null` already. Here a rewind says only what changes.
    RewindSaysOnlyChanges,
    /// Python holds 1, 1.0 and `true` for equal, so a rewind in ADK leaves one in place of the
    /// other. Here the value comes back as it was.
    OneIsNotTrue,
    /// A rewind event that somebody else made is only stored by ADK. Here the state follows it.
    RewindEventsAreFollowed,
    /// A timestamp of 0 is stored by ADK. Here it means «not given», and the clock is asked.
    ZeroTimeIsNow,
    /// Every event of ADK has an id and a time from the start, also a partial one. Here both are
    /// given by the append, and a partial event is not appended.
    PartialEventsAreNotFilledIn,
    /// `DatabaseSessionService` cuts `last_update_time` to microseconds.
    LastUpdateTimeIsExact,
    /// ADK drops event fields it does not know. Here they are kept.
    UnknownFieldsAreKept,
    /// ADK refuses events with an action it does not know. Here it is kept.
    UnknownActionsAreKept,
    /// ADK 2.13 writes an empty `nodeInfo` into every event. Here it is there if it was given.
    NodeInfoIsNotInvented,
    /// ADK sorts `longRunningToolIds`. Here they stay as they were given; it is a set on both sides.
    IdSetsKeepTheirOrder,
    /// Python rounds numbers to 64-bit floats and reads `-0` as 0; SQLite in ADK turns -0.0 in
    /// state into 0.0. Here a number is kept as it was written.
    NumbersKeepTheirDigits,
    /// The keys of a state come in another order. It has no meaning on either side.
    StateKeysHaveNoOrder,
    /// Ids and keys with a NUL character are refused here: not every database can store them.
    NulIsRefused,
    /// Ids over 512 bytes and keys over 1024 are refused here.
    LongIdsAreRefused,
    /// An app or user without a name is refused here.
    EmptyNamesAreRefused,
}

/// How often each rule was needed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Used(BTreeMap<Rule, u64>);

impl Used {
    pub(crate) fn count(&self, rule: Rule) -> u64 {
        self.0.get(&rule).copied().unwrap_or_default()
    }

    pub(super) fn add(&mut self, rule: Rule) {
        *self.0.entry(rule).or_default() += 1;
    }
}
