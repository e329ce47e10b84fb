//! `retain demo` prints what is stored, and does not overwrite a database.

use std::process::{Command, Output};

use retain::{
    GetSessionConfig, MemoryService as _, SessionService as _, SqliteMemoryService,
    SqliteSessionService, memory::MemoryQuery,
};

use crate::program::{RETAIN, uri};

fn demo(folder: &std::path::Path) -> Output {
    let mut command = Command::new(RETAIN);
    command.arg("demo").arg("--keep").arg(folder);
    command.output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn demo_recalls_across_sessions_and_prints_stored_events() {
    let folder = retain_testkit::scratch::folder();
    let output = demo(folder.path());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "recall   calls load_memory({\"query\":\"favorite project\"})",
        "recall   load_memory found 2, first \"My favorite project is Project Alpha.\"",
        "recall   You told me on 20",
        "ready    You told me on 20",
        "why: \"project\" \"favorite\"; score 0.",
        "from: session monday, position 1, said by user",
        "temp:search  running      -            -           -",
        "no acknowledged event lost",
        "no corruption",
    ] {
        assert!(text.contains(line), "{line:?} is missing in\n{text}");
    }

    let store = uri(&folder.path().join("demo.db"));
    let sessions = SqliteSessionService::connect(&store).await.unwrap();
    let config = GetSessionConfig::default();
    let read = sessions.get_session("assistant", "ada", "friday", config);
    let friday = read.await.unwrap().unwrap();
    let authors: Vec<_> = friday.events.iter().map(|event| &event.author).collect();
    assert_eq!(authors, ["user", "recall", "recall", "recall"]);
    assert_eq!(friday.events.get(2).unwrap().function_responses().len(), 1);
    // Another program that opens the file finds what the demo printed.
    let memory = SqliteMemoryService::over(sessions.store().memory());
    let search = MemoryQuery::new("favorite project");
    let found = memory.search_memory_with("assistant", "ada", search).await;
    let found = &found.unwrap()[0];
    assert_eq!(found.info.session.as_deref(), Some("monday"));
    let nobody = memory.search_memory("assistant", "grace", "favorite project");
    assert!(nobody.await.unwrap().memories.is_empty());
}

#[test]
fn demo_refuses_an_existing_database() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("demo.db");
    std::fs::write(&file, "mine").unwrap();
    let output = demo(folder.path());
    assert!(!output.status.success());
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
}
