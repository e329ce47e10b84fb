//! How far a migration is: a bar where a person looks on, else a line now and then.

use std::{
    io::IsTerminal as _,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use retain::store::{MigrationPhase, MigrationWatch};

/// Shows progress on standard error.
#[derive(Debug)]
pub(super) struct Progress {
    /// Whether somebody looks on.
    is_terminal: bool,
    shown: Mutex<Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    bar: Option<ProgressBar>,
    phase: &'static str,
    steps: Option<u64>,
    done: u64,
    /// Tenths of the whole that were told.
    tenths: u64,
}

impl Progress {
    pub(super) fn new() -> Progress {
        Progress {
            is_terminal: std::io::stderr().is_terminal(),
            shown: Mutex::default(),
        }
    }

    /// Takes the bar away.
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
    // A template that is wrong shows the usual one.
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style.progress_chars("=> "))
        .with_prefix(phase)
}

impl MigrationWatch for Progress {
    fn begin(&self, phase: MigrationPhase, steps: Option<u64>) {
        self.end();
        let phase = match phase {
            MigrationPhase::Survey => "looking",
            MigrationPhase::Copy => "copying",
            MigrationPhase::Verify => "verifying",
        };
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        *shown = Shown {
            bar: self.is_terminal.then(|| bar(phase, steps)),
            phase,
            steps,
            ..Shown::default()
        };
        if let Some(bar) = &shown.bar {
            bar.tick();
            if steps.is_none() {
                // Nobody tells of steps, and yet it is busy.
                bar.enable_steady_tick(Duration::from_millis(100));
            }
            return;
        }
        match steps {
            Some(steps) => eprintln!("{phase}: {steps} steps"),
            None => eprintln!("{phase}"),
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
            eprintln!("{}: {} of {total} steps", shown.phase, shown.done);
        }
    }
}
