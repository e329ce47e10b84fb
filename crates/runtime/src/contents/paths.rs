//! The hierarchy of branches (`a.b@1`) and of node paths (`a/b@1`).

/// Whether `path` lies below `ancestor`; everything lies below the empty path.
fn is_below(path: &str, ancestor: &str, separator: char) -> bool {
    if ancestor.is_empty() {
        return !path.is_empty();
    }
    let rest = path.strip_prefix(ancestor);
    rest.is_some_and(|rest| rest.starts_with(separator))
}

/// Whether an agent on `current` sees events on `branch`: its own branch and those above it.
pub(super) fn sees_branch(current: Option<&str>, branch: Option<&str>) -> bool {
    match (current.unwrap_or_default(), branch.unwrap_or_default()) {
        ("", _) | (_, "") => true,
        (current, branch) => current == branch || is_below(current, branch, '.'),
    }
}

/// Returns the segments of `branch` below `current`; none if it does not lie below.
pub(super) fn segments_below<'b>(
    current: Option<&str>,
    branch: &'b str,
) -> impl Iterator<Item = &'b str> {
    let current = current.unwrap_or_default();
    let below = match is_below(branch, current, '.') {
        true if current.is_empty() => Some(branch),
        true => branch.get(current.len() + 1..),
        false => None,
    };
    below.into_iter().flat_map(|below| below.split('.'))
}

/// Whether `path` belongs to `node` or to a node inside it. An empty path belongs to every node.
pub(super) fn is_own_node(node: &str, path: &str) -> bool {
    path.is_empty() || path == node || is_below(path, node, '/')
}

/// Whether `node` lies inside the node at `path`.
pub(super) fn is_inside_node(node: &str, path: &str) -> bool {
    is_below(node, path, '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_sees_its_branch_and_parent_branches() {
        for branch in [None, Some(""), Some("a"), Some("a.b")] {
            assert!(sees_branch(Some("a.b"), branch), "{branch:?}");
        }
        for branch in ["a.b.c", "a.bc", "b", "a.c"] {
            assert!(!sees_branch(Some("a.b"), Some(branch)), "{branch}");
        }
        assert!(sees_branch(None, Some("a.b")));
    }

    #[test]
    fn segments_below_returns_the_rest_of_a_branch() {
        let below = |current, branch| segments_below(current, branch).collect::<Vec<_>>();
        assert_eq!(below(None, "a.b@1"), ["a", "b@1"]);
        assert_eq!(below(Some("a"), "a.b@1.c"), ["b@1", "c"]);
        assert!(below(Some("a"), "a").is_empty());
        assert!(below(Some("a"), "ab.c").is_empty());
    }

    #[test]
    fn node_owns_events_at_or_below_its_path() {
        assert!(is_own_node("w@1/n@2", ""));
        assert!(is_own_node("w@1/n@2", "w@1/n@2/x"));
        assert!(!is_own_node("w@1/n@2", "w@1"));
        assert!(!is_own_node("w@1/n@2", "w@1/n@23"));
        assert!(is_inside_node("w@1/n@2", "w@1"));
        assert!(!is_inside_node("w@1", "w@1"));
    }
}
