//! Invalid configurations, each with the exact error message.

use crate::config::support::{error_text, folder, load, registry};

/// Texts added to a valid agent, each with the expected error.
pub(crate) const KEYS: &[(&str, &str)] = &[
    (
        "instructions: x",
        "root_agent.yaml:4: instructions: is not a key of an LlmAgent; did you mean `instruction`?",
    ),
    (
        "outputKey: x",
        "root_agent.yaml:4: outputKey: is not a key of an LlmAgent; did you mean `output_key`?",
    ),
    (
        "max_iterations: 3",
        "root_agent.yaml:4: max_iterations: is not a key of an LlmAgent; known keys: agent_class, name, description, sub_agents, before_agent_callbacks, after_agent_callbacks, model, model_code, instruction, static_instruction, disallow_transfer_to_parent, disallow_transfer_to_peers, input_schema, output_schema, output_key, include_contents, tools, before_model_callbacks, after_model_callbacks, before_tool_callbacks, after_tool_callbacks, generate_content_config",
    ),
    (
        "global_instruction: x",
        "root_agent.yaml:4: global_instruction: global_instruction is not supported in YAML, as in ADK; put it into the `instruction` of each agent, or build the agent in code",
    ),
    (
        "name: twice",
        "root_agent.yaml:4: name: occurs twice; first on line 1",
    ),
    (
        "description: [a]",
        "root_agent.yaml:4: description: expected a string, found a list",
    ),
    (
        "description: 12",
        "root_agent.yaml:4: description: expected a string, found the number 12",
    ),
    (
        "description: yes",
        "root_agent.yaml:4: description: expected a string, found true",
    ),
    (
        "output_key: {a: b}",
        "root_agent.yaml:4: output_key: expected a string, found a map",
    ),
    (
        "include_contents: some",
        "root_agent.yaml:4: include_contents: expected `default` or `none`, found \"some\"",
    ),
    (
        "include_contents: [none]",
        "root_agent.yaml:4: include_contents: expected `default` or `none`, found [\"none\"]",
    ),
    (
        "disallow_transfer_to_peers: maybe",
        "root_agent.yaml:4: disallow_transfer_to_peers: expected true or false, found the string \"maybe\"",
    ),
    (
        "disallow_transfer_to_parent: 2",
        "root_agent.yaml:4: disallow_transfer_to_parent: expected true or false, found the number 2",
    ),
    (
        "model_code: {name: a.b}",
        "root_agent.yaml:4: model_code: is set together with `model`; set only one",
    ),
    (
        "output_schema: google.genai.types.LatLng",
        "root_agent.yaml:4: output_schema: expected a map with the keys of a code reference, found the string \"google.genai.types.LatLng\"",
    ),
    (
        "output_schema: {name: google.genai.types.LatLong}",
        "root_agent.yaml:4: output_schema.name: no schema is registered as \"google.genai.types.LatLong\"; did you mean `google.genai.types.LatLng`?",
    ),
    (
        "output_schema: {nam: x}",
        "root_agent.yaml:4: output_schema.nam: is not a key of a code reference; did you mean `name`?",
    ),
    (
        "input_schema:\n  name: 7",
        "root_agent.yaml:5: input_schema.name: expected a string, found the number 7",
    ),
    (
        "before_model_callbacks: {name: a}",
        "root_agent.yaml:4: before_model_callbacks: expected a list, found a map",
    ),
    (
        "after_tool_callbacks:\n  - name: a.b",
        "root_agent.yaml:5: after_tool_callbacks[0].name: no after_tool callback is registered as \"a.b\"; there are no registered names",
    ),
    (
        "before_agent_callbacks: [a.b]",
        "root_agent.yaml:4: before_agent_callbacks[0]: expected a map with the keys of a code reference, found the string \"a.b\"",
    ),
    (
        "agent_class: LoopAgnt",
        "root_agent.yaml:4: agent_class: \"LoopAgnt\" is not an agent class; did you mean `LoopAgent`?",
    ),
    (
        "agent_class: google.adk.agents.Robot",
        "root_agent.yaml:4: agent_class: \"google.adk.agents.Robot\" is not an agent class; classes: LlmAgent, Agent, SequentialAgent, LoopAgent, ParallelAgent",
    ),
    (
        "tools: load_memory",
        "root_agent.yaml:4: tools: expected a list, found the string \"load_memory\"",
    ),
    (
        "tools: [load_memory]",
        "root_agent.yaml:4: tools[0]: expected a map with the keys of a tool, found the string \"load_memory\"",
    ),
    (
        "tools:\n  - name: load_memory\n  - name: load_memry",
        "root_agent.yaml:6: tools[1].name: no tool is built in or registered as \"load_memry\"; did you mean `load_memory`?",
    ),
    (
        "tools:\n  - args: {}",
        "root_agent.yaml:5: tools[0]: the key `name` of a tool is missing",
    ),
    (
        "tools:\n  - name:",
        "root_agent.yaml:5: tools[0].name: expected a string, found nothing",
    ),
    (
        "tools:\n  - name: ''",
        "root_agent.yaml:5: tools[0].name: expected a name, found an empty string",
    ),
    (
        "tools:\n  - name: load_memory\n    args: {a: 1}",
        "root_agent.yaml:6: tools[0].args: the tool takes no arguments",
    ),
    (
        "tools:\n  - name: ExampleTool",
        "root_agent.yaml:5: tools[0]: the tool needs `args`",
    ),
    (
        "tools:\n  - name: ExampleTool\n    args:\n      examples: a.b",
        "root_agent.yaml:7: tools[0].args.examples: no example provider is registered as \"a.b\"; there are no registered names",
    ),
    (
        "tools:\n  - name: ExampleTool\n    args:\n      examples:\n        - input: {parts: [{text: hi}]}",
        "root_agent.yaml:8: tools[0].args.examples[0]: the key `output` of an example is missing",
    ),
    (
        "tools:\n  - name: ExampleTool\n    args:\n      examples:\n        - input: {part: []}\n          output: []",
        "root_agent.yaml:8: tools[0].args.examples[0].input.part: is not a key of a content; did you mean `parts`?",
    ),
    (
        "tools:\n  - name: AgentTool\n    args:\n      agent: {}",
        "root_agent.yaml:7: tools[0].args.agent: expected `config_path` or `code`, found neither",
    ),
    (
        "sub_agents:\n  - config_path: gone.yaml",
        "root_agent.yaml:5: sub_agents[0].config_path: \"gone.yaml\" does not exist",
    ),
    (
        "sub_agents:\n  - config_path: .",
        "root_agent.yaml:5: sub_agents[0].config_path: \".\" is a folder",
    ),
    (
        "sub_agents:\n  - config_path: ../other.yaml",
        "root_agent.yaml:5: sub_agents[0].config_path: \"../other.yaml\" leaves the folder; expected a path in or below the folder of this file",
    ),
    (
        "sub_agents:\n  - config_path: /etc/hosts",
        "root_agent.yaml:5: sub_agents[0].config_path: \"/etc/hosts\" is absolute; expected a path in or below the folder of this file",
    ),
    (
        "sub_agents:\n  - code: a.b",
        "root_agent.yaml:5: sub_agents[0].code: no agent is registered as \"a.b\"; there are no registered names",
    ),
    (
        "sub_agents:\n  - {code: a.b, config_path: c.yaml}",
        "root_agent.yaml:5: sub_agents[0]: has both `config_path` and `code`; set only one",
    ),
    (
        "sub_agents:\n  - config_path: root_agent.yaml",
        "root_agent.yaml:5: sub_agents[0].config_path: the files form a reference cycle: root_agent.yaml → root_agent.yaml",
    ),
    (
        "generate_content_config:\n  temprature: 1.0",
        "root_agent.yaml:5: generate_content_config.temprature: is not a key of generate_content_config; did you mean `temperature`?",
    ),
    (
        "generate_content_config:\n  tools: [{}]",
        "root_agent.yaml:5: generate_content_config.tools: use the agent's own key `tools` instead",
    ),
    (
        "generate_content_config:\n  systemInstruction: x",
        "root_agent.yaml:5: generate_content_config.systemInstruction: use the agent's own key `instruction` instead",
    ),
    (
        "generate_content_config:\n  top_k: 3\n  max_output_tokens: many",
        "root_agent.yaml:6: generate_content_config.max_output_tokens: expected an integer, found a string",
    ),
    (
        "generate_content_config:\n  safety_settings:\n    - category: HARM_CATEGORY_HARASSMENT\n      treshold: OFF",
        "root_agent.yaml:7: generate_content_config.safety_settings[0].treshold: is not a key of safety_settings; did you mean `threshold`?",
    ),
    (
        "generate_content_config:\n  thinkingConfig:\n    thinking_budgets: 3",
        "root_agent.yaml:6: generate_content_config.thinkingConfig.thinking_budgets: is not a key of thinking_config; did you mean `thinking_budget`?",
    ),
    (
        "generate_content_config:\n  http_options:\n    retry_options:\n      atempts: 2",
        "root_agent.yaml:7: generate_content_config.http_options.retry_options.atempts: is not a key of retry_options; did you mean `attempts`?",
    ),
    (
        "generate_content_config: {tool_config: {function_calling_config: {names: [a]}}}",
        "root_agent.yaml:4: generate_content_config.tool_config.function_calling_config.names: is not a key of function_calling_config; known keys: allowed_function_names, mode, stream_function_call_arguments",
    ),
    (
        "generate_content_config: {speech_config: {multi_speaker_voice_config: {speaker_voice_configs: [{speaker: a, voice: b}]}}}",
        "root_agent.yaml:4: generate_content_config.speech_config.multi_speaker_voice_config.speaker_voice_configs[0].voice: is not a key of speaker_voice_configs; known keys: speaker, voice_config",
    ),
    (
        "generate_content_config: {thinking_config: 3}",
        "root_agent.yaml:4: generate_content_config.thinking_config: expected a map with the keys of thinking_config, found the number 3",
    ),
    (
        "generate_content_config: {safety_settings: {category: a}}",
        "root_agent.yaml:4: generate_content_config.safety_settings: expected a list, found a map",
    ),
    (
        "generate_content_config:\n  http_options: {base_url: a}",
        "root_agent.yaml:5: generate_content_config.http_options: base_url must be set on the model, not on the agent",
    ),
    (
        "static_instruction: {txt: a}",
        "root_agent.yaml:4: static_instruction.txt: is not a key of a part",
    ),
    (
        "description: !robot x",
        "root_agent.yaml:4: unsupported tag !robot",
    ),
    (
        "description: *missing",
        "root_agent.yaml:4: is invalid YAML: while parsing node, found unknown anchor",
    ),
    (
        "description: [a",
        "root_agent.yaml:4: is invalid YAML: unclosed bracket '['",
    ),
    (
        "---\nname: b",
        "root_agent.yaml:4: expected one YAML document, found a second one",
    ),
];

/// Whole files, each with the expected error.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("", "root_agent.yaml:1: the file is empty"),
    ("# nothing\n", "root_agent.yaml:1: the file is empty"),
    (
        "- a\n",
        "root_agent.yaml:1: expected a map with the keys of an agent, found a list",
    ),
    (
        "model: scripted\ninstruction: x\n",
        "root_agent.yaml:1: the key `name` of an LlmAgent is missing",
    ),
    (
        "name: a\nmodel: scripted\n",
        "root_agent.yaml:1: the key `instruction` of an LlmAgent is missing",
    ),
    (
        "name: a\ninstruction:\n",
        "root_agent.yaml:2: instruction: expected a string, found nothing",
    ),
    (
        "name: 1st\ninstruction: x\n",
        "root_agent.yaml:1: invalid agent name \"1st\": must consist of letters, digits and underscores and not start with a digit",
    ),
    (
        "name: user\ninstruction: x\n",
        "root_agent.yaml:1: invalid agent name \"user\": is reserved for the user; choose another name",
    ),
    (
        "name: a\nmodel: gpt\ninstruction: x\n",
        "root_agent.yaml:2: model: invalid model \"gpt\": unknown; known names begin with: gemini, offline, scripted",
    ),
    (
        "agent_class: SequentialAgent\nname: a\nmodel: x\n",
        "root_agent.yaml:3: model: is not a key of a SequentialAgent; known keys: agent_class, name, description, sub_agents, before_agent_callbacks, after_agent_callbacks",
    ),
    (
        "agent_class: LoopAgent\nname: a\nmax_iterations: -1\n",
        "root_agent.yaml:3: max_iterations: expected a non-negative integer, found the number -1",
    ),
    (
        "agent_class: LoopAgent\nname: a\nmax_iterations: 1.5\n",
        "root_agent.yaml:3: max_iterations: expected a non-negative integer, found the number 1.5",
    ),
    (
        "agent_class: ParallelAgent\ndescription: a\n",
        "root_agent.yaml:1: the key `name` of a ParallelAgent is missing",
    ),
];

#[test]
fn invalid_key_is_reported_with_its_line() {
    let mut failures = Vec::new();
    for (added, expected) in KEYS {
        let text = format!("name: fine\nmodel: scripted\ninstruction: Be.\n{added}\n");
        check(&text, expected, &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn invalid_file_is_reported_with_its_line() {
    let mut failures = Vec::new();
    for (text, expected) in FILES {
        check(text, expected, &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Loads a file, and adds an entry to `failures` if the error is not the expected one.
fn check(text: &str, expected: &str, failures: &mut Vec<String>) {
    let folder = folder(&[("root_agent.yaml", text)]);
    let found = match load(&folder, &registry()) {
        Ok(agent) => format!("an agent: {agent:?}"),
        Err(error) => error_text(&folder, &error),
    };
    if found != expected {
        failures.push(format!("expected {expected}\n   found {found}"));
    }
}

/// An agent whose sub-agent is in another file, which follows.
const PARENT: &str = "name: a\nmodel: scripted\ninstruction: x\nsub_agents:\n  - config_path: ";

#[test]
fn cycle_of_files_is_reported_where_it_closes() {
    let folder = folder(&[
        ("root_agent.yaml", &format!("{PARENT}below/b.yaml\n")),
        ("below/b.yaml", &format!("{PARENT}c.yaml\n")),
        ("below/c.yaml", &format!("{PARENT}b.yaml\n")),
    ]);
    let error = load(&folder, &registry()).unwrap_err();
    assert_eq!(
        error_text(&folder, &error),
        "below/c.yaml:5: sub_agents[0].config_path: the files form a reference cycle: \
         b.yaml → c.yaml → b.yaml"
    );
    assert_eq!(error.line(), Some(5));
    assert_eq!(error.key(), "sub_agents[0].config_path");
    assert!(error.file().ends_with("below/c.yaml"));
}

#[test]
fn error_in_a_sub_agent_file_names_that_file() {
    let folder = folder(&[
        ("root_agent.yaml", &format!("{PARENT}b.yaml\n")),
        ("b.yaml", "name: b\ninstruction: x\ntool: []\n"),
    ]);
    let error = load(&folder, &registry()).unwrap_err();
    assert_eq!(
        error_text(&folder, &error),
        "b.yaml:3: tool: is not a key of an LlmAgent; did you mean `tools`?"
    );
}

#[test]
fn sub_agent_file_cannot_reference_a_parent_folder() {
    let folder = folder(&[
        ("root_agent.yaml", &format!("{PARENT}below/b.yaml\n")),
        ("below/b.yaml", &format!("{PARENT}../other.yaml\n")),
        ("other.yaml", "name: c\ninstruction: x\n"),
    ]);
    let error = load(&folder, &registry()).unwrap_err();
    assert_eq!(error.key(), "sub_agents[0].config_path");
    assert!(error.problem().contains("leaves the folder"), "{error}");
}

#[cfg(unix)]
#[test]
fn symlink_out_of_the_folder_is_rejected() {
    let outside = folder(&[("b.yaml", "name: b\ninstruction: x\n")]);
    let folder = folder(&[("root_agent.yaml", &format!("{PARENT}b.yaml\n"))]);
    let link = folder.path().join("b.yaml");
    std::os::unix::fs::symlink(outside.path().join("b.yaml"), link).expect("a new link");
    let error = load(&folder, &registry()).unwrap_err();
    assert!(error.problem().contains("leaves the folder"), "{error}");
}

#[test]
fn duplicate_agent_name_is_rejected() {
    let folder = folder(&[
        ("root_agent.yaml", &format!("{PARENT}b.yaml\n")),
        ("b.yaml", "name: a\ninstruction: x\n"),
    ]);
    let error = load(&folder, &registry()).unwrap_err();
    assert_eq!(
        error_text(&folder, &error),
        "root_agent.yaml: invalid agent \"a\": occurs twice; give each agent of a tree a unique name"
    );
}

#[test]
fn alias_expansion_is_limited() {
    let mut text = String::from("x0: &x0 [a, a, a, a, a, a, a, a, a, a]\n");
    for level in 1..10 {
        let below = format!("*x{}, ", level - 1).repeat(10);
        text.push_str(&format!("x{level}: &x{level} [{below}]\n"));
    }
    let folder = folder(&[("root_agent.yaml", &text)]);
    let error = load(&folder, &registry()).unwrap_err();
    assert_eq!(error.problem(), "expands to more than 100000 values");
}

#[test]
fn oversized_or_non_utf8_file_is_rejected() {
    let folder = folder(&[("root_agent.yaml", &"#".repeat((1 << 20) + 1))]);
    let error = load(&folder, &registry()).unwrap_err();
    assert_eq!(
        error_text(&folder, &error),
        "root_agent.yaml: has 1048577 bytes; the limit is 1048576"
    );
    std::fs::write(folder.path().join("root_agent.yaml"), b"name: \xff").unwrap();
    let error = load(&folder, &registry()).unwrap_err();
    assert_eq!(
        error_text(&folder, &error),
        "root_agent.yaml: is not valid UTF-8"
    );
    std::fs::remove_file(folder.path().join("root_agent.yaml")).unwrap();
    let error = load(&folder, &registry()).unwrap_err();
    assert_eq!(
        error_text(&folder, &error),
        "root_agent.yaml: does not exist"
    );
}
