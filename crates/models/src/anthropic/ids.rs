//! Call IDs in the form that the API accepts: letters, digits, `_` and `-`, and unique.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The call IDs of one conversation. An invalid ID is replaced, consistently for the call and its
/// result. A repeated ID is replaced too, because some servers restart counting in every turn. A
/// result without an ID belongs to the oldest open call without one.
#[derive(Debug, Default)]
pub(super) struct CallIds {
    /// Sent IDs of the latest turn's calls, by original ID.
    sent: BTreeMap<String, SentIds>,
    /// Calls without an ID that have no result yet: function name and replacement ID.
    open: Vec<(String, String)>,
    /// All IDs of sent calls.
    used: BTreeSet<String>,
    made: usize,
    turn: usize,
}

/// The sent IDs of calls in one turn that have the same original ID.
#[derive(Debug, Default)]
struct SentIds {
    turn: usize,
    ids: VecDeque<String>,
}

impl CallIds {
    /// Starts a turn of the model. Results belong to calls of the latest turn.
    pub(super) fn begin_turn(&mut self) {
        self.turn += 1;
    }

    /// Returns the ID of a call of `function`.
    pub(super) fn of_call(&mut self, id: Option<&str>, function: &str) -> String {
        let Some(id) = id.filter(|id| !id.is_empty()) else {
            let made = self.make();
            self.open.push((function.to_owned(), made.clone()));
            return made;
        };
        let sent = match is_taken(id) && !self.used.contains(id) {
            true => id.to_owned(),
            false => self.make(),
        };
        self.used.insert(sent.clone());
        let known = self.sent.entry(id.to_owned()).or_default();
        if known.turn != self.turn {
            known.turn = self.turn;
            known.ids.clear();
        }
        known.ids.push_back(sent.clone());
        sent
    }

    /// Returns the ID of the call that a result of `function` belongs to.
    pub(super) fn of_result(&mut self, id: Option<&str>, function: &str) -> String {
        if let Some(id) = id.filter(|id| !id.is_empty()) {
            return self.of_result_with(id);
        }
        let same = self.open.iter().position(|(name, _)| name == function);
        match same.or((!self.open.is_empty()).then_some(0)) {
            Some(place) => self.open.remove(place).1,
            None => self.make(),
        }
    }

    fn of_result_with(&mut self, id: &str) -> String {
        let known = self.sent.get_mut(id);
        match known.and_then(|sent| match sent.ids.len() {
            // A call may have several results; all further ones belong to the last call.
            0 | 1 => sent.ids.front().cloned(),
            _ => sent.ids.pop_front(),
        }) {
            Some(sent) => sent,
            // A result without a call.
            None if is_taken(id) => id.to_owned(),
            None => self.make(),
        }
    }

    fn make(&mut self) -> String {
        loop {
            let made = format!("toolu_fallback_{}", self.made);
            self.made += 1;
            if self.used.insert(made.clone()) {
                return made;
            }
        }
    }
}

/// Whether the API accepts an ID unchanged.
fn is_taken(id: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    id.chars().all(fits)
}
