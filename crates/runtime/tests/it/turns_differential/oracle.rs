//! The process in which ADK plays the scripts.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Command, Stdio},
};

use retain_core::Json;
use retain_testkit::oracle::adk_python;

/// What ADK makes of the scripts; `None` if there is no ADK here, and then the skip is noted.
pub(crate) fn play_all(scripts: &[Json]) -> Option<Vec<Json>> {
    let python = adk_python("differential turns")?;
    let script = "tests/it/turns_differential/oracle.py";
    let mut process = Command::new(python)
        .arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(script))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python can be started");
    let mut input = process.stdin.take().expect("a pipe");
    writeln!(input, "{}", Json::from(scripts.to_vec())).expect("the oracle reads");
    drop(input);
    let mut line = String::new();
    let output = process.stdout.take().expect("a pipe");
    let read = BufReader::new(output).read_line(&mut line);
    read.expect("the oracle writes UTF-8");
    let status = process.wait().expect("the oracle ends");
    assert!(status.success(), "the oracle failed: {status}");
    let answers = Json::parse(&line).expect("the oracle writes JSON");
    let answers = answers.as_array().expect("a list").to_vec();
    assert_eq!(answers.len(), scripts.len());
    Some(answers)
}
