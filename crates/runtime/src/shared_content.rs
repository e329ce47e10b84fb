//! `SharedContent`: a content in a model request that avoids copying stored events.
//!
//! Most contents in a request are those of stored events, unchanged. Such a content points into its
//! event. Only a content that the flow rewrites is a copy.

use std::{fmt, ops::Deref, sync::Arc};

use retain_core::{Content, Event, Part};

/// A content, shared with the event it came from or with other requests. Cloning is cheap.
///
/// ```
/// use retain_core::Content;
/// use retain_runtime::SharedContent;
/// let mut content = SharedContent::from(Content::user("Hi"));
/// content.make_mut().role = Some("model".into());
/// assert_eq!(content.role.as_deref(), Some("model"));
/// ```
#[derive(Clone)]
pub struct SharedContent(Source);

#[derive(Clone)]
enum Source {
    Own(Arc<Content>),
    /// An event that has a content.
    Event(Arc<Event>),
}

impl SharedContent {
    /// Returns the content of `event`, if it has one, without copying it.
    pub fn of_event(event: &Arc<Event>) -> Option<SharedContent> {
        event.content()?;
        Some(SharedContent(Source::Event(Arc::clone(event))))
    }

    /// Returns the content for writing; copies it first if it is shared.
    pub fn make_mut(&mut self) -> &mut Content {
        if let Source::Event(_) = self.0 {
            self.0 = Source::Own(Arc::new((**self).clone()));
        }
        match &mut self.0 {
            Source::Own(content) => Arc::make_mut(content),
            Source::Event(_) => unreachable!("converted to an own content above"),
        }
    }

    /// The approximate size in bytes of what is not shared with an event. Arguments, responses and
    /// data are shared in either case.
    pub(crate) fn own_bytes(&self) -> usize {
        let Source::Own(content) = &self.0 else {
            return size_of::<SharedContent>();
        };
        let part_bytes =
            |part: &Part| size_of::<Part>() + part.text.as_ref().map_or(0, String::len);
        size_of::<Content>() + content.parts().iter().map(part_bytes).sum::<usize>()
    }

    /// Converts into an owned content.
    pub fn into_content(self) -> Content {
        match self.0 {
            Source::Own(content) => Arc::unwrap_or_clone(content),
            Source::Event(_) => (*self).clone(),
        }
    }
}

impl Deref for SharedContent {
    type Target = Content;

    fn deref(&self) -> &Content {
        static EMPTY: std::sync::LazyLock<Content> = std::sync::LazyLock::new(Content::default);
        match &self.0 {
            Source::Own(content) => content,
            Source::Event(event) => event.content().unwrap_or(&EMPTY),
        }
    }
}

impl From<Content> for SharedContent {
    fn from(content: Content) -> SharedContent {
        SharedContent(Source::Own(Arc::new(content)))
    }
}

impl PartialEq for SharedContent {
    fn eq(&self, other: &SharedContent) -> bool {
        **self == **other
    }
}

impl fmt::Debug for SharedContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
