//! The keys inside the values of `generate_content_config`, as google-genai has them. What a model is
//! sent keeps these values as they are, so a key that is misspelt is found here or by nobody.

use super::{
    error::ConfigError,
    place::{Place, unknown_key},
};

/// What may stand in a value.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// Anything: a plain value, or a map with keys of one's own.
    Any,
    /// A map with these keys and no others.
    Map(&'static [(&'static str, Shape)]),
    /// A list of such values.
    List(&'static Shape),
    /// A map as above, or a text.
    MapOrText(&'static [(&'static str, Shape)]),
}

use Shape::{Any, List, Map, MapOrText};

const LANGUAGE_HINTS: Shape = Map(&[("language_codes", Any)]);

const VOICE: Shape = Map(&[
    ("voice", Any),
    ("prebuilt_voice_config", Map(&[("voice_name", Any)])),
    (
        "replicated_voice_config",
        Map(&[
            ("mime_type", Any),
            ("voice_sample_audio", Any),
            ("consent_audio", Any),
            ("voice_consent_signature", Map(&[("signature", Any)])),
        ]),
    ),
]);

/// The settings whose values have keys.
const SETTINGS: [(&str, Shape); 12] = [
    (
        "http_options",
        Map(&[
            ("base_url", Any),
            ("base_url_resource_scope", Any),
            ("api_version", Any),
            ("headers", Any),
            ("timeout", Any),
            ("client_args", Any),
            ("async_client_args", Any),
            ("extra_body", Any),
            (
                "retry_options",
                Map(&[
                    ("attempts", Any),
                    ("initial_delay", Any),
                    ("max_delay", Any),
                    ("exp_base", Any),
                    ("jitter", Any),
                    ("http_status_codes", Any),
                ]),
            ),
        ]),
    ),
    (
        "routing_config",
        Map(&[
            ("auto_mode", Map(&[("model_routing_preference", Any)])),
            ("manual_mode", Map(&[("model_name", Any)])),
        ]),
    ),
    (
        "model_selection_config",
        Map(&[("feature_selection_preference", Any)]),
    ),
    (
        "safety_settings",
        List(&Map(&[
            ("category", Any),
            ("method", Any),
            ("threshold", Any),
        ])),
    ),
    (
        "tool_config",
        Map(&[
            (
                "retrieval_config",
                Map(&[
                    ("lat_lng", Map(&[("latitude", Any), ("longitude", Any)])),
                    ("language_code", Any),
                ]),
            ),
            (
                "function_calling_config",
                Map(&[
                    ("allowed_function_names", Any),
                    ("mode", Any),
                    ("stream_function_call_arguments", Any),
                ]),
            ),
            ("include_server_side_tool_invocations", Any),
        ]),
    ),
    (
        "speech_config",
        MapOrText(&[
            ("voice_config", VOICE),
            ("language_code", Any),
            (
                "multi_speaker_voice_config",
                Map(&[(
                    "speaker_voice_configs",
                    List(&Map(&[("speaker", Any), ("voice_config", VOICE)])),
                )]),
            ),
        ]),
    ),
    (
        "automatic_function_calling",
        Map(&[
            ("disable", Any),
            ("maximum_remote_calls", Any),
            ("ignore_call_history", Any),
        ]),
    ),
    (
        "thinking_config",
        Map(&[
            ("include_thoughts", Any),
            ("thinking_budget", Any),
            ("thinking_level", Any),
        ]),
    ),
    (
        "image_config",
        Map(&[
            ("aspect_ratio", Any),
            ("image_size", Any),
            ("person_generation", Any),
            ("prominent_people", Any),
            ("output_mime_type", Any),
            ("output_compression_quality", Any),
            (
                "image_output_options",
                Map(&[("compression_quality", Any), ("mime_type", Any)]),
            ),
        ]),
    ),
    (
        "model_armor_config",
        Map(&[
            ("prompt_template_name", Any),
            ("response_template_name", Any),
        ]),
    ),
    (
        "audio_transcription_config",
        Map(&[
            ("language_codes", Any),
            ("language_auto", Map(&[])),
            ("language_hints", LANGUAGE_HINTS),
            ("custom_vocabulary", Any),
            ("adaptation_phrases", Any),
            ("word_timestamp", Any),
            ("diarization", Any),
            ("mode", Any),
        ]),
    ),
    (
        "generation_output_config",
        Map(&[("output_uri_prefix", Any)]),
    ),
];

/// Fails if the value of the setting `key` has a key that is not known, at any depth.
pub(super) fn check(key: &str, place: &Place<'_>) -> Result<(), ConfigError> {
    match SETTINGS.iter().find(|(name, _)| is_spelt(name, key)) {
        Some((name, shape)) => check_value(name, shape, place),
        None => Ok(()),
    }
}

fn check_value(what: &str, shape: &Shape, place: &Place<'_>) -> Result<(), ConfigError> {
    if place.is_null() {
        return Ok(());
    }
    let known = match shape {
        Any => return Ok(()),
        MapOrText(_) if place.as_text().is_some() => return Ok(()),
        List(item) => {
            let mut items = place.list()?.into_iter();
            return items.try_for_each(|place| check_value(what, item, &place));
        }
        Map(known) | MapOrText(known) => known,
    };
    for (key, value) in place.pairs(what)? {
        let found = known.iter().find(|(name, _)| is_spelt(name, key));
        let Some((name, shape)) = found else {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            return Err(value.error(unknown_key(key, what, &names)));
        };
        check_value(name, shape, &value)?;
    }
    Ok(())
}

/// Whether `key` is `name`, as it is or in camelCase.
fn is_spelt(name: &str, key: &str) -> bool {
    if name == key {
        return true;
    }
    let mut words = name.split('_');
    let mut rest = key.strip_prefix(words.next().unwrap_or_default());
    for word in words {
        let (first, others) = word.split_at(1);
        rest = rest
            .and_then(|rest| rest.strip_prefix(&*first.to_ascii_uppercase()))
            .and_then(|rest| rest.strip_prefix(others));
    }
    rest == Some("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_in_both_spellings() {
        assert!(is_spelt("thinking_budget", "thinking_budget"));
        assert!(is_spelt("thinking_budget", "thinkingBudget"));
        assert!(is_spelt("mode", "mode"));
        for other in [
            "thinkingbudget",
            "ThinkingBudget",
            "thinking",
            "thinkingBudgets",
        ] {
            assert!(!is_spelt("thinking_budget", other), "{other}");
        }
    }

    #[test]
    fn settings_with_keys_are_settings() {
        for (key, _) in SETTINGS {
            let text = format!("{{\"{key}\":null}}");
            let read = retain_core::GenerateContentConfig::from_json(&text);
            assert!(read.unwrap().extra.is_empty(), "{key}");
        }
    }
}
