//! A history with every kind of part, as sent to each service.

use super::*;

/// Every field of a part, each in its own part where possible.
const HISTORY: &str = include_str!("history.json");

fn sent(gemini: &GeminiWire, history: &Json) -> Result<Json, ModelError> {
    let call = gemini.call(&request(history, &json("{}")), true)?;
    Ok(json(&call.body)["contents"].clone())
}

/// Whether the service rejects the part, because only the other service supports it.
fn is_rejected(part: &Json, is_vertex: bool) -> bool {
    let has = |field: &str| part.get(field).is_some();
    match is_vertex {
        true => has("toolCall") || has("toolResponse") || has("partMetadata"),
        false => part["functionCall"].get("partialArgs").is_some(),
    }
}

/// Returns the history without the parts that the service rejects, and the list of those parts.
fn split(is_vertex: bool) -> (Json, Vec<Json>) {
    let mut rejected = Vec::new();
    let mut contents = Vec::new();
    for content in json(HISTORY).as_array().expect("a list") {
        let mut content = content.clone();
        let parts = content["parts"].as_array().expect("parts").to_vec();
        let (no, yes): (Vec<Json>, Vec<Json>) = parts
            .into_iter()
            .partition(|part| is_rejected(part, is_vertex));
        rejected.extend(no);
        content
            .as_object_mut()
            .expect("an object")
            .insert("parts", yes);
        contents.push(content);
    }
    (contents.into(), rejected)
}

#[test]
fn supported_history_is_sent_as_recorded() {
    for (gemini, is_vertex, file) in [
        (api(), false, include_str!("history-api.json")),
        (vertex(), true, include_str!("history-vertex.json")),
    ] {
        let (accepted, _) = split(is_vertex);
        let sent = sent(&gemini, &accepted).expect("sent");
        assert_eq!(sent, json(file), "sent: {sent}");
    }
}

/// A session that began with another provider may continue with Gemini, which rejects foreign
/// signatures.
#[test]
fn thought_signed_by_another_provider_is_not_sent() {
    let claudes = "RXFRQkNnSVlBaElNMWdiY0RhOUdKd1pBMmIzaA==";
    let openrouters = "W3sidHlwZSI6InJlYXNvbmluZy50ZXh0IiwidGV4dCI6IkkifV0=";
    for signature in [claudes, openrouters] {
        let thought =
            format!(r#"{{"text":"Hm.","thought":true,"thoughtSignature":"{signature}"}}"#);
        let sealed = format!(r#"{{"thought":true,"thoughtSignature":"{signature}"}}"#);
        let history = format!(
            r#"[{{"role":"user","parts":[{{"text":"Is it?"}}]}},
                {{"role":"model","parts":[{sealed}]}},
                {{"role":"model","parts":[{thought},{{"text":"Yes."}}]}},
                {{"role":"user","parts":[{{"text":"Why?"}}]}}]"#
        );
        let expected = json(
            r#"[{"role":"user","parts":[{"text":"Is it?"}]},{"role":"model","parts":[{"text":"Yes."}]},
                {"role":"user","parts":[{"text":"Why?"}]}]"#,
        );
        assert_eq!(sent(&api(), &json(&history)).expect("sent"), expected);
    }
    // Gemini's own signatures are sent back unchanged, even short ones.
    let own = r#"[{"role":"user","parts":[{"text":"a","thought":true,"thoughtSignature":"CsMoAf4SmYB3"}]}]"#;
    assert_eq!(sent(&api(), &json(own)).expect("sent"), json(own));
}

#[test]
fn field_that_the_service_does_not_support_is_named_in_the_error() {
    for (gemini, is_vertex) in [(api(), false), (vertex(), true)] {
        let (_, rejected) = split(is_vertex);
        assert!(!rejected.is_empty());
        for part in rejected {
            let history = json(&format!(r#"[{{"role":"user","parts":[{part}]}}]"#));
            let error = sent(&gemini, &history).expect_err("rejected");
            assert_eq!(error.code.as_deref(), Some("InvalidRequest"));
            let names = part.to_string();
            let field = error.message.split(' ').next().unwrap_or_default();
            assert!(names.contains(field), "{} for {names}", error.message);
        }
    }
}

/// If this fails, add the missing field to `history.json`.
#[test]
fn history_file_has_every_field_of_a_part() {
    let fields = [
        "mediaResolution",
        "codeExecutionResult",
        "executableCode",
        "fileData",
        "functionCall",
        "functionResponse",
        "inlineData",
        "text",
        "thought",
        "thoughtSignature",
        "videoMetadata",
        "toolCall",
        "toolResponse",
        "partMetadata",
        "audioTranscription",
        "mediaProcessing",
        "speechMetadata",
    ];
    for field in fields {
        assert!(HISTORY.contains(&format!("\"{field}\"")), "{field}");
    }
}
