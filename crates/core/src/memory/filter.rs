//! The filters of searching, listing and forgetting memories.

use super::record::{FilterFields, MemoryKind, OriginKind};
use crate::json::JsonMap;

/// Selects memories. An unset condition matches everything; the default selects all.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct MemoryFilter {
    /// Earliest time of a selected memory, in seconds since 1970.
    pub since: Option<f64>,
    /// End of the time range (exclusive), in seconds since 1970.
    pub until: Option<f64>,
    /// The author of the selected memories.
    pub author: Option<String>,
    /// The session of the selected memories.
    pub session: Option<String>,
    /// The kind of the selected memories.
    pub kind: Option<MemoryKind>,
    /// The allowed origins; empty allows all.
    pub origins: Vec<OriginKind>,
    /// The tool whose results are selected.
    pub tool: Option<String>,
    /// The required metadata: every key must have exactly this value.
    pub metadata: JsonMap,
}

impl MemoryFilter {
    /// Selects memories at this time or later, in seconds since 1970.
    pub fn with_since(mut self, seconds: f64) -> MemoryFilter {
        self.since = Some(seconds);
        self
    }

    /// Selects memories before this time, in seconds since 1970.
    pub fn with_until(mut self, seconds: f64) -> MemoryFilter {
        self.until = Some(seconds);
        self
    }

    /// Selects memories by this author.
    pub fn with_author(mut self, author: impl Into<String>) -> MemoryFilter {
        self.author = Some(author.into());
        self
    }

    /// Selects memories from this session.
    pub fn with_session(mut self, id: impl Into<String>) -> MemoryFilter {
        self.session = Some(id.into());
        self
    }

    /// Selects memories of this kind.
    pub fn with_kind(mut self, kind: MemoryKind) -> MemoryFilter {
        self.kind = Some(kind);
        self
    }

    /// Selects memories from one of these origins; an empty list matches all.
    pub fn with_origins(mut self, origins: impl IntoIterator<Item = OriginKind>) -> MemoryFilter {
        self.origins = origins.into_iter().collect();
        self
    }

    /// Selects memories from this tool.
    pub fn with_tool(mut self, name: impl Into<String>) -> MemoryFilter {
        self.tool = Some(name.into());
        self
    }

    /// Selects memories with this metadata: every key has exactly this value.
    pub fn with_metadata(mut self, metadata: JsonMap) -> MemoryFilter {
        self.metadata = metadata;
        self
    }

    /// Whether the filter selects all memories.
    pub fn is_any(&self) -> bool {
        *self == MemoryFilter::default()
    }

    /// Whether the filter selects this memory.
    ///
    /// ```
    /// use retain_core::{MemoryInfo, MemoryFilter};
    /// let filter = MemoryFilter::default().with_author("ada");
    /// assert!(!filter.matches(&MemoryInfo::default().filter_fields()));
    /// let by_ada = MemoryInfo { author: Some("ada".into()), ..MemoryInfo::default() };
    /// assert!(filter.matches(&by_ada.filter_fields()));
    /// ```
    pub fn matches(&self, fields: &FilterFields<'_>) -> bool {
        fn fits(wanted: Option<&String>, found: Option<&str>) -> bool {
            wanted.is_none_or(|wanted| found == Some(wanted.as_str()))
        }
        self.since.is_none_or(|since| fields.timestamp >= since)
            && self.until.is_none_or(|until| fields.timestamp < until)
            && fits(self.author.as_ref(), fields.author)
            && fits(self.session.as_ref(), fields.session)
            && fits(self.tool.as_ref(), fields.tool)
            && self.kind.is_none_or(|kind| fields.kind == kind)
            && (self.origins.is_empty() || self.origins.contains(&fields.origin))
            && self
                .metadata
                .iter()
                .all(|(key, value)| fields.custom_metadata.get(key) == Some(value))
    }
}

/// The memories to forget.
#[derive(Debug, Clone, PartialEq)]
// Exhaustive on purpose: a new variant must stop stores from compiling.
pub enum Forget {
    /// The memories with these ids, in all sessions.
    Ids(Vec<String>),
    /// The memories that a filter selects.
    Matching(MemoryFilter),
    /// The memories of these sessions, which have expired. They leave no tombstones, because the
    /// sessions cannot be ingested again.
    ExpiredSessions(Vec<String>),
}

impl Forget {
    /// Forgets all current memories of this session.
    pub fn session(id: impl Into<String>) -> Forget {
        Forget::Matching(MemoryFilter::default().with_session(id))
    }

    /// Forgets all current memories of this tool.
    pub fn tool(name: impl Into<String>) -> Forget {
        Forget::Matching(MemoryFilter::default().with_tool(name))
    }

    /// Whether these fields select a memory. Ids are not among them.
    pub fn matches(&self, fields: &FilterFields<'_>) -> bool {
        match self {
            Forget::Ids(_) => false,
            Forget::Matching(filter) => filter.matches(fields),
            Forget::ExpiredSessions(ids) => ids.iter().any(|id| fields.session == Some(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        json::Json,
        memory::{MemoryInfo, MemoryOrigin},
    };

    fn fields() -> MemoryInfo {
        MemoryInfo {
            timestamp: 10.0,
            author: Some("ada".to_owned()),
            session: Some("s1".to_owned()),
            origin: MemoryOrigin::Tool {
                name: "web".to_owned(),
            },
            custom_metadata: [("team".to_owned(), Json::from("red"))]
                .into_iter()
                .collect(),
            ..MemoryInfo::default()
        }
    }

    #[test]
    fn memory_filter_applies_every_condition() {
        let any = MemoryFilter::default();
        let text = |text: &str| Some(text.to_owned());
        let metadata = |value: &str| {
            [("team".to_owned(), Json::from(value))]
                .into_iter()
                .collect()
        };
        // For each condition, a filter that matches the memory and one that does not.
        let pairs = [
            (
                MemoryFilter {
                    since: Some(10.0),
                    ..any.clone()
                },
                MemoryFilter {
                    since: Some(10.1),
                    ..any.clone()
                },
            ),
            (
                MemoryFilter {
                    until: Some(10.1),
                    ..any.clone()
                },
                MemoryFilter {
                    until: Some(10.0),
                    ..any.clone()
                },
            ),
            (
                MemoryFilter {
                    author: text("ada"),
                    ..any.clone()
                },
                MemoryFilter {
                    author: text("Ada"),
                    ..any.clone()
                },
            ),
            (
                MemoryFilter {
                    session: text("s1"),
                    ..any.clone()
                },
                MemoryFilter {
                    session: text("s"),
                    ..any.clone()
                },
            ),
            (
                MemoryFilter {
                    tool: text("web"),
                    ..any.clone()
                },
                MemoryFilter {
                    tool: text("we"),
                    ..any.clone()
                },
            ),
            (
                MemoryFilter {
                    kind: Some(MemoryKind::Turn),
                    ..any.clone()
                },
                MemoryFilter {
                    kind: Some(MemoryKind::Direct),
                    ..any.clone()
                },
            ),
            (
                MemoryFilter {
                    origins: vec![OriginKind::Person, OriginKind::Tool],
                    ..any.clone()
                },
                MemoryFilter {
                    origins: vec![OriginKind::Person],
                    ..any.clone()
                },
            ),
            (
                MemoryFilter {
                    metadata: metadata("red"),
                    ..any.clone()
                },
                MemoryFilter {
                    metadata: metadata("blue"),
                    ..any.clone()
                },
            ),
        ];
        assert!(any.matches(&fields().filter_fields()) && any.is_any());
        for (matching, other) in pairs {
            assert!(matching.matches(&fields().filter_fields()), "{matching:?}");
            assert!(!other.matches(&fields().filter_fields()), "{other:?}");
            assert!(!matching.is_any());
        }
    }
}
