//! The process that asks ADK, and the seeds of the cases it is asked.

use std::{
    io::{BufRead as _, BufReader, Lines, Write as _},
    ops::Range,
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
};

use retain_core::{Json, JsonMap};
use retain_testkit::oracle::{adk_python, is_long, setting};

/// Where the seeds of a normal run begin.
const SEED: u64 = 20_260_801;

/// The seeds of a run.
pub(crate) struct Seeds {
    seeds: Range<u64>,
    is_chosen: bool,
}

/// So many cases, with `RETAIN_LONG` ten times as many; other seeds if the environment says so.
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
    /// The seeds, so many at a time.
    pub(crate) fn batches(&self, size: u64) -> impl Iterator<Item = Range<u64>> {
        let end = self.seeds.end;
        let starts = self.seeds.clone().step_by(size as usize);
        starts.map(move |start| start..end.min(start + size))
    }

    /// Whether everything that is to be tried must have been.
    pub(crate) fn is_whole_run(&self) -> bool {
        !self.is_chosen
    }
}

/// ADK, behind a pipe.
pub(crate) struct Oracle {
    process: Child,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Oracle {
    /// `None` if there is no ADK here; then the test says that it is skipped.
    pub(crate) fn start(test: &str) -> Option<Oracle> {
        let python = adk_python(&format!("differential {test}"))?;
        let script: PathBuf = [
            env!("CARGO_MANIFEST_DIR"),
            "tests/it/differential/oracle.py",
        ]
        .iter()
        .collect();
        let mut process = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python can be started");
        let answers = process.stdout.take().expect("a pipe");
        let answers = BufReader::new(answers).lines();
        Some(Oracle { process, answers })
    }

    /// The answers to one batch of cases.
    pub(crate) fn ask(&mut self, kind: &str, cases: impl Iterator<Item = Json>) -> Vec<Json> {
        let cases: Vec<Json> = cases.collect();
        let count = cases.len();
        let batch = JsonMap::from([("kind", Json::from(kind)), ("cases", cases.into())]);
        let input = self.process.stdin.as_mut().expect("a pipe");
        writeln!(input, "{}", Json::from(batch)).expect("the oracle reads");
        let line = self.answers.next().expect("the oracle answers");
        let answers = Json::parse(&line.expect("the oracle writes UTF-8"));
        let answers = answers.expect("the oracle writes JSON");
        let answers = answers.as_array().expect("a list").to_vec();
        assert_eq!(answers.len(), count);
        answers
    }

    pub(crate) fn stop(mut self) {
        drop(self.process.stdin.take());
        let status = self.process.wait().expect("the oracle ends");
        assert!(status.success(), "the oracle failed: {status}");
    }
}
