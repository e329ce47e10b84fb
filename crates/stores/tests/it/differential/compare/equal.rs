//! Equality of answers.

use retain_core::{Json, Number};

use super::{Checked, Comparison, Rule, differ, parts::fields_mut};

impl Comparison<'_> {
    /// Compare two sessions; the order of state keys does not count.
    pub(super) fn same_session(&mut self, place: &str, expected: &Json, found: &Json) -> Checked {
        if expected.is_null() || found.is_null() {
            return self.same(place, expected, found);
        }
        let state = format!("{place}.state");
        self.same_map(&state, &expected["state"], &found["state"])?;
        let without_state = |session: &Json| {
            let mut session = session.clone();
            fields_mut(&mut session).insert("state", Json::Null);
            session
        };
        self.same(place, &without_state(expected), &without_state(found))
    }

    /// Compare two maps; the order of their keys does not count.
    pub(super) fn same_map(&mut self, place: &str, expected: &Json, found: &Json) -> Checked {
        let (Some(ours), Some(theirs)) = (expected.as_object(), found.as_object()) else {
            return differ(place, expected.clone(), found);
        };
        if ours.len() != theirs.len() {
            return differ(place, expected.clone(), found);
        }
        if ours.keys().ne(theirs.keys()) {
            self.used.add(Rule::StateKeysHaveNoOrder);
        }
        for (key, value) in ours {
            match theirs.get(key) {
                Some(found) => self.same(&format!("{place}.{key:?}"), value, found)?,
                None => return differ(place, expected.clone(), found),
            }
        }
        Ok(())
    }

    pub(super) fn same_but_delta_order(
        &mut self,
        place: &str,
        expected: &Json,
        found: &Json,
    ) -> Checked {
        let mut expected = expected.clone();
        let delta = &expected["actions"]["stateDelta"];
        let theirs = found["actions"]["stateDelta"].clone();
        self.same_map(&format!("{place}.actions.stateDelta"), delta, &theirs)?;
        let actions = fields_mut(&mut expected)
            .get_mut("actions")
            .expect("actions");
        fields_mut(actions).insert("stateDelta", theirs);
        self.same(place, &expected, found)
    }

    /// Compare two values, including the order of keys.
    pub(super) fn same(&mut self, place: &str, expected: &Json, found: &Json) -> Checked {
        match (expected, found) {
            (Json::Object(a), Json::Object(b)) => {
                if a.keys().ne(b.keys()) {
                    return differ(place, expected.clone(), found);
                }
                for ((key, a), b) in a.iter().zip(b.values()) {
                    self.same(&format!("{place}.{key}"), a, b)?;
                }
                Ok(())
            }
            (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
                for (at, (a, b)) in a.iter().zip(b.iter()).enumerate() {
                    self.same(&format!("{place}[{at}]"), a, b)?;
                }
                Ok(())
            }
            _ if expected == found => Ok(()),
            (Json::Number(a), Json::Number(b)) => {
                // Same type and same 64-bit float: Python keeps no more of a number.
                if a.is_integer() == b.is_integer() && a.as_f64() == b.as_f64() && !big(a) {
                    self.used.add(Rule::NumbersKeepTheirDigits);
                    return Ok(());
                }
                differ(place, expected.clone(), found)
            }
            _ => differ(place, expected.clone(), found),
        }
    }
}

/// Whether a float cannot hold the integer exactly. Python can.
fn big(number: &Number) -> bool {
    number.is_integer() && number.as_f64().is_none_or(|float| float != 0.0)
}
