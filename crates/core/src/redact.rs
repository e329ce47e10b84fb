//! Removes secrets from JSON that is shown to others, by the rules of ADK 2.13: credentials next to
//! an `authType`, in credential requests and their responses, and in `requestedAuthConfigs`.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::{
    budget::{OverBudget, charge, json_cost},
    json::{Json, JsonMap},
};

/// The function with which a tool requests the user's credential.
const REQUEST_CREDENTIAL: &str = "adk_request_credential";

/// The names of fields that hold secrets.
const SECRETS: [&str; 24] = [
    "password",
    "token",
    "additionalHeaders",
    "additional_headers",
    "clientSecret",
    "client_secret",
    "authResponseUri",
    "auth_response_uri",
    "authCode",
    "auth_code",
    "accessToken",
    "access_token",
    "refreshToken",
    "refresh_token",
    "idToken",
    "id_token",
    "codeVerifier",
    "code_verifier",
    "privateKeyId",
    "private_key_id",
    "privateKey",
    "private_key",
    "apiKey",
    "api_key",
];

/// ADK's credential types: values, names, and names in lower case.
const AUTH_TYPES: [&str; 13] = [
    "apiKey",
    "API_KEY",
    "api_key",
    "http",
    "HTTP",
    "oauth2",
    "OAUTH2",
    "openIdConnect",
    "OPEN_ID_CONNECT",
    "open_id_connect",
    "serviceAccount",
    "SERVICE_ACCOUNT",
    "service_account",
];

const CREDENTIALS: [&str; 4] = [
    "rawAuthCredential",
    "raw_auth_credential",
    "exchangedAuthCredential",
    "exchanged_auth_credential",
];

const AUTH_CONFIGS: [&str; 2] = ["requestedAuthConfigs", "requested_auth_configs"];

/// Every text with a secret contains one of these, or a `requestedAuthConfigs` that is not empty.
static MARKS: LazyLock<[Finder<'static>; 6]> = LazyLock::new(|| {
    [
        Finder::new("\"authType\""),
        Finder::new("\"auth_type\""),
        Finder::new(REQUEST_CREDENTIAL),
        Finder::new("AuthCredential\""),
        Finder::new("_auth_credential\""),
        Finder::new("\"requested_auth_configs\""),
    ]
});
static COMMON: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("uth"));
static REQUEST: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(REQUEST_CREDENTIAL));
static CONFIGS: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new("\"requestedAuthConfigs\""));

/// Removes secrets from a JSON text that Retain's own writer wrote. Most texts contain no secrets
/// and are only scanned.
pub fn redacted(text: String) -> String {
    match may_hold_secrets(text.as_bytes()) {
        true => without_secrets(&text),
        false => text,
    }
}

/// Like [`redacted`], and charges the memory that it takes to the current request.
pub fn try_redacted(text: String) -> Result<String, OverBudget> {
    if !may_hold_secrets(text.as_bytes()) {
        return Ok(text);
    }
    charge(2 * json_cost(text.as_bytes()))?;
    Ok(without_secrets(&text))
}

fn without_secrets(text: &str) -> String {
    match Json::parse(text) {
        Ok(value) => redact_value(&value).to_string(),
        // Retain wrote the text, so it should parse. If it does not, drop it rather than leak a
        // secret.
        Err(_) => "null".to_owned(),
    }
}

fn may_hold_secrets(text: &[u8]) -> bool {
    // All marks but one contain `COMMON`, so a text without it needs two scans instead of seven. An
    // event contains it near the start, where the scan ends early.
    if COMMON.find(text).is_none() && REQUEST.find(text).is_none() {
        return false;
    }
    // Every event has `requestedAuthConfigs`, which is nearly always empty.
    let mut configs = CONFIGS.find_iter(text);
    let name_len = CONFIGS.needle().len();
    configs.any(|at| !text[at + name_len..].starts_with(b":{}"))
        || MARKS.iter().any(|mark| mark.find(text).is_some())
}

fn redact_value(value: &Json) -> Json {
    let map = match value {
        Json::Array(items) => {
            let items: Vec<Json> = items.iter().map(redact_value).collect();
            return items.into();
        }
        Json::Object(map) => map,
        _ => return value.clone(),
    };
    let is_auth_type = |key: &str| {
        let kind = map.get(key).and_then(Json::as_str);
        kind.is_some_and(|kind| AUTH_TYPES.contains(&kind))
    };
    if is_auth_type("authType") || is_auth_type("auth_type") {
        return remove_secrets(value);
    }
    if map.get("name").and_then(Json::as_str) == Some(REQUEST_CREDENTIAL) {
        return map_values(map, |key, value| match (key, value) {
            ("args", Json::Object(args)) => map_values(args, |key, value| match key {
                "authConfig" | "auth_config" => remove_secrets(value),
                _ => value.clone(),
            }),
            ("response", _) => remove_secrets(value),
            _ => redact_value(value),
        });
    }
    for carriers in [&AUTH_CONFIGS[..], &CREDENTIALS[..]] {
        if carriers.iter().any(|key| map.contains_key(key)) {
            return map_values(map, |key, value| match carriers.contains(&key) {
                true => remove_secrets(value),
                false => redact_value(value),
            });
        }
    }
    map_values(map, |_, value| redact_value(value))
}

/// Removes the fields that hold secrets, at any depth.
fn remove_secrets(value: &Json) -> Json {
    match value {
        Json::Object(map) => {
            let fields = map.iter().filter(|(key, _)| !SECRETS.contains(key));
            let fields = fields.map(|(key, value)| (key, remove_secrets(value)));
            fields.collect::<JsonMap>().into()
        }
        Json::Array(items) => items
            .iter()
            .map(remove_secrets)
            .collect::<Vec<Json>>()
            .into(),
        _ => value.clone(),
    }
}

fn map_values(map: &JsonMap, change: impl Fn(&str, &Json) -> Json) -> Json {
    let changed = map.iter().map(|(key, value)| (key, change(key, value)));
    changed.collect::<JsonMap>().into()
}
