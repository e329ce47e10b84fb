//! Token counts. Claude counts cached tokens separately and includes thoughts in the answer;
//! Gemini's format includes cached tokens in the prompt and counts thoughts separately.

use retain_core::{Json, UsageMetadata};

/// The token counts of a response so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Usage {
    input: Option<i64>,
    cache_read: Option<i64>,
    cache_creation: Option<i64>,
    output: Option<i64>,
    thinking: Option<i64>,
}

impl Usage {
    /// Updates the counts from a `usage` object. Later objects contain only the counts that
    /// changed, as totals.
    pub(super) fn update(&mut self, usage: &Json) {
        let count = |value: &Json, known: Option<i64>| value.as_i64().or(known);
        self.input = count(&usage["input_tokens"], self.input);
        self.cache_read = count(&usage["cache_read_input_tokens"], self.cache_read);
        self.cache_creation = count(&usage["cache_creation_input_tokens"], self.cache_creation);
        self.output = count(&usage["output_tokens"], self.output);
        let thinking = &usage["output_tokens_details"]["thinking_tokens"];
        self.thinking = count(thinking, self.thinking);
    }

    /// Returns the counts in Gemini's format; `None` if the response had none.
    pub(super) fn metadata(&self) -> Option<UsageMetadata> {
        if *self == Usage::default() {
            return None;
        }
        let counts = [self.input, self.cache_read, self.cache_creation];
        let counts = counts.into_iter().flatten();
        let prompt = counts.fold(0, i64::saturating_add);
        let output = self.output.unwrap_or(0);
        let thinking = self.thinking.map(|thinking| thinking.min(output).max(0));
        Some(UsageMetadata {
            prompt_token_count: Some(prompt),
            cached_content_token_count: self.cache_read,
            candidates_token_count: Some(output.saturating_sub(thinking.unwrap_or(0))),
            thoughts_token_count: thinking,
            total_token_count: Some(prompt.saturating_add(output)),
            ..UsageMetadata::default()
        })
    }
}
