//! `EventView`: an event as the model will see it.
//!
//! Each step gets the views that the previous step returned. Most views show the content of their
//! event. A step that rewrites the content gives the view a content of its own, and the event stays
//! unchanged.

use retain_core::{Content, Event, EventActions, Events, FunctionCall, FunctionResponse, Part};

use super::IndexedEvent;
use crate::SharedContent;

/// The part of the event that the view shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The event itself, or the event with other parts.
    Event,
    /// The summary in the event.
    Summary,
    /// The event of another agent, quoted as data. Its actions and its run do not count.
    Quoted,
}

/// An event as the model will see it.
#[derive(Clone)]
pub(super) struct EventView<'a> {
    /// The index of the event in the session's list.
    pub(super) index: usize,
    pub(super) event: &'a Event,
    pub(super) author: &'a str,
    origin: Origin,
    /// The content to show instead of the event's.
    own: Option<SharedContent>,
}

impl<'a> EventView<'a> {
    pub(super) fn of_event(listed: IndexedEvent<'a>) -> EventView<'a> {
        EventView {
            index: listed.index,
            event: listed.event,
            author: &listed.event.author,
            origin: Origin::Event,
            own: None,
        }
    }

    /// Returns a view of the summary in a compaction event, as a content of `author`.
    pub(super) fn of_summary(
        view: &EventView<'a>,
        content: &Content,
        author: &'a str,
    ) -> EventView<'a> {
        EventView {
            author,
            origin: Origin::Summary,
            own: Some(content.clone().into()),
            ..view.clone()
        }
    }

    /// Returns this view with `content`, which quotes the event as a user content.
    pub(super) fn into_quote(self, content: Content) -> EventView<'a> {
        EventView {
            author: "user",
            origin: Origin::Quoted,
            own: Some(content.into()),
            ..self
        }
    }

    /// Returns this view with another content.
    pub(super) fn with_content(self, content: Content) -> EventView<'a> {
        EventView {
            own: Some(content.into()),
            ..self
        }
    }

    /// Returns this view with these parts in place of its own.
    pub(super) fn with_parts(self, parts: Vec<Part>) -> EventView<'a> {
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

    /// Returns the event's actions, unless the view only quotes the event.
    pub(super) fn actions(&self) -> Option<&EventActions> {
        (self.origin != Origin::Quoted).then_some(&self.event.actions)
    }

    pub(super) fn invocation_id(&self) -> &str {
        match self.origin {
            Origin::Quoted => "",
            _ => &self.event.invocation_id,
        }
    }

    /// Whether the view shows the event itself, not a summary or a quotation.
    pub(super) fn is_event(&self) -> bool {
        self.origin == Origin::Event
    }

    /// Returns the ids of the event's long-running calls.
    pub(super) fn long_running_ids(&self) -> impl Iterator<Item = &str> {
        let event = self.is_event().then_some(self.event);
        event
            .and_then(|event| event.long_running_tool_ids.as_ref())
            .into_iter()
            .flat_map(|ids| ids.iter())
    }

    /// Returns the content, shared with the event if no step changed it; `None` without a content.
    pub(super) fn into_shared_content(self, events: &Events) -> Option<SharedContent> {
        match self.own {
            Some(own) => Some(own),
            None => SharedContent::of_event(&events.get_shared(self.index)?),
        }
    }
}
