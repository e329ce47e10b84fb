//! Checks that two answers are equal.

use retain_core::{Json, Number};

use super::{CheckResult, Comparison, Rule, differ, parts::fields_mut};

impl Comparison<'_> {
    /// Compares two sessions; the order of state keys does not count.
    pub(super) fn check_session(
        &mut self,
        path: &str,
        expected: &Json,
        found: &Json,
    ) -> CheckResult {
        if expected.is_null() || found.is_null() {
            return self.check_equal(path, expected, found);
        }
        let state = format!("{path}.state");
        self.check_map(&state, &expected["state"], &found["state"])?;
        let without_state = |session: &Json| {
            let mut session = session.clone();
            fields_mut(&mut session).insert("state", Json::Null);
            session
        };
        self.check_equal(path, &without_state(expected), &without_state(found))
    }

    /// Compares two maps; the order of their keys does not count.
    pub(super) fn check_map(&mut self, path: &str, expected: &Json, found: &Json) -> CheckResult {
        let (Some(ours), Some(theirs)) = (expected.as_object(), found.as_object()) else {
            return differ(path, expected.clone(), found);
        };
        if ours.len() != theirs.len() {
            return differ(path, expected.clone(), found);
        }
        if ours.keys().ne(theirs.keys()) {
            self.rules.add(Rule::StateKeysHaveNoOrder);
        }
        for (key, value) in ours {
            match theirs.get(key) {
                Some(found) => self.check_equal(&format!("{path}.{key:?}"), value, found)?,
                None => return differ(path, expected.clone(), found),
            }
        }
        Ok(())
    }

    pub(super) fn check_event_ignoring_delta_order(
        &mut self,
        path: &str,
        expected: &Json,
        found: &Json,
    ) -> CheckResult {
        let mut expected = expected.clone();
        let delta = &expected["actions"]["stateDelta"];
        let theirs = found["actions"]["stateDelta"].clone();
        self.check_map(&format!("{path}.actions.stateDelta"), delta, &theirs)?;
        let actions = fields_mut(&mut expected)
            .get_mut("actions")
            .expect("actions");
        fields_mut(actions).insert("stateDelta", theirs);
        self.check_equal(path, &expected, found)
    }

    /// Compares two values, including the order of keys.
    pub(super) fn check_equal(&mut self, path: &str, expected: &Json, found: &Json) -> CheckResult {
        match (expected, found) {
            (Json::Object(a), Json::Object(b)) => {
                if a.keys().ne(b.keys()) {
                    return differ(path, expected.clone(), found);
                }
                for ((key, a), b) in a.iter().zip(b.values()) {
                    self.check_equal(&format!("{path}.{key}"), a, b)?;
                }
                Ok(())
            }
            (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
                for (index, (a, b)) in a.iter().zip(b.iter()).enumerate() {
                    self.check_equal(&format!("{path}[{index}]"), a, b)?;
                }
                Ok(())
            }
            _ if expected == found => Ok(()),
            (Json::Number(a), Json::Number(b)) => {
                // Python converts these numbers to 64-bit floats.
                if a.is_integer() == b.is_integer()
                    && a.as_f64() == b.as_f64()
                    && !is_nonzero_integer(a)
                {
                    self.rules.add(Rule::NumbersKeepTheirDigits);
                    return Ok(());
                }
                differ(path, expected.clone(), found)
            }
            _ => differ(path, expected.clone(), found),
        }
    }
}

/// Whether the number is an integer other than 0. Python keeps all digits of such a number.
fn is_nonzero_integer(number: &Number) -> bool {
    number.is_integer() && number.as_f64().is_none_or(|float| float != 0.0)
}
