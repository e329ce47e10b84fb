//! Call IDs that the API accepts: unique, with only letters, digits, `_` and `-`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Assigns the call IDs of one conversation. Replaces invalid IDs, and IDs that repeat because a
/// server restarts counting in every message, in both the call and its result. A result without an
/// ID belongs to the oldest unanswered call without one.
#[derive(Debug, Default)]
pub(super) struct CallIds {
    /// For each original ID, the IDs sent in the latest message that contains it.
    sent: BTreeMap<String, SentIds>,
    /// Calls that had no ID and have no result yet: function name and generated ID.
    unanswered: Vec<(String, String)>,
    /// All call IDs in use.
    used: BTreeSet<String>,
    /// Number of generated IDs.
    generated: usize,
    /// Number of the assistant message that is being converted.
    message: usize,
}

/// The IDs sent for those calls of an assistant message that share an original ID.
#[derive(Debug, Default)]
struct SentIds {
    message: usize,
    ids: VecDeque<String>,
}

impl CallIds {
    /// Starts an assistant message. Later results belong to its calls.
    pub(super) fn begin_message(&mut self) {
        self.message += 1;
    }

    /// Returns the ID to send for a call of `function`.
    pub(super) fn id_of_call(&mut self, id: Option<&str>, function: &str) -> String {
        let Some(id) = id.filter(|id| !id.is_empty()) else {
            let generated = self.generate();
            self.unanswered
                .push((function.to_owned(), generated.clone()));
            return generated;
        };
        let sent = match is_valid(id) && !self.used.contains(id) {
            true => id.to_owned(),
            false => self.generate(),
        };
        self.used.insert(sent.clone());
        let same_original = self.sent.entry(id.to_owned()).or_default();
        if same_original.message != self.message {
            same_original.message = self.message;
            same_original.ids.clear();
        }
        same_original.ids.push_back(sent.clone());
        sent
    }

    /// Returns the sent ID of the call that a result of `function` belongs to.
    pub(super) fn id_of_result(&mut self, id: Option<&str>, function: &str) -> String {
        if let Some(id) = id.filter(|id| !id.is_empty()) {
            return self.id_of_result_with_id(id);
        }
        let same = self
            .unanswered
            .iter()
            .position(|(name, _)| name == function);
        match same.or((!self.unanswered.is_empty()).then_some(0)) {
            Some(position) => self.unanswered.remove(position).1,
            None => self.generate(),
        }
    }

    fn id_of_result_with_id(&mut self, id: &str) -> String {
        let same_original = self.sent.get_mut(id);
        match same_original.and_then(|sent| match sent.ids.len() {
            // A call may have several results: any further ones belong to the last call.
            0 | 1 => sent.ids.front().cloned(),
            _ => sent.ids.pop_front(),
        }) {
            Some(sent) => sent,
            // The result has no call.
            None if is_valid(id) => id.to_owned(),
            None => self.generate(),
        }
    }

    fn generate(&mut self) -> String {
        loop {
            let generated = format!("toolu_fallback_{}", self.generated);
            self.generated += 1;
            if self.used.insert(generated.clone()) {
                return generated;
            }
        }
    }
}

/// Whether the API accepts every character of the ID.
fn is_valid(id: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    id.chars().all(is_allowed)
}
