//! Checks whether calls and responses are in order already. In most histories they are, and the
//! steps that reorder them can be skipped.

use super::{include::HistoryFeatures, is_set, turn::Turn};

/// The result of [`in_order`].
pub(super) struct CallOrder {
    /// Every response is right after its call.
    pub(super) responses: bool,
    /// Every call is right before its response.
    pub(super) calls: bool,
}

/// Compares neighboring turns only, so that it need not collect ids.
pub(super) fn in_order(turns: &[Turn<'_>], has: HistoryFeatures) -> CallOrder {
    if !has.calls && !has.responses {
        return CallOrder {
            responses: true,
            calls: true,
        };
    }
    let before = |place: usize| place.checked_sub(1).and_then(|place| turns.get(place));
    let mut places = turns.iter().enumerate();
    let responses = places.all(|(place, turn)| {
        let call = before(place).filter(|call| !call.has_responses());
        turn.responses().all(|response| {
            is_set(&response.id)
                && call.is_some_and(|call| call.calls().any(|call| call.id == response.id))
        })
    });
    let mut places = turns.iter().enumerate();
    let calls = places.all(|(place, turn)| {
        let mut named = turn.calls().filter(|call| is_set(&call.id));
        let answer = turns.get(place + 1);
        named.all(|call| answer.is_some_and(|answer| answer.responses().any(|it| it.id == call.id)))
    });
    CallOrder { responses, calls }
}
