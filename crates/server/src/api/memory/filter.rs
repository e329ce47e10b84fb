//! The memory filter, whose conditions can be in a body or in a query string.

use retain_core::{JsonMap, MemoryFilter, OriginKind};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    super::{
        problem::Problem,
        query::{Kind, Param, Params},
        shapes::{FreeObject, Time},
    },
    info::{KindName, OriginName},
};

const FROM: Param = Param::new(
    "from",
    Kind::Time,
    "Only memories from this time or later, in seconds since 1970.",
);
const TO: Param = Param::new("to", Kind::Time, "Only memories from before this time.");
const AUTHOR: Param = Param::new("author", Kind::Text, "Only memories by this author.");
const SESSION: Param = Param::new("session", Kind::Text, "Only memories from this session.");
const KIND: Param = Param::new(
    "kind",
    Kind::Choice(&["turn", "direct"]),
    "Only memories of this kind.",
);
const ORIGIN: Param = Param::new(
    "origin",
    Kind::Choice(&["person", "agent", "tool", "direct"]),
    "Only memories of these origins.",
);
const TOOL: Param = Param::new("tool", Kind::Text, "Only memories from this tool.");

/// The conditions as query parameters.
pub(super) const PARAMS: [Param; 7] = [FROM, TO, AUTHOR, SESSION, KIND, ORIGIN, TOOL];

/// The conditions of a memory filter. A missing field matches all memories.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MemoryFilter")]
pub(super) struct Filter {
    /// Only memories from this time or later, in seconds since 1970.
    pub(super) from: Option<Time>,
    /// Only memories from before this time.
    pub(super) to: Option<Time>,
    /// Only memories by this author.
    pub(super) author: Option<String>,
    /// Only memories from this session.
    pub(super) session: Option<String>,
    /// Only memories of this kind.
    pub(super) kind: Option<KindName>,
    /// Only memories of these origins.
    pub(super) origin: Option<Origins>,
    /// Only memories from this tool.
    pub(super) tool: Option<String>,
    /// Only memories whose metadata has these exact values.
    #[schemars(with = "Option<FreeObject>")]
    pub(super) metadata: Option<JsonMap>,
}

/// One origin, or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "MemoryOrigins")]
pub(super) enum Origins {
    /// A single origin.
    One(OriginName),
    /// Any of several origins.
    Several(Vec<OriginName>),
}

impl From<Filter> for MemoryFilter {
    fn from(filter: Filter) -> MemoryFilter {
        let mut conditions = MemoryFilter::default();
        conditions.origins = match filter.origin {
            None => Vec::new(),
            Some(Origins::One(origin)) => vec![origin.into()],
            Some(Origins::Several(origins)) => origins.into_iter().map(OriginKind::from).collect(),
        };
        conditions.since = filter.from.map(|time| time.0);
        conditions.until = filter.to.map(|time| time.0);
        conditions.author = filter.author;
        conditions.session = filter.session;
        conditions.kind = filter.kind.map(Into::into);
        conditions.tool = filter.tool;
        conditions.metadata = filter.metadata.unwrap_or_default();
        conditions
    }
}

/// Reads the conditions from a query string.
pub(super) fn from_query(params: &Params) -> Result<MemoryFilter, Problem> {
    let text = |param: &Param| params.text(param).map(str::to_owned);
    let kind = match params.choice(&KIND)? {
        Some("turn") => Some(KindName::Turn),
        Some(_) => Some(KindName::Direct),
        None => None,
    };
    let origin = match params.choice(&ORIGIN)? {
        Some("person") => Some(OriginName::Person),
        Some("agent") => Some(OriginName::Agent),
        Some("tool") => Some(OriginName::Tool),
        Some(_) => Some(OriginName::Direct),
        None => None,
    };
    let filter = Filter {
        from: params.time(&FROM)?.map(Time),
        to: params.time(&TO)?.map(Time),
        author: text(&AUTHOR),
        session: text(&SESSION),
        kind,
        origin: origin.map(Origins::One),
        tool: text(&TOOL),
        metadata: None,
    };
    Ok(filter.into())
}
