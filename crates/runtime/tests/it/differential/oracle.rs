//! The process that runs ADK, and the seeds of the cases sent to it.

use std::ops::Range;

use retain_core::{Json, JsonMap};
use retain_testkit::oracle::{self, Reference, is_long, setting};

/// The first seed, unless `RETAIN_SEED` sets it.
const SEED: u64 = 20_260_801;

/// The seeds of the cases of a test.
pub(crate) struct Seeds {
    seeds: Range<u64>,
    is_chosen: bool,
}

/// Returns the seeds of `count` cases, or of ten times as many with `RETAIN_LONG`. `RETAIN_SEED`
/// and `RETAIN_CASES` override them.
pub(crate) fn cases(count: u64) -> Seeds {
    let chosen = setting("RETAIN_SEED");
    let count = match (setting("RETAIN_CASES"), chosen) {
        (Some(count), _) => count,
        (None, Some(_)) => 1,
        (None, None) if is_long() => count * 10,
        (None, None) => count,
    };
    let seed = chosen.unwrap_or(SEED);
    println!("{count} cases from seed {seed}");
    Seeds {
        seeds: seed..seed + count,
        is_chosen: chosen.is_some(),
    }
}

impl Seeds {
    /// Splits the seeds into batches of `size`.
    pub(crate) fn batches(&self, size: u64) -> impl Iterator<Item = Range<u64>> {
        let end = self.seeds.end;
        let starts = self.seeds.clone().step_by(size as usize);
        starts.map(move |start| start..end.min(start + size))
    }

    /// Whether the cases must cover every feature.
    pub(crate) fn is_whole_run(&self) -> bool {
        !self.is_chosen
    }
}

/// google-adk in its own process.
pub(crate) struct Oracle(oracle::Oracle);

impl Oracle {
    /// Starts google-adk. If it is not installed, records the skip of `test` and returns `None`.
    pub(crate) fn start(test: &str) -> Option<Oracle> {
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/it/differential/oracle.py"
        );
        let test = format!("differential {test}");
        oracle::Oracle::start(Reference::Adk, &test, script).map(Oracle)
    }

    /// Returns the answers to one batch of cases.
    pub(crate) fn ask(&mut self, kind: &str, cases: impl Iterator<Item = Json>) -> Vec<Json> {
        let cases: Vec<Json> = cases.collect();
        let count = cases.len();
        let batch = JsonMap::from([("kind", Json::from(kind)), ("cases", cases.into())]);
        let answers = self.0.ask(&batch.into());
        let answers = answers.as_array().expect("a list").to_vec();
        assert_eq!(answers.len(), count);
        answers
    }

    pub(crate) fn stop(self) {
        self.0.stop();
    }
}
