//! Ingests a growing session again after each new event, with events of every kind. Only the new
//! events become memories.

use retain_core::{
    Blob, Content, Event, EventActions, EventCompaction, FunctionCall, FunctionResponse, Json,
    JsonMap, Part, SessionKey, SessionLog as _, SessionService as _,
};
use retain_memory::{IngestOptions, ListMemories, StoreMemoryService};
use retain_stores::SqliteSessionService;

use super::receipt;

fn model_event(parts: Vec<Part>) -> Event {
    let mut event = Event::model_text("bot", "");
    event.response.content = Some(Content::new("model", parts));
    event
}

/// Returns events, each with the number of memories that it should create.
fn events_with_counts() -> Vec<(Event, u64)> {
    let mut partial = Event::model_text("bot", "half");
    partial.response.partial = Some(true);
    let call = Part {
        function_call: Some(FunctionCall::new("web", Json::from(JsonMap::new()))),
        ..Part::default()
    };
    let page: JsonMap = [("page".to_owned(), Json::from("a page"))]
        .into_iter()
        .collect();
    let response = Part {
        function_response: Some(FunctionResponse::new("c1", "web", page)),
        ..Part::default()
    };
    let picture = Part {
        inline_data: Some(Blob::default()),
        ..Part::default()
    };
    let summary = Event {
        author: "user".to_owned(),
        actions: EventActions {
            compaction: Some(EventCompaction {
                compacted_content: Content::model("a summary"),
                ..EventCompaction::default()
            }),
            ..EventActions::default()
        },
        ..Event::default()
    };
    vec![
        (Event::user_text("one"), 1),
        (partial, 0),
        (model_event(vec![call.clone()]), 0),
        (model_event(vec![response]), 1),
        (
            model_event(vec![Part::text("two"), call, picture.clone()]),
            1,
        ),
        (model_event(vec![picture]), 0),
        (summary, 0),
        (Event::user_text("three"), 1),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn only_new_events_of_a_growing_session_are_ingested() {
    let sessions = SqliteSessionService::connect("sqlite::memory:").await;
    let sessions = sessions.unwrap();
    let memory = StoreMemoryService::over(sessions.store().memory());
    let options = IngestOptions::default().with_tool_responses(true);
    let created = sessions.create_session("app", "ada", None, Some("s1"));
    let mut live = created.await.unwrap();
    let mut all = 0;
    for (number, (mut event, new)) in events_with_counts().into_iter().enumerate() {
        event.invocation_id = format!("i{number}");
        sessions.append_event(&mut live, event).await.unwrap();
        let stored = sessions
            .get_session("app", "ada", "s1", Default::default())
            .await;
        let stored = stored.unwrap().unwrap();
        for new in [new, 0] {
            let added = memory.add_session_with(&stored, &options).await;
            assert_eq!(added.unwrap(), receipt(new, 0, all), "event {number}");
            all += new;
        }
    }
    // A rewind deletes no memories, because the events stay in the log.
    let key = SessionKey::new("app", "ada", "s1");
    sessions.rewind(&key, "i4").await.unwrap();
    let stored = sessions
        .get_session("app", "ada", "s1", Default::default())
        .await;
    let stored = stored.unwrap().unwrap();
    let added = memory.add_session_with(&stored, &options).await.unwrap();
    assert_eq!((added.unchanged, added.added), (all, 0));
    let page = memory.list("app", "ada", ListMemories::default()).await;
    let texts: Vec<String> = page
        .unwrap()
        .memories
        .iter()
        .map(|it| it.content.text_concat())
        .collect();
    assert_eq!(texts, ["one", "a page", "two", "three"]);
}
