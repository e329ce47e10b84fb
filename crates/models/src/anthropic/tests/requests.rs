//! Settings, tools and messages of requests.

use retain_core::{
    Content, FunctionCall, FunctionResponse, GenerateContentConfig, Json, JsonMap, Part,
};
use retain_runtime::LlmRequest;

use super::{
    super::{ClaudeHost, Messages},
    body_of, json, provider, request_with,
};
use crate::provider::Provider as _;

fn with(config: &str) -> LlmRequest {
    let mut request = request_with([Content::user("Hi")]);
    request.config = GenerateContentConfig::from_json(config).unwrap();
    request
}

const TOOLS: &str = r#""tools":[{"functionDeclarations":[
    {"name":"a","description":"A","parameters":{"type":"OBJECT","properties":{"x":{"type":"STRING"}}}},
    {"name":"b"}]},{"googleSearch":{}}]"#;

fn body_with(config: &str) -> Json {
    body_of(&with(&format!("{{{config}}}")))
}

#[test]
fn minimal_request_has_model_max_tokens_and_messages() {
    let expected = r#"{"max_tokens":8192,"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"model":"claude-test"}"#;
    assert_eq!(body_with("").to_string(), expected);
}

#[test]
fn settings_are_sent_under_anthropics_names() {
    let body = body_with(
        r#""systemInstruction":"Be brief.","temperature":0.5,"topP":0.9,"topK":40.0,
           "maxOutputTokens":100,"stopSequences":["END"],"seed":1"#,
    );
    let expected = json(
        r#"{"max_tokens":100,"system":"Be brief.","temperature":0.5,"top_p":0.9,"top_k":40,
            "stop_sequences":["END"],"model":"claude-test",
            "messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}"#,
    );
    assert_eq!(body, expected);
}

/// A session that began with another provider may continue with Claude, which rejects foreign
/// signatures.
#[test]
fn thought_signed_by_another_provider_is_not_sent() {
    for (signature, is_sent) in [("[{\"id\":\"rs_1\"}]", false), ("EqQBCgIY", true)] {
        let thought = Part {
            text: Some("Hm.".to_owned()),
            thought: Some(true),
            thought_signature: Some(signature.as_bytes().to_vec().into()),
            ..Part::default()
        };
        let answer = Content::new("model", vec![thought, Part::text("Yes.")]);
        let body = body_of(&request_with([
            Content::user("Is it?"),
            answer,
            Content::user("Why?"),
        ]));
        let body = body.to_string();
        assert_eq!(body.contains("thinking"), is_sent, "{body}");
        assert!(body.contains("Yes."), "{body}");
    }
}

#[test]
fn thinking_mode_is_chosen_by_the_budget() {
    for (budget, expected) in [
        (0, r#"{"type":"disabled"}"#),
        (-1, r#"{"type":"adaptive","display":"summarized"}"#),
        (2048, r#"{"type":"enabled","budget_tokens":2048}"#),
    ] {
        let config = format!(r#""temperature":1.0,"thinkingConfig":{{"thinkingBudget":{budget}}}"#);
        let body = body_with(&config);
        assert_eq!(body["thinking"], json(expected));
        assert_eq!(body["temperature"].is_null(), budget != 0);
    }
    let error = provider().call(
        &with(r#"{"thinkingConfig":{"includeThoughts":true}}"#),
        false,
    );
    assert!(error.unwrap_err().message.contains("thinking_budget"));
    let body = body_with(r#""effort":"high","topP":0.5"#);
    assert_eq!(body["output_config"], json(r#"{"effort":"high"}"#));
    assert!(body["top_p"].is_null());
}

/// Thinking counts as output, and Claude rejects a thinking budget above the limit of output
/// tokens.
#[test]
fn thinking_budget_leaves_room_for_the_answer() {
    let thinking = r#""thinkingConfig":{"thinkingBudget":9000}"#;
    assert_eq!(body_with(thinking)["max_tokens"], 9000 + 8192);
    let both = format!(r#"{thinking},"maxOutputTokens":10000"#);
    assert_eq!(body_with(&both)["max_tokens"], 10000);
    for budget in [1, 1023] {
        let config = format!(r#"{{"thinkingConfig":{{"thinkingBudget":{budget}}}}}"#);
        let error = provider().call(&with(&config), false).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("InvalidRequest"));
        assert!(error.message.contains("1024"), "{error}");
    }
}

/// Claude requires the type `object`, so it is added to a schema without a type and replaces any
/// other type.
#[test]
fn tool_parameters_are_declared_as_an_object() {
    let declared = |schema: &str| {
        let tools = format!(
            r#""tools":[{{"functionDeclarations":[{{"name":"a","parametersJsonSchema":{schema}}}]}}]"#
        );
        body_with(&tools)["tools"][0]["input_schema"].clone()
    };
    let whole = json(r#"{"properties":{"x":{"type":"string"}},"required":["x"],"type":"object"}"#);
    for schema in [
        r#"{"properties":{"x":{"type":"string"}},"required":["x"]}"#,
        r#"{"properties":{"x":{"type":"string"}},"required":["x"],"type":["object","null"]}"#,
        r#"{"properties":{"x":{"type":"string"}},"required":["x"],"anyOf":[{"required":["x"]}]}"#,
    ] {
        assert_eq!(declared(schema), whole, "{schema}");
    }
    let none = json(r#"{"type":"object","properties":{}}"#);
    assert_eq!(declared(r#"{"type":"string"}"#), none);
}

#[test]
fn extra_body_is_merged() {
    let body = body_with(r#""httpOptions":{"extraBody":{"metadata":{"user_id":"u1"}}}"#);
    assert_eq!(body["metadata"]["user_id"], "u1");
}

#[test]
fn tools_and_tool_choice_are_sent() {
    let body = body_with(TOOLS);
    let tools = json(
        r#"[{"name":"a","description":"A","input_schema":{"type":"object","properties":{"x":{"type":"string"}}}},
            {"name":"b","description":"","input_schema":{"type":"object","properties":{}}}]"#,
    );
    assert_eq!(body["tools"], tools);
    for (calling, choice, offered) in [
        (r#"{"mode":"AUTO"}"#, r#"{"type":"auto"}"#, 2),
        (r#"{"mode":"NONE"}"#, r#"{"type":"none"}"#, 2),
        (r#"{"mode":"ANY"}"#, r#"{"type":"any"}"#, 2),
        (
            r#"{"mode":"ANY","allowedFunctionNames":["b"]}"#,
            r#"{"type":"tool","name":"b"}"#,
            1,
        ),
        (
            r#"{"mode":"any","allowed_function_names":["b","a"]}"#,
            r#"{"type":"any"}"#,
            2,
        ),
        (
            r#"{"mode":"VALIDATED","allowedFunctionNames":["a"]}"#,
            r#"{"type":"auto"}"#,
            1,
        ),
    ] {
        let config = format!(r#"{TOOLS},"toolConfig":{{"functionCallingConfig":{calling}}}"#);
        let body = body_with(&config);
        assert_eq!(body["tool_choice"], json(choice), "{calling}");
        assert_eq!(
            body["tools"].as_array().unwrap().len(),
            offered,
            "{calling}"
        );
    }
    let thinking = format!(
        r#"{TOOLS},"toolConfig":{{"functionCallingConfig":{{"mode":"ANY"}}}},"thinkingConfig":{{"thinkingBudget":-1}}"#
    );
    assert_eq!(
        body_with(&thinking)["tool_choice"],
        json(r#"{"type":"auto"}"#)
    );
}

#[test]
fn response_schema_is_sent_as_a_forced_tool() {
    let body =
        body_with(r#""responseSchema":{"type":"OBJECT","properties":{"tea":{"type":"STRING"}}}"#);
    assert_eq!(body["tools"][0]["name"], "retain_structured_output");
    assert_eq!(
        body["tools"][0]["input_schema"]["properties"]["tea"]["type"],
        "string"
    );
    let choice =
        r#"{"type":"tool","name":"retain_structured_output","disable_parallel_tool_use":true}"#;
    assert_eq!(body["tool_choice"], json(choice));
    let body = body_with(
        r##""responseJsonSchema":{"type":"array","items":{"$ref":"#/$defs/T"},"$defs":{"T":{"type":"string"}}},
            "thinkingConfig":{"thinkingBudget":-1}"##,
    );
    let schema = json(
        r##"{"type":"object","properties":{"response":{"type":"array","items":{"$ref":"#/$defs/T"}}},
             "required":["response"],"$defs":{"T":{"type":"string"}}}"##,
    );
    assert_eq!(body["tools"][0]["input_schema"], schema);
    assert_eq!(
        body["tool_choice"],
        json(r#"{"type":"auto","disable_parallel_tool_use":true}"#)
    );
    // The schema is not sent together with tools.
    let body = body_with(&format!(r#"{TOOLS},"responseSchema":{{"type":"OBJECT"}}"#));
    assert_eq!(body["tools"].as_array().unwrap().len(), 2);
}

#[test]
fn request_model_overrides_the_default() {
    let mut request = with("{}");
    request.model = "anthropic/claude-other".to_owned();
    assert_eq!(body_of(&request)["model"], "claude-other");
    request.model = "claude/../../x".to_owned();
    assert!(provider().call(&request, false).is_err());
}

#[test]
fn unsupported_requests_are_rejected() {
    for config in [
        r#"{"candidateCount":2}"#,
        r#"{"tools":[{"functionDeclarations":[{"name":"retain_structured_output"}]}]}"#,
        r#"{"tools":[{"functionDeclarations":[{"description":"no name"}]}]}"#,
    ] {
        let error = provider().call(&with(config), false).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("InvalidRequest"), "{config}");
    }
}

fn call(id: Option<&str>, name: &str) -> Part {
    FunctionCall {
        id: id.map(str::to_owned),
        ..FunctionCall::new(name, JsonMap::new())
    }
    .into()
}

fn result(id: Option<&str>, name: &str) -> Part {
    FunctionResponse {
        id: id.map(str::to_owned),
        ..FunctionResponse::new("", name, JsonMap::from([("result", name)]))
    }
    .into()
}

/// Returns for each message sent its role, and each block's type with its id or text.
fn summaries(contents: impl IntoIterator<Item = Content>) -> Vec<String> {
    let body = body_of(&request_with(contents));
    let messages = body["messages"].as_array().unwrap();
    let summary = |message: &Json| {
        let blocks = message["content"].as_array().unwrap().iter();
        let blocks = blocks.map(|block| {
            let keys = ["id", "tool_use_id", "text"];
            let detail = keys.iter().find_map(|key| block[*key].as_str());
            format!(
                "{} {}",
                block["type"].as_str().unwrap(),
                detail.unwrap_or_default()
            )
        });
        let blocks = blocks.collect::<Vec<_>>().join(", ");
        format!("{}: {blocks}", message["role"].as_str().unwrap())
    };
    messages.iter().map(summary).collect()
}

#[test]
fn tool_results_follow_their_calls_in_one_message() {
    let messages = summaries([
        Content::user("Go"),
        Content::new("model", vec![call(Some("t1"), "a"), call(Some("t2"), "b")]),
        Content::new("user", vec![result(Some("t1"), "a")]),
        Content::new("user", vec![Part::text("and?"), result(Some("t2"), "b")]),
    ]);
    let expected = [
        "user: text Go",
        "assistant: tool_use t1, tool_use t2",
        "user: tool_result t1, tool_result t2, text and?",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn call_without_a_result_gets_a_placeholder() {
    let messages = summaries([
        Content::user("Go"),
        Content::new("model", vec![call(Some("t1"), "a"), call(Some("t2"), "b")]),
        Content::new(
            "user",
            vec![Part::text("never mind"), result(Some("t2"), "b")],
        ),
        Content::new("model", vec![call(Some("t3"), "a")]),
    ]);
    assert_eq!(
        messages[2],
        "user: tool_result t2, tool_result t1, text never mind"
    );
    assert!(
        messages[4].starts_with("user: tool_result t3, text Continue"),
        "{messages:?}"
    );
}

#[test]
fn invalid_call_ids_are_replaced() {
    let messages = summaries([
        Content::user("Go"),
        Content::new(
            "model",
            vec![
                call(None, "a"),
                call(Some("x:1"), "b"),
                call(None, "c"),
                call(Some(""), "a"),
            ],
        ),
        Content::new(
            "user",
            vec![
                result(None, "c"),
                result(Some("x:1"), "b"),
                result(None, "a"),
                result(None, "other"),
                result(None, "late"),
            ],
        ),
    ]);
    let id = |number| format!("toolu_fallback_{number}");
    let calls: Vec<String> = (0..4).map(|n| format!("tool_use {}", id(n))).collect();
    let results: Vec<String> = [2, 1, 0, 3, 4]
        .map(|n| format!("tool_result {}", id(n)))
        .to_vec();
    assert_eq!(messages[1], format!("assistant: {}", calls.join(", ")));
    assert_eq!(messages[2], format!("user: {}", results.join(", ")));
}

/// Some servers restart call ids in every message; Claude rejects a repeated id.
#[test]
fn repeated_call_id_is_replaced() {
    let messages = summaries([
        Content::user("Go"),
        Content::new(
            "model",
            vec![call(Some("call_0"), "a"), call(Some("call_0"), "b")],
        ),
        Content::new(
            "user",
            vec![result(Some("call_0"), "a"), result(Some("call_0"), "b")],
        ),
        Content::new("model", vec![call(Some("call_0"), "a")]),
        Content::new("user", vec![result(Some("call_0"), "a")]),
        Content::new(
            "model",
            vec![call(Some("toolu_fallback_2"), "a"), call(None, "b")],
        ),
    ]);
    assert_eq!(
        messages[1],
        "assistant: tool_use call_0, tool_use toolu_fallback_0"
    );
    assert_eq!(
        messages[2],
        "user: tool_result call_0, tool_result toolu_fallback_0"
    );
    assert_eq!(messages[3], "assistant: tool_use toolu_fallback_1");
    assert_eq!(messages[4], "user: tool_result toolu_fallback_1");
    assert_eq!(
        messages[5],
        "assistant: tool_use toolu_fallback_2, tool_use toolu_fallback_3"
    );
}

#[test]
fn request_ends_with_a_user_message() {
    let empty_prompt = "user: text Handle the requests as specified in the System Instruction.";
    assert_eq!(summaries([]), [empty_prompt]);
    let continue_prompt = "user: text Continue processing previous requests as instructed. Exit or \
                           provide a summary if no more outputs are needed.";
    let messages = summaries([Content::user("Hi"), Content::model("Ho")]);
    assert_eq!(
        messages,
        ["user: text Hi", "assistant: text Ho", continue_prompt]
    );
    // A blank user message is sent with a placeholder text; a blank message of the model is
    // dropped.
    assert_eq!(summaries([Content::user("")]), ["user: text ."]);
    // A text of only white space counts as empty.
    assert_eq!(summaries([Content::user(" \n\t")]), ["user: text ."]);
    let messages = summaries([
        Content::user("a"),
        Content::model("\n\n"),
        Content::user(" b "),
    ]);
    assert_eq!(messages, ["user: text a, text  b "]);
    assert!(body_with(r#""systemInstruction":" \n""#)["system"].is_null());
    let messages = summaries([Content::user("a"), Content::model(""), Content::user("b")]);
    assert_eq!(messages, ["user: text a, text b"]);
}

#[test]
fn vertex_request_has_the_model_in_its_url() {
    let name = "projects/p/locations/l/publishers/anthropic/models/claude-x@1";
    let base_url = "https://h/v1/projects/p/locations/l".to_owned();
    let provider = Messages::new(
        name,
        ClaudeHost::Vertex {
            base_url: base_url.as_str().into(),
        },
    );
    for (stream, method) in [(false, "rawPredict"), (true, "streamRawPredict")] {
        let mut request = with("{}");
        request.model = name.to_owned();
        let call = provider.call(&request, stream).unwrap();
        let models = "https://h/v1/projects/p/locations/l/publishers/anthropic/models";
        assert_eq!(call.url, format!("{models}/claude-x@1:{method}"));
        let body = json(&call.body);
        assert_eq!(body["anthropic_version"], "vertex-2023-10-16");
        assert!(body["model"].is_null() && call.headers.is_empty());
    }
}
