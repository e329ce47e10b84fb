//! Step: turns speech from a live session into text, and joins consecutive chunks.

use retain_core::{Content, Event, Transcription};

use super::event_view::EventView;

/// Joins consecutive speech chunks in events without content into one text, in place of the last
/// chunk. Also returns whether the result is final, that is, whether no later chunk can extend it.
pub(super) fn transcriptions_to_text(views: Vec<EventView<'_>>) -> (Vec<EventView<'_>>, bool) {
    let ends_in_speech = views.last().is_some_and(|view| {
        let (input_text, output_text) = (input(view.event), output(view.event));
        view.content().is_none() && input_text.or(output_text).is_some()
    });
    let mut result = Vec::with_capacity(views.len());
    let (mut input_text, mut output_text) = (String::new(), String::new());
    let mut views = views.into_iter().peekable();
    while let Some(view) = views.next() {
        if view.content().is_some() {
            result.push(view);
            continue;
        }
        let next = views.peek().filter(|next| next.is_event());
        let next = next.map(|next| next.event);
        let content = if let Some(text) = input(view.event) {
            input_text.push_str(text);
            if next.and_then(input).is_some() {
                continue;
            }
            Content::user(std::mem::take(&mut input_text))
        } else if let Some(text) = output(view.event) {
            output_text.push_str(text);
            if next.and_then(output).is_some() {
                continue;
            }
            Content::model(std::mem::take(&mut output_text))
        } else {
            result.push(view);
            continue;
        };
        result.push(view.with_content(content));
    }
    let is_final = !ends_in_speech && input_text.is_empty() && output_text.is_empty();
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
