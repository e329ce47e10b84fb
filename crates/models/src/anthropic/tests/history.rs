//! A history with every kind of part, as sent to Claude.

use retain_core::{Bytes, Content, Json, Part};

use super::{body_of, request_with};

/// One part per line, after its role: `u` for the user, `m` for the model.
const PARTS: [&str; 36] = [
    r#"u {"text":"Look at these."}"#,
    r#"u {"inlineData":{"mimeType":"image/png","data":"iVBORw=="}}"#,
    r#"u {"inlineData":{"mimeType":"IMAGE/JPEG; q=1","data":"-_8="}}"#,
    r#"u {"inlineData":{"mimeType":"application/pdf","data":"JVBERg=="}}"#,
    r#"u {"inlineData":{"mimeType":"text/markdown","data":"SGk="}}"#,
    r#"u {"inlineData":{"mimeType":"audio/wav","data":"AAAA"}}"#,
    r#"u {"inlineData":{"mimeType":"image/tiff","data":"AAAA"}}"#,
    r#"u {"fileData":{"mimeType":"image/webp","fileUri":"https://example.org/a.webp"}}"#,
    r#"u {"fileData":{"mimeType":"application/pdf","fileUri":"https://example.org/a.pdf"}}"#,
    r#"u {"fileData":{"mimeType":"video/mp4","fileUri":"https://example.org/a.mp4"}}"#,
    r#"u {"fileData":{"mimeType":"image/png","fileUri":"gs://bucket/a.png"}}"#,
    r#"u {"fileData":{"mimeType":"image/png","fileUri":"http://example.org/a.png"}}"#,
    r#"u {"text":"\n "}"#,
    r#"u {"text":"video","videoMetadata":{"fps":2.0},"partMetadata":{"k":"v"}}"#,
    r#"m {"text":"Hm.","thought":true,"thoughtSignature":"c2lnbmF0dXJl"}"#,
    r#"m {"text":"","thought":true,"thoughtSignature":"aGlkZGVu"}"#,
    r#"m {"thought":true,"thoughtSignature":"c2VhbGVk"}"#,
    r#"m {"text":"unsigned","thought":true}"#,
    r#"m {"text":"of another model","thought":true,"thoughtSignature":"/wAB"}"#,
    r#"m {"thoughtSignature":"c2ln"}"#,
    r#"m {"text":"I see.","thoughtSignature":"Z2VtaW5p"}"#,
    r#"m {"inlineData":{"mimeType":"image/png","data":"iVBORw=="}}"#,
    r#"m {"executableCode":{"code":"print(1)","language":"PYTHON"}}"#,
    r#"m {"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}}"#,
    r#"m {"toolCall":{"id":"x","toolType":"GOOGLE_SEARCH_WEB"}}"#,
    r#"m {"text":""}"#,
    r#"m {"functionCall":{"id":"toolu_1","name":"look","args":{"n":1.0,"s":"ü"}}}"#,
    r#"m {"functionCall":{"id":"adk-2","name":"rest"}}"#,
    r#"u {"functionResponse":{"id":"toolu_1","name":"look","response":{"result":{"a":[1,null,"ü"]}}}}"#,
    r#"u {"functionResponse":{"id":"adk-2","name":"rest","response":{"result":true}}}"#,
    r#"u {"functionResponse":{"id":"t3","name":"mcp","response":{"content":[{"type":"text","text":"one"},{"type":"image","n":1}],"isError":false}}}"#,
    r#"u {"functionResponse":{"id":"t4","name":"skill","response":{"error":"no","code":7}}}"#,
    r#"u {"functionResponse":{"id":"t5","name":"empty"}}"#,
    r#"u {"functionResponse":{"id":"t6","name":"shot","response":{"result":"a picture"},"parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw=="}},{"inlineData":{"mimeType":"audio/wav","data":"AAAA"}}]}}"#,
    r#"u {"functionResponse":{"id":"t8","name":"shot","response":{"result":" \n"},"parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw=="}}]}}"#,
    r#"u {"functionResponse":{"id":"t7","name":"text","response":{"content":"as it is"}}}"#,
];

#[test]
fn every_kind_of_part_is_sent_in_anthropics_format() {
    let contents = PARTS.iter().map(|line| {
        let (role, part) = line.split_once(' ').unwrap();
        let role = if role == "u" { "user" } else { "model" };
        Content::new(role, vec![Part::from_json(part).unwrap()])
    });
    let body = body_of(&request_with(contents));
    let mut lines = String::new();
    for message in body["messages"].as_array().unwrap() {
        lines.push_str(&format!("{}\n", message["role"].as_str().unwrap()));
        for block in message["content"].as_array().unwrap() {
            lines.push_str(&format!("  {block}\n"));
        }
    }
    let expected = include_str!("history.txt");
    assert_eq!(lines, expected, "the messages have changed to\n{lines}");
}

#[test]
fn call_without_a_name_is_an_invalid_request() {
    use crate::provider::Provider as _;
    let part = Part::from_json(r#"{"functionCall":{"args":{}}}"#).unwrap();
    let request = request_with([Content::new("model", vec![part])]);
    let error = super::provider().call(&request, false).unwrap_err();
    assert_eq!(error.code.as_deref(), Some("InvalidRequest"));
}

#[test]
fn bytes_are_sent_in_standard_base64() {
    let part = Part::bytes(Bytes::from(vec![0xfb, 0xff]), "image/png");
    let body = body_of(&request_with([Content::new("user", vec![part])]));
    let source = &body["messages"][0]["content"][0]["source"];
    assert_eq!(source["data"], Json::from("+/8="));
}
