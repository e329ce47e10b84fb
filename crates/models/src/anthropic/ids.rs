//! Ids that tie results to calls, as the API takes them: letters, digits, `_` and `-`.

use std::collections::BTreeMap;

/// The ids of one conversation. An id that the API would refuse gets a stand-in, the same for the
/// call and its result; a result without an id belongs to the oldest open call without one.
#[derive(Debug, Default)]
pub(super) struct CallIds {
    stand_ins: BTreeMap<String, String>,
    /// Calls without an id that have no result yet: function and stand-in.
    open: Vec<(String, String)>,
    made: usize,
}

impl CallIds {
    /// The id of a call of `function`.
    pub(super) fn of_call(&mut self, id: Option<&str>, function: &str) -> String {
        match id.filter(|id| !id.is_empty()) {
            Some(id) => self.taken(id),
            None => {
                let made = self.make();
                self.open.push((function.to_owned(), made.clone()));
                made
            }
        }
    }

    /// The id of the call that a result of `function` belongs to.
    pub(super) fn of_result(&mut self, id: Option<&str>, function: &str) -> String {
        if let Some(id) = id.filter(|id| !id.is_empty()) {
            return self.taken(id);
        }
        let same = self.open.iter().position(|(name, _)| name == function);
        match same.or((!self.open.is_empty()).then_some(0)) {
            Some(place) => self.open.remove(place).1,
            None => self.make(),
        }
    }

    fn taken(&mut self, id: &str) -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if id.chars().all(fits) {
            return id.to_owned();
        }
        if let Some(known) = self.stand_ins.get(id) {
            return known.clone();
        }
        let made = self.make();
        self.stand_ins.insert(id.to_owned(), made.clone());
        made
    }

    fn make(&mut self) -> String {
        let made = format!("toolu_fallback_{}", self.made);
        self.made += 1;
        made
    }
}
