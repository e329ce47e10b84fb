//! Makes the same calls with Google's toolset and with Retain's. Declarations and stored results
//! must be equal, including the order of keys.

use retain_core::Json;
use retain_testkit::oracle::{Oracle, Reference};

use crate::real::{agent::CallResults, is_installed, python, test_file};

/// Returns the results of the calls with Google's toolset.
pub(crate) fn google_results(connection: &str, calls: &[(&str, &str)]) -> CallResults {
    let calls: Vec<String> = calls
        .iter()
        .map(|(tool, args)| format!("[{tool:?},{args}]"))
        .collect();
    let request = format!(r#"{{{connection},"calls":[{}]}}"#, calls.join(","));
    let mut oracle = Oracle::start(Reference::AdkMcp, "MCP", test_file("oracle.py")).unwrap();
    let answer = oracle.ask(&Json::parse(&request).unwrap());
    oracle.stop();
    let list = |name: &str| answer[name].as_array().unwrap().to_vec();
    CallResults {
        declared: list("declared"),
        answers: list("answers"),
    }
}

/// Compares as text, so that the order of keys counts too.
pub(crate) fn compare(
    what: &str,
    calls: &[(&str, &str)],
    ours: &CallResults,
    googles: &CallResults,
) {
    assert_eq!(ours.answers.len(), calls.len(), "{what}: {ours:?}");
    for (call, (ours, googles)) in calls.iter().zip(ours.answers.iter().zip(&googles.answers)) {
        assert_eq!(text(ours), text(googles), "{what}: {call:?}");
    }
    assert_eq!(ours.declared.len(), googles.declared.len(), "{what}");
    for (ours, googles) in ours.declared.iter().zip(&googles.declared) {
        assert_eq!(text(ours), text(googles), "{what}");
    }
}

fn text(json: &Json) -> String {
    json.to_json().unwrap()
}

mod unusual_results {
    use super::*;
    use crate::real::agent::Caller;

    const CALLS: [(&str, &str); 11] = [
        ("plain", r#"{"description":"x"}"#),
        ("empty", "{}"),
        ("failed", "{}"),
        ("media", "{}"),
        ("resources", "{}"),
        ("annotated", "{}"),
        ("structured", "{}"),
        ("structured_null", "{}"),
        ("complete", "{}"),
        ("unknown_fields", "{}"),
        ("refused", "{}"),
    ];

    #[tokio::test]
    async fn unusual_tool_results_match_adk() {
        if !is_installed("unusual_tool_results_match_adk") {
            return;
        }
        let server = format!(
            r#"{{"server_params":{{"command":{:?},"args":[{:?}]}},"timeout":60}}"#,
            python(),
            test_file("odd_server.py")
        );
        let args = format!(r#"{{"stdio_connection_params":{server}}}"#);
        let caller = Caller::new(&args);
        let ours = caller.run(&CALLS).await;
        caller.close().await;
        let googles = google_results(&format!(r#""stdio":{server}"#), &CALLS);
        compare("unusual results", &CALLS, &ours, &googles);
    }
}
