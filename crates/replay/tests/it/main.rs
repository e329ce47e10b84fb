//! Replays recorded runs of Google's ADK: the same requests, tool calls, events and state.
//!
//! `RETAIN_CASE=core/` replays only the cases whose name contains that text.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod agents;
mod case;
mod compare;
mod damage;
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
async fn every_recorded_case_replays() {
    let only = std::env::var("RETAIN_CASE").unwrap_or_default();
    let cases = Case::all();
    assert_eq!(cases.len(), 40, "cases were lost or added");
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

/// A server reads recordings with our own YAML reader.
#[test]
fn yaml_reader_parses_every_recording() {
    let mut read = 0;
    for case in Case::all() {
        for mode in MODES {
            let ours = Recordings::from_yaml(&case.recordings_text(mode));
            let ours = ours.unwrap_or_else(|error| panic!("{} ({mode:?}): {error}", case.name));
            let theirs = &case.recorded(mode).recordings;
            assert_eq!(ours.entries(), &theirs[..], "{} ({mode:?})", case.name);
            read += ours.entries().len();
        }
    }
    println!("{read} recordings read");
}

#[tokio::test]
async fn corrupt_recordings_do_not_replay() {
    let cases = Case::all();
    for (kind, damage) in damage::KINDS {
        let mut damaged = 0;
        for case in &cases {
            for mode in MODES {
                let mut recorded = case.recorded(mode).clone();
                if damage(&mut recorded).is_none() {
                    continue;
                }
                damaged += 1;
                let found = run::replay(case, mode, Store::Memory, &recorded).await;
                let run = format!("{} ({mode:?})", case.name);
                assert!(!found.is_empty(), "{kind}: {run} passes all the same");
            }
        }
        println!("{damaged:3} {kind}");
        assert!(damaged > 0, "{kind}: no case has anything of the kind");
    }
}
