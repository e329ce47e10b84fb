//! The intended differences from Google's server.

use retain_core::{Json, JsonMap};

use crate::adk_differential::{cases::Case, normal::Answer};

/// An intended difference. docs/differences-from-adk.md describes each rule under its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    VersionSaysRust,
    NoPathsInErrors,
    WrongMessagesAreRefused,
    CrashesAreRefusals,
    UnkeepableJsonIsRefused,
    RefusalsInOwnWords,
    IdsMayHoldSlashes,
    BrokenTextIsRefused,
    ImportsKeepActions,
    UnknownFieldsAreKept,
    UnknownActionsAreKept,
    IdsAreNotTrimmed,
    NulIsRefused,
    LongIdsAreRefused,
    EmptyNamesAreRefused,
    RedirectsAreRelative,
}

impl Rule {
    pub(crate) const ALL: &[Rule] = &[
        Rule::VersionSaysRust,
        Rule::NoPathsInErrors,
        Rule::RedirectsAreRelative,
        Rule::WrongMessagesAreRefused,
        Rule::NulIsRefused,
        Rule::LongIdsAreRefused,
        Rule::EmptyNamesAreRefused,
        Rule::IdsMayHoldSlashes,
        Rule::BrokenTextIsRefused,
        Rule::IdsAreNotTrimmed,
        Rule::UnkeepableJsonIsRefused,
        Rule::CrashesAreRefusals,
        Rule::RefusalsInOwnWords,
        Rule::ImportsKeepActions,
        Rule::UnknownFieldsAreKept,
        Rule::UnknownActionsAreKept,
    ];

    /// Whether the rule explains the difference of two answers.
    pub(crate) fn explains(self, case: &Case, ours: &Answer, theirs: &Answer) -> bool {
        let mentions = |part: &str| ours.text().contains(part);
        match self {
            Rule::VersionSaysRust => case.path == "/version" && ours.body[0]["language"] == "rust",
            Rule::NoPathsInErrors => {
                let (Some(our), Some(their)) = (ours.detail().as_str(), theirs.detail().as_str())
                else {
                    return false;
                };
                let suffix = " No matching directory or module exists in '/";
                has_statuses(ours, theirs, 404, 404) && their.starts_with(&format!("{our}{suffix}"))
            }
            Rule::RedirectsAreRelative => {
                has_statuses(ours, theirs, 307, 307)
                    && theirs.location == format!("http://127.0.0.1:8000{}", ours.location)
            }
            Rule::WrongMessagesAreRefused => {
                let failed = match theirs.kind.starts_with("text/event-stream") {
                    true => theirs
                        .body
                        .last()
                        .is_some_and(|it| it.get("error").is_some()),
                    false => theirs.status == 500,
                };
                case.path.starts_with("/run") && ours.status == 400 && failed
            }
            Rule::CrashesAreRefusals => has_statuses(ours, theirs, 422, 500),
            Rule::UnkeepableJsonIsRefused => {
                let kind = &ours.detail()[0]["type"];
                let values = ["NaN", "Infinity", "ud800"];
                let has_value = values.iter().any(|it| case.body.contains(it));
                ours.status == 422 && *kind == "json_invalid" && has_value
            }
            Rule::RefusalsInOwnWords => {
                let without_words = |answer: &Answer| {
                    let detail = answer.detail()[0].as_object().cloned();
                    let mut detail: JsonMap = detail.unwrap_or_default();
                    detail.retain(|key, _| key != "msg" && key != "ctx");
                    detail
                };
                let is_base64 = ours.detail()[0]["type"] == "bytes_invalid_encoding";
                let is_text =
                    has_statuses(ours, theirs, 400, 400) && ours.detail().as_str().is_some();
                ours.status == theirs.status
                    && (is_text || is_base64 && without_words(ours) == without_words(theirs))
            }
            Rule::IdsMayHoldSlashes => {
                case.path.contains("%2F") && *theirs.detail() == "Not Found" && theirs.status == 404
            }
            Rule::BrokenTextIsRefused => case.path.contains("%FF") && ours.status == 400,
            Rule::ImportsKeepActions => {
                has_statuses(ours, theirs, 200, 400)
                    && theirs.text().contains("Session initialization event")
            }
            Rule::UnknownFieldsAreKept => {
                has_statuses(ours, theirs, 200, 200)
                    && without_later(&ours.body[0]) == theirs.body[0]
            }
            Rule::UnknownActionsAreKept => {
                has_statuses(ours, theirs, 200, 422) && theirs.text().contains("extra_forbidden")
            }
            Rule::IdsAreNotTrimmed => {
                let trimmed = ours.text().replace("\" pad \"", "\"pad\"");
                let trimmed = Json::parse(&trimmed).ok();
                case.path.contains("%20pad%20") && trimmed == Some(theirs.body.clone().into())
            }
            Rule::NulIsRefused => ours.status == 400 && mentions("NUL"),
            Rule::LongIdsAreRefused => {
                (ours.status == 400 && mentions("the limit is 512"))
                    // ADK fails on a file name that is too long.
                    || (has_statuses(ours, theirs, 404, 500) && case.path.len() > 600)
            }
            Rule::EmptyNamesAreRefused => ours.status == 400 && mentions("must not be empty"),
        }
    }
}

fn has_statuses(ours: &Answer, theirs: &Answer, our: u16, their: u16) -> bool {
    ours.status == our && theirs.status == their
}

/// Returns the answer without the field `later`, which ADK does not know.
fn without_later(value: &Json) -> Json {
    match value {
        Json::Object(map) => {
            let kept = map.iter().filter(|(key, _)| *key != "later");
            let kept = kept.map(|(key, value)| (key, without_later(value)));
            kept.collect::<JsonMap>().into()
        }
        Json::Array(items) => items
            .iter()
            .map(without_later)
            .collect::<Vec<Json>>()
            .into(),
        _ => value.clone(),
    }
}
