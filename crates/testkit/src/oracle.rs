//! How a test asks a reference, most often google-adk itself: where its Python is, and how a test says
//! that it was skipped.

use std::{fs::OpenOptions, io::Write as _, path::PathBuf};

/// The Python that has google-adk 2.13.0, as `scripts/test` gives it. Without one, notes that `test`
/// was skipped.
pub fn adk_python(test: &str) -> Option<PathBuf> {
    let python = std::env::var_os("RETAIN_ADK_2_13_PYTHON");
    if python.is_none() {
        skip(&format!("{test}: google-adk 2.13.0 is not installed"));
    }
    python.map(PathBuf::from)
}

/// The Python that has google-adk 2.13.0 with the libraries of Anthropic and LiteLLM, as `scripts/test`
/// gives it. Without one, notes that `test` was skipped.
pub fn adk_models_python(test: &str) -> Option<PathBuf> {
    let python = std::env::var_os("RETAIN_ADK_MODELS_PYTHON");
    if python.is_none() {
        skip(&format!(
            "{test}: google-adk with anthropic and litellm is not installed"
        ));
    }
    python.map(PathBuf::from)
}

/// The Python that has the package `tokenizers`, as `scripts/test` gives it. Without one, notes that
/// `test` was skipped.
pub fn tokenizers_python(test: &str) -> Option<PathBuf> {
    let python = std::env::var_os("RETAIN_TOKENIZERS_PYTHON");
    if python.is_none() {
        skip(&format!("{test}: the package tokenizers is not installed"));
    }
    python.map(PathBuf::from)
}

/// Notes a skip for the summary of `scripts/test`.
pub fn skip(line: &str) {
    println!("skipped: {line}");
    if let Some(skips) = std::env::var_os("RETAIN_SKIPS") {
        let file = OpenOptions::new().append(true).create(true).open(skips);
        let mut file = file.expect("the file of skips can be written");
        writeln!(file, "{line}").expect("the file of skips can be written");
    }
}

/// A number from the environment, e.g. `RETAIN_SEED`.
pub fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number in the environment"))
}

/// Whether the long versions of tests are wished.
pub fn is_long() -> bool {
    std::env::var_os("RETAIN_LONG").is_some_and(|long| !long.is_empty())
}
