//! Checks whether calls and responses are already in order. In most histories they are, and the
//! steps that reorder them can be skipped.

use super::{event_view::EventView, include::HistoryFeatures, is_set};

/// The result of [`check_call_order`].
pub(super) struct CallOrder {
    /// Whether every response is right after its call.
    pub(super) responses: bool,
    /// Whether every call is right before its response.
    pub(super) calls: bool,
}

/// Checks the order. Compares only neighboring events, and so needs no set of ids.
pub(super) fn check_call_order(views: &[EventView<'_>], has: HistoryFeatures) -> CallOrder {
    if !has.calls && !has.responses {
        return CallOrder {
            responses: true,
            calls: true,
        };
    }
    let before = |place: usize| place.checked_sub(1).and_then(|place| views.get(place));
    let mut places = views.iter().enumerate();
    let responses = places.all(|(place, view)| {
        let call = before(place).filter(|call| !call.has_responses());
        view.responses().all(|response| {
            is_set(&response.id)
                && call.is_some_and(|call| call.calls().any(|call| call.id == response.id))
        })
    });
    let mut places = views.iter().enumerate();
    let calls = places.all(|(place, view)| {
        let mut named = view.calls().filter(|call| is_set(&call.id));
        let answer = views.get(place + 1);
        named.all(|call| answer.is_some_and(|answer| answer.responses().any(|it| it.id == call.id)))
    });
    CallOrder { responses, calls }
}
