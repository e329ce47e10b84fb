//! Suggests the known name that the user probably meant.

/// Returns `did you mean …?` if a known name is similar, else the list of known names.
pub(super) fn did_you_mean<'n>(
    name: &str,
    known: impl Iterator<Item = &'n str> + Clone,
    listed: &str,
) -> String {
    if let Some(near) = nearest(name, known.clone()) {
        return format!("did you mean `{near}`?");
    }
    let known: Vec<&str> = known.collect();
    match known.is_empty() {
        true => format!("there are no {listed}"),
        false => format!("{listed}: {}", known.join(", ")),
    }
}

/// Returns the known name with the smallest edit distance, if at most a third of the letters
/// differ.
fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let short = |name: &str| name.to_lowercase().replace(['-', '_'], "");
    let wanted = short(name);
    let near = known.filter_map(|candidate| {
        let other = short(candidate);
        let changes = strsim::levenshtein(&wanted, &other);
        let length = wanted.chars().count().max(other.chars().count());
        (changes * 3 <= length).then_some((changes, candidate))
    });
    let best = near.min_by_key(|(changes, _)| *changes);
    best.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_suggests_a_similar_name_or_lists_all_names() {
        let known = ["instruction", "output_key", "max_iterations", "tools"];
        let hint = |name| did_you_mean(name, known.into_iter(), "known");
        assert_eq!(hint("instructions"), "did you mean `instruction`?");
        assert_eq!(hint("outputKey"), "did you mean `output_key`?");
        assert_eq!(hint("max_iteration"), "did you mean `max_iterations`?");
        assert_eq!(hint("tool"), "did you mean `tools`?");
        assert_eq!(
            hint("planner"),
            "known: instruction, output_key, max_iterations, tools"
        );
    }
}
