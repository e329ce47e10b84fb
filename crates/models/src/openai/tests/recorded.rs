//! Byte streams written from the documentation of providers, each with its source.

/// Text with usage at the end.
/// Source: platform.openai.com/docs/api-reference/chat-streaming, "The chat completion chunk object".
pub(super) const TEXT: &str = concat!(
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1694268190,\"model\":\"gpt-4o-mini-2024-07-18\",\"system_fingerprint\":\"fp_44709d6fcb\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n",
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1694268190,\"model\":\"gpt-4o-mini-2024-07-18\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Grüße, \"},\"finish_reason\":null}],\"usage\":null}\n\n",
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1694268190,\"model\":\"gpt-4o-mini-2024-07-18\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"世界 \\ud83c\\udf0d!\"},\"finish_reason\":null}],\"usage\":null}\n\n",
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1694268190,\"model\":\"gpt-4o-mini-2024-07-18\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":null}\n\n",
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1694268190,\"model\":\"gpt-4o-mini-2024-07-18\",\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10,\"total_tokens\":29,\"prompt_tokens_details\":{\"cached_tokens\":16,\"audio_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":4,\"audio_tokens\":0,\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}}}\n\n",
    "data: [DONE]\n\n",
);

/// Two parallel calls. The chunks of their arguments are interleaved, with the index of the call.
/// Source: platform.openai.com/docs/guides/function-calling, "Streaming".
pub(super) const PARALLEL_CALLS: &str = concat!(
    "data: {\"id\":\"c2\",\"model\":\"gpt-4.1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"index\":0,\"id\":\"call_DdmO9pD3xa9XTPNJ32zg2hcA\",\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"arguments\":\"\"}}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"c2\",\"model\":\"gpt-4.1\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"\"}}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"c2\",\"model\":\"gpt-4.1\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"call_B\",\"type\":\"function\",\"function\":{\"name\":\"get_time\",\"arguments\":\"\"}}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"c2\",\"model\":\"gpt-4.1\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"city\\\":\\\"Paris\"}}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"c2\",\"model\":\"gpt-4.1\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\"{\\\"zone\\\":\"}},{\"index\":0,\"function\":{\"arguments\":\"\\\"}\"}}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"c2\",\"model\":\"gpt-4.1\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\"9007199254740993}\"}}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"c2\",\"model\":\"gpt-4.1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: [DONE]\n\n",
);

/// Thoughts before the text, then a call. Source: api-docs.deepseek.com/guides/reasoning_model
/// and docs.vllm.ai/en/latest/features/reasoning_outputs.html.
pub(super) const THOUGHTS: &str = concat!(
    ": keep-alive\r\n\r\n",
    "data: {\"id\":\"c3\",\"model\":\"deepseek-reasoner\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"The user \"},\"finish_reason\":null}]}\r\n\r\n",
    "data: {\"id\":\"c3\",\"model\":\"deepseek-reasoner\",\"choices\":[{\"index\":0,\"delta\":{\"content\":null,\"reasoning_content\":\"asks.\"},\"finish_reason\":null}]}\r\n\r\n",
    "data: {\"id\":\"c3\",\"model\":\"deepseek-reasoner\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Let me look.\",\"reasoning_content\":null},\"finish_reason\":null}]}\r\n\r\n",
    "data: {\"id\":\"c3\",\"model\":\"deepseek-reasoner\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_0_x\",\"type\":\"function\",\"function\":{\"name\":\"look\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7,\"total_tokens\":12,\"prompt_cache_hit_tokens\":3,\"completion_tokens_details\":{\"reasoning_tokens\":2}}}\r\n\r\n",
    "data: [DONE]\r\n\r\n",
);

/// Thoughts with signed blocks. Source: openrouter.ai/docs/use-cases/reasoning-tokens, "Preserving
/// reasoning blocks"; the first line is a comment, which OpenRouter sends while the model works:
/// openrouter.ai/docs/api-reference/streaming.
pub(super) const SIGNED_THOUGHTS: &str = concat!(
    ": OPENROUTER PROCESSING\n\n",
    "data: {\"id\":\"gen-1\",\"provider\":\"Anthropic\",\"model\":\"anthropic/claude-sonnet-4\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"reasoning\":\"First, \",\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"First, \",\"format\":\"anthropic-claude-v1\",\"index\":0}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"gen-1\",\"model\":\"anthropic/claude-sonnet-4\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\",\"reasoning\":\"add.\",\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"add.\",\"format\":\"anthropic-claude-v1\",\"index\":0}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"gen-1\",\"model\":\"anthropic/claude-sonnet-4\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\",\"reasoning\":null,\"reasoning_details\":[{\"type\":\"reasoning.text\",\"signature\":\"c2lnbmVk\",\"format\":\"anthropic-claude-v1\",\"index\":0}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"gen-1\",\"model\":\"anthropic/claude-sonnet-4\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\",\"reasoning_details\":[{\"type\":\"reasoning.encrypted\",\"data\":\"b3BhcXVl\",\"index\":1}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"gen-1\",\"model\":\"anthropic/claude-sonnet-4\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"4\"},\"finish_reason\":\"stop\",\"native_finish_reason\":\"end_turn\"}]}\n\n",
    "data: {\"id\":\"gen-1\",\"model\":\"anthropic/claude-sonnet-4\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":9,\"total_tokens\":12}}\n\n",
    "data: [DONE]\n\n",
);

/// The result of the prompt filter comes first, in a chunk without a choice. Source:
/// learn.microsoft.com/azure/ai-foundry/openai/concepts/content-filter, "Streaming".
pub(super) const FILTERED: &str = concat!(
    "data: {\"id\":\"\",\"object\":\"\",\"created\":0,\"model\":\"\",\"prompt_filter_results\":[{\"prompt_index\":0,\"content_filter_results\":{\"hate\":{\"filtered\":false,\"severity\":\"safe\"}}}],\"choices\":[]}\n\n",
    "data: {\"id\":\"c5\",\"model\":\"gpt-4o-2024-11-20\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Well, \"},\"finish_reason\":null,\"content_filter_results\":{}}]}\n\n",
    "data: {\"id\":\"c5\",\"model\":\"gpt-4o-2024-11-20\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"content_filter\",\"content_filter_results\":{\"violence\":{\"filtered\":true,\"severity\":\"high\"}}}]}\n\n",
    "data: [DONE]\n\n",
);

/// A valid answer without content.
/// Source: platform.openai.com/docs/api-reference/chat-streaming.
pub(super) const EMPTY: &str = concat!(
    "data: {\"id\":\"c6\",\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"c6\",\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: [DONE]\n\n",
);

/// Tokens with their probabilities.
/// Source: platform.openai.com/docs/api-reference/chat/object, "logprobs".
pub(super) const LOGPROBS: &str = concat!(
    "data: {\"id\":\"c7\",\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"logprobs\":{\"content\":[{\"token\":\"Hi\",\"logprob\":-0.25,\"bytes\":[72,105],\"top_logprobs\":[{\"token\":\"Hi\",\"logprob\":-0.25,\"bytes\":[72,105]},{\"token\":\"Yo\",\"logprob\":-1.5,\"bytes\":null}]}],\"refusal\":null},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"c7\",\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"!\"},\"logprobs\":{\"content\":[{\"token\":\"!\",\"logprob\":-0.75,\"bytes\":[33],\"top_logprobs\":[]}]},\"finish_reason\":\"stop\"}]}\n\n",
    "data: [DONE]\n\n",
);

/// A refusal in chunks.
/// Source: platform.openai.com/docs/guides/structured-outputs, "Refusals".
pub(super) const REFUSAL: &str = concat!(
    "data: {\"id\":\"c8\",\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"refusal\":\"I'm sorry, \"},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"c8\",\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{\"refusal\":\"I cannot assist.\"},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"c8\",\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: [DONE]\n\n",
);

/// The upstream provider fails in the middle of the stream. Source:
/// openrouter.ai/docs/api-reference/streaming, "Handling errors during streaming".
pub(super) const BROKEN: &str = concat!(
    "data: {\"id\":\"gen-2\",\"model\":\"openai/gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"So far \"},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"gen-2\",\"object\":\"chat.completion.chunk\",\"model\":\"openai/gpt-4o\",\"error\":{\"code\":\"server_error\",\"message\":\"Provider disconnected unexpectedly\"},\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\"}]}\n\n",
);

/// The token limit is reached within the arguments of a call. Source:
/// platform.openai.com/docs/api-reference/chat/object, "finish_reason".
pub(super) const TOO_LONG: &str = concat!(
    "data: {\"id\":\"c9\",\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"I shall \",\"tool_calls\":[{\"index\":0,\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"write\",\"arguments\":\"{\\\"text\\\": \\\"Once\"}}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"c9\",\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n",
    "data: [DONE]\n\n",
);

/// Thoughts and a call as Ollama sends them.
/// Source: docs.ollama.com/api/openai-compatibility and ollama.com/blog/streaming-tool.
pub(super) const OLLAMA: &str = concat!(
    "data: {\"id\":\"chatcmpl-123\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"qwen3:8b\",\"system_fingerprint\":\"fp_ollama\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"reasoning\":\"Hm\"},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"chatcmpl-123\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"qwen3:8b\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"call_a\",\"index\":0,\"type\":\"function\",\"function\":{\"name\":\"add\",\"arguments\":\"{\\\"a\\\":1}\"}}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"chatcmpl-123\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"qwen3:8b\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"call_b\",\"index\":0,\"type\":\"function\",\"function\":{\"name\":\"add\",\"arguments\":\"{\\\"a\\\":2}\"}}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"chatcmpl-123\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"qwen3:8b\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: {\"id\":\"chatcmpl-123\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"qwen3:8b\",\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":8,\"total_tokens\":19}}\n\n",
    "data: [DONE]\n\n",
);

/// All streams, by name.
pub(super) const ALL: [(&str, &str); 11] = [
    ("text", TEXT),
    ("parallel calls", PARALLEL_CALLS),
    ("thoughts", THOUGHTS),
    ("signed thoughts", SIGNED_THOUGHTS),
    ("filtered", FILTERED),
    ("empty", EMPTY),
    ("logprobs", LOGPROBS),
    ("refusal", REFUSAL),
    ("broken", BROKEN),
    ("too long", TOO_LONG),
    ("ollama", OLLAMA),
];
