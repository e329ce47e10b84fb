//! Converts requests to readable text and compares it with files.
//!
//! `RETAIN_UPDATE_SNAPSHOTS=1` rewrites the files; review the diff before you commit it.

use std::{fmt::Write as _, fs, path::PathBuf, sync::Arc};

use retain_core::{Content, GenerateContentConfig, Json, ModelTool, Part};
use retain_runtime::LlmRequest;

/// Compares requests with the file `name`.
pub(crate) fn assert_requests(name: &str, requests: &[Arc<LlmRequest>]) {
    let mut text = String::new();
    for (number, request) in (1..).zip(requests) {
        let _ = writeln!(text, "######## request {number}");
        push_request(&mut text, request);
    }
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/requests")
        .join(format!("{name}.txt"));
    if std::env::var_os("RETAIN_UPDATE_SNAPSHOTS").is_some() {
        fs::write(&file, &text).expect("a writable snapshot");
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    if expected == text {
        return;
    }
    let lines = expected.lines().zip(text.lines());
    let same = lines.take_while(|(expected, found)| expected == found);
    let line = same.count();
    let at = |text: &str| text.lines().nth(line).unwrap_or("the end").to_owned();
    panic!(
        "requests differ from testdata/requests/{name}.txt, line {}\n  expected: {}\n  found:    \
         {}\nset RETAIN_UPDATE_SNAPSHOTS=1 to rewrite the file",
        line + 1,
        at(&expected),
        at(&text),
    );
}

fn push_request(out: &mut String, request: &LlmRequest) {
    let _ = writeln!(out, "model: {}", request.model);
    let config = GenerateContentConfig {
        system_instruction: None,
        tools: None,
        ..request.config.clone()
    };
    let _ = writeln!(out, "settings: {}", json_text(config.to_snake_json()));
    let _ = writeln!(out, "\n==== system instruction");
    let _ = writeln!(
        out,
        "{}",
        request
            .config
            .system_instruction
            .as_deref()
            .unwrap_or("(none)")
    );
    if let Some(tools) = &request.config.tools {
        let _ = writeln!(out, "\n==== tools");
        tools.iter().for_each(|tool| push_tool(out, tool));
    }
    let _ = writeln!(out, "\n==== contents");
    for content in &request.contents {
        push_content(out, content);
    }
    let _ = writeln!(out);
}

fn push_tool(out: &mut String, tool: &ModelTool) {
    let declared = tool.function_declarations.iter().flatten();
    for declaration in declared {
        let name = declaration.name.as_deref().unwrap_or("(no name)");
        let _ = writeln!(out, "-- {name}");
        let _ = writeln!(
            out,
            "{}",
            declaration.description.as_deref().unwrap_or("(none)")
        );
        let schema = declaration.parameters_json_schema.as_ref();
        let _ = writeln!(
            out,
            "{}",
            schema.map_or("(no parameters)".into(), Json::to_string)
        );
    }
    let other = ModelTool {
        function_declarations: None,
        ..tool.clone()
    };
    if other != ModelTool::default() {
        let _ = writeln!(
            out,
            "-- on the model's side: {}",
            json_text(other.to_snake_json())
        );
    }
}

fn push_content(out: &mut String, content: &Content) {
    let _ = writeln!(out, "-- {}", content.role.as_deref().unwrap_or("(no role)"));
    for part in content.parts() {
        match &part.text {
            Some(text) if *part == Part::text(text.as_str()) => {
                let _ = writeln!(out, "{text}");
            }
            _ => {
                let _ = writeln!(out, "{}", json_text(part.to_snake_json()));
            }
        }
    }
}

fn json_text<E: std::fmt::Debug>(text: Result<String, E>) -> String {
    text.expect("the value is JSON")
}
