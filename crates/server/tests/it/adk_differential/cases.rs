//! The requests to both servers: valid ones for each route, then invalid ones.

/// A request to both servers.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) kind: &'static str,
    pub(crate) body: String,
}

const JSON: &str = "application/json";
const USER: &str = "/apps/plain/users/ada";

fn case(method: &'static str, path: impl Into<String>, body: impl Into<String>) -> Case {
    let body = body.into();
    Case {
        method,
        path: path.into(),
        kind: if body.is_empty() { "" } else { JSON },
        body,
    }
}

/// Returns all requests, in order: later ones see the effects of earlier ones.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = valid_requests();
    cases.extend(runs());
    cases.extend(artifacts());
    cases.extend(invalid_fields());
    cases.extend(invalid_parts());
    cases.extend(invalid_bodies());
    cases.extend(unusual_ids());
    cases.extend(unusual_paths());
    cases.extend(imports());
    cases
}

/// Returns requests without an app name.
pub(crate) fn without_app() -> Vec<Case> {
    let hello = r#"{"userId":"ada","sessionId":"s","newMessage":{"parts":[{"text":"hi"}]}}"#;
    vec![
        case("GET", "/app-info", ""),
        case("GET", "/app-info/", ""),
        case("GET", "/users/ada/sessions", ""),
        case("POST", "/users/ada/sessions", r#"{"sessionId":"s"}"#),
        case("POST", "/users/ada/sessions?a=b", r#"{"sessionId":"s"}"#),
        case("POST", "/users/ada/sessions/t", ""),
        case("GET", "/users/ada/sessions/s", ""),
        case("GET", "/users/%C3%A9/sessions/none", ""),
        case("GET", "/users/ada/sessions/", ""),
        case("POST", "/run", hello),
        case("POST", "/run_sse", hello),
        case(
            "POST",
            "/run",
            hello.replace("\"userId", "\"appName\":\"\",\"userId"),
        ),
        case(
            "POST",
            "/run",
            hello.replace("\"userId", "\"appName\":\"family\",\"userId"),
        ),
        case(
            "PATCH",
            "/users/ada/sessions/s",
            r#"{"stateDelta":{"a":1}}"#,
        ),
        case("PATCH", "/users/ada/memory", r#"{"sessionId":"s"}"#),
        case(
            "POST",
            "/users/ada/sessions/s/artifacts",
            r#"{"filename":"d/f","artifact":{"text":"x"}}"#,
        ),
        case("GET", "/users/ada/sessions/s/artifacts/d/f/versions", ""),
        case("GET", "/users/ada/sessions/s/artifacts/", ""),
        case("GET", "/users/ada/sessions/s/artifacts/d/f/", ""),
        case("GET", "/apps/plain/users/ada/sessions/s", ""),
        case("GET", "/users/ada", ""),
        case("GET", "/users", ""),
        case("PUT", "/users/ada/sessions", ""),
        case("DELETE", "/users/ada/sessions/s", ""),
    ]
}

fn valid_requests() -> Vec<Case> {
    let sessions = format!("{USER}/sessions");
    let s1 = format!("{sessions}/s1");
    vec![
        case("GET", "/health", ""),
        case("GET", "/version", ""),
        case("GET", "/list-apps", ""),
        case("GET", "/list-apps?relative_path=./", ""),
        case("GET", "/list-apps?detailed=true", ""),
        case("GET", "/list-apps?detailed=YES", ""),
        case("GET", "/list-apps?detailed=0", ""),
        case("GET", "/list-apps?detailed=maybe", ""),
        case("GET", "/list-apps?detailed=", ""),
        case("GET", "/list-apps?detailed=true&detailed=x", ""),
        case("GET", "/apps/plain/app-info", ""),
        case("GET", "/apps/family/app-info", ""),
        case("GET", "/apps/steps/app-info", ""),
        case("GET", "/apps/nobody/app-info", ""),
        case("GET", "/apps/not-a-word/app-info", ""),
        case("GET", "/apps/__secret/app-info", ""),
        case("GET", sessions.as_str(), ""),
        case("GET", "/apps/nobody/users/ada/sessions", ""),
        case(
            "POST",
            sessions.as_str(),
            r#"{"sessionId":"s1","state":{"a":null,"temp:t":1,"user:n":"é","app:k":[1,2],"n":12345678901234567890123}}"#,
        ),
        case("POST", sessions.as_str(), r#"{"session_id":"s1"}"#),
        case("POST", sessions.as_str(), ""),
        case("POST", sessions.as_str(), "null"),
        case("POST", sessions.as_str(), "{}"),
        case("POST", sessions.as_str(), r#"{"unknown":1}"#),
        case(
            "POST",
            sessions.as_str(),
            r#"{"sessionId":null,"state":null,"events":null,"options":null}"#,
        ),
        case("POST", sessions.as_str(), r#"{"options":{}}"#),
        case("POST", sessions.as_str(), r#"{"options":{"a":1}}"#),
        case(
            "POST",
            sessions.as_str(),
            r#"{"options":{"user_id":1,"state":2}}"#,
        ),
        case("POST", format!("{sessions}/s2"), ""),
        case("POST", format!("{sessions}/s2"), ""),
        case(
            "POST",
            format!("{sessions}/s3"),
            r#"{"x":{"y":[true,1.5,"z"]}}"#,
        ),
        case("POST", format!("{sessions}/s4"), "null"),
        case("POST", format!("{sessions}/s5"), "[]"),
        case("POST", format!("{sessions}/s5"), "\"x\""),
        case("GET", s1.as_str(), ""),
        case("GET", format!("{sessions}/none"), ""),
        case("GET", "/apps/plain/users/bob/sessions/s1", ""),
        case("GET", "/apps/family/users/ada/sessions/s1", ""),
        case(
            "PATCH",
            s1.as_str(),
            r#"{"stateDelta":{"b":1,"temp:t":2,"user:n":"ü"}}"#,
        ),
        case("PATCH", s1.as_str(), r#"{"state_delta":{"b":null}}"#),
        case("PATCH", s1.as_str(), r#"{"stateDelta":{}}"#),
        case(
            "PATCH",
            s1.as_str(),
            r#"{"stateDelta":{"c":1},"state_delta":{"c":2}}"#,
        ),
        case("PATCH", format!("{sessions}/none"), r#"{"stateDelta":{}}"#),
        case("GET", s1.as_str(), ""),
        case("GET", format!("{sessions}/s3"), ""),
        case("DELETE", format!("{sessions}/none"), ""),
        case("DELETE", format!("{sessions}/s3"), ""),
        case("GET", format!("{sessions}/s3"), ""),
        case(
            "POST",
            sessions.as_str(),
            r#"{"sessionId":"adk-eval-session-1"}"#,
        ),
        case(
            "POST",
            sessions.as_str(),
            r#"{"sessionId":"___eval___session___1"}"#,
        ),
        case("GET", sessions.as_str(), ""),
        case("PATCH", format!("{USER}/memory"), r#"{"sessionId":"s1"}"#),
        case("PATCH", format!("{USER}/memory"), r#"{"session_id":"s1"}"#),
        case("PATCH", format!("{USER}/memory"), r#"{"sessionId":"none"}"#),
    ]
}

fn run_body(session: &str, message: &str, more: &str) -> String {
    format!(
        r#"{{"appName":"plain","userId":"ada","sessionId":"{session}","newMessage":{message}{more}}}"#
    )
}

fn user_message(text: &str) -> String {
    format!(r#"{{"role":"user","parts":[{{"text":"{text}"}}]}}"#)
}

fn runs() -> Vec<Case> {
    // ADK stores messages that Retain rejects, so these go to a session of their own.
    let mut cases = vec![case("POST", format!("{USER}/sessions/w1"), "")];
    let hello = user_message("hello é 😀");
    let bodies = [
        run_body("s1", &hello, ""),
        run_body("s1", &hello, r#","streaming":true"#),
        run_body("s1", &hello, r#","streaming":"yes","stateDelta":{"k":1,"temp:x":2}"#),
        run_body("s1", &hello, r#","streaming":0,"customMetadata":{"m":[1,{"n":2}]}"#),
        run_body("s1", &hello, r#","customMetadata":{},"stateDelta":{}"#),
        run_body("s1", &hello, r#","stateDelta":null,"functionCallEventId":null,"invocationId":null"#),
        run_body("s1", &hello, r#","functionCallEventId":"f","serviceTier":"flex""#),
        run_body("s1", &hello, r#","invocationId":"""#),
        run_body("s1", &user_message(""), ""),
        run_body("s1", r#"{"parts":[{"text":"no role"}]}"#, ""),
        run_body("s1", r#"{"role":"model","parts":[{"text":"role model"}]}"#, ""),
        run_body("s1", r#"{"parts":[{"text":"a"},{"text":"b","thought":true}]}"#, ""),
        run_body("s1", r#"{"parts":[{"text":"pic"},{"inlineData":{"mimeType":"image/png","data":"AAEC-_8="}}]}"#, ""),
        run_body("s1", r#"{"parts":[{"text":"pic"},{"inline_data":{"mime_type":"image/png","data":"AAEC+/8="}}]}"#, ""),
        run_body("s1", &user_message("fail"), ""),
        run_body("s1", &user_message("fail"), r#","streaming":true"#),
        run_body("none", &hello, ""),
        run_body("w1", "null", ""),
        run_body("none", "null", ""),
        run_body("w1", r#"{"parts":[]}"#, ""),
        run_body("w1", "{}", ""),
        run_body("w1", r#"{"parts":[{"functionCall":{"name":"f"}}]}"#, ""),
        run_body("w1", r#"{"parts":[{"functionResponse":{"id":"q","name":"f","response":{}}}]}"#, ""),
        run_body("w1", r#"{"parts":[{"functionResponse":{"name":"f","response":{}}}]}"#, ""),
        run_body("s1", &hello, r#","app_name":"family""#),
        r#"{"user_id":"ada","session_id":"s1","app_name":"plain","new_message":{"parts":[{"text":"snake"}]},"state_delta":{"s":1}}"#.into(),
        r#"{"userId":"ada","sessionId":"s1","newMessage":{"parts":[{"text":"a"}]}}"#.into(),
        r#"{"appName":"","userId":"ada","sessionId":"s1","newMessage":{"parts":[{"text":"a"}]}}"#.into(),
        r#"{"appName":"nobody","userId":"ada","sessionId":"s1"}"#.into(),
        r#"{"appName":"not-a-word","userId":"ada","sessionId":"s1"}"#.into(),
        r#"{"appName":"__x","userId":"ada","sessionId":"s1"}"#.into(),
        r#"{"appName":"../plain","userId":"ada","sessionId":"s1"}"#.into(),
        r#"{"appName":"it's","userId":"ada","sessionId":"s1"}"#.into(),
    ];
    for body in bodies {
        cases.push(case("POST", "/run", body.clone()));
        cases.push(case("POST", "/run_sse", body));
    }
    cases.push(case("GET", format!("{USER}/sessions/s1"), ""));
    cases.push(case(
        "PATCH",
        format!("{USER}/memory"),
        r#"{"sessionId":"s1"}"#,
    ));
    cases
}

fn artifacts() -> Vec<Case> {
    let base = format!("{USER}/sessions/s1/artifacts");
    let mut cases = vec![
        case("GET", base.as_str(), ""),
        case("GET", "/apps/nobody/users/x/sessions/y/artifacts", ""),
    ];
    let saved = [
        r#"{"filename":"a.txt","artifact":{"text":"one"}}"#,
        r#"{"filename":"a.txt","artifact":{"text":"two"},"customMetadata":{"k":[1]}}"#,
        r#"{"filename":"d/e f.txt","artifact":{"text":"é"},"custom_metadata":{}}"#,
        r#"{"filename":"user:u.bin","artifact":{"inlineData":{"mimeType":"application/octet-stream","data":"AAEC-_8="}}}"#,
        r#"{"filename":"user:v.bin","artifact":{"inline_data":{"mime_type":"image/png","data":"AAEC+/8=","display_name":"v"}}}"#,
        r#"{"filename":"","artifact":{"text":"x"}}"#,
        r#"{"filename":"../up","artifact":{"text":"x"}}"#,
        r#"{"filename":"/root","artifact":{"text":"x"}}"#,
        r#"{"filename":"a\\b","artifact":{"text":"x"}}"#,
        r#"{"filename":"é😀","artifact":{"text":"x"}}"#,
        r#"{"filename":"empty.txt","artifact":{"text":""}}"#,
        r#"{"filename":"nothing","artifact":{}}"#,
        r#"{"filename":"f","artifact":{"fileData":{"fileUri":"gs://b/o","mimeType":"text/plain"}}}"#,
        r#"{"filename":"g","artifact":{"functionCall":{"name":"f"}}}"#,
        r#"{"filename":"ref","artifact":{"fileData":{"fileUri":"artifact://apps/plain/users/ada/sessions/s1/artifacts/a.txt/versions/0"}}}"#,
        r#"{"filename":"badref","artifact":{"fileData":{"fileUri":"artifact://nonsense"}}}"#,
    ];
    cases.extend(saved.map(|body| case("POST", base.as_str(), body)));
    cases.push(case("GET", base.as_str(), ""));
    for name in [
        "a.txt",
        "d/e%20f.txt",
        "d%2Fe%20f.txt",
        "user:u.bin",
        "user%3Av.bin",
        "empty.txt",
        "f",
        "ref",
        "none",
        "versions",
    ] {
        let ends = [
            "",
            "?version=0",
            "?version=1",
            "?version=9",
            "?version=x",
            "?version=",
            "?version=-1",
            "?version=1.0",
            "/versions",
            "/versions/0",
            "/versions/1",
            "/versions/9",
            "/versions/-1",
            "/versions/latest",
            "/versions/x",
            "/versions/1.0",
            "/versions/metadata",
            "/versions/0/metadata",
            "/versions/latest/metadata",
            "/versions/7/metadata",
            "/versions/x/metadata",
            "/versions/99999999999999999999",
            "/versions/metadata/metadata",
        ];
        cases.extend(ends.map(|end| case("GET", format!("{base}/{name}{end}"), "")));
    }
    cases.extend([
        case("DELETE", format!("{base}/none"), ""),
        case("DELETE", format!("{base}/a.txt/versions/0"), ""),
        case("DELETE", format!("{base}/a.txt"), ""),
        case("GET", format!("{base}/a.txt"), ""),
        case("GET", format!("{base}/a.txt/versions"), ""),
        case("GET", base, ""),
        case("GET", format!("{USER}/sessions/s2/artifacts"), ""),
        case(
            "GET",
            format!("{USER}/sessions/s2/artifacts/user:u.bin"),
            "",
        ),
    ]);
    cases
}

/// One value of each JSON type.
const VALUES: [&str; 9] = [
    "null",
    "5",
    "1.5",
    "\"x\"",
    "\"\"",
    "[]",
    "{}",
    "true",
    "12345678901234567890123",
];

/// Returns requests whose body has a value of each JSON type in each field.
fn invalid_fields() -> Vec<Case> {
    let run = r#""appName":"nobody""#;
    let bodies: [(&'static str, String, &str, &[&str]); 5] = [
        (
            "POST",
            format!("{USER}/sessions"),
            "",
            &["sessionId", "session_id", "state", "events", "options"],
        ),
        (
            "PATCH",
            format!("{USER}/sessions/s2"),
            "",
            &["stateDelta", "state_delta"],
        ),
        (
            "POST",
            format!("{USER}/sessions/s2/artifacts"),
            "",
            &["filename", "artifact", "customMetadata", "custom_metadata"],
        ),
        (
            "PATCH",
            format!("{USER}/memory"),
            "",
            &["sessionId", "session_id"],
        ),
        (
            "POST",
            "/run".into(),
            run,
            &[
                "userId",
                "user_id",
                "sessionId",
                "session_id",
                "newMessage",
                "new_message",
                "streaming",
                "stateDelta",
                "functionCallEventId",
                "invocationId",
                "customMetadata",
                "serviceTier",
            ],
        ),
    ];
    let mut cases = Vec::new();
    for (method, path, given, fields) in bodies {
        for field in fields {
            for value in VALUES {
                let comma = if given.is_empty() { "" } else { "," };
                let body = format!(r#"{{{given}{comma}"{field}":{value}}}"#);
                cases.push(case(method, path.as_str(), body));
            }
        }
    }
    // Omit requests that create the session `x`, which would be in every later list.
    cases.retain(|case| !(case.path.ends_with("/sessions") && case.body.contains("\"x\"")));
    cases
}

fn invalid_parts() -> Vec<Case> {
    let parts = [
        "5",
        "\"x\"",
        "null",
        r#"{"text":5}"#,
        r#"{"text":null}"#,
        r#"{"bogus":1}"#,
        r#"{"thought":"maybe"}"#,
        r#"{"thought":5}"#,
        r#"{"thought":[]}"#,
        r#"{"inlineData":5}"#,
        r#"{"inlineData":{"data":5}}"#,
        r#"{"inlineData":{"data":"*"}}"#,
        r#"{"inlineData":{"mimeType":5,"data":"AA=="}}"#,
        r#"{"inline_data":{"mime_type":5,"x":1}}"#,
        r#"{"fileData":{"fileUri":5}}"#,
        r#"{"functionCall":{"name":5}}"#,
        r#"{"functionCall":{"args":[]}}"#,
        r#"{"function_call":{"args":"x","id":1}}"#,
        r#"{"functionResponse":{"response":[]}}"#,
        r#"{"functionResponse":{"scheduling":5}}"#,
        r#"{"executableCode":{"language":5}}"#,
        r#"{"codeExecutionResult":{"outcome":5}}"#,
        r#"{"mediaResolution":{"numTokens":"x"}}"#,
        r#"{"mediaResolution":{"numTokens":1.5,"level":5}}"#,
        r#"{"mediaResolution":{"numTokens":[]}}"#,
        r#"{"videoMetadata":{"fps":"x"}}"#,
        r#"{"videoMetadata":{"fps":[]}}"#,
        r#"{"thoughtSignature":5}"#,
        r#"{"partMetadata":5}"#,
        r#"{"functionCall":{"partialArgs":[{"bogus":1},5]}}"#,
        r#"{"functionResponse":{"parts":[{"bogus":1}]}}"#,
        r#"{"toolCall":{"toolType":5,"bogus":1}}"#,
        r#"{"audioTranscription":{"words":[{"word":5}]}}"#,
        r#"{"mediaProcessing":5}"#,
        r#"{"text":1,"thought":2,"zzz":3}"#,
    ];
    let mut cases = Vec::new();
    for part in parts {
        let body = format!(
            r#"{{"appName":"nobody","userId":"u","sessionId":"s","newMessage":{{"parts":[{{"text":"a"}},{part}]}}}}"#
        );
        cases.push(case("POST", "/run_sse", body));
        let body = format!(r#"{{"filename":"w","artifact":{part}}}"#);
        cases.push(case("POST", format!("{USER}/sessions/s2/artifacts"), body));
    }
    cases
}

fn invalid_bodies() -> Vec<Case> {
    let routes: [(&'static str, String); 6] = [
        ("POST", format!("{USER}/sessions")),
        ("POST", format!("{USER}/sessions/s9")),
        ("PATCH", format!("{USER}/sessions/s2")),
        ("POST", format!("{USER}/sessions/s2/artifacts")),
        ("PATCH", format!("{USER}/memory")),
        ("POST", "/run_sse".into()),
    ];
    let bodies = [
        "{",
        "[",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,}",
        "[1,]",
        "{'a':1}",
        "nul",
        "{} {}",
        "\"é",
        "\"\\x\"",
        "\"\\u12\"",
        "\"a\nb\"",
        "01",
        "-",
        "+1",
        "1.",
        ".5",
        "\u{feff}{}",
        "5",
        "\"text\"",
        "true",
        "[1]",
        "1e999",
        "{\"a\":\"\\ud800\"}",
        "{\"state\":{\"x\":NaN}}",
        "{\"stateDelta\":{\"x\":Infinity}}",
    ];
    let mut cases = Vec::new();
    for (method, path) in &routes {
        cases.push(case(method, path.as_str(), ""));
        for body in bodies {
            cases.push(case(method, path.as_str(), body));
        }
        for kind in [
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/json; charset=utf-8",
            "APPLICATION/JSON",
            "application/merge-patch+json",
            "text/json",
        ] {
            cases.push(Case {
                kind,
                ..case(method, path.as_str(), "{\"sessionId\":5}")
            });
        }
    }
    cases
}

fn unusual_ids() -> Vec<Case> {
    let long = "x".repeat(600);
    let ids = [
        "%C3%A9",
        "%F0%9F%98%80",
        "a%20b",
        "a+b",
        "%20pad%20",
        "%20",
        "a%2Fb",
        "a%5Cb",
        "%00",
        "a%00b",
        "%22q%22",
        "'",
        "%25",
        "a;b",
        "a:b",
        "a@b",
        "null",
        "0",
        "%3Cscript%3E",
        "%FF",
        long.as_str(),
    ];
    let mut cases = Vec::new();
    for id in ids {
        let session = format!("{USER}/sessions/{id}");
        cases.extend([
            case("GET", session.as_str(), ""),
            case("POST", session.as_str(), r#"{"k":1}"#),
            case("GET", session.as_str(), ""),
            case("PATCH", session.as_str(), r#"{"stateDelta":{"k":2}}"#),
            case("DELETE", session.as_str(), ""),
            case("GET", format!("/apps/plain/users/{id}/sessions"), ""),
            case("GET", format!("/apps/{id}/users/u/sessions"), ""),
            case("GET", format!("/apps/{id}/app-info"), ""),
            case("GET", format!("{USER}/sessions/s2/artifacts/{id}"), ""),
        ]);
    }
    cases
}

fn unusual_paths() -> Vec<Case> {
    let sessions = format!("{USER}/sessions");
    vec![
        case("GET", "/", ""),
        case("GET", "/nowhere", ""),
        case("GET", "/apps", ""),
        case("GET", "/apps/plain", ""),
        case("GET", "/apps/plain/users", ""),
        case("GET", "/list-apps/", ""),
        case("GET", format!("{sessions}/"), ""),
        case("POST", format!("{sessions}/"), "{}"),
        case("GET", format!("{sessions}/s1/"), ""),
        case("GET", "/apps//users/ada/sessions", ""),
        case("GET", "/apps/plain/users//sessions", ""),
        case("GET", format!("{sessions}/s1/artifacts/"), ""),
        case("GET", format!("{sessions}/s1/nothing"), ""),
        case("GET", "/users/ada/sessions", ""),
        case("GET", "/app-info", ""),
        case("PUT", sessions.as_str(), "{}"),
        case("PATCH", sessions.as_str(), "{}"),
        case("DELETE", sessions.as_str(), ""),
        case("PUT", format!("{sessions}/s1"), "{}"),
        case("GET", "/run", ""),
        case("GET", "/run_sse", ""),
        case("PUT", "/run", "{}"),
        case("POST", "/list-apps", "{}"),
        case("POST", "/version", ""),
        case("GET", format!("{USER}/memory"), ""),
        case("POST", format!("{USER}/memory"), "{}"),
        case("POST", format!("{sessions}/s1/artifacts/a"), "{}"),
        case("PUT", format!("{sessions}/s1/artifacts"), "{}"),
        case("OPTIONS", sessions.as_str(), ""),
        case("GET", "/run_live", ""),
    ]
}

fn imports() -> Vec<Case> {
    let events = [
        "5",
        "{}",
        "null",
        r#"{"author":"user"}"#,
        r#"{"author":5}"#,
        r#"{"id":null}"#,
        r#"{"id":5}"#,
        r#"{"timestamp":"x"}"#,
        r#"{"timestamp":[]}"#,
        r#"{"timestamp":"1.5","id":"t"}"#,
        r#"{"partial":"maybe"}"#,
        r#"{"content":{"parts":[{"text":5}]}}"#,
        r#"{"content":5}"#,
        r#"{"content":{"parts":[{"text":"hi"}],"role":"user"},"author":"user","id":"e1","invocationId":"i1","timestamp":12.5}"#,
        r#"{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":1},"id":"c"}}]},"author":"a","id":"e2"}"#,
        r#"{"actions":5}"#,
        r#"{"actions":{}}"#,
        r#"{"actions":{"stateDelta":5}}"#,
        r#"{"actions":{"stateDelta":{"a":1}},"id":"e3"}"#,
        r#"{"longRunningToolIds":["a"],"id":"e4"}"#,
        r#"{"content":{"parts":[{"functionCall":{"name":"adk_request_confirmation"}}]},"id":"e5"}"#,
        r#"{"content":{"parts":[{"text":"x","later":1}]},"id":"e6"}"#,
        r#"{"actions":{"later":1},"id":"e7"}"#,
        r#"{"later":1,"id":"e8"}"#,
        r#"{"customMetadata":{"__adk_internal_x":1,"y":2},"id":"e9"}"#,
        r#"{"longRunningToolIds":5}"#,
        r#"{"usageMetadata":5}"#,
        r#"{"groundingMetadata":5}"#,
        r#"{"citationMetadata":5}"#,
        r#"{"nodeInfo":5}"#,
        r#"{"inputTranscription":5}"#,
        r#"{"cacheMetadata":5}"#,
        r#"{"avgLogprobs":5}"#,
        r#"{"modelVersion":5}"#,
        r#"{"long_running_tool_ids":5}"#,
        r#"{"longRunningToolIds":[5]}"#,
        r#"{"nodeInfo":{"path":"a@1"},"id":"n","output":{"x":1}}"#,
        r#"{"actions":{"compaction":5}}"#,
        r#"{"branch":5}"#,
        r#"{"errorCode":5}"#,
        r#"{"customMetadata":[]}"#,
        r#"{"actions":{"escalate":"x"}}"#,
        r#"{"actions":{"artifactDelta":{"a":"x"}}}"#,
        r#"{"actions":{"compaction":{}}}"#,
        r#"{"actions":{"compaction":{"startTimestamp":"x","endTimestamp":1,"compactedContent":{}}}}"#,
        r#"{"actions":{"requestedToolConfirmations":{"c":5}}}"#,
        r#"{"actions":{"requestedToolConfirmations":{"c":{"confirmed":"maybe"}}}}"#,
        r#"{"actions":{"route":1.5}}"#,
        r#"{"actions":{"route":{}}}"#,
        r#"{"actions":{"route":["a",1,true,{}]}}"#,
        r#"{"actions":{"renderUiWidgets":[{"id":5}]}}"#,
        r#"{"usageMetadata":{"promptTokenCount":"x","promptTokensDetails":[{"modality":5}]}}"#,
        r#"{"groundingMetadata":{"webSearchQueries":5,"groundingChunks":[{"web":{"uri":5}}]}}"#,
        r#"{"citationMetadata":{"citations":[{"startIndex":1.5}]}}"#,
        r#"{"logprobsResult":{"chosenCandidates":[{"logProbability":"x"}]}}"#,
        r#"{"inputTranscription":{"finished":5}}"#,
        r#"{"cacheMetadata":{}}"#,
        r#"{"finishReason":5}"#,
        r#"{"turnCompleteReason":[]}"#,
        r#"{"nodeInfo":{"path":5}}"#,
        r#"{"goAway":{"timeLeft":5},"voiceActivity":{"voiceActivityType":5}}"#,
        r#"{"content":{"parts":[{"functionCall":{"partialArgs":[{"nullValue":"x"}]}}]}}"#,
        r#"{"content":{"parts":[{"functionResponse":{"parts":[{"inlineData":{"data":5}}]}}]}}"#,
        r#"{"content":{"parts":[{"toolCall":{"toolType":5}},{"toolResponse":{"response":5}}]}}"#,
        r#"{"content":{"parts":[{"audioTranscription":5},{"mediaProcessing":5},{"speechMetadata":5}]}}"#,
    ];
    let sessions = format!("{USER}/sessions");
    let mut cases: Vec<Case> = events
        .iter()
        .map(|event| {
            case(
                "POST",
                sessions.as_str(),
                format!(r#"{{"events":[{event}],"state":{{"i":1}}}}"#),
            )
        })
        .collect();
    let whole = format!(
        r#"{{"sessionId":"whole","events":[{},{}]}}"#,
        events[13], events[14]
    );
    cases.push(case("POST", sessions, whole));
    cases.push(case("GET", format!("{USER}/sessions/whole"), ""));
    cases
}
