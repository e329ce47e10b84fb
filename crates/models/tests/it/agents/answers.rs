//! Provider answers: two parallel calls, then a sentence; or an error.
//!
//! Written from <https://ai.google.dev/api/generate-content>,
//! <https://platform.openai.com/docs/api-reference/chat> (streams: the page "Streaming") and
//! <https://platform.claude.com/docs/en/api/messages>, with our own text.

use crate::support::{Act, answer, answer_with_status, event_stream};

/// The provider that the agent runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    Gemini,
    OpenAi,
    Azure,
    Ollama,
    Anthropic,
}

/// Selects one of the provider's two answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Calls,
    Text,
}

impl Provider {
    pub(crate) const ALL: [Provider; 5] = [
        Provider::Gemini,
        Provider::OpenAi,
        Provider::Azure,
        Provider::Ollama,
        Provider::Anthropic,
    ];

    /// Returns the model name in the agent's configuration.
    pub(crate) fn model(self) -> &'static str {
        match self {
            Provider::Gemini => "gemini-test",
            Provider::OpenAi => "openai/gpt-test",
            Provider::Azure => "azure/my-gpt",
            Provider::Ollama => "ollama/llama-test:1b",
            Provider::Anthropic => "anthropic/claude-test",
        }
    }

    pub(crate) fn settings(self, url: &str, key: &str) -> Vec<(&'static str, String)> {
        let (address, key_variable) = match self {
            Provider::Gemini => ("GOOGLE_GEMINI_BASE_URL", "GOOGLE_API_KEY"),
            Provider::OpenAi => ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
            Provider::Azure => ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY"),
            Provider::Ollama => ("OLLAMA_HOST", "OPENAI_API_KEY"),
            Provider::Anthropic => ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
        };
        let url = match self {
            Provider::OpenAi => format!("{url}/v1"),
            _ => url.to_owned(),
        };
        vec![(address, url), (key_variable, key.to_owned())]
    }

    pub(crate) fn takes_key(self) -> bool {
        self != Provider::Ollama
    }

    /// Returns the ids of the calls; Gemini sends none.
    pub(crate) fn ids(self) -> &'static [&'static str] {
        match self {
            Provider::Gemini => &[],
            _ => &["call_1", "call_2"],
        }
    }

    /// Returns the error code that an event stores for `error_response`.
    pub(crate) fn error_code(self) -> &'static str {
        match self {
            Provider::Gemini => "RESOURCE_EXHAUSTED",
            Provider::Anthropic => "rate_limit_error",
            _ => "rate_limit_exceeded",
        }
    }

    /// Returns an error that repeats the API key, as some gateways do.
    pub(crate) fn error_response(self, key: &str) -> Vec<Act> {
        let message = format!("No quota is left for {key}");
        let body = match self {
            Provider::Gemini => format!(
                r#"{{"error":{{"code":429,"message":"{message}","status":"RESOURCE_EXHAUSTED"}}}}"#
            ),
            Provider::Anthropic => format!(
                r#"{{"type":"error","error":{{"type":"rate_limit_error","message":"{message}"}}}}"#
            ),
            _ => format!(
                r#"{{"error":{{"message":"{message}","type":"requests","param":null,"code":"rate_limit_exceeded"}}}}"#
            ),
        };
        answer_with_status("429 Too Many Requests", &[], &body)
    }

    pub(crate) fn answer(self, step: Step, stream: bool) -> Vec<Act> {
        let (whole, events) = match (self, step) {
            (Provider::Gemini, Step::Calls) => (GEMINI_CALLS, GEMINI_CALLS_STREAMED),
            (Provider::Gemini, Step::Text) => (GEMINI_TEXT, GEMINI_TEXT_STREAMED),
            (Provider::Anthropic, Step::Calls) => (CLAUDE_CALLS, CLAUDE_CALLS_STREAMED),
            (Provider::Anthropic, Step::Text) => (CLAUDE_TEXT, CLAUDE_TEXT_STREAMED),
            (_, Step::Calls) => (OPENAI_CALLS, OPENAI_CALLS_STREAMED),
            (_, Step::Text) => (OPENAI_TEXT, OPENAI_TEXT_STREAMED),
        };
        match stream {
            false => answer(whole),
            true => {
                let cuts: Vec<usize> = (1..events.len()).step_by(11).collect();
                event_stream(events.as_bytes(), &cuts)
            }
        }
    }
}

const GEMINI_CALLS: &str = r#"{"candidates":[{"content":{"role":"model","parts":[
  {"functionCall":{"name":"get_weather","args":{"city":"Oslo"}}},
  {"functionCall":{"name":"get_weather","args":{"city":"Bergen"}}}]},"finishReason":"STOP","index":0}],
  "usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":15},"modelVersion":"gemini-test"}"#;

const GEMINI_CALLS_STREAMED: &str = r#"data: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"get_weather","args":{"city":"Oslo"}}}]},"index":0}]}

data: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"get_weather","args":{"city":"Bergen"}}}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":15}}

"#;

const GEMINI_TEXT: &str = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"It rains in both."}]},"finishReason":"STOP"}]}"#;

const GEMINI_TEXT_STREAMED: &str = r#"data: {"candidates":[{"content":{"role":"model","parts":[{"text":"It rains"}]}}]}

data: {"candidates":[{"content":{"role":"model","parts":[{"text":" in both."}]},"finishReason":"STOP"}]}

"#;

const OPENAI_CALLS: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","model":"gpt-test","choices":[{"index":0,
  "message":{"role":"assistant","content":null,"tool_calls":[
    {"id":"call_1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}},
    {"id":"call_2","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Bergen\"}"}}]},
  "finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}"#;

const OPENAI_CALLS_STREAMED: &str = r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"gpt-test","choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"get_weather","arguments":""}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"Oslo\"}"}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Bergen\"}"}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}

data: [DONE]

"#;

const OPENAI_TEXT: &str = r#"{"id":"chatcmpl-2","model":"gpt-test","choices":[{"index":0,"message":{"role":"assistant","content":"It rains in both."},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}"#;

const OPENAI_TEXT_STREAMED: &str = r#"data: {"id":"chatcmpl-2","model":"gpt-test","choices":[{"index":0,"delta":{"role":"assistant","content":"It rains"},"finish_reason":null}]}

data: {"id":"chatcmpl-2","model":"gpt-test","choices":[{"index":0,"delta":{"content":" in both."},"finish_reason":null}]}

data: {"id":"chatcmpl-2","model":"gpt-test","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

"#;

const CLAUDE_CALLS: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[
  {"type":"tool_use","id":"call_1","name":"get_weather","input":{"city":"Oslo"}},
  {"type":"tool_use","id":"call_2","name":"get_weather","input":{"city":"Bergen"}}],
  "stop_reason":"tool_use","usage":{"input_tokens":10,"output_tokens":5}}"#;

const CLAUDE_CALLS_STREAMED: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","model":"claude-test","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"call_1","name":"get_weather","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"city\":"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\"Oslo\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"call_2","name":"get_weather","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"city\":\"Bergen\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}

event: message_stop
data: {"type":"message_stop"}

"#;

const CLAUDE_TEXT: &str = r#"{"id":"msg_2","type":"message","role":"assistant","model":"claude-test","content":[{"type":"text","text":"It rains in both."}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":5}}"#;

const CLAUDE_TEXT_STREAMED: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_2","model":"claude-test","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"It rains"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" in both."}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}

event: message_stop
data: {"type":"message_stop"}

"#;
