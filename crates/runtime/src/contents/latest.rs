//! Step: if the newest turn answers an earlier call, it moves there.
//!
//! Turns between a long-running call and its answer are dropped: for the model the answer came at
//! once. An answer to several calls is split up among them.

use std::collections::{BTreeMap, HashMap};

use retain_core::{FunctionResponse, Part};

use super::{merge::merge_responses, turn::Turn};

/// The indexes of calls, by id, or by name for calls without an id. Ascending.
#[derive(Default)]
struct CallPlaces<'t> {
    by_id: HashMap<&'t str, Vec<usize>>,
    by_name: HashMap<&'t str, Vec<usize>>,
}

impl<'t> CallPlaces<'t> {
    fn of(turns: &'t [Turn<'_>]) -> CallPlaces<'t> {
        let mut places = CallPlaces::default();
        for (place, turn) in turns.iter().enumerate() {
            for call in turn.calls() {
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

    /// The newest call before `end` that `response` can answer.
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

/// Returns the history with its newest turn at the call that it answers, and whether it was moved.
pub(super) fn with_latest_response_at_its_call(turns: Vec<Turn<'_>>) -> (Vec<Turn<'_>>, bool) {
    let Some((newest, history)) = turns.split_last() else {
        return (turns, false);
    };
    if history.is_empty() || !newest.has_responses() || answers_previous_turn(newest, history) {
        return (turns, false);
    }
    match Rearrangement::of(newest, &turns).map(|rearrangement| rearrangement.rearranged_turns()) {
        Some(rearranged) => (rearranged, true),
        None => (turns, false),
    }
}

/// The simple case, found without an index: every response answers a call of the previous turn.
fn answers_previous_turn(newest: &Turn<'_>, history: &[Turn<'_>]) -> bool {
    let Some(before) = history.last() else {
        return false;
    };
    newest.responses().all(|response| {
        let id = response.id.as_deref().unwrap_or_default();
        !id.is_empty() && before.calls().any(|call| call.id.as_deref() == Some(id))
    })
}

struct Rearrangement<'t, 'a> {
    turns: &'t [Turn<'a>],
    newest: &'t Turn<'a>,
    calls: CallPlaces<'t>,
    /// The parts of the newest turn by the index of the call that they answer.
    answers: BTreeMap<usize, Vec<&'t Part>>,
    /// The newest answered call; later turns are dropped.
    last_call: usize,
}

impl<'t, 'a> Rearrangement<'t, 'a> {
    /// Returns `None` if the turns can stay in place.
    fn of(newest: &'t Turn<'a>, turns: &'t [Turn<'a>]) -> Option<Rearrangement<'t, 'a>> {
        let calls = CallPlaces::of(turns);
        let newest_place = turns.len() - 1;
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
            turns,
            newest,
            calls,
            answers,
            last_call,
        })
    }

    /// The turns up to the last answered call, with answers right after their calls.
    fn rearranged_turns(&self) -> Vec<Turn<'a>> {
        let mut result = Vec::with_capacity(self.last_call + 2);
        for (place, turn) in self.turns.iter().enumerate().take(self.last_call + 1) {
            result.extend(self.without_old_answers(place, turn));
            if self.answers.contains_key(&place) {
                result.extend(self.merged_answer(place));
            }
        }
        result
    }

    /// Removes earlier responses to calls that are answered anew. Drops the turn if it has neither
    /// responses nor calls left.
    fn without_old_answers(&self, place: usize, turn: &Turn<'a>) -> Option<Turn<'a>> {
        if !turn.has_responses() {
            return Some(turn.clone());
        }
        let is_kept = |part: &&Part| match &part.function_response {
            None => true,
            Some(response) => match self.calls.find_call(response, place) {
                Some(call) => !self.answers.contains_key(&call),
                None => true,
            },
        };
        let kept: Vec<&Part> = turn.parts().iter().filter(is_kept).collect();
        let is_step =
            |part: &&Part| part.function_response.is_some() || part.function_call.is_some();
        kept.iter()
            .any(is_step)
            .then(|| with_only_parts(turn, kept))
    }

    /// The answer to the call at `call`: earlier responses, merged with the newest.
    fn merged_answer(&self, call: usize) -> Option<Turn<'a>> {
        let newest_place = self.turns.len() - 1;
        let mut answers = Vec::new();
        for (place, turn) in self
            .turns
            .iter()
            .enumerate()
            .take(newest_place)
            .skip(call + 1)
        {
            if !turn.has_responses() {
                continue;
            }
            let makes_calls = turn.has_calls();
            let belongs = |part: &&Part| match &part.function_response {
                Some(response) => self.calls.find_call(response, place) == Some(call),
                None => !makes_calls,
            };
            let parts: Vec<&Part> = turn.parts().iter().filter(belongs).collect();
            if parts.iter().any(|part| part.function_response.is_some()) {
                answers.push(with_only_parts(turn, parts));
            }
        }
        let newest = self.answers.get(&call)?.iter().copied().cloned();
        answers.push(self.newest.clone().with_parts(newest.collect()));
        merge_responses(&answers)
    }
}

/// Returns the turn with these of its parts; unchanged if these are all.
fn with_only_parts<'a>(turn: &Turn<'a>, parts: Vec<&Part>) -> Turn<'a> {
    match parts.len() == turn.parts().len() {
        true => turn.clone(),
        false => turn
            .clone()
            .with_parts(parts.into_iter().cloned().collect()),
    }
}
