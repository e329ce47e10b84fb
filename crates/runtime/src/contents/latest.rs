//! Step: if the newest event answers an earlier call, moves it to right after that call.
//!
//! Events between a long-running call and its answer are dropped: for the model, the answer came
//! immediately. An event that answers several calls is split among them.

use std::collections::{BTreeMap, HashMap};

use retain_core::{FunctionResponse, Part};

use super::{event_view::EventView, merge::merge_responses};

/// The indexes of calls in ascending order, by id, or by name for calls without an id.
#[derive(Default)]
struct CallPlaces<'t> {
    by_id: HashMap<&'t str, Vec<usize>>,
    by_name: HashMap<&'t str, Vec<usize>>,
}

impl<'t> CallPlaces<'t> {
    fn from_views(views: &'t [EventView<'_>]) -> CallPlaces<'t> {
        let mut places = CallPlaces::default();
        for (place, view) in views.iter().enumerate() {
            for call in view.calls() {
                let id = call.id.as_deref().unwrap_or_default();
                match (id, call.name.as_deref()) {
                    ("", None) => {}
                    ("", Some(name)) => places.by_name.entry(name).or_default().push(place),
                    (id, _) => places.by_id.entry(id).or_default().push(place),
                }
            }
        }
        places
    }

    /// Returns the newest call before `end` that `response` can answer.
    fn find_call(&self, response: &FunctionResponse, end: usize) -> Option<usize> {
        let id = response.id.as_deref().unwrap_or_default();
        let name = response.name.as_deref().unwrap_or_default();
        let places = match (id, name) {
            ("", "") => None,
            ("", name) => self.by_name.get(name),
            (id, _) => self.by_id.get(id),
        }?;
        let before = places.partition_point(|place| *place < end);
        Some(places[before.checked_sub(1)?])
    }
}

/// Returns the history with its newest event after the call that it answers, and whether that event
/// was moved.
pub(super) fn with_latest_response_at_its_call(
    views: Vec<EventView<'_>>,
) -> (Vec<EventView<'_>>, bool) {
    let Some((newest, history)) = views.split_last() else {
        return (views, false);
    };
    if history.is_empty() || !newest.has_responses() || answers_previous_event(newest, history) {
        return (views, false);
    }
    match Rearrangement::plan(newest, &views).map(|rearrangement| rearrangement.rearranged_views())
    {
        Some(rearranged) => (rearranged, true),
        None => (views, false),
    }
}

/// Whether every response answers a call of the previous event. This common case needs no index.
fn answers_previous_event(newest: &EventView<'_>, history: &[EventView<'_>]) -> bool {
    let Some(before) = history.last() else {
        return false;
    };
    newest.responses().all(|response| {
        let id = response.id.as_deref().unwrap_or_default();
        !id.is_empty() && before.calls().any(|call| call.id.as_deref() == Some(id))
    })
}

struct Rearrangement<'t, 'a> {
    views: &'t [EventView<'a>],
    newest: &'t EventView<'a>,
    calls: CallPlaces<'t>,
    /// The parts of the newest event, by the index of the call that each part answers.
    answers: BTreeMap<usize, Vec<&'t Part>>,
    /// The index of the newest answered call. Later events are dropped.
    last_call: usize,
}

impl<'t, 'a> Rearrangement<'t, 'a> {
    /// Plans the rearrangement; `None` if the events can stay in place.
    fn plan(
        newest: &'t EventView<'a>,
        views: &'t [EventView<'a>],
    ) -> Option<Rearrangement<'t, 'a>> {
        let calls = CallPlaces::from_views(views);
        let newest_place = views.len() - 1;
        let mut answers: BTreeMap<usize, Vec<&Part>> = BTreeMap::new();
        let mut others = Vec::new();
        for part in newest.parts() {
            let Some(response) = &part.function_response else {
                others.push(part);
                continue;
            };
            if let Some(call) = calls.find_call(response, newest_place) {
                answers.entry(call).or_default().push(part);
            }
        }
        let is_one = answers.len() == 1;
        let (&last_call, parts) = answers.iter_mut().next_back()?;
        parts.extend(others);
        if is_one && last_call + 1 == newest_place {
            return None;
        }
        Some(Rearrangement {
            views,
            newest,
            calls,
            answers,
            last_call,
        })
    }

    /// Returns the events up to the last answered call, with answers right after their calls.
    fn rearranged_views(&self) -> Vec<EventView<'a>> {
        let mut result = Vec::with_capacity(self.last_call + 2);
        for (place, view) in self.views.iter().enumerate().take(self.last_call + 1) {
            result.extend(self.without_old_answers(place, view));
            if self.answers.contains_key(&place) {
                result.extend(self.merged_answer(place));
            }
        }
        result
    }

    /// Removes earlier responses to calls that the newest event answers; `None` if the event then
    /// has neither responses nor calls.
    fn without_old_answers(&self, place: usize, view: &EventView<'a>) -> Option<EventView<'a>> {
        if !view.has_responses() {
            return Some(view.clone());
        }
        let remains = |part: &&Part| match &part.function_response {
            None => true,
            Some(response) => match self.calls.find_call(response, place) {
                Some(call) => !self.answers.contains_key(&call),
                None => true,
            },
        };
        let remaining: Vec<&Part> = view.parts().iter().filter(remains).collect();
        let is_step =
            |part: &&Part| part.function_response.is_some() || part.function_call.is_some();
        remaining
            .iter()
            .any(is_step)
            .then(|| with_only_parts(view, remaining))
    }

    /// Returns the answer to the calls of the event at `call`: earlier responses merged with the
    /// newest.
    fn merged_answer(&self, call: usize) -> Option<EventView<'a>> {
        let newest_place = self.views.len() - 1;
        let mut answers = Vec::new();
        for (place, view) in self
            .views
            .iter()
            .enumerate()
            .take(newest_place)
            .skip(call + 1)
        {
            if !view.has_responses() {
                continue;
            }
            let makes_calls = view.has_calls();
            let belongs = |part: &&Part| match &part.function_response {
                Some(response) => self.calls.find_call(response, place) == Some(call),
                None => !makes_calls,
            };
            let parts: Vec<&Part> = view.parts().iter().filter(belongs).collect();
            if parts.iter().any(|part| part.function_response.is_some()) {
                answers.push(with_only_parts(view, parts));
            }
        }
        let newest = self.answers.get(&call)?.iter().copied().cloned();
        answers.push(self.newest.clone().with_parts(newest.collect()));
        merge_responses(&answers)
    }
}

/// Returns the event reduced to these of its parts.
fn with_only_parts<'a>(view: &EventView<'a>, parts: Vec<&Part>) -> EventView<'a> {
    match parts.len() == view.parts().len() {
        true => view.clone(),
        false => view
            .clone()
            .with_parts(parts.into_iter().cloned().collect()),
    }
}
