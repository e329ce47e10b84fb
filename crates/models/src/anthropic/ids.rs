//! Ids that tie results to calls, as the API takes them: letters, digits, `_` and `-`, each once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The ids of one conversation. An id that the API would refuse gets a stand-in, the same for the
/// call and its result: so does one that an earlier call has, as some servers count their calls anew
/// in every turn. A result without an id belongs to the oldest open call without one.
#[derive(Debug, Default)]
pub(super) struct CallIds {
    /// What calls of the latest turn that had one are sent as, by the id that they came with.
    sent: BTreeMap<String, Sent>,
    /// Calls without an id that have no result yet: function and stand-in.
    open: Vec<(String, String)>,
    /// All ids that calls were sent with.
    used: BTreeSet<String>,
    made: usize,
    turn: usize,
}

/// The ids that calls of one turn, which came with the same id, are sent with.
#[derive(Debug, Default)]
struct Sent {
    turn: usize,
    ids: VecDeque<String>,
}

impl CallIds {
    /// A turn of the model begins. Results belong to calls of the latest one.
    pub(super) fn begin_turn(&mut self) {
        self.turn += 1;
    }

    /// The id of a call of `function`.
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

    /// The id of the call that a result of `function` belongs to.
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
            // A call may have more than one result; the last one has all that follow.
            0 | 1 => sent.ids.front().cloned(),
            _ => sent.ids.pop_front(),
        }) {
            Some(sent) => sent,
            // A result that no call belongs to.
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

/// Whether the API takes an id as it is.
fn is_taken(id: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    id.chars().all(fits)
}
