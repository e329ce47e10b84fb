//! Parses YAML into values with line numbers.
//!
//! Stricter than YAML: repeated keys of a map and tags other than YAML's own are rejected. Anchors,
//! aliases and merge keys (`<<`) are supported.

use std::{collections::HashMap, path::Path};

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use retain_core::{Json, JsonMap};

use super::{error::ConfigError, scalar};

/// Maximum number of values, because aliases can turn a small file into a huge one.
const VALUES_MAX: usize = 100_000;

/// A value and the line on which it starts.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

/// A scalar, list or map.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Scalar(Json),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) value: Node,
}

impl Node {
    /// Returns the value without line numbers.
    pub(super) fn to_json(&self) -> Json {
        match &self.value {
            Value::Scalar(json) => json.clone(),
            Value::List(items) => items.iter().map(Node::to_json).collect::<Vec<_>>().into(),
            Value::Map(entries) => {
                let pairs = entries.iter();
                let pairs = pairs.map(|entry| (entry.key.clone(), entry.value.to_json()));
                pairs.collect::<JsonMap>().into()
            }
        }
    }

    fn count(&self) -> usize {
        match &self.value {
            Value::Scalar(_) => 1,
            Value::List(items) => 1 + items.iter().map(Node::count).sum::<usize>(),
            Value::Map(entries) => 1 + entries.iter().map(|it| it.value.count()).sum::<usize>(),
        }
    }
}

/// Parses a text with exactly one document.
pub(super) fn parse(file: &Path, text: &str) -> Result<Node, ConfigError> {
    let mut builder = Builder {
        file,
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        values: 0,
    };
    let node = builder.document()?;
    match builder.next()? {
        (Event::StreamEnd, _) => Ok(node),
        (_, span) => Err(builder.error(
            line_of(span),
            "expected one YAML document, found a second one",
        )),
    }
}

type ParserEvent<'t> = (Event<'t>, Span);

struct Builder<'f, 't> {
    file: &'f Path,
    parser: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, Node>,
    values: usize,
}

fn line_of(span: Span) -> usize {
    span.start.line()
}

impl<'t> Builder<'_, 't> {
    fn error(&self, line: usize, problem: impl Into<String>) -> ConfigError {
        ConfigError::new(self.file, line, "", problem)
    }

    fn next(&mut self) -> Result<ParserEvent<'t>, ConfigError> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => {
                let problem = format!("is invalid YAML: {}", error.info());
                Err(self.error(error.marker().line(), problem))
            }
            None => Err(self.error(1, "is invalid YAML: unexpected end of file")),
        }
    }

    fn document(&mut self) -> Result<Node, ConfigError> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(..) => {}
                Event::StreamEnd => return Err(self.error(1, "the file is empty")),
                event => {
                    let node = self.node((event, span))?;
                    return match self.next()? {
                        (Event::DocumentEnd, _) => Ok(node),
                        (_, span) => {
                            Err(self.error(line_of(span), "expected the end of the document"))
                        }
                    };
                }
            }
        }
    }

    fn node(&mut self, (event, span): ParserEvent<'t>) -> Result<Node, ConfigError> {
        let line = line_of(span);
        let (anchor, value) = match event {
            Event::Alias(anchor) => return self.alias(anchor, line),
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, self.scalar(&text, style, tag.as_deref(), line)?)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), line)?;
                (anchor, self.list()?)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), line)?;
                (anchor, self.map()?)
            }
            _ => return Err(self.error(line, "expected a value")),
        };
        self.count_values(1, line)?;
        let node = Node { line, value };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn count_values(&mut self, values: usize, line: usize) -> Result<(), ConfigError> {
        self.values += values;
        if self.values > VALUES_MAX {
            return Err(self.error(line, format!("expands to more than {VALUES_MAX} values")));
        }
        Ok(())
    }

    fn alias(&mut self, anchor: usize, line: usize) -> Result<Node, ConfigError> {
        // An alias inside its own anchor refers to a value that is not parsed yet.
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(self.error(line, "the alias refers to a value that contains it"));
        };
        self.count_values(node.count(), line)?;
        Ok(node)
    }

    fn scalar(
        &self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        line: usize,
    ) -> Result<Value, ConfigError> {
        self.check_tag(tag, line)?;
        let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
        Ok(Value::Scalar(match style {
            ScalarStyle::Plain if !is_text => scalar::parse_plain(text),
            _ => text.into(),
        }))
    }

    fn check_tag(&self, tag: Option<&Tag>, line: usize) -> Result<(), ConfigError> {
        match tag {
            Some(tag) if !tag.is_yaml_core_schema() => {
                let problem = format!("unsupported tag {}", tag.original());
                Err(self.error(line, problem))
            }
            _ => Ok(()),
        }
    }

    fn list(&mut self) -> Result<Value, ConfigError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::List(items)),
                next => items.push(self.node(next)?),
            }
        }
    }

    fn map(&mut self) -> Result<Value, ConfigError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut merged = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let line = line_of(span);
            let key = match event {
                Event::MappingEnd => break,
                Event::Scalar(key, ..) => key.into_owned(),
                _ => return Err(self.error(line, "expected a string as key")),
            };
            let next = self.next()?;
            let value = self.node(next)?;
            if key == "<<" {
                self.merge(value, &mut merged)?;
                continue;
            }
            if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                let problem = format!("occurs twice; first on line {}", first.line);
                return Err(ConfigError::new(self.file, line, &key, problem));
            }
            entries.push(Entry { key, line, value });
        }
        for entry in merged {
            if entries.iter().all(|known| known.key != entry.key) {
                entries.push(entry);
            }
        }
        Ok(Value::Map(entries))
    }

    /// Adds the entries of a merge key: a map, or a list of maps in which the first wins.
    fn merge(&self, value: Node, merged: &mut Vec<Entry>) -> Result<(), ConfigError> {
        match value.value {
            Value::Map(entries) => merged.extend(entries),
            Value::List(maps) => {
                for map in maps {
                    self.merge(map, merged)?;
                }
            }
            Value::Scalar(_) => {
                return Err(self.error(value.line, "the value of `<<` must be a map"));
            }
        }
        Ok(())
    }
}
