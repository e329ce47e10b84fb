//! The error for an option that needs a cargo feature which this build lacks.

/// Returns the error for `what`, which the cargo feature `feature` adds.
pub(crate) fn missing_feature(what: &str, feature: &str) -> String {
    format!(
        "this build has no {what} support: install a package, or build with --features {feature}"
    )
}
