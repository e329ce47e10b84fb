//! `Turn`: an event that is being turned into a content.
//!
//! The steps pass turns on. Most turns show their event's content. A step that rewrites the content
//! gives the turn its own content, and the event stays unchanged.

use retain_core::{Content, Event, EventActions, Events, FunctionCall, FunctionResponse, Part};

use super::IndexedEvent;
use crate::SharedContent;

/// How the turn was made from the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The event itself, or the event with other parts.
    Event,
    /// The summary in the event.
    Summary,
    /// The event of another agent, quoted. Keeps only its timestamp.
    Quoted,
}

/// An event as the model will see it.
#[derive(Clone)]
pub(super) struct Turn<'a> {
    /// The index of the event in the session's list.
    pub(super) index: usize,
    pub(super) event: &'a Event,
    pub(super) author: &'a str,
    origin: Origin,
    /// The content that replaces the event's content.
    own: Option<SharedContent>,
}

impl<'a> Turn<'a> {
    pub(super) fn of_event(listed: IndexedEvent<'a>) -> Turn<'a> {
        Turn {
            index: listed.index,
            event: listed.event,
            author: &listed.event.author,
            origin: Origin::Event,
            own: None,
        }
    }

    /// The summary in a compaction event, as if the agent had said it.
    pub(super) fn of_summary(turn: &Turn<'a>, content: &Content, author: &'a str) -> Turn<'a> {
        Turn {
            author,
            origin: Origin::Summary,
            own: Some(content.clone().into()),
            ..turn.clone()
        }
    }

    /// Returns this turn, quoted by the user.
    pub(super) fn into_quote(self, content: Content) -> Turn<'a> {
        Turn {
            author: "user",
            origin: Origin::Quoted,
            own: Some(content.into()),
            ..self
        }
    }

    /// Returns this turn with another content.
    pub(super) fn with_content(self, content: Content) -> Turn<'a> {
        Turn {
            own: Some(content.into()),
            ..self
        }
    }

    /// Returns this turn with these parts in place of its own.
    pub(super) fn with_parts(self, parts: Vec<Part>) -> Turn<'a> {
        let content = self.content().map(|content| Content {
            parts: Some(parts),
            role: content.role.clone(),
            extra: content.extra.clone(),
        });
        match content {
            Some(content) => self.with_content(content),
            None => self,
        }
    }

    pub(super) fn content(&self) -> Option<&Content> {
        match &self.own {
            Some(own) => Some(own),
            None => self.event.content(),
        }
    }

    pub(super) fn parts(&self) -> &[Part] {
        self.content().map(Content::parts).unwrap_or_default()
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = &FunctionCall> {
        self.parts()
            .iter()
            .filter_map(|part| part.function_call.as_ref())
    }

    pub(super) fn responses(&self) -> impl Iterator<Item = &FunctionResponse> {
        self.parts()
            .iter()
            .filter_map(|part| part.function_response.as_ref())
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls().next().is_some()
    }

    pub(super) fn has_responses(&self) -> bool {
        self.responses().next().is_some()
    }

    /// The actions of the event, unless the turn only quotes it.
    pub(super) fn actions(&self) -> Option<&EventActions> {
        (self.origin != Origin::Quoted).then_some(&self.event.actions)
    }

    pub(super) fn invocation_id(&self) -> &str {
        match self.origin {
            Origin::Quoted => "",
            _ => &self.event.invocation_id,
        }
    }

    /// Whether the turn stands for the event itself.
    pub(super) fn is_event(&self) -> bool {
        self.origin == Origin::Event
    }

    /// Ids of long-running calls.
    pub(super) fn long_running_ids(&self) -> impl Iterator<Item = &str> {
        let event = self.is_event().then_some(self.event);
        event
            .and_then(|event| event.long_running_tool_ids.as_ref())
            .into_iter()
            .flat_map(|ids| ids.iter())
    }

    /// The shared content; `None` if there is none.
    pub(super) fn into_shared_content(self, events: &Events) -> Option<SharedContent> {
        match self.own {
            Some(own) => Some(own),
            None => SharedContent::of_event(&events.get_shared(self.index)?),
        }
    }
}
