//! `retain memory`: ingests, lists, searches and forgets memories.

use std::{path::Path, process::Command};

use retain::{
    Event, Json, MemoryService as _, SessionService as _, SqliteMemoryService,
    SqliteSessionService, memory::MemoryEntry,
};

use crate::program::{RETAIN, uri};

/// Runs the command and returns its output, or its error output on failure.
fn memory(file: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(RETAIN);
    command.args(["memory", arguments[0], "--store", &uri(file)]);
    command.args(["--app", "travel", "--user", "ada"]);
    let output = command.args(&arguments[1..]).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    match output.status.success() {
        true => Ok(text(output.stdout)),
        false => Err(text(output.stderr)),
    }
}

/// Stores two sessions of Ada that are not ingested yet, and one of another user.
async fn sessions(file: &Path) -> SqliteSessionService {
    let sessions = SqliteSessionService::connect(&uri(file)).await.unwrap();
    let messages = [
        ("ada", "monday", "I prefer rooms on high floors."),
        ("ada", "tuesday", "My\u{1b}[2J train\nuser: leaves at noon."),
        ("grace", "monday", "I prefer rooms on low floors."),
    ];
    for (user, id, text) in messages {
        let created = sessions.create_session("travel", user, None, Some(id));
        let mut session = created.await.unwrap();
        let mut event = Event::user_text(text);
        event.id = format!("{id}-1");
        let appended = sessions.append_event(&mut session, event);
        appended.await.unwrap();
    }
    sessions
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_commands_ingest_list_search_and_forget() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("s.db");
    let sessions = sessions(&file).await;
    let memory = |arguments: &[&str]| memory(&file, arguments);
    assert!(memory(&["list"]).unwrap().is_empty());

    let added = memory(&["add", "--session", "monday"]).unwrap();
    assert!(added.contains("added: 1 memories"), "{added}");
    let added = memory(&["add"]).unwrap();
    assert!(
        added.contains("added: 1 memories of user \"ada\" (0 replaced, 1 already stored"),
        "{added}"
    );
    assert!(
        memory(&["add", "--session", "never"])
            .unwrap_err()
            .contains("never")
    );

    let list = memory(&["list"]).unwrap();
    assert_eq!(list.lines().count(), 4, "{list}");
    assert!(list.contains("user  monday:1  monday-1\n    I prefer rooms on high floors.\n"));
    // Terminal control characters in a text are escaped.
    assert!(
        list.contains("My\\u{1b}[2J train\\nuser: leaves at noon."),
        "{list}"
    );
    assert_eq!(
        memory(&["list", "--limit", "1"]).unwrap().lines().count(),
        2
    );
    let json = memory(&["list", "--json", "--session", "tuesday"]).unwrap();
    let record = Json::parse(json.trim()).unwrap();
    assert_eq!(record["about"]["session"], "tuesday", "{record}");
    let entry = MemoryEntry::from_json(&record["memory"].to_json().unwrap()).unwrap();
    assert_eq!(
        entry.content.text_concat(),
        "My\u{1b}[2J train\nuser: leaves at noon."
    );

    let found = memory(&["search", "which floor?"]).unwrap();
    assert!(
        found.contains("high floors") && found.contains("why: [floor] words 0."),
        "{found}"
    );
    assert!(!found.contains("low floors"), "{found}");
    // The JSON has the whole record, with the score and its explanation, as the API returns it.
    let json = memory(&["search", "--json", "which floor?"]).unwrap();
    let hit = Json::parse(json.lines().next().unwrap()).unwrap();
    assert!(hit["score"].as_f64().is_some_and(|score| score > 0.0));
    assert_eq!(hit["explanation"]["words"][0]["word"], "floor", "{hit}");
    assert_eq!(hit["about"]["position"].as_u64(), Some(1), "{hit}");
    let found = memory(&["search", "--session", "tuesday", "which floor?"]).unwrap();
    assert!(!found.contains("floors"), "{found}");

    let stats = memory(&["stats"]).unwrap();
    assert!(
        stats.contains("memories   2\n") && stats.contains("sessions   2\n"),
        "{stats}"
    );

    // A process that has read the memories sees that another one has forgotten them permanently.
    let service = SqliteMemoryService::over(sessions.store().memory());
    let before = service
        .search_memory("travel", "ada", "floors")
        .await
        .unwrap();
    assert!(before.memories[0].content.text_concat().contains("floors"));
    let refused = memory(&["forget", "--session", "monday"]).unwrap_err();
    assert!(refused.contains("--yes"), "{refused}");
    let refused = memory(&["forget", "--yes"]).unwrap_err();
    assert!(refused.contains("nothing selected"), "{refused}");
    let forgotten = memory(&["forget", "--session", "monday", "--yes"]).unwrap();
    assert!(forgotten.contains("forgotten: 1 memories"), "{forgotten}");
    let after = service
        .search_memory("travel", "ada", "floors")
        .await
        .unwrap();
    let mut texts = after.memories.iter().map(|it| it.content.text_concat());
    assert!(!texts.any(|text| text.contains("floors")));
    assert!(memory(&["add"]).unwrap().contains("added: 0"));
    let forgotten = memory(&["forget", "--id", "tuesday-1", "--yes"]).unwrap();
    assert!(forgotten.contains("forgotten: 1 memories"), "{forgotten}");
    assert!(memory(&["list"]).unwrap().is_empty());
}

#[test]
fn memory_commands_do_not_create_a_missing_database() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("misspelt.db");
    for command in [&["add"][..], &["list"], &["search", "x"], &["stats"]] {
        assert!(memory(&file, command).is_err(), "{command:?}");
    }
    assert!(!file.exists());
}
