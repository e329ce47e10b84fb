//! Types of request and response bodies: schemas of ADK's objects, and numbers with a range.

use std::{borrow::Cow, sync::Arc, time::Duration};

use retain_core::{Event, Session, adk::table};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{
    openapi::component,
    query::{INTEGER_MAX, TIME_MAX},
};

/// Maximum time to live: a hundred years, in seconds.
const TTL_MAX: f64 = 3_155_760_000.0;

/// Declares types without values, each of which names a JSON schema for `#[schemars(with = …)]`.
macro_rules! schema {
    ($($(#[doc = $about:literal])* $type:ident = $name:literal $schema:tt;)*) => { $(
        $(#[doc = $about])*
        pub(super) enum $type {}

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )* };
}

schema! {
    /// An object with any fields, such as state or custom metadata.
    FreeObject = "FreeObject" {
        "type": "object",
        "additionalProperties": true,
    };
    /// An error as an RFC 9457 problem.
    ProblemObject = "Problem" {
        "description": "An error as an RFC 9457 problem. `code` identifies it; further members depend on the code.",
        "type": "object",
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "code": {"type": "string"},
        },
        "required": ["type", "title", "status", "detail"],
        "additionalProperties": true,
    };
}

/// Declares types without values, each of which has the JSON schema of one of ADK's objects.
macro_rules! adk_schema {
    ($($(#[doc = $about:literal])* $type:ident = $table:ident;)*) => { $(
        $(#[doc = $about])*
        pub(super) enum $type {}

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                table::$table.name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                component(&table::$table).into()
            }
        }
    )* };
}

adk_schema! {
    /// ADK's `Event`.
    EventObject = EVENT;
    /// google-genai's `Content`.
    ContentObject = CONTENT;
    /// google-genai's `Part`.
    PartObject = PART;
    /// ADK's `MemoryEntry`.
    MemoryEntryObject = MEMORY_ENTRY;
    /// ADK's `ArtifactVersion`.
    ArtifactVersionObject = ARTIFACT_VERSION;
}

/// An event and its position in the log.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LoggedEvent {
    /// Its position; the first event has position 1.
    position: u64,
    /// The event.
    #[serde(serialize_with = "shared_event")]
    #[schemars(with = "EventObject")]
    event: Arc<Event>,
}

fn shared_event<S: Serializer>(event: &Arc<Event>, serializer: S) -> Result<S::Ok, S::Error> {
    event.serialize(serializer)
}

impl From<(u64, Arc<Event>)> for LoggedEvent {
    fn from((position, event): (u64, Arc<Event>)) -> LoggedEvent {
        LoggedEvent { position, event }
    }
}

impl LoggedEvent {
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn timestamp(&self) -> f64 {
        self.event.timestamp
    }
}

/// Returns the events of a session with their positions.
pub(super) fn logged_events(session: &Session) -> Vec<LoggedEvent> {
    let events = (0..session.events.len()).filter_map(|at| {
        let position = session.events.position(at)?;
        Some((position, session.events.get_shared(at)?).into())
    });
    events.collect()
}

/// Declares a number with a range, which its deserializer checks and its schema states.
macro_rules! checked {
    ($($(#[doc = $about:literal])* $type:ident($inner:ty) is $kind:literal from $min:expr => $max:expr;)*) => { $(
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy)]
        pub(super) struct $type(pub(super) $inner);

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let number = <$inner>::deserialize(deserializer)?;
                let range = $min..=$max;
                match range.contains(&number) {
                    true => Ok($type(number)),
                    false => Err(D::Error::custom(format!(
                        "{number} is out of range; expected {} to {}",
                        range.start(),
                        range.end(),
                    ))),
                }
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": $kind, "minimum": $min, "maximum": $max})
            }
        }
    )* };
}

checked! {
    /// A position in a log.
    Position(u64) is "integer" from 0 => INTEGER_MAX;
    /// A wait in milliseconds.
    WaitMs(u64) is "integer" from 0 => 60_000;
    /// The maximum number of results of a search.
    SearchLimit(u64) is "integer" from 1 => 1000;
    /// The maximum number of tokens of the results.
    Tokens(u64) is "integer" from 1 => INTEGER_MAX;
    /// A score.
    Score(f32) is "number" from 0.0 => 1.0;
    /// A time in seconds since 1970.
    Time(f64) is "number" from -TIME_MAX => TIME_MAX;
    /// A time to live in seconds. With less than 1, data could expire before the response is sent.
    Ttl(f64) is "number" from 1.0 => TTL_MAX;
}

impl From<Ttl> for Duration {
    fn from(ttl: Ttl) -> Duration {
        // The deserializer has checked the range.
        Duration::try_from_secs_f64(ttl.0).unwrap_or_default()
    }
}

/// Deserializes null as `Some(None)`, so that it differs from a missing field, which is `None`.
pub(super) fn nullable<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}
