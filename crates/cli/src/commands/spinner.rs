//! Shows a person at a terminal that a command is busy.

use std::{io::IsTerminal as _, time::Duration};

use indicatif::ProgressBar;

/// A line on standard error, if that is a terminal. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Spinner(Option<ProgressBar>);

impl Spinner {
    pub(super) fn new(text: String) -> Spinner {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner().with_message(text);
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Spinner(bar)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}
