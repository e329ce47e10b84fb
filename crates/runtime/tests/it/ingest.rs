//! What runs say is remembered by itself, where the runner is told so.

use std::sync::Arc;

use retain_core::MemoryService;
use retain_memory::StoreMemoryService;
use retain_runtime::{LlmAgent, Runner, ScriptedModel};
use retain_sessions::InMemoryMemoryStore;

use crate::support::{APP, SESSION, USER, runner, services};

async fn found(memory: &dyn MemoryService, query: &str) -> Vec<String> {
    let found = memory.search_memory(APP, USER, query).await;
    let found = found.expect("the memory can be searched");
    let texts = found.memories.iter();
    texts.map(|memory| memory.content.text_concat()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_remembered_when_they_are_over() {
    for ingests in [true, false] {
        for (name, sessions) in services().await {
            let model = ScriptedModel::new("scripted")
                .reply("Noted: swordfish.")
                .reply("Noted: marlin.");
            let agent = LlmAgent::builder("clerk").model(model).build().unwrap();
            let memory = StoreMemoryService::over(InMemoryMemoryStore::default());
            let runner = runner(&sessions, agent)
                .memory_service(Arc::new(memory.clone()))
                .ingest_after_turns(ingests)
                .build()
                .unwrap();
            for word in ["swordfish", "marlin"] {
                let run = runner.run(USER, Some(SESSION), format!("Note {word}!"));
                run.await.unwrap().answer().await.unwrap();
                runner.flush_memory().await;
                // What was said around it may be found too, but not before it.
                let mut texts = found(&memory, word).await;
                texts.truncate(2);
                texts.sort();
                let said = [format!("Note {word}!"), format!("Noted: {word}.")];
                let expected = if ingests { &said[..] } else { &[] };
                assert_eq!(texts, expected, "{name}");
            }
            runner.close().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_cannot_remember_without_a_memory() {
    let model = ScriptedModel::new("scripted");
    let agent = LlmAgent::builder("clerk").model(model).build().unwrap();
    let (_, sessions) = services().await.remove(0);
    let built = Runner::builder()
        .app_name(APP)
        .agent(agent)
        .session_service(sessions)
        .ingest_after_turns(true)
        .build();
    assert!(built.unwrap_err().to_string().contains("memory_service"));
}
