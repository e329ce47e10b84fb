//! Answers that exceed a limit of the session: a notice replaces the oversized part, the other
//! answers stay, and the run continues.
//!
//! The session checks its [`Limits`](retain_core::Limits) before it stores anything. So the limits
//! are in one place, and also cover data that plugins add and state that grows over many turns.

use retain_core::{Event, Json, JsonMap, LimitKind, SessionError, StateScope};

use super::AgentFlow;
use crate::error::{Result, RunError};

/// The limit that an append exceeded.
#[derive(Debug, Clone, Copy)]
struct ExceededLimit {
    what: LimitKind,
    limit: u64,
    found: u64,
}

/// A part of an answer that counts toward a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerPart {
    /// The result, with its media.
    Result,
    /// The state changes.
    State,
}

impl AgentFlow<'_> {
    /// Emits `merged`, the event that merges `answers`. If it is too large, replaces parts with a
    /// notice for the model; fails if even the notice does not fit.
    pub(super) async fn emit_answers(
        &mut self,
        mut answers: Vec<Event>,
        mut merged: Event,
        nothing_follows: bool,
    ) -> Result<Box<Event>> {
        // A rejected append resets the live state to the stored one, which also reverts other
        // calls' writes.
        let live = self.live_values(&answers);
        // Each answer shrinks at most twice, so this loop ends.
        let mut replaced = vec![None; answers.len()];
        let id = merged.id.clone();
        loop {
            let error = match self.emit(merged, nothing_follows).await {
                Err(RunError::Session(error)) => error,
                emitted => return emitted,
            };
            let made_room = ExceededLimit::from_error(&error)
                .is_some_and(|it| it.make_room(&mut answers, &mut replaced));
            merged = match self.merge_answers_over(&live, answers.clone())? {
                // This is the same event with a smaller answer, so keep its id.
                Some(merged) if made_room => Event {
                    id: id.clone(),
                    ..merged
                },
                _ => return Err(error.into()),
            };
        }
    }
}

impl ExceededLimit {
    fn from_error(error: &SessionError) -> Option<ExceededLimit> {
        match *error {
            SessionError::TooLarge { what, limit, found } => {
                Some(ExceededLimit { what, limit, found })
            }
            _ => None,
        }
    }

    /// Replaces the largest parts until the answers should fit. `replaced` records the part
    /// replaced in each answer. Returns whether any part was replaced.
    fn make_room(self, answers: &mut [Event], replaced: &mut [Option<AnswerPart>]) -> bool {
        let mut over = match self.what {
            LimitKind::Event => self.found.saturating_sub(self.limit),
            // It is unknown how much each call adds to the state, so remove one call's writes at a
            // time.
            _ => 1,
        };
        let before = replaced.to_vec();
        for (bytes, at, answer_part) in self.parts_by_size(answers) {
            let is_done =
                replaced[at] == Some(AnswerPart::State) || replaced[at] == Some(answer_part);
            if over == 0 || bytes == 0 {
                break;
            }
            if is_done {
                continue;
            }
            let notice = self.notice_text(&answers[at], answer_part, bytes);
            over = over.saturating_sub(bytes.saturating_sub(notice.len()).max(1) as u64);
            replace_part(&mut answers[at], answer_part, &notice);
            replaced[at] = Some(answer_part);
        }
        before != replaced
    }

    /// Returns the parts of the answers that count toward the limit, largest first.
    fn parts_by_size(self, answers: &[Event]) -> Vec<(usize, usize, AnswerPart)> {
        let mut sized_parts = Vec::new();
        for (at, answer) in answers.iter().enumerate() {
            sized_parts.push((self.state_bytes(answer), at, AnswerPart::State));
            if self.what == LimitKind::Event {
                sized_parts.push((result_bytes(answer), at, AnswerPart::Result));
            }
        }
        sized_parts.sort_by_key(|(bytes, at, _)| (std::cmp::Reverse(*bytes), *at));
        sized_parts
    }

    /// Returns the number of bytes in this call's state changes that count toward the exceeded
    /// limit.
    fn state_bytes(self, answer: &Event) -> usize {
        let written = answer.actions.state_delta.iter();
        let counted = written.filter(|(key, _)| match (self.what, StateScope::of(key)) {
            (_, StateScope::Temp) => false,
            (LimitKind::Event, _) => true,
            (LimitKind::StateKey, _) => key.len() as u64 > self.limit,
            (LimitKind::AppState, scope) => scope == StateScope::App,
            (LimitKind::UserState, scope) => scope == StateScope::User,
            (LimitKind::SessionState, scope) => scope == StateScope::Session,
            // An answer does not count toward the other limits.
            _ => false,
        });
        counted
            .map(|(key, value)| key.len() + value.to_string().len())
            .sum()
    }

    /// Returns the text that replaces the result for the model.
    fn notice_text(self, answer: &Event, answer_part: AnswerPart, bytes: usize) -> String {
        let name = answer
            .function_responses()
            .first()
            .and_then(|it| it.name.as_deref());
        let name = name.unwrap_or("<unnamed>");
        let ExceededLimit { what, limit, found } = self;
        let setting = what.setting().unwrap_or_default();
        let why = format!(
            "with all answers, {what} would be {found}, which exceeds the limit of {limit} (see \
             Limits::{setting})"
        );
        match answer_part {
            AnswerPart::Result => format!(
                "`{name}()` was called, but its result is too large to store: it has {bytes} bytes; \
                 {why}. Request less, for example a part of it."
            ),
            AnswerPart::State => format!(
                "`{name}()` was called, but its state changes are too large to store: they have \
                 {bytes} bytes; {why}. The state changes and the result were discarded. Call it so \
                 that it writes less."
            ),
        }
    }
}

/// Replaces the result with the notice, and drops the state changes if they are too large.
fn replace_part(answer: &mut Event, answer_part: AnswerPart, notice: &str) {
    if answer_part == AnswerPart::State {
        answer.actions.state_delta = Default::default();
    }
    // The model must see the notice, even if the result skips summarization.
    answer.actions.skip_summarization = None;
    let content = answer.response.content.as_mut();
    let parts = content.and_then(|content| content.parts.as_mut());
    for part in parts.into_iter().flatten() {
        if let Some(response) = &mut part.function_response {
            response.response = Some(JsonMap::from([("error", Json::from(notice))]));
            response.parts = None;
        }
    }
}

fn result_bytes(answer: &Event) -> usize {
    let responses = answer.function_responses().into_iter();
    // A response that cannot be serialized counts as 0 bytes: storing it fails with its own error.
    responses
        .map(|it| it.to_json().map_or(0, |json| json.len()))
        .sum()
}

#[cfg(test)]
mod tests {
    use retain_core::{Content, FunctionResponse, LlmResponse};

    use super::*;

    fn answer(name: &str, result: usize, state: usize) -> Event {
        let response = FunctionResponse {
            name: Some(name.to_owned()),
            response: Some(JsonMap::from([("result", "x".repeat(result))])),
            ..FunctionResponse::default()
        };
        let content = Content::new("user", vec![response.into()]);
        let mut event = Event::new("a", LlmResponse::from_content(content));
        if state > 0 {
            event.actions.state_delta.insert("k", "x".repeat(state));
        }
        event
    }

    fn response_text(answer: &Event) -> String {
        let response = answer.function_responses()[0].response.clone();
        Json::from(response.unwrap_or_default()).to_string()
    }

    #[test]
    fn oversized_result_and_state_of_one_call_are_each_dropped_once() {
        let mut answers = [answer("f", 5000, 9000), answer("g", 10, 10)];
        let mut replaced = vec![None; 2];
        let exceeded = ExceededLimit {
            what: LimitKind::Event,
            limit: 2000,
            found: 14_500,
        };
        assert!(exceeded.make_room(&mut answers, &mut replaced));
        assert!(response_text(&answers[0]).contains("its state changes"));
        assert!(answers[0].actions.state_delta.is_empty());
        // An estimate may also remove small parts, but never the same part twice.
        let before = answers.clone();
        assert_eq!(replaced[0], Some(AnswerPart::State));
        while exceeded.make_room(&mut answers, &mut replaced) {}
        assert_eq!(response_text(&answers[0]), response_text(&before[0]));
    }

    #[test]
    fn small_state_writes_are_kept_when_the_result_is_dropped() {
        let mut answers = [answer("f", 5000, 10)];
        let exceeded = ExceededLimit {
            what: LimitKind::Event,
            limit: 2000,
            found: 5200,
        };
        assert!(exceeded.make_room(&mut answers, &mut [None]));
        assert!(response_text(&answers[0]).contains("its result is too large"));
        assert!(answers[0].actions.state_delta.contains_key("k"));
    }

    #[test]
    fn size_below_the_limit_removes_nothing() {
        let mut answers = [answer("f", 5000, 10)];
        let exceeded = ExceededLimit {
            what: LimitKind::Event,
            limit: 2000,
            found: 1000,
        };
        assert!(!exceeded.make_room(&mut answers, &mut [None]));
    }

    #[test]
    fn exceeded_limit_of_another_kind_removes_nothing() {
        let mut answers = [answer("f", 5000, 10)];
        let exceeded = ExceededLimit {
            what: LimitKind::Batch,
            limit: 1,
            found: 2,
        };
        assert!(!exceeded.make_room(&mut answers, &mut [None]));
    }
}
