//! A configuration value with its location, and methods that read it as an expected type. Their
//! errors name the location.

use std::path::Path;

use retain_core::{Json, adk::ObjectSchema};

use super::{
    error::ConfigError,
    nearest::did_you_mean,
    yaml::{Entry, Node, Value},
};

type Result<T> = std::result::Result<T, ConfigError>;

/// A value with its file, its line and its path of keys.
#[derive(Debug, Clone)]
pub(super) struct ConfigValue<'a> {
    file: &'a Path,
    key: String,
    line: usize,
    node: &'a Node,
}

impl<'a> ConfigValue<'a> {
    /// Returns the root value of a file.
    pub(super) fn root(file: &'a Path, node: &'a Node) -> ConfigValue<'a> {
        ConfigValue {
            file,
            key: String::new(),
            line: node.line,
            node,
        }
    }

    pub(super) fn file(&self) -> &'a Path {
        self.file
    }

    pub(super) fn error(&self, problem: impl Into<String>) -> ConfigError {
        ConfigError::new(self.file, self.line, &self.key, problem)
    }

    fn expected(&self, what: &str) -> ConfigError {
        self.error(format!(
            "expected {what}, found {}",
            describe_value(self.node)
        ))
    }

    pub(super) fn json(&self) -> Json {
        self.node.to_json()
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(&self.node.value, Value::Scalar(Json::Null))
    }

    /// Whether the value is an empty string, list or map.
    pub(super) fn is_empty(&self) -> bool {
        match &self.node.value {
            Value::List(items) => items.is_empty(),
            Value::Map(entries) => entries.is_empty(),
            Value::Scalar(json) => json.as_str() == Some(""),
        }
    }

    /// Returns the string, if the value is one.
    pub(super) fn as_text(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::Scalar(json) => json.as_str(),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Result<&'a str> {
        self.as_text().ok_or_else(|| self.expected("a string"))
    }

    /// Reads a name: a non-empty string.
    pub(super) fn name(&self) -> Result<&'a str> {
        match self.text()? {
            "" => Err(self.error("expected a name, found an empty string")),
            name => Ok(name),
        }
    }

    /// Reads a boolean. Accepts the same strings and numbers as ADK.
    pub(super) fn bool(&self) -> Result<bool> {
        let Value::Scalar(json) = &self.node.value else {
            return Err(self.expected("true or false"));
        };
        if let Some(value) = json.as_bool() {
            return Ok(value);
        }
        let word = json.as_str().map(str::to_ascii_lowercase);
        match (word.as_deref(), json.as_f64()) {
            (Some("1" | "t" | "true" | "y" | "yes" | "on"), _) => Ok(true),
            (Some("0" | "f" | "false" | "n" | "no" | "off"), _) => Ok(false),
            (_, Some(1.0)) => Ok(true),
            (_, Some(0.0)) => Ok(false),
            _ => Err(self.expected("true or false")),
        }
    }

    /// Reads a non-negative integer. As in ADK, it may be a string.
    pub(super) fn count(&self) -> Result<u32> {
        let number = match &self.node.value {
            Value::Scalar(Json::String(text)) => text.trim().parse().ok(),
            Value::Scalar(json) => match (json.as_i64(), json.as_f64()) {
                (Some(number), _) => u32::try_from(number).ok(),
                (None, Some(number)) if number.fract() == 0.0 => format!("{number}").parse().ok(),
                _ => None,
            },
            _ => None,
        };
        number.ok_or_else(|| self.expected("a non-negative integer"))
    }

    pub(super) fn list(&self) -> Result<Vec<ConfigValue<'a>>> {
        let Value::List(items) = &self.node.value else {
            return Err(self.expected("a list"));
        };
        let places = items.iter().enumerate().map(|(index, node)| ConfigValue {
            file: self.file,
            key: format!("{}[{index}]", self.key),
            line: node.line,
            node,
        });
        Ok(places.collect())
    }

    fn entries(&self, what: &str) -> Result<&'a [Entry]> {
        match &self.node.value {
            Value::Map(entries) => Ok(entries),
            _ => Err(self.expected(&format!("a map with the keys of {what}"))),
        }
    }

    fn child(&self, entry: &'a Entry) -> ConfigValue<'a> {
        let key = match self.key.as_str() {
            "" => entry.key.clone(),
            outer => format!("{outer}.{}", entry.key),
        };
        ConfigValue {
            file: self.file,
            key,
            line: entry.line,
            node: &entry.value,
        }
    }

    /// Returns the keys of a map with their values, without checking the keys.
    pub(super) fn pairs(&self, what: &str) -> Result<Vec<(&'a str, ConfigValue<'a>)>> {
        let entries = self.entries(what)?.iter();
        let pairs = entries.map(|entry| (entry.key.as_str(), self.child(entry)));
        Ok(pairs.collect())
    }

    /// Reads a map with any keys.
    pub(super) fn open_fields(&self, what: &'static str) -> Result<Fields<'a>> {
        Ok(Fields {
            map: self.clone(),
            what,
            pairs: self.pairs(what)?,
        })
    }

    /// Reads a map whose keys must be fields of `object`.
    pub(super) fn fields(&self, what: &'static str, object: &ObjectSchema) -> Result<Fields<'a>> {
        let known: Vec<&str> = object.snake_names().collect();
        let pairs = self.pairs(what)?;
        match pairs.iter().find(|(key, _)| !known.contains(key)) {
            Some((key, place)) => Err(place.error(unknown_key(key, what, &known))),
            None => self.open_fields(what),
        }
    }
}

/// Formats the error about an unknown key, with a suggestion.
pub(super) fn unknown_key(key: &str, what: &str, known: &[&str]) -> String {
    let hint = did_you_mean(key, known.iter().copied(), "known keys");
    format!("is not a key of {what}; {hint}")
}

/// A map's values by key.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    map: ConfigValue<'a>,
    what: &'static str,
    pairs: Vec<(&'a str, ConfigValue<'a>)>,
}

impl<'a> Fields<'a> {
    /// Returns the map itself.
    pub(super) fn map(&self) -> &ConfigValue<'a> {
        &self.map
    }

    /// Returns the value of a key. A null value counts as missing.
    pub(super) fn get(&self, key: &str) -> Option<&ConfigValue<'a>> {
        let pair = self.pairs.iter().find(|(known, _)| *known == key);
        pair.map(|(_, place)| place)
            .filter(|place| !place.is_null())
    }

    /// Returns the value of a required key.
    pub(super) fn required(&self, key: &str) -> Result<&ConfigValue<'a>> {
        let pair = self.pairs.iter().find(|(known, _)| *known == key);
        pair.map(|(_, place)| place).ok_or_else(|| {
            let problem = format!("the key `{key}` of {} is missing", self.what);
            self.map.error(problem)
        })
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>> {
        self.get(key).map(ConfigValue::text).transpose()
    }

    pub(super) fn bool(&self, key: &str) -> Result<Option<bool>> {
        self.get(key).map(ConfigValue::bool).transpose()
    }

    /// Returns the items of a list, or no items if the key is missing.
    pub(super) fn list(&self, key: &str) -> Result<Vec<ConfigValue<'a>>> {
        let items = self.get(key).map(ConfigValue::list).transpose()?;
        Ok(items.unwrap_or_default())
    }
}

/// Maximum number of characters of a string that an error quotes.
const SHOWN_MAX: usize = 40;

/// Describes a value for an error message.
fn describe_value(node: &Node) -> String {
    match &node.value {
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a map".to_owned(),
        Value::Scalar(Json::Null) => "nothing".to_owned(),
        Value::Scalar(Json::String(text)) => match text.char_indices().nth(SHOWN_MAX) {
            Some((end, _)) => format!("the string {:?}…", &text[..end]),
            None => format!("the string {text:?}"),
        },
        Value::Scalar(Json::Number(number)) => format!("the number {number}"),
        Value::Scalar(json) => json.to_string(),
    }
}
