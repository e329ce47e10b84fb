//! A session's own keys in memory: every value they ever had, and how they stand in a list.

use std::{borrow::Cow, collections::BTreeMap, sync::OnceLock};

use retain_core::{Json, JsonError, JsonMap, OwnKeys};

/// How long a text may be that is kept for the next list: most are short, and a long one would take
/// as much memory again as the keys themselves.
const KEPT_MAX: usize = 1024;

/// The values of a key with their positions; `None` where it became absent.
type Values = Vec<(u64, Option<Json>)>;

/// Every value a key ever had.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnState {
    values: BTreeMap<String, Values>,
    /// The keys as they are now, once somebody has listed them. Lists are long and ask for it each
    /// time, while few sessions of a list change between two of them.
    listed: OnceLock<Box<str>>,
}

impl OwnState {
    /// All values, to be changed.
    pub(super) fn values_mut(&mut self) -> &mut BTreeMap<String, Values> {
        self.listed = OnceLock::new();
        &mut self.values
    }

    /// What the key says now.
    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        self.values.get(key).and_then(newest)
    }

    /// The keys as they were after `position`.
    pub(super) fn at(&self, position: u64) -> JsonMap {
        let at = |values: &Values| {
            let end = values.partition_point(|(at, _)| *at <= position);
            values[..end].last().and_then(|(_, value)| value.clone())
        };
        let keys = self.values.iter();
        keys.filter_map(|(key, values)| Some((key.as_str(), at(values)?)))
            .collect()
    }

    /// The keys as a list shows them now; where that cannot be, which one and why.
    pub(super) fn listed(&self) -> Result<Cow<'_, str>, (String, JsonError)> {
        if let Some(listed) = self.listed.get() {
            return Ok(Cow::Borrowed(listed));
        }
        let mut listed = OwnKeys::default();
        for (key, values) in &self.values {
            if let Some(value) = newest(values) {
                let pushed = listed.push(key, value);
                pushed.map_err(|error| (key.clone(), error))?;
            }
        }
        if listed.as_str().len() > KEPT_MAX {
            return Ok(Cow::Owned(listed.into()));
        }
        let kept = self.listed.get_or_init(|| String::from(listed).into());
        Ok(Cow::Borrowed(kept))
    }
}

fn newest(values: &Values) -> Option<&Json> {
    values.last().and_then(|(_, value)| value.as_ref())
}
