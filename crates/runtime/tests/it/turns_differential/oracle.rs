//! The process in which ADK runs the scripts.

use retain_core::Json;
use retain_testkit::oracle::{Oracle, Reference};

/// Returns ADK's results for the scripts; `None` if google-adk is not installed.
pub(crate) fn play_all(scripts: &[Json]) -> Option<Vec<Json>> {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/it/turns_differential/oracle.py"
    );
    let mut oracle = Oracle::start(Reference::Adk, "differential turns", script)?;
    let answers = oracle.ask_all(scripts);
    oracle.stop();
    Some(answers)
}
