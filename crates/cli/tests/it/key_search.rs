//! Counterpart of `scripts/canary_keys.py`: `scripts/test` runs all tests with canary API keys in
//! the environment and then searches their output and files for these keys. This test writes a
//! control mark that the search must find, which proves that the search covers the right places.

use std::io::Write as _;

use retain::{Event, SessionLog as _, SessionService as _, SqliteSessionService};
use retain_testkit::scratch;

const CONTROL: &str = "RETAIN_CONTROL_MARK";

/// Does nothing without canary keys in the environment.
#[tokio::test]
async fn marker_reaches_every_output_that_the_key_search_reads() {
    let Ok(control) = std::env::var(CONTROL) else {
        return;
    };
    let key = std::env::var("OPENAI_API_KEY").unwrap_or_default();
    assert!(key.starts_with("retain-canary-"), "the keys are marked");
    println!("{control}");
    writeln!(scratch::file(), "{control}").unwrap();
    let folder = scratch::folder();
    let store = format!("sqlite:///{}", folder.path().join("retain.db").display());
    let sessions = SqliteSessionService::connect(&store).await.unwrap();
    let session = sessions.create_session("app", "ada", None, None).await;
    let event = Event::user_text(&control);
    let session = session.unwrap().key();
    sessions.append(&session, event.into()).await.unwrap();
}
