//! Responses in which random ids and times are replaced, so that they can be compared.

use retain_core::{Json, JsonMap};

/// A response of a server, without random ids and times.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) location: String,
    pub(crate) body: Vec<Json>,
}

impl Answer {
    pub(crate) fn new(status: u16, kind: &str, location: &str, text: &str) -> Answer {
        let body = match kind {
            "application/json" => vec![Json::parse(text).expect("JSON")],
            "text/event-stream; charset=utf-8" => {
                assert!(text.is_empty() || text.ends_with("\n\n"), "{text}");
                let frames = text.split_terminator("\n\n");
                let data = frames.map(|frame| frame.strip_prefix("data: ").expect("data"));
                data.map(|data| Json::parse(data).expect("JSON")).collect()
            }
            _ => vec![text.into()],
        };
        Answer {
            status,
            kind: kind.to_owned(),
            location: location.to_owned(),
            body: body.iter().map(normalize).collect(),
        }
    }

    pub(crate) fn differs_from(&self, other: &Answer) -> bool {
        self != other
    }

    /// Returns the body as one text.
    pub(crate) fn text(&self) -> String {
        Json::from(self.body.clone()).to_string()
    }

    /// Returns the `detail` of an error.
    pub(crate) fn detail(&self) -> &Json {
        &self.body[0]["detail"]
    }
}

fn normalize(value: &Json) -> Json {
    match value {
        Json::Object(map) => {
            let known = ["timestamp", "lastUpdateTime", "createTime"];
            let pairs = map.iter().map(|(key, value)| match known.contains(&key) {
                true if value.as_f64().is_some() => (key, Json::from("<time>")),
                _ => (key, normalize(value)),
            });
            pairs.collect::<JsonMap>().into()
        }
        Json::Array(items) => items.iter().map(normalize).collect::<Vec<Json>>().into(),
        Json::String(text) => match text.strip_prefix("e-").or_else(|| text.strip_prefix("p-")) {
            Some(id) if is_uuid(id) => "<run>".into(),
            _ if is_uuid(text) => "<id>".into(),
            _ => value.clone(),
        },
        _ => value.clone(),
    }
}

/// Whether a text has the form of a UUID.
fn is_uuid(text: &str) -> bool {
    let is_hex = |c: char| c.is_ascii_hexdigit() || c == '-';
    text.len() == 36 && text.matches('-').count() == 4 && text.chars().all(is_hex)
}
