//! Requests as sent to every kind of server. The request with every setting and every kind of part
//! is compared with a snapshot per server; `RETAIN_UPDATE_SNAPSHOTS=1` rewrites the snapshots.

use std::{fs, path::PathBuf};

use retain_core::{Content, GenerateContentConfig, Json, Part};
use retain_runtime::{LlmRequest, SharedContent};

use super::{chat, request_body, server, servers};
use crate::provider::Provider as _;

/// A history with every kind of part that chat completions support, some only after a conversion.
const HISTORY: &str = r#"[
    {"role": "user", "parts": [
        {"text": "What is in these?"},
        {"inlineData": {"mimeType": "image/png", "data": "-_8="}},
        {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://example.com/a.jpg"}},
        {"inlineData": {"mimeType": "text/plain; charset=utf-8", "data": "R3LDvMOfZQ=="}},
        {"text": "not for the model", "thought": true}]},
    {"role": "model", "parts": [
        {"text": "I should look.", "thought": true, "thoughtSignature": "W3sidHlwZSI6InJlYXNvbmluZy50ZXh0IiwidGV4dCI6IkkifV0="},
        {"text": "Let me see."},
        {"text": "Both."},
        {"functionCall": {"id": "call_1", "name": "look", "args": {"at": "a", "n": 1.50}},
         "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "look"}},
        {"functionCall": {"id": "an-id-that-is-longer-than-what-OpenAI-takes", "name": "look", "args": {}}}]},
    {"role": "user", "parts": [
        {"functionResponse": {"id": "call_1", "name": "look", "response": {"result": "café"},
            "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAA="}}]}},
        {"functionResponse": {"name": "look", "response": {"result": [1, null]}}},
        {"functionResponse": {"id": "an-id-that-is-longer-than-what-OpenAI-takes", "name": "look"}}]},
    {"role": "model", "parts": [
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"inlineData": {"mimeType": "image/png", "data": "AAA="}},
        {"toolCall": {"id": "t"}}]},
    {"role": "user", "parts": []},
    {"role": "model", "parts": [{"functionCall": {"id": "call_lost", "name": "look", "args": {}}}]},
    {"role": "user", "parts": [{"text": "Never mind."}, {"text": "Go on."}]}]"#;

/// A config with every kind of setting that can be sent.
const CONFIG: &str = r##"{
    "systemInstruction": "Be brief.", "temperature": 0.2, "topP": 0.9, "topK": 40,
    "maxOutputTokens": 256, "stopSequences": ["END"], "seed": 7, "presencePenalty": 0.1,
    "frequencyPenalty": 0.2, "responseLogprobs": true, "logprobs": 2, "candidateCount": 1,
    "thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": true},
    "responseMimeType": "application/json",
    "responseSchema": {"type": "OBJECT", "title": "An answer", "properties": {
        "a": {"type": "STRING", "nullable": true}, "b": {"type": "INTEGER"}}, "required": ["b"]},
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT"}],
    "httpOptions": {"extraBody": {"user": "u1"}},
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}},
    "tools": [{"functionDeclarations": [
        {"name": "look", "description": "Looks.", "parameters": {"type": "OBJECT",
            "properties": {"at": {"type": "STRING"}, "n": {"type": "NUMBER"}}, "required": ["at"]},
         "response": {"type": "OBJECT", "properties": {"result": {"type": "STRING"}}}},
        {"name": "bare"}]}]}"##;

fn request(history: &str, config: &str) -> LlmRequest {
    let contents = Json::parse(history).expect("a history");
    let contents = contents.as_array().expect("a list").iter();
    let content = |json: &Json| Content::from_json(&json.to_string()).expect("a content");
    let mut request = LlmRequest::default();
    request.model = "test/model-1".to_owned();
    request.contents = contents
        .map(|it| SharedContent::from(content(it)))
        .collect();
    request.config = GenerateContentConfig::from_json(config).expect("a config");
    request
}

fn user_request(text: &str, config: &str) -> LlmRequest {
    let history = format!(r#"[{{"role": "user", "parts": [{{"text": "{text}"}}]}}]"#);
    request(&history, config)
}

/// Formats JSON for reading: one line per field and per message.
fn pretty(json: &Json) -> String {
    let fields = json.as_object().expect("an object").iter();
    let lines = fields.map(|(key, value)| match value.as_array() {
        Some(items) => {
            let items: Vec<String> = items.iter().map(|item| format!("    {item}")).collect();
            format!("  \"{key}\": [\n{}\n  ]", items.join(",\n"))
        }
        None => format!("  \"{key}\": {value}"),
    });
    format!("{{\n{}\n}}\n", lines.collect::<Vec<_>>().join(",\n"))
}

#[test]
fn history_with_every_part_matches_its_snapshot() {
    let request = request(HISTORY, CONFIG);
    for (name, server) in servers() {
        let call = chat(server).call(&request, true).expect("a call");
        let body = Json::parse(&call.body).expect("JSON");
        let text = format!("{}\n{}", call.url, pretty(&body));
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let file = file.join(format!("testdata/openai/{name}.txt"));
        if std::env::var_os("RETAIN_UPDATE_SNAPSHOTS").is_some() {
            fs::write(&file, &text).expect("the snapshot can be written");
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        let lines = expected.lines().zip(text.lines());
        let differing = lines.enumerate().find(|(_, (old, new))| old != new);
        assert_eq!(differing, None, "{name}");
        assert_eq!(expected.len(), text.len(), "{name}");
    }
}

#[test]
fn minimal_request_has_only_required_fields() {
    let body = request_body("openai", &user_request("Hi", "{}")).unwrap();
    let expected = r#"{"model":"model-1","messages":[{"role":"user","content":"Hi"}]}"#;
    assert_eq!(body.to_string(), expected);
}

#[test]
fn request_model_overrides_the_default() {
    let mut request = user_request("Hi", "{}");
    for (asked, sent) in [
        ("test/model-1", "model-1"),
        ("", "model-1"),
        ("test/model-2", "model-2"),
        ("model-3", "model-3"),
    ] {
        request.model = asked.to_owned();
        assert_eq!(
            request_body("openai", &request).unwrap()["model"],
            sent,
            "{asked}"
        );
    }
}

#[test]
fn request_without_a_last_user_message_gets_adks_prompt() {
    let messages =
        |request: &LlmRequest| request_body("other", request).unwrap()["messages"].to_string();
    let empty = LlmRequest::default();
    assert!(messages(&empty).contains("Handle the requests as specified"));
    let from_model = request(r#"[{"role": "model", "parts": [{"text": "Done."}]}]"#, "{}");
    assert!(messages(&from_model).contains("Continue processing previous requests"));
    let without_parts = request(r#"[{"role": "user", "parts": []}]"#, "{}");
    assert!(messages(&without_parts).contains("Handle the requests as specified"));
    assert!(!messages(&user_request("Hi", "{}")).contains("Handle the requests"));
}

#[test]
fn tool_choice_follows_the_config() {
    let with = |calling: &str| {
        let config = format!(
            r#"{{"toolConfig": {{"functionCallingConfig": {calling}}},
                "tools": [{{"functionDeclarations": [{{"name": "a"}}, {{"name": "b"}}]}}]}}"#
        );
        let body = request_body("other", &user_request("Hi", &config)).unwrap();
        let tools = body["tools"].as_array().unwrap_or_default();
        let names = tools.iter().map(|tool| tool["function"]["name"].as_str());
        let names: Vec<&str> = names.map(Option::unwrap).collect();
        format!("{} {}", names.join(","), body["tool_choice"])
    };
    assert_eq!(with("null"), "a,b null");
    assert_eq!(with(r#"{"mode": "AUTO"}"#), "a,b null");
    assert_eq!(with(r#"{"mode": "NONE"}"#), r#"a,b "none""#);
    assert_eq!(with(r#"{"mode": "ANY"}"#), r#"a,b "required""#);
    let one = r#"{"mode": "ANY", "allowed_function_names": ["b"]}"#;
    assert_eq!(with(one), r#"b "required""#);
    let one = r#"{"mode": "VALIDATED", "allowedFunctionNames": ["b"]}"#;
    assert_eq!(with(one), "b null");
    // The tool choice is omitted if no declared function is allowed.
    let other = r#"{"mode": "ANY", "allowedFunctionNames": ["c"]}"#;
    assert_eq!(with(other), " null");
}

#[test]
fn thinking_is_sent_as_reasoning_effort() {
    let effort = |server: &str, model: &str, thinking: &str| {
        let config = format!(r#"{{"thinkingConfig": {thinking}}}"#);
        let mut request = user_request("Hi", &config);
        request.model = model.to_owned();
        request_body(server, &request).unwrap()["reasoning_effort"].clone()
    };
    assert_eq!(
        effort("openai", "gpt-5", r#"{"thinkingLevel": "HIGH"}"#),
        "high"
    );
    for (budget, word) in [(0, "none"), (1024, "low"), (2048, "medium"), (9000, "high")] {
        let thinking = format!(r#"{{"thinking_budget": {budget}}}"#);
        assert_eq!(effort("other", "m", &thinking), word);
    }
    for thinking in [
        r#"{"thinkingBudget": -1}"#,
        r#"{"includeThoughts": true}"#,
        r#"{"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}"#,
    ] {
        assert!(effort("other", "m", thinking).is_null(), "{thinking}");
    }
    // OpenAI's models up to gpt-5 reject the effort `none`.
    let off = r#"{"thinkingBudget": 0}"#;
    for (model, word) in [
        ("gpt-5", Json::Null),
        ("gpt-5-mini", Json::Null),
        ("o3", Json::Null),
        ("gpt-5.1", "none".into()),
        ("gpt-6", "none".into()),
    ] {
        assert_eq!(effort("openai", model, off), word, "{model}");
    }
    // A model that cannot think gets no effort.
    assert!(effort("openai", "gpt-4o", r#"{"thinkingLevel": "HIGH"}"#).is_null());
}

#[test]
fn response_format_follows_the_schema() {
    let format = |config: &str| {
        request_body("other", &user_request("Hi", config)).unwrap()["response_format"].clone()
    };
    assert!(format("{}").is_null());
    assert!(format(r#"{"responseMimeType": "text/plain"}"#).is_null());
    let json = format(r#"{"responseMimeType": "application/json"}"#);
    assert_eq!(json.to_string(), r#"{"type":"json_object"}"#);
    let schema =
        format(r#"{"responseJsonSchema": {"type": "array", "items": {"type": "string"}}}"#);
    assert_eq!(schema["json_schema"]["name"], "response");
    assert_eq!(schema["json_schema"]["strict"], true);
    let list = &schema["json_schema"]["schema"]["properties"]["response"];
    assert_eq!(list["type"], "array");
    // Strict mode does not support a map with arbitrary keys.
    let map = r#"{"type": "object", "additionalProperties": {"type": "string"}}"#;
    let open = format(&format!(r#"{{"responseJsonSchema": {map}}}"#));
    assert_eq!(open["json_schema"]["strict"], false);
    assert_eq!(open["json_schema"]["schema"], Json::parse(map).unwrap());
    let own = r#"{"type":"json_object"}"#;
    let given = format(&format!(r#"{{"responseSchema": {own}}}"#));
    assert_eq!(given.to_string(), own);
}

/// According to its documentation or its users, each server rejects the settings that its request
/// omits here.
#[test]
fn settings_that_a_server_rejects_are_not_sent() {
    let streamed = |name: &str, request: &LlmRequest| {
        let call = chat(server(name)).call(request, true).expect("a call");
        Json::parse(&call.body).expect("JSON")
    };
    let sampling = r#"{"seed": 7, "topK": 40, "responseLogprobs": true, "logprobs": 2,
        "thinkingConfig": {"thinkingLevel": "MINIMAL"}}"#;
    let request = user_request("Hi", sampling);
    let mistral = streamed("mistral", &request);
    assert!(mistral["stream_options"].is_null());
    assert_eq!(mistral["random_seed"], 7);
    assert!(mistral["seed"].is_null());
    for name in ["groq", "mistral"] {
        let body = streamed(name, &request);
        for field in ["top_k", "logprobs", "top_logprobs"] {
            assert!(body[field].is_null(), "{name} {field}");
        }
    }
    for (name, _) in servers() {
        let body = streamed(name, &request);
        assert_eq!(
            body["stream_options"].is_null(),
            name == "mistral",
            "{name}"
        );
        let word = match name {
            "openai" | "azure" | "openrouter" => "minimal",
            _ => "low",
        };
        assert_eq!(body["reasoning_effort"], word, "{name}");
    }
    let schema = r#"{"systemInstruction": "Be brief.", "responseSchema": {"type": "ARRAY", "items": {"type": "STRING"}}}"#;
    let body = streamed("deepseek", &user_request("Hi", schema));
    assert_eq!(
        body["response_format"].to_string(),
        r#"{"type":"json_object"}"#
    );
    let instruction = body["messages"][0]["content"].as_str().unwrap();
    assert!(
        instruction.starts_with("Be brief.\n\n") && instruction.contains("JSON Schema"),
        "{instruction}"
    );
    assert!(
        instruction.contains(r#"{"type":"array","items":{"type":"string"}}"#),
        "{instruction}"
    );
}

/// OpenAI's reasoning models reject sampling parameters:
/// <https://platform.openai.com/docs/guides/latest-model>.
#[test]
fn reasoning_models_get_no_sampling_settings() {
    let fields = |server: &str, model: &str, thinking: &str| {
        let config = format!(
            r#"{{"temperature": 0.2, "topP": 0.9, "presencePenalty": 0.1, "frequencyPenalty": 0.1,
                "responseLogprobs": true, "logprobs": 2, "seed": 1, "thinkingConfig": {thinking}}}"#
        );
        let mut request = user_request("Hi", &config);
        request.model = model.to_owned();
        let body = request_body(server, &request).unwrap();
        assert_eq!(body["seed"], 1);
        let names = [
            "temperature",
            "top_p",
            "presence_penalty",
            "frequency_penalty",
            "logprobs",
            "top_logprobs",
        ];
        names.iter().filter(|name| !body[**name].is_null()).count()
    };
    for model in [
        "o1",
        "o3-mini",
        "o4-mini",
        "gpt-5",
        "gpt-5-mini",
        "gpt-5.2",
        "gpt-6",
    ] {
        assert_eq!(fields("openai", model, "null"), 0, "{model}");
        assert_eq!(fields("azure", model, "null"), 0, "{model}");
    }
    for model in [
        "gpt-4o",
        "gpt-4.1-mini",
        "gpt-5-chat-latest",
        "gpt-35-turbo",
        "ollie",
    ] {
        assert_eq!(fields("openai", model, "null"), 6, "{model}");
    }
    let off = r#"{"thinkingBudget": 0}"#;
    assert_eq!(fields("openai", "gpt-5.2", off), 6);
    assert_eq!(fields("openai", "gpt-5", off), 0);
    // An unknown server may use this name for any model.
    assert_eq!(fields("other", "gpt-5", "null"), 6);
}

#[test]
fn mistral_gets_nine_character_call_ids() {
    let history = r#"[
        {"role": "user", "parts": [{"text": "Hi"}]},
        {"role": "model", "parts": [{"functionCall": {"id": "call_abc", "name": "f"}},
                                    {"functionCall": {"id": "D681PevKs", "name": "f"}}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "D681PevKs", "name": "f", "response": {}}},
                                   {"functionResponse": {"id": "call_abc", "name": "f", "response": {}}}]}]"#;
    let body = request_body("mistral", &request(history, "{}")).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let calls = messages[1]["tool_calls"].as_array().unwrap().iter();
    let calls = calls.map(|it| it["id"].as_str().unwrap());
    assert_eq!(calls.collect::<Vec<_>>(), ["call00001", "D681PevKs"]);
    let ids = messages.iter().filter_map(|it| it["tool_call_id"].as_str());
    assert_eq!(ids.collect::<Vec<_>>(), ["D681PevKs", "call00001"]);
}

#[test]
fn error_names_the_unsupported_setting() {
    let cases = [
        (
            user_request("Hi", r#"{"candidateCount": 2}"#),
            "other",
            "candidateCount",
        ),
        (
            user_request("Hi", r#"{"cachedContent": "caches/1"}"#),
            "other",
            "cachedContent",
        ),
        (
            user_request("Hi", r#"{"responseModalities": ["TEXT", "IMAGE"]}"#),
            "other",
            "IMAGE",
        ),
        (
            user_request("Hi", r#"{"tools": [{"googleSearch": {}}]}"#),
            "openai",
            "googleSearch",
        ),
        (
            user_request("Hi", r#"{"tools": [{"exaAiSearch": {}}]}"#),
            "openai",
            "exaAiSearch",
        ),
        (
            user_request("Hi", r#"{"tools": [{"newTool": {}}]}"#),
            "openai",
            "newTool",
        ),
        (
            user_request("Hi", r#"{"tools": [{"functionDeclarations": [{}]}]}"#),
            "openai",
            "no name",
        ),
    ];
    for (request, server, about) in cases {
        let error = request_body(server, &request).expect_err(about);
        assert_eq!(error.code.as_deref(), Some("InvalidRequest"));
        assert!(error.message.contains(about), "{}", error.message);
    }
}

#[test]
fn unsupported_media_is_replaced_by_a_text() {
    let with_part = |part: &str| {
        let history = format!(r#"[{{"role": "user", "parts": [{part}]}}]"#);
        request(&history, "{}")
    };
    let video = r#"{"inlineData": {"mimeType": "video/mp4", "data": "AAA="}}"#;
    let audio = r#"{"inlineData": {"mimeType": "audio/mpeg", "data": "AAA="}}"#;
    let pdf = r#"{"inlineData": {"mimeType": "application/pdf", "data": "AAA="}}"#;
    let zip = r#"{"inlineData": {"mimeType": "application/zip", "data": "AAA="}}"#;
    let bucket = r#"{"fileData": {"mimeType": "image/png", "fileUri": "gs://bucket/secret.png"}}"#;
    let signed = r#"{"fileData": {"mimeType": "application/pdf", "fileUri": "https://x.example/a.pdf?signature=secret"}}"#;
    let uploaded = r#"{"fileData": {"fileUri": "file-abc"}}"#;
    let tiff = r#"{"inlineData": {"mimeType": "image/tiff", "data": "AAA="}}"#;
    let jpg = r#"{"inlineData": {"mimeType": "image/jpg", "data": "AAA="}}"#;
    let flac = r#"{"inlineData": {"mimeType": "audio/flac", "data": "AAA="}}"#;
    let web =
        r#"{"fileData": {"mimeType": "image/png", "fileUri": "https://x.example/secret.png"}}"#;
    let svg =
        r#"{"fileData": {"mimeType": "image/svg+xml", "fileUri": "https://x.example/secret.svg"}}"#;
    let content = |part: &str, server: &str| {
        let body = request_body(server, &with_part(part)).unwrap();
        body["messages"][0]["content"].to_string()
    };
    let supported = [
        (
            tiff,
            "other",
            r#"[{"type":"image_url","image_url":{"url":"data:image/tiff;base64,AAA="}}]"#,
        ),
        (
            jpg,
            "openai",
            r#"[{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,AAA="}}]"#,
        ),
        (
            web,
            "azure",
            r#"[{"type":"image_url","image_url":{"url":"https://x.example/secret.png"}}]"#,
        ),
        (
            video,
            "other",
            r#"[{"type":"video_url","video_url":{"url":"data:video/mp4;base64,AAA="}}]"#,
        ),
        (
            audio,
            "openai",
            r#"[{"type":"input_audio","input_audio":{"data":"AAA=","format":"mp3"}}]"#,
        ),
        (
            pdf,
            "openai",
            r#"[{"type":"file","file":{"filename":"document.pdf","file_data":"data:application/pdf;base64,AAA="}}]"#,
        ),
        (
            signed,
            "openrouter",
            r#"[{"type":"file","file":{"filename":"a.pdf?signature=secret","file_data":"https://x.example/a.pdf?signature=secret"}}]"#,
        ),
        (
            uploaded,
            "azure",
            r#"[{"type":"file","file":{"file_id":"file-abc"}}]"#,
        ),
    ];
    for (part, server, expected) in supported {
        assert_eq!(content(part, server), expected);
    }
    // The text that replaces media omits its URL, which may be secret.
    let unsupported = [
        (tiff, "openai", "image/tiff"),
        (tiff, "azure", "image/tiff"),
        (tiff, "openrouter", "image/tiff"),
        (svg, "openrouter", "image/svg+xml"),
        (jpg, "deepseek", "image/jpeg"),
        (flac, "openai", "audio/flac"),
        (web, "ollama", "image/png"),
        (video, "openai", "video/mp4"),
        (audio, "ollama", "audio/mpeg"),
        (pdf, "ollama", "application/pdf"),
        (zip, "other", "application/zip"),
        (bucket, "openai", "image/png"),
        (signed, "openai", "application/pdf"),
        (uploaded, "other", "unknown"),
    ];
    for (part, server, mime) in unsupported {
        let line = content(part, server);
        assert!(
            line.contains(mime) && line.contains("was omitted"),
            "{line}"
        );
        assert!(!line.contains("secret"), "{line}");
    }
}

#[test]
fn thoughts_are_sent_back_in_the_field_that_each_server_accepts() {
    let thought = Part {
        thought: Some(true),
        ..Part::text("Hm.")
    };
    let mut request = user_request("Hi", "{}");
    let answer = Content::new("model", vec![thought, Part::text("Yes")]);
    request.contents.push(answer.into());
    request.contents.push(Content::user("And?").into());
    let sent = |name: &str| request_body(name, &request).unwrap()["messages"][1].to_string();
    let plain = r#"{"role":"assistant","content":"Yes"}"#;
    let named = |field: &str| format!(r#"{{"role":"assistant","content":"Yes","{field}":"Hm."}}"#);
    assert_eq!(sent("openai"), plain);
    assert_eq!(sent("azure"), plain);
    // Groq and Mistral reject the fields for thoughts.
    assert_eq!(sent("groq"), plain);
    assert_eq!(sent("mistral"), plain);
    assert_eq!(sent("deepseek"), named("reasoning_content"));
    assert_eq!(sent("other"), named("reasoning_content"));
    assert_eq!(sent("ollama"), named("reasoning"));
    assert_eq!(sent("openrouter"), named("reasoning"));
    assert_eq!(
        server("openai").url("x", "m"),
        "https://api.openai.com/v1/x"
    );
}

#[test]
fn result_without_an_id_answers_the_first_pending_call() {
    let history = r#"[
        {"role": "user", "parts": [{"text": "Hi"}]},
        {"role": "model", "parts": [{"functionCall": {"id": "a", "name": "f"}},
                                    {"functionCall": {"id": "b", "name": "f"}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}},
                                   {"functionResponse": {"name": "f", "response": {}}}]}]"#;
    let body = request_body("other", &request(history, "{}")).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let ids = messages.iter().map(|it| it["tool_call_id"].as_str());
    assert_eq!(ids.flatten().collect::<Vec<_>>(), ["a", "b"]);
}

/// A session that began with Claude or Gemini may continue on an OpenAI-compatible server.
#[test]
fn thought_signed_by_another_provider_is_not_sent() {
    let history = r#"[{"role": "user", "parts": [{"text": "Is it?"}]},
        {"role": "model", "parts": [
            {"text": "Signed.", "thought": true, "thoughtSignature": "RXFRQkNnSVlBaElNMWdiY0RhOUdKd1pBMmIzaA=="},
            {"text": "Unsigned.", "thought": true}, {"text": "Yes."}]},
        {"role": "user", "parts": [{"text": "Why?"}]}]"#;
    for name in ["other", "ollama", "openrouter"] {
        let body = request_body(name, &request(history, "{}"))
            .unwrap()
            .to_string();
        assert!(
            body.contains("Unsigned.") && body.contains("Yes."),
            "{body}"
        );
        assert!(!body.contains("Signed."), "{body}");
    }
}
