//! The intended differences from ADK, each with its reason.

use std::collections::BTreeMap;

macro_rules! rules {
    ($($(#[doc = $reason:literal])+ $name:ident,)+) => {
        /// An intended difference. `docs/differences-from-adk.md` documents it for users.
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
    /// ADK's durable services reject an append through a copy that is older than the store. Retain
    /// accepts it: nothing is lost, because the store merges state key by key.
    StaleWritersAreAccepted,
    /// ADK's durable services return events sorted by timestamp. Retain returns them in order of
    /// arrival, because the clocks of two machines differ, and any clock may go backward.
    OrderIsArrival,
    /// `DatabaseSessionService` sorts events of equal time by id. Retain returns them in order of
    /// arrival.
    EqualTimesStayInOrder,
    /// ADK in memory takes the newest N first and then drops everything up to the last event that
    /// is too old. Retain does the same as ADK's durable services: it filters by time first, and
    /// then takes the newest N.
    WindowIsByTimeThenCount,
    /// Repeating an event fails in ADK's durable services (and stores it twice in memory if it has
    /// `temp:` keys). In Retain it succeeds and changes nothing, so that a retry is safe.
    ExactRepeatsSucceed,
    /// A different event with an existing id fails in ADK's durable services with a database error,
    /// and is stored beside the first one in memory. In Retain it is a conflict.
    OtherBodiesAreConflicts,
    /// A failed append in ADK's durable services leaves its `temp:` keys in the held copy.
    FailedAppendsChangeNothing,
    /// ADK writes through a copy of a deleted session to a new session with the same id (or rejects
    /// the copy as stale). In Retain the session is not found.
    CopiesDieWithTheirSession,
    /// `DatabaseSessionService` uses a blank session id as it is. Retain generates one, as ADK's
    /// other services do.
    BlankIdsAreMade,
    /// ADK in memory and on SQLite trims session ids. Retain keeps them unchanged.
    IdsAreNotTrimmed,
    /// After a rewind ADK leaves `null` under keys that did not exist. Retain removes them.
    RewindRemovesKeys,
    /// A rewind in ADK loses the state given at creation. Retain restores it.
    RewindRestoresInitialState,
    /// To rewind, ADK replays the deltas of the log as it reads it, sorted by timestamp. Retain
    /// replays the log in order of arrival.
    RewindFollowsArrival,
    /// ADK writes a `null` for a key that already is `null`. A rewind in Retain writes only
    /// changes.
    RewindSaysOnlyChanges,
    /// In Python 1, 1.0 and `true` are equal, so a rewind in ADK leaves one in place of the other.
    /// Retain restores the exact value.
    OneIsNotTrue,
    /// ADK only stores a rewind event that a client appends. Retain also applies it to the state.
    RewindEventsAreFollowed,
    /// ADK stores a timestamp of 0. In Retain it means "not given", and the clock sets it.
    ZeroTimeIsNow,
    /// In ADK every event has an id and a time from the start, also a partial one. In Retain the
    /// append sets both, and a partial event is not appended.
    PartialEventsAreNotFilledIn,
    /// `DatabaseSessionService` truncates `last_update_time` to microseconds.
    LastUpdateTimeIsExact,
    /// ADK drops unknown event fields. Retain keeps them.
    UnknownFieldsAreKept,
    /// ADK rejects events with an unknown action. Retain keeps the action.
    UnknownActionsAreKept,
    /// ADK 2.13 writes an empty `nodeInfo` into every event. Retain writes it only if it was given.
    NodeInfoIsNotInvented,
    /// ADK sorts `longRunningToolIds`. Retain keeps their order; both sides treat them as a set.
    IdSetsKeepTheirOrder,
    /// Python rounds numbers to 64-bit floats and reads `-0` as 0; SQLite in ADK turns -0.0 in
    /// state into 0.0. Retain keeps a number as it was written.
    NumbersKeepTheirDigits,
    /// State keys have a different order. It has no meaning on either side.
    StateKeysHaveNoOrder,
    /// Retain rejects ids and keys with a NUL character, because not every database can store them.
    NulIsRefused,
    /// Retain rejects ids over 512 bytes and keys over 1024 bytes.
    LongIdsAreRefused,
    /// Retain rejects an app or user without a name.
    EmptyNamesAreRefused,
}

/// Number of uses of each rule.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleCounts(BTreeMap<Rule, u64>);

impl RuleCounts {
    pub(crate) fn get(&self, rule: Rule) -> u64 {
        self.0.get(&rule).copied().unwrap_or_default()
    }

    pub(super) fn add(&mut self, rule: Rule) {
        *self.0.entry(rule).or_default() += 1;
    }
}
