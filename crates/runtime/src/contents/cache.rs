//! Contents that were assembled before.

use retain_core::Events;

use super::{ContentsOptions, assemble_contents};
use crate::SharedContent;

/// Keeps what was assembled.
#[derive(Debug, Default)]
pub struct ContentsCache {}

impl ContentsCache {
    /// As [`assemble_contents`].
    pub fn assemble(
        &mut self,
        events: &Events,
        options: &ContentsOptions<'_>,
    ) -> Vec<SharedContent> {
        assemble_contents(events, options)
    }
}
