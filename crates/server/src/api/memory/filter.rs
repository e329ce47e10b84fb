//! Which memories are meant: the same conditions in a body and in a query.

use retain_core::{JsonMap, MemoryFilter, OriginKind};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    super::{
        problem::Problem,
        query::{Kind, Param, Params},
        shapes::{FreeObject, Time},
    },
    about::{KindName, OriginName},
};

const FROM: Param = Param::new("from", Kind::Time, "Said at this time or later.");
const TO: Param = Param::new("to", Kind::Time, "Said before this time.");
const AUTHOR: Param = Param::new("author", Kind::Text, "Said by this author.");
const SESSION: Param = Param::new("session", Kind::Text, "Said in this session.");
const KIND: Param = Param::new("kind", Kind::Choice(&["turn", "direct"]), "Of this kind.");
const ORIGIN: Param = Param::new(
    "origin",
    Kind::Choice(&["person", "agent", "tool", "direct"]),
    "From one of these.",
);
const TOOL: Param = Param::new("tool", Kind::Text, "From this tool.");

/// The conditions as parameters of a query.
pub(super) const PARAMS: [Param; 7] = [FROM, TO, AUTHOR, SESSION, KIND, ORIGIN, TOOL];

/// Which memories are meant. What is not said does not matter.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MemoryFilter")]
pub(super) struct Filter {
    /// Said at this time or later, in seconds since 1970.
    pub(super) from: Option<Time>,
    /// Said before this time.
    pub(super) to: Option<Time>,
    /// Said by this author.
    pub(super) author: Option<String>,
    /// Said in this session.
    pub(super) session: Option<String>,
    /// Of this kind.
    pub(super) kind: Option<KindName>,
    /// From one of these.
    pub(super) origin: Option<Origins>,
    /// From this tool.
    pub(super) tool: Option<String>,
    /// With these notes: every key has this very value.
    #[schemars(with = "Option<FreeObject>")]
    pub(super) metadata: Option<JsonMap>,
}

/// One origin, or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "MemoryOrigins")]
pub(super) enum Origins {
    /// This one.
    One(OriginName),
    /// One of these.
    Several(Vec<OriginName>),
}

impl From<Filter> for MemoryFilter {
    fn from(filter: Filter) -> MemoryFilter {
        let origins = match filter.origin {
            None => Vec::new(),
            Some(Origins::One(origin)) => vec![origin.into()],
            Some(Origins::Several(origins)) => origins.into_iter().map(OriginKind::from).collect(),
        };
        MemoryFilter {
            since: filter.from.map(|time| time.0),
            until: filter.to.map(|time| time.0),
            author: filter.author,
            session: filter.session,
            kind: filter.kind.map(Into::into),
            origins,
            tool: filter.tool,
            metadata: filter.metadata.unwrap_or_default(),
        }
    }
}

/// The conditions of a query.
pub(super) fn of_query(params: &Params) -> Result<MemoryFilter, Problem> {
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
