//! Progress of a migration: a bar on a terminal, otherwise a line for each tenth of the work.

use std::{
    io::IsTerminal as _,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use retain::store::{MigrationObserver, MigrationPhase};

use crate::output::note;

/// Shows progress on standard error.
#[derive(Debug)]
pub(super) struct Progress {
    /// Whether standard error is a terminal.
    is_terminal: bool,
    shown: Mutex<Phase>,
}

#[derive(Debug, Default)]
struct Phase {
    bar: Option<ProgressBar>,
    phase: &'static str,
    steps: Option<u64>,
    done: u64,
    /// Tenths of the work already reported.
    tenths: u64,
}

impl Progress {
    pub(super) fn new() -> Progress {
        Progress {
            is_terminal: std::io::stderr().is_terminal(),
            shown: Mutex::default(),
        }
    }

    /// Removes the bar.
    pub(super) fn end(&self) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = shown.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn bar(phase: &'static str, steps: Option<u64>) -> ProgressBar {
    let template = match steps {
        Some(_) => "{prefix:10} {bar:40} {human_pos}/{human_len} {eta}",
        None => "{prefix:10} {spinner}",
    };
    let bar = match steps {
        Some(steps) => ProgressBar::new(steps),
        None => ProgressBar::new_spinner(),
    };
    // An invalid template falls back to the default bar.
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style.progress_chars("=> "))
        .with_prefix(phase)
}

impl MigrationObserver for Progress {
    fn begin(&self, phase: MigrationPhase, steps: Option<u64>) {
        self.end();
        let phase = match phase {
            MigrationPhase::Survey => "surveying",
            MigrationPhase::Copy => "copying",
            MigrationPhase::Verify => "verifying",
        };
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        *shown = Phase {
            bar: self.is_terminal.then(|| bar(phase, steps)),
            phase,
            steps,
            ..Phase::default()
        };
        if let Some(bar) = &shown.bar {
            bar.tick();
            if steps.is_none() {
                // Without steps, only the spinner shows activity.
                bar.enable_steady_tick(Duration::from_millis(100));
            }
            return;
        }
        match steps {
            Some(steps) => note!("{phase}: {steps} steps"),
            None => note!("{phase}"),
        }
    }

    fn advance(&self, steps: u64) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.done += steps;
        if let Some(bar) = &shown.bar {
            bar.set_position(shown.done);
            return;
        }
        let total = shown.steps.unwrap_or_default();
        let tenths = (shown.done * 10).checked_div(total).unwrap_or_default();
        if tenths > shown.tenths {
            shown.tenths = tenths;
            note!("{}: {} of {total} steps", shown.phase, shown.done);
        }
    }
}
