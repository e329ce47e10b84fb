//! The memory filter, whose conditions can be in a body or in a query string.

use retain_core::{MemoryFilter, OriginKind};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    super::{
        problem::Problem,
        query::{Kind, Param, Params},
        shapes::Time,
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

/// Defines a body with the conditions of a memory filter between its other fields. Serde's `flatten`
/// cannot do this, because it would not read the metadata exactly.
macro_rules! filter_body {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            before { $($before:tt)* }
            after { $($after:tt)* }
        }
    ) => {
        $(#[$attribute])*
        $visibility struct $name {
            $($before)*
            /// Only memories from this time or later, in seconds since 1970.
            from: Option<$crate::api::shapes::Time>,
            /// Only memories from before this time.
            to: Option<$crate::api::shapes::Time>,
            /// Only memories by this author.
            author: Option<String>,
            /// Only memories from this session.
            session: Option<String>,
            /// Only memories of this kind.
            kind: Option<$crate::api::memory::info::KindName>,
            /// Only memories of these origins.
            origin: Option<$crate::api::memory::filter::Origins>,
            /// Only memories from this tool.
            tool: Option<String>,
            /// Only memories whose metadata has these exact values.
            #[schemars(with = "Option<crate::api::shapes::FreeObject>")]
            metadata: Option<retain_core::JsonMap>,
            $($after)*
        }

        impl $name {
            /// Moves the conditions out of the body.
            $visibility fn take_filter(&mut self) -> retain_core::MemoryFilter {
                let mut filter = retain_core::MemoryFilter::default();
                filter.origins = self.origin.take().map(Into::into).unwrap_or_default();
                filter.since = self.from.take().map(|time| time.0);
                filter.until = self.to.take().map(|time| time.0);
                filter.author = self.author.take();
                filter.session = self.session.take();
                filter.kind = self.kind.take().map(Into::into);
                filter.tool = self.tool.take();
                filter.metadata = self.metadata.take().unwrap_or_default();
                filter
            }
        }
    };
}
pub(super) use filter_body;

filter_body! {
    /// The conditions of a memory filter. A missing field matches all memories.
    #[derive(Debug, Default, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "MemoryFilter")]
    pub(super) struct Filter {
        before {}
        after {}
    }
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

impl From<Origins> for Vec<OriginKind> {
    fn from(origins: Origins) -> Vec<OriginKind> {
        match origins {
            Origins::One(origin) => vec![origin.into()],
            Origins::Several(origins) => origins.into_iter().map(OriginKind::from).collect(),
        }
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
    let mut filter = Filter {
        from: params.time(&FROM)?.map(Time),
        to: params.time(&TO)?.map(Time),
        author: text(&AUTHOR),
        session: text(&SESSION),
        kind,
        origin: origin.map(Origins::One),
        tool: text(&TOOL),
        metadata: None,
    };
    Ok(filter.take_filter())
}
