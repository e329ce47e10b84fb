//! `run_blocking` runs an agent in a program that is not async and has no runtime.
//!
//! Run it with `cargo run --example blocking`.

use std::sync::Arc;

use retain::{InMemorySessionService, LlmAgent, Runner};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runner = Runner::builder()
        .app_name("app")
        .agent(LlmAgent::builder("assistant").model("offline").build()?)
        .session_service(Arc::new(InMemorySessionService::new()))
        .auto_create_session(true)
        .build()?;
    let mut last = String::new();
    for message in ["My dog is called Rex.", "What is my dog called?"] {
        for event in runner.run_blocking("ada", Some("s1"), message)? {
            let event = event?;
            last = event
                .content()
                .map(|content| content.text_concat())
                .unwrap_or_default();
            println!("{}: {last}", event.author);
        }
    }
    assert!(last.contains("\"My dog is called Rex.\""));
    Ok(())
}
