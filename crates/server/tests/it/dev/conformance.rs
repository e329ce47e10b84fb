//! Replays of recorded runs over HTTP: only servers that enable them replay, and errors are
//! reported.

use std::path::Path;

use retain_runtime::{ConfigRegistry, ModelRegistry};
use retain_server::Conformance;

use crate::dev::support::{agents, say, server, write};

const SOLO: &str = "name: solo\nmodel: recorded\ninstruction: Be brief.\n";

/// A recording of one model call, in the format of recorders before ADK 2.
const RECORDINGS: &str = r#"
recordings:
- user_message_index: 0
  agent_name: solo
  llm_recording:
    llm_request:
      model: recorded
      contents:
      - parts:
        - text: Hello!
        role: user
      config:
        system_instruction: "Be brief.\n\nYou are an agent. Your internal name is \"solo\"."
    llm_response:
      content:
        parts:
        - text: A recorded answer.
        role: model
"#;

fn config(dir: &Path, mode: &str) -> String {
    let dir = retain_core::Json::from(dir.to_str().expect("text"));
    format!(
        r#","stateDelta":{{"_adk_replay_config":{{"dir":{dir},"user_message_index":0,"streaming_mode":"{mode}"}}}}"#
    )
}

#[tokio::test]
async fn recordings_are_replayed_only_if_the_server_enables_replay() {
    let folder = agents();
    write(folder.path(), "solo/root_agent.yaml", SOLO);
    write(folder.path(), "case/generated-recordings.yaml", RECORDINGS);
    let case = folder.path().join("case");
    let conformance = Conformance::default();
    let registry = conformance.registry(ConfigRegistry::new(), ModelRegistry::default());
    let replaying = server(folder.path(), registry, |apps| {
        apps.with_plugin(conformance.plugin())
    });

    let stream = say(&replaying, "solo", "Hello!", &config(&case, "none")).await;
    assert!(stream.contains("A recorded answer."), "{stream}");
    let other = say(&replaying, "solo", "Goodbye!", &config(&case, "none")).await;
    assert!(other.contains("\"error\""), "{other}");
    // The error names the first difference: the session has earlier events that were not recorded.
    assert!(other.contains("llm_recording 0: $.contents[1]"), "{other}");

    let plain = server(folder.path(), ConfigRegistry::new(), |apps| apps);
    let stream = say(&plain, "chat", "Hello!", &config(&case, "none")).await;
    assert!(!stream.contains("recorded"), "{stream}");
    assert!(!stream.contains("\"error\""), "{stream}");
}

#[tokio::test]
async fn replay_error_is_reported_in_the_stream() {
    let folder = agents();
    write(folder.path(), "solo/root_agent.yaml", SOLO);
    write(
        folder.path(),
        "broken/generated-recordings.yaml",
        "recordings: [",
    );
    write(
        folder.path(),
        "none/generated-recordings.yaml",
        "recordings: []",
    );
    let conformance = Conformance::default();
    let registry = conformance.registry(ConfigRegistry::new(), ModelRegistry::default());
    let server = server(folder.path(), registry, |apps| {
        apps.with_plugin(conformance.plugin())
    });
    for (case, mode, expected) in [
        ("missing", "none", "generated-recordings.yaml"),
        ("missing", "sse", "generated-recordings-sse.yaml"),
        ("broken", "none", "is invalid YAML"),
        ("none", "none", "no model call"),
        ("none", "bidi", "unsupported streaming mode"),
    ] {
        let stream = say(
            &server,
            "solo",
            "Hello!",
            &config(&folder.path().join(case), mode),
        )
        .await;
        let is_reported = stream.contains("\"error\"") && stream.contains(expected);
        assert!(is_reported, "{case} {mode}: {stream}");
    }
    // A run that names no recording uses a registered model, and none has this name.
    let stream = say(
        &server,
        "solo",
        "Hello!",
        r#","stateDelta":{"_adk_replay_config":null}"#,
    )
    .await;
    assert!(
        stream.contains("is not replayed from a recording"),
        "{stream}"
    );
}
