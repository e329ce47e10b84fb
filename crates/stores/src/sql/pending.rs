//! The column `pending_work` of a session's row: the position of the last event that needs work,
//! shifted by 8 bits, and the kinds of work in the low 8 bits; 0 if no work is pending.

use retain_core::{PendingWork, SessionKey, SessionWork};

/// SQL that adds the kinds of work `$kinds`, due after the event at `$position`, to `pending_work`.
macro_rules! add_pending_work {
    ($kinds:literal, $position:literal) => {
        concat!(
            "pending_work = CASE WHEN ",
            $kinds,
            " = 0 THEN pending_work ELSE (",
            $position,
            " << 8) | (pending_work & 255) | ",
            $kinds,
            " END"
        )
    };
}

/// SQL that removes kinds of work from the column; `$kept` has the bits of the other kinds.
macro_rules! remove_pending_work {
    ($kept:literal) => {
        concat!(
            "pending_work = CASE WHEN (pending_work & 255 & ",
            $kept,
            ") = 0 THEN 0 ELSE ((pending_work >> 8) << 8) | (pending_work & 255 & ",
            $kept,
            ") END"
        )
    };
}

pub(crate) use {add_pending_work, remove_pending_work};

/// Returns the kinds of work as a parameter of SQL.
pub(crate) fn kinds(work: PendingWork) -> i64 {
    i64::from(work.bits())
}

/// Returns the bits of all kinds except `done`, as a parameter of SQL.
pub(crate) fn kept_kinds(done: PendingWork) -> i64 {
    i64::from(!done.bits())
}

/// Decodes the row of a session with pending work.
pub(crate) fn session_work(key: SessionKey, number: i64, column: i64) -> SessionWork {
    SessionWork {
        key,
        incarnation: number as u64,
        position: (column >> 8) as u64,
        work: PendingWork::from_bits((column & 255) as u8),
    }
}
