//! Replays recorded runs of Google's ADK. Requests, tool calls, events and state must equal the
//! recorded ones.
//!
//! `RETAIN_CASE=core/` replays only the cases whose name contains `core/`.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod agents;
mod case;
mod compare;
mod corruption;
mod replay;
mod run;

use case::Case;
use retain_replay::Recordings;
use retain_runtime::StreamingMode;
use run::Store;

const MODES: [StreamingMode; 2] = [StreamingMode::None, StreamingMode::Sse];

/// Number of differences printed per case.
const SHOWN: usize = 3;

#[tokio::test]
async fn recorded_case_replays_without_differences() {
    let only = std::env::var("RETAIN_CASE").unwrap_or_default();
    let cases = Case::all();
    assert_eq!(cases.len(), 40, "cases are missing or new");
    let mut failed = Vec::new();
    for case in cases.iter().filter(|case| case.name.contains(&only)) {
        for mode in MODES {
            for store in Store::ALL {
                let found = run::replay(case, mode, store, case.recorded(mode)).await;
                if found.is_empty() {
                    continue;
                }
                let run = format!("{} ({mode:?}, {store:?})", case.name);
                println!("== {run}: {} differences", found.len());
                found.iter().take(SHOWN).for_each(|it| println!("{it}"));
                failed.push(run);
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{} replays differ: {failed:#?}",
        failed.len()
    );
}

/// A server reads recordings with Retain's own YAML reader; `Case` uses a different one.
#[test]
fn yaml_reader_parses_every_recording() {
    let mut read = 0;
    for case in Case::all() {
        for mode in MODES {
            let actual = Recordings::from_yaml(&case.recordings_text(mode));
            let actual = actual.unwrap_or_else(|error| panic!("{} ({mode:?}): {error}", case.name));
            let expected = &case.recorded(mode).recordings;
            assert_eq!(actual.entries(), &expected[..], "{} ({mode:?})", case.name);
            read += actual.entries().len();
        }
    }
    println!("{read} recordings read");
}

#[tokio::test]
async fn corrupt_recordings_do_not_replay() {
    let cases = Case::all();
    for (kind, corrupt) in corruption::KINDS {
        let mut count = 0;
        for case in &cases {
            for mode in MODES {
                let mut recorded = case.recorded(mode).clone();
                if corrupt(&mut recorded).is_none() {
                    continue;
                }
                count += 1;
                let found = run::replay(case, mode, Store::Memory, &recorded).await;
                let run = format!("{} ({mode:?})", case.name);
                assert!(
                    !found.is_empty(),
                    "{kind}: {run} replays without a difference"
                );
            }
        }
        println!("{count:3} {kind}");
        assert!(count > 0, "{kind}: no case can be corrupted like this");
    }
}
