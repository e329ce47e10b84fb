//! A JSON object that keeps its keys in insertion order.

use std::{collections::HashMap, fmt};

use super::Json;

/// The number of keys from which a map has an index. In a smaller map, as most are, a scan over the
/// keys is faster than a hash table.
const INDEXED_FROM: usize = 24;

/// A map from strings to [`Json`] in insertion order. Setting a key again keeps its position, as in
/// Python.
///
/// ```
/// use retain_core::JsonMap;
/// let mut map = JsonMap::new();
/// map.insert("b", 1);
/// map.insert("a", "two");
/// assert_eq!(map.insert("b", 3), Some(1.into()));
/// assert_eq!(map.keys().collect::<Vec<_>>(), ["b", "a"]);
/// ```
#[derive(Clone, Default)]
pub struct JsonMap {
    entries: Vec<(String, Json)>,
    /// The position of each key in `entries`; only for large maps.
    #[expect(
        clippy::box_collection,
        reason = "most maps have no index, and an absent box is smaller than an absent table"
    )]
    index: Option<Box<HashMap<String, usize>>>,
}

impl JsonMap {
    /// Creates an empty map.
    pub const fn new() -> JsonMap {
        JsonMap {
            entries: Vec::new(),
            index: None,
        }
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the value under `key`.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.position(key).map(|position| &self.entries[position].1)
    }

    /// Returns the value under `key`, mutable.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Json> {
        let position = self.position(key)?;
        Some(&mut self.entries[position].1)
    }

    /// Whether the map has `key`.
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Sets `key` and returns the previous value.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Json>) -> Option<Json> {
        let (key, value) = (key.into(), value.into());
        if let Some(position) = self.position(&key) {
            return Some(std::mem::replace(&mut self.entries[position].1, value));
        }
        if let Some(index) = &mut self.index {
            index.insert(key.clone(), self.entries.len());
        }
        self.entries.push((key, value));
        if self.index.is_none() && self.entries.len() >= INDEXED_FROM {
            self.build_index();
        }
        None
    }

    /// Removes `key`, keeping the order of the others. Takes time proportional to the size of the
    /// map.
    pub fn remove(&mut self, key: &str) -> Option<Json> {
        let position = self.position(key)?;
        let (_, value) = self.entries.remove(position);
        if self.index.is_some() {
            self.build_index();
        }
        Some(value)
    }

    /// Keeps only the keys for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Json) -> bool) {
        self.entries.retain(|(key, value)| keep(key, value));
        if self.index.is_some() {
            self.build_index();
        }
    }

    /// Iterates over keys and values in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &Json)> + ExactSizeIterator {
        self.entries
            .iter()
            .map(|(key, value)| (key.as_str(), value))
    }

    /// Iterates over the keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        self.entries.iter().map(|(key, _)| key.as_str())
    }

    /// Iterates over the values in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Json> + ExactSizeIterator {
        self.entries.iter().map(|(_, value)| value)
    }

    fn position(&self, key: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(key).copied(),
            None => self.entries.iter().position(|(k, _)| k == key),
        }
    }

    fn build_index(&mut self) {
        let positions = self.entries.iter().enumerate();
        let index = positions.map(|(position, (key, _))| (key.clone(), position));
        self.index = Some(Box::new(index.collect()));
    }
}

/// Maps are equal if they have the same keys with equal values, in any order.
impl PartialEq for JsonMap {
    fn eq(&self, other: &JsonMap) -> bool {
        self.len() == other.len()
            && self
                .iter()
                .all(|(key, value)| other.get(key) == Some(value))
    }
}

impl fmt::Debug for JsonMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl std::ops::Index<&str> for JsonMap {
    type Output = Json;

    /// Returns the value under `key`; `null` if the key is missing.
    fn index(&self, key: &str) -> &Json {
        self.get(key).unwrap_or(&super::NULL)
    }
}

impl<K: Into<String>, V: Into<Json>> FromIterator<(K, V)> for JsonMap {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> JsonMap {
        let mut map = JsonMap::new();
        map.extend(pairs);
        map
    }
}

impl<K: Into<String>, V: Into<Json>> Extend<(K, V)> for JsonMap {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        for (key, value) in pairs {
            self.insert(key, value);
        }
    }
}

impl<K: Into<String>, V: Into<Json>, const N: usize> From<[(K, V); N]> for JsonMap {
    fn from(pairs: [(K, V); N]) -> JsonMap {
        pairs.into_iter().collect()
    }
}

impl IntoIterator for JsonMap {
    type Item = (String, Json);
    type IntoIter = std::vec::IntoIter<(String, Json)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<'a> IntoIterator for &'a JsonMap {
    type Item = (&'a str, &'a Json);
    type IntoIter = std::iter::Map<
        std::slice::Iter<'a, (String, Json)>,
        fn(&'a (String, Json)) -> (&'a str, &'a Json),
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.entries
            .iter()
            .map(|(key, value)| (key.as_str(), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexed_map_inserts_removes_and_retains() {
        let mut map: JsonMap = (0..100).map(|i| (format!("k{i}"), i)).collect();
        assert_eq!(map.insert("k50", "new"), Some(Json::from(50)));
        assert_eq!(map.remove("k10"), Some(Json::from(10)));
        assert_eq!(map.get("k11"), Some(&Json::from(11)));
        assert_eq!(map.get("k10"), None);
        map.retain(|_, value| value.as_i64().is_none_or(|i| i % 2 == 0));
        assert_eq!(map.len(), 49);
        assert_eq!(map.get("k98"), Some(&Json::from(98)));
        assert_eq!(map.keys().nth(1), Some("k2"));
    }

    #[test]
    fn map_equality_ignores_the_order_of_keys() {
        let a = JsonMap::from([("x", 1), ("y", 2)]);
        let b = JsonMap::from([("y", 2), ("x", 1)]);
        assert_eq!(a, b);
        assert_ne!(a, JsonMap::from([("x", 1), ("z", 2)]));
    }
}
