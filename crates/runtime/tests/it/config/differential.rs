//! Retain loads the configurations that ADK loads, and rejects those that ADK rejects.

use retain_core::Json;
use retain_runtime::ConfigRegistry;
use retain_testkit::oracle::{Oracle, Reference};

use crate::config::{
    broken,
    support::{folder, load, registry},
};

/// Configurations that only one side loads. docs/differences-from-adk.md gives the reasons.
const DIFFERENT: &[&str] = &[
    "name: twice",
    "args: {a: 1}",
    "tools:\n",
    "disallow_transfer_to_peers:\n",
    "model_code:\n",
    "model: gpt",
    "max_iterations: -1",
    "description:\n",
    "sub_agents:\n",
    "include_contents:\n",
];

/// Texts to add to a valid agent.
const ADDED: &[&str] = &[
    "",
    "disallow_transfer_to_peers: 'on'",
    "disallow_transfer_to_parent: 1",
    "disallow_transfer_to_parent: T",
    "disallow_transfer_to_parent: 1.5",
    "description:\n",
    "sub_agents:\n",
    "include_contents:\n",
    "output_key:\n",
    "tools:\n",
    "tools: []",
    "sub_agents: []",
    "disallow_transfer_to_peers:\n",
    "model_code:\n",
    "output_schema:\n",
    "static_instruction:\n",
    "generate_content_config:\n",
    "before_agent_callbacks:\n",
    "after_tool_callbacks: []",
    "generate_content_config: {tools: []}",
    "generate_content_config: {tools: , system_instruction: '', response_schema: }",
    "generate_content_config: {thinking_config: {include_thoughts: , thinkingBudget: 3, thinking_level: }}",
    "generate_content_config: {http_options: {api_version: v1, headers: {a: b}, timeout: , client_args: {a: 1}, async_client_args: , extra_body: {a: {b: 1}}, base_url_resource_scope: , retryOptions: {attempts: 1, initial_delay: , max_delay: , exp_base: , jitter: , http_status_codes: [500]}}}",
    "generate_content_config: {routing_config: {auto_mode: {model_routing_preference: }, manual_mode: {model_name: a}}}",
    "generate_content_config: {model_selection_config: {feature_selection_preference: }}",
    "generate_content_config: {safety_settings: [{category: HARM_CATEGORY_HARASSMENT, method: , threshold: 'OFF'}]}",
    "generate_content_config: {safety_settings: []}",
    "generate_content_config: {tool_config: {retrieval_config: {lat_lng: {latitude: 1, longitude: 2}, language_code: de}, function_calling_config: {allowed_function_names: [a], mode: ANY, stream_function_call_arguments: }, include_server_side_tool_invocations: }}",
    "generate_content_config: {speech_config: Kore}",
    "generate_content_config: {speech_config: {language_code: de, voice_config: {voice: , prebuilt_voice_config: {voice_name: a}, replicated_voice_config: {mime_type: , voice_sample_audio: , consent_audio: , voice_consent_signature: {signature: a}}}, multi_speaker_voice_config: {speaker_voice_configs: [{speaker: a, voice_config: {voice: }}]}}}",
    "generate_content_config: {automatic_function_calling: {disable: true, maximum_remote_calls: , ignore_call_history: }}",
    "generate_content_config: {image_config: {aspect_ratio: '1:1', image_size: , person_generation: , prominent_people: , output_mime_type: , output_compression_quality: , image_output_options: {compression_quality: , mime_type: }}}",
    "generate_content_config: {model_armor_config: {prompt_template_name: a, response_template_name: b}}",
    "generate_content_config: {audio_transcription_config: {language_codes: [de], language_auto: , custom_vocabulary: , adaptation_phrases: , word_timestamp: , diarization: , mode: }}",
    "generate_content_config: {audio_transcription_config: {language_auto: {}}}",
    "generate_content_config: {audio_transcription_config: {language_hints: {language_codes: [de]}}}",
    "generate_content_config: {generation_output_config: {output_uri_prefix: a}}",
    "generate_content_config: {enable_enhanced_civic_answers: true, automatic_continuation: false, store: true, should_return_http_response: false}",
    "generate_content_config: {service_tier: flex}",
    "generate_content_config: {labels: {any: thing}, response_json_schema: {any: {thing: 1}}}",
    "static_instruction: {text: hi}",
    "static_instruction: [a, {text: b}]",
    "static_instruction: {role: user, parts: [{text: b}]}",
    "static_instruction: {role: user, parts: [{text: b}], more: 1}",
    "static_instruction: {parts: [{txt: b}]}",
    "static_instruction: 12",
    "generate_content_config: {temperature: '0.5', seed: '3'}",
    "generate_content_config: {temperature: 1e-3}",
    "generate_content_config: {temperature: }",
    "generate_content_config: {temperature: warm}",
    "generate_content_config: {topK: 2}",
    "generate_content_config: {stop_sequences: END}",
    "generate_content_config: {}",
    "generate_content_config: []",
    "generate_content_config:\n  <<: {seed: 1}",
    "agent_class: ''",
    "agent_class: Agent",
    "agent_class: google.adk.agents.Agent",
    "agent_class: google.adk.agents.llm_agent.LlmAgent",
    "agent_class: google.adk.agents.loop_agent.LlmAgent",
    "output_schema: {name: google.genai.types.LatLng}",
    "tools: [{name: load_memory, args: {}}]",
    "tools: [{name: load_memory, args: }]",
    "tools: [{name: load_memory, args: []}]",
    "tools: [{name: google.adk.tools.load_memory_tool.load_memory_tool}]",
    "tools: [{name: load_artifacts}]",
    "tools: [{name: google.adk.tools.load_artifacts}]",
    "tools: [{name: google.adk.tools.load_artifacts_tool.load_artifacts_tool}]",
    "tools: [{name: load_artifacts_tool}]",
    "tools: [{name: google.adk.tools.preload_memory_tool.preload_memory_tool}]",
    "tools: [{name: google.adk.tools.exit_loop_tool.exit_loop}]",
    "tools: [{name: google.adk.tools.get_user_choice}]",
    "tools: [{name: google.adk.tools._request_input_tool.request_input}]",
    "tools: [{name: google.adk.tools.google_search_tool.google_search}]",
    "tools: [{name: google.adk.tools.url_context_tool.url_context}]",
    "tools: [{name: google.adk.tools.load_memory_tool.load_memry_tool}]",
    "tools: [{name: AgentTool, args: {agent: {config_path: below.yaml}}}]",
    "tools: [{name: google.adk.tools.agent_tool.AgentTool, args: {agent: {config_path: below.yaml}, skip_summarization: true, include_plugins: no}}]",
    "tools: [{name: AgentTool, args: {agent: below.yaml}}]",
    "tools: [{name: AgentTool, args: {agent: {config_path: below.yaml}, skip: true}}]",
    "tools: [{name: AgentTool, args: {agent: {config_path: below.yaml}, skip_summarization: 7}}]",
    "tools: [{name: AgentTool}]",
    "tools: [{name: ExampleTool, args: {examples: []}}]",
    "tools: [{name: ExampleTool, args: {examples: [{input: {parts: []}, output: [{parts: []}]}]}}]",
    "tools: [{name: ExampleTool, args: {examples: [{input: hi, output: []}]}}]",
    "tools: [{name: ExampleTool, args: {examples: 7}}]",
    "sub_agents: [{config_path: below.yaml}]",
    "sub_agents: [{config_path: ./below.yaml}]",
    "sub_agents: [{config_path: a/../below.yaml}]",
    "sub_agents: [{config_path: ''}]",
    "sub_agents: [below.yaml]",
    "sub_agents: below.yaml",
];

/// Whole files.
const FILES: &[&str] = &[
    "agent_class: LoopAgent\nname: a\nmax_iterations: '2'\n",
    "agent_class: LoopAgent\nname: a\nmax_iterations: 2.0\n",
    "agent_class: LoopAgent\nname: a\nmax_iterations: 0\n",
    "agent_class: LoopAgent\nname: a\nmax_iterations: two\n",
    "agent_class: LoopAgent\nname: a\nmax_iterations:\n",
    "agent_class: google.adk.agents.LoopAgent\nname: a\nsub_agents: [{config_path: below.yaml}]\n",
    "agent_class: SequentialAgent\nname: a\nsub_agents: []\n",
    "agent_class: SequentialAgent\nname: a\nmax_iterations: 3\n",
    "agent_class: ParallelAgent\nname: a\ndescription: b\n",
    "agent_class: ParallelAgent\nname: a\noutput_key: b\n",
    "name: a\nmodel: ''\ninstruction: ''\n",
    "name: a b\ninstruction: x\n",
    "name: a\ninstruction: 7\n",
    "name: [a]\ninstruction: x\n",
];

fn texts() -> Vec<String> {
    let agent = |added: &&str| format!("name: fine\nmodel: scripted\ninstruction: Be.\n{added}\n");
    let added = ADDED.iter().map(agent);
    let broken = broken::KEYS.iter().map(|(added, _)| agent(added));
    let files = FILES.iter().map(|&file| file.to_owned());
    let broken_files = broken::FILES.iter().map(|&(file, _)| file.to_owned());
    added
        .chain(broken)
        .chain(files)
        .chain(broken_files)
        .collect()
}

fn load_text(text: &str, registry: &ConfigRegistry) -> Result<(), String> {
    let below = ("below.yaml", "name: below\ninstruction: x\n");
    let folder = folder(&[("root_agent.yaml", text), below, ("a/empty", "")]);
    let loaded = load(&folder, registry);
    loaded.map(drop).map_err(|error| error.to_string())
}

#[test]
fn config_files_load_as_in_adk() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/config/oracle.py");
    let Some(mut adk) = Oracle::start(Reference::Adk, "agent configurations", script) else {
        return;
    };
    let texts = texts();
    let requests: Vec<Json> = texts.iter().map(|text| text.as_str().into()).collect();
    let answers = adk.ask_all(&requests).into_iter();
    let theirs = answers.map(|answer| answer.as_bool().expect("true or false"));
    let registry = registry();
    let mut failures = Vec::new();
    let mut different = 0;
    for (text, theirs) in texts.iter().zip(theirs) {
        let ours = load_text(text, &registry);
        let is_known = DIFFERENT.iter().any(|known| text.contains(known));
        match (ours.is_ok() == theirs, is_known) {
            (false, true) => different += 1,
            (false, false) => {
                failures.push(format!("ADK loads it: {theirs}, Retain: {ours:?}\n{text}"))
            }
            (true, _) => {}
        }
    }
    println!("{} texts, {different} known differences", texts.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(
        different >= DIFFERENT.len(),
        "a known difference no longer occurs: remove it from DIFFERENT"
    );
}
