//! Step: a single-turn node sees only its own branch and its own part of the workflow.

use std::borrow::Cow;

use super::{ContentsOptions, IndexedEvent, include::node_path, paths};

/// Keeps only the node's own events.
pub(super) fn own_events<'l, 'a>(
    listed: Cow<'l, [IndexedEvent<'a>]>,
    options: &ContentsOptions<'_>,
) -> Cow<'l, [IndexedEvent<'a>]> {
    retain(listed, options, paths::is_own_node)
}

/// Keeps the node's own events and those of the nodes that contain it.
pub(super) fn own_and_ancestor_events<'l, 'a>(
    listed: Cow<'l, [IndexedEvent<'a>]>,
    options: &ContentsOptions<'_>,
) -> Cow<'l, [IndexedEvent<'a>]> {
    retain(listed, options, |node, path| {
        paths::is_own_node(node, path) || paths::is_inside_node(node, path)
    })
}

fn retain<'l, 'a>(
    listed: Cow<'l, [IndexedEvent<'a>]>,
    options: &ContentsOptions<'_>,
    is_seen: impl Fn(&str, &str) -> bool,
) -> Cow<'l, [IndexedEvent<'a>]> {
    if !options.is_single_turn {
        return listed;
    }
    let node = options.node_path.unwrap_or_default();
    let mut listed = listed.into_owned();
    listed.retain(|one| {
        paths::sees_branch(options.branch, one.event.branch.as_deref())
            && (node.is_empty() || is_seen(node, node_path(one.event)))
    });
    Cow::Owned(listed)
}
