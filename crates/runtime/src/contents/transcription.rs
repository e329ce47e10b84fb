//! Step: speech of a live session becomes text; consecutive chunks become one text.

use retain_core::{Content, Event, Transcription};

use super::turn::Turn;

/// Turns chunks of speech in turns without content into one text, at the last chunk. Also returns
/// whether the result is final: it does not end in speech that another chunk would extend.
pub(super) fn transcriptions_to_text(turns: Vec<Turn<'_>>) -> (Vec<Turn<'_>>, bool) {
    let ends_in_speech = turns.last().is_some_and(|turn| {
        let (heard, spoken) = (input(turn.event), output(turn.event));
        turn.content().is_none() && heard.or(spoken).is_some()
    });
    let mut result = Vec::with_capacity(turns.len());
    let (mut heard, mut spoken) = (String::new(), String::new());
    let mut turns = turns.into_iter().peekable();
    while let Some(turn) = turns.next() {
        if turn.content().is_some() {
            result.push(turn);
            continue;
        }
        let next = turns.peek().filter(|next| next.is_event());
        let next = next.map(|next| next.event);
        let content = if let Some(text) = input(turn.event) {
            heard.push_str(text);
            if next.and_then(input).is_some() {
                continue;
            }
            Content::user(std::mem::take(&mut heard))
        } else if let Some(text) = output(turn.event) {
            spoken.push_str(text);
            if next.and_then(output).is_some() {
                continue;
            }
            Content::model(std::mem::take(&mut spoken))
        } else {
            result.push(turn);
            continue;
        };
        result.push(turn.with_content(content));
    }
    let is_final = !ends_in_speech && heard.is_empty() && spoken.is_empty();
    (result, is_final)
}

fn input(event: &Event) -> Option<&str> {
    text(event.response.input_transcription.as_ref())
}

fn output(event: &Event) -> Option<&str> {
    text(event.response.output_transcription.as_ref())
}

fn text(transcription: Option<&Transcription>) -> Option<&str> {
    let text = transcription?.text.as_deref()?;
    (!text.is_empty()).then_some(text)
}
