//! Answers that the session has no room for: what is too large is told to the model in its place,
//! the other answers are kept, and the turn goes on.
//!
//! The session says what does not fit (see [`Limits`](retain_core::Limits)), and it says so before
//! anything is stored. So the limits are in one place, and also hold for what plugins add and for
//! state that has grown over many turns.

use retain_core::{Event, Json, JsonMap, Limited, SessionError, StateScope};

use super::Turn;
use crate::error::{Result, RunError};

/// What the session refused.
#[derive(Debug, Clone, Copy)]
struct Refused {
    what: Limited,
    limit: u64,
    found: u64,
}

/// Something of an answer that takes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// The result, with its media.
    Result,
    /// What was written to the state.
    State,
}

impl Turn<'_> {
    /// Emits answers, which `merged` has in one event. What there is no room for is told to the
    /// model; fails if there is none even for that.
    pub(super) async fn emit_answers(
        &mut self,
        mut answers: Vec<Event>,
        mut merged: Event,
        nothing_follows: bool,
    ) -> Result<Box<Event>> {
        // A refusal takes the live state back to what is stored, also what other calls have built.
        let live = self.live_values(&answers);
        // Each answer is made smaller twice at most, so this ends.
        let mut told = vec![None; answers.len()];
        let id = merged.id.clone();
        loop {
            let error = match self.emit(merged, nothing_follows).await {
                Err(RunError::Session(error)) => error,
                emitted => return emitted,
            };
            let made_room =
                Refused::of(&error).is_some_and(|it| it.make_room(&mut answers, &mut told));
            merged = match self.merged_over(&live, answers.clone())? {
                // It is the same event, told in fewer words.
                Some(merged) if made_room => Event {
                    id: id.clone(),
                    ..merged
                },
                _ => return Err(error.into()),
            };
        }
    }
}

impl Refused {
    fn of(error: &SessionError) -> Option<Refused> {
        match *error {
            SessionError::TooLarge { what, limit, found } => Some(Refused { what, limit, found }),
            _ => None,
        }
    }

    /// Takes out what is largest, until it should fit. `told` says what was taken out of which
    /// answer. Gives whether anything was.
    fn make_room(self, answers: &mut [Event], told: &mut [Option<Load>]) -> bool {
        let mut over = match self.what {
            Limited::Event => self.found.saturating_sub(self.limit),
            // How much of a state is new is not known: one call after the other has to do without.
            _ => 1,
        };
        let before = told.to_vec();
        for (bytes, at, load) in self.loads(answers) {
            let is_done = told[at] == Some(Load::State) || told[at] == Some(load);
            if over == 0 || bytes == 0 {
                break;
            }
            if is_done {
                continue;
            }
            let notice = self.notice(&answers[at], load, bytes);
            over = over.saturating_sub(bytes.saturating_sub(notice.len()).max(1) as u64);
            replace(&mut answers[at], load, &notice);
            told[at] = Some(load);
        }
        before != told
    }

    /// What takes room in the answers, largest first.
    fn loads(self, answers: &[Event]) -> Vec<(usize, usize, Load)> {
        let mut loads = Vec::new();
        for (at, answer) in answers.iter().enumerate() {
            loads.push((self.state_bytes(answer), at, Load::State));
            if self.what == Limited::Event {
                loads.push((result_bytes(answer), at, Load::Result));
            }
        }
        loads.sort_by_key(|(bytes, at, _)| (std::cmp::Reverse(*bytes), *at));
        loads
    }

    /// How much of what was refused is state that this call has written.
    fn state_bytes(self, answer: &Event) -> usize {
        let written = answer.actions.state_delta.iter();
        let counted = written.filter(|(key, _)| match (self.what, StateScope::of(key)) {
            (_, StateScope::Temp) => false,
            (Limited::Event, _) => true,
            (Limited::StateKey, _) => key.len() as u64 > self.limit,
            (Limited::AppState, scope) => scope == StateScope::App,
            (Limited::UserState, scope) => scope == StateScope::User,
            (Limited::SessionState, scope) => scope == StateScope::Session,
            // Of these, an answer is no part.
            (Limited::Batch | Limited::Log | Limited::InitialState, _) => false,
        });
        counted
            .map(|(key, value)| key.len() + value.to_string().len())
            .sum()
    }

    /// What the model is told in place of the result.
    fn notice(self, answer: &Event, load: Load, bytes: usize) -> String {
        let name = answer
            .function_responses()
            .first()
            .and_then(|it| it.name.as_deref());
        let name = name.unwrap_or("<unnamed>");
        let Refused { what, limit, found } = self;
        let setting = what.setting().unwrap_or_default();
        let why = format!(
            "the session takes {what} up to {limit}, see Limits::{setting}, and \
             with all answers it would be {found}"
        );
        match load {
            Load::Result => format!(
                "`{name}()` was called, but its result is too large to be kept: it has {bytes} \
                 bytes; {why}. Ask for less, for example for a part of it."
            ),
            Load::State => format!(
                "`{name}()` was called, but what it wrote to the state is too large to be kept: \
                 it has {bytes} bytes; {why}. Nothing that it wrote is in the state, and its \
                 result is left out. Let it write less."
            ),
        }
    }
}

/// Puts the notice in the place of the result, and leaves out the state if that is what is large.
fn replace(answer: &mut Event, load: Load, notice: &str) {
    if load == Load::State {
        answer.actions.state_delta = Default::default();
    }
    // The model is to see the notice, also where it was not to see the result.
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
    // What cannot be written is refused for another reason.
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
        let mut event = Event::new("a", LlmResponse::of(content));
        if state > 0 {
            event.actions.state_delta.insert("k", "x".repeat(state));
        }
        event
    }

    fn said(answer: &Event) -> String {
        let response = answer.function_responses()[0].response.clone();
        Json::from(response.unwrap_or_default()).to_string()
    }

    #[test]
    fn of_a_call_with_a_large_result_and_a_larger_state_both_are_left_out_once() {
        let mut answers = [answer("f", 5000, 9000), answer("g", 10, 10)];
        let mut told = vec![None; 2];
        let refused = Refused {
            what: Limited::Event,
            limit: 2000,
            found: 14_500,
        };
        assert!(refused.make_room(&mut answers, &mut told));
        assert!(said(&answers[0]).contains("what it wrote to the state"));
        assert!(answers[0].actions.state_delta.is_empty());
        // To be on the safe side, small things may follow; nothing is taken out twice.
        let before = answers.clone();
        assert_eq!(told[0], Some(Load::State));
        while refused.make_room(&mut answers, &mut told) {}
        assert_eq!(said(&answers[0]), said(&before[0]));
    }

    #[test]
    fn a_call_keeps_small_writes_when_its_result_is_left_out() {
        let mut answers = [answer("f", 5000, 10)];
        let refused = Refused {
            what: Limited::Event,
            limit: 2000,
            found: 5200,
        };
        assert!(refused.make_room(&mut answers, &mut [None]));
        assert!(said(&answers[0]).contains("its result is too large"));
        assert!(answers[0].actions.state_delta.contains_key("k"));
    }

    #[test]
    fn a_refusal_that_says_less_than_its_limit_takes_nothing_out() {
        let mut answers = [answer("f", 5000, 10)];
        let refused = Refused {
            what: Limited::Event,
            limit: 2000,
            found: 1000,
        };
        assert!(!refused.make_room(&mut answers, &mut [None]));
    }

    #[test]
    fn what_is_not_about_answers_is_not_made_room_for() {
        let mut answers = [answer("f", 5000, 10)];
        let refused = Refused {
            what: Limited::Batch,
            limit: 1,
            found: 2,
        };
        assert!(!refused.make_room(&mut answers, &mut [None]));
    }
}
