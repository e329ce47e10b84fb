//! Rewind through the runner: the next run does not see the rewound events.

use std::sync::Arc;

use retain_core::{
    ArtifactKey, ArtifactService, JsonMap, Part, Rewind, SessionError, SessionKey, SessionService,
};
use retain_runtime::{
    FunctionTool, LlmAgent, RunError, Runner, ScriptedModel, ToolContext, ToolError,
};

use retain_stores::{FileArtifactService, FileArtifactStore, InMemoryArtifactService};

use crate::support::{APP, SESSION, USER, call, runner, services, stored};
use crate::without_log::WithoutLog;

#[derive(schemars::JsonSchema, serde::Deserialize)]
struct Note {
    text: String,
}

fn note() -> FunctionTool {
    FunctionTool::new(
        "note",
        "Notes.",
        |ctx: ToolContext, note: Note| async move {
            ctx.state().set("noted", note.text);
            ctx.state().set("user:has_notes", true);
            Ok::<_, ToolError>(serde_json::json!({"ok": true}))
        },
    )
}

async fn turn(runner: &Runner, text: &str) -> String {
    let run = runner.run(USER, Some(SESSION), text).await.unwrap();
    let id = run.invocation_id().to_owned();
    run.collect_events().await.unwrap();
    id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn next_run_does_not_see_rewound_events() {
    for (name, sessions) in services().await {
        let model = ScriptedModel::new("scripted")
            .reply(call("note", r#"{"text": "first"}"#))
            .reply("Noted the first.")
            .reply(call("note", r#"{"text": "second"}"#))
            .reply("Noted the second.")
            .reply("The first.");
        let model = Arc::new(model);
        let agent = LlmAgent::builder("assistant")
            .model(Arc::clone(&model))
            .instruction("Noted: {noted?}")
            .tool(note());
        let runner = runner(&sessions, agent.build().unwrap()).build().unwrap();
        turn(&runner, "Note the first.").await;
        let second = turn(&runner, "Note the second.").await;
        assert_eq!(stored(&sessions).await.state["noted"], "second", "{name}");

        let event = runner.rewind(USER, SESSION, &second).await.unwrap();
        let target = event.actions.rewind_before_invocation_id.as_deref();
        assert_eq!(target, Some(second.as_str()), "{name}");
        let session = stored(&sessions).await;
        assert_eq!(session.state["noted"], "first", "{name}");
        assert_eq!(session.state["user:has_notes"], true, "{name}");
        assert_eq!(session.events.len(), 9, "{name}: nothing is removed");

        turn(&runner, "What did you note?").await;
        let requests = model.requests();
        let last = requests.last().unwrap();
        let texts: Vec<String> = last
            .contents
            .iter()
            .map(|content| content.text_concat())
            .collect();
        let expected = [
            "Note the first.",
            "",
            "",
            "Noted the first.",
            "What did you note?",
        ];
        assert_eq!(texts, expected, "{name}");
        let instruction = last.config.system_instruction.as_deref().unwrap();
        assert!(
            instruction.contains("Noted: first"),
            "{name}: {instruction}"
        );
    }
}

#[derive(schemars::JsonSchema, serde::Deserialize)]
struct File {
    name: String,
    text: String,
}

/// Creates a tool that saves a file.
fn save_tool() -> FunctionTool {
    FunctionTool::new(
        "save",
        "Saves a file.",
        |ctx: ToolContext, file: File| async move {
            let part = Part::text(file.text);
            let version = ctx.save_artifact(&file.name, part, None).await?;
            Ok::<_, ToolError>(serde_json::json!({"version": version}))
        },
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn next_run_sees_the_restored_artifacts() {
    for (name, sessions) in services().await {
        let folder = retain_testkit::scratch::folder();
        let store = FileArtifactStore::open(folder.path()).unwrap();
        let in_folder: Arc<dyn ArtifactService> = Arc::new(FileArtifactService::over(store));
        for (number, artifacts) in [in_folder, Arc::new(InMemoryArtifactService::new())]
            .into_iter()
            .enumerate()
        {
            let session = format!("s{number}");
            assert_files_are_restored(&sessions, &artifacts, &session, name).await;
        }
    }
}

async fn assert_files_are_restored(
    sessions: &Arc<dyn SessionService>,
    artifacts: &Arc<dyn ArtifactService>,
    session: &str,
    name: &str,
) {
    let model = ScriptedModel::new("scripted")
        .reply(call("save", r#"{"name": "a.txt", "text": "first"}"#))
        .reply("Saved.")
        .reply(call("save", r#"{"name": "a.txt", "text": "second"}"#))
        .reply(call("save", r#"{"name": "b.txt", "text": "new"}"#))
        .reply(call("save", r#"{"name": "user:c.txt", "text": "mine"}"#))
        .reply("Saved.")
        .reply("Seen.");
    let model = Arc::new(model);
    let agent = LlmAgent::builder("assistant")
        .model(Arc::clone(&model))
        .instruction("<{artifact.a.txt?}|{artifact.b.txt?}|{artifact.user:c.txt?}>")
        .tool(save_tool());
    let runner = runner(sessions, agent.build().unwrap());
    let runner = runner.artifact_service(Arc::clone(artifacts));
    let runner = runner.build().unwrap();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let run = runner.run(USER, Some(session), "Save.").await.unwrap();
        ids.push(run.invocation_id().to_owned());
        run.collect_events().await.unwrap();
    }
    let event = runner.rewind(USER, session, &ids[1]).await.unwrap();
    let expected = JsonMap::from([("a.txt", 2), ("b.txt", 1)]);
    assert_eq!(event.actions.artifact_delta, expected, "{name}");
    let run = runner.run(USER, Some(session), "Look.").await.unwrap();
    run.collect_events().await.unwrap();
    let requests = model.requests();
    let instruction = requests.last().unwrap().config.system_instruction.clone();
    let instruction = instruction.unwrap();
    assert!(
        instruction.contains("<first||mine>"),
        "{name}: {instruction}"
    );
    let key = ArtifactKey::in_session(&SessionKey::new(APP, USER, session), "b.txt");
    assert_eq!(artifacts.list_versions(&key).await.unwrap(), [0, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rewind_of_an_unknown_run_is_not_found() {
    for (name, sessions) in services().await {
        let model = ScriptedModel::new("scripted").reply("Hello.");
        let agent = LlmAgent::builder("assistant").model(model).build().unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        turn(&runner, "Hi").await;
        let refused = runner.rewind(USER, SESSION, "e-unknown").await;
        assert!(
            matches!(
                refused,
                Err(RunError::Session(SessionError::InvocationNotFound { .. }))
            ),
            "{name}: {refused:?}"
        );
        let missing = runner.rewind(USER, "elsewhere", "e-unknown").await;
        assert!(
            matches!(
                missing,
                Err(RunError::Session(SessionError::NotFound { .. }))
            ),
            "{name}: {missing:?}"
        );
        assert_eq!(stored(&sessions).await.events.len(), 2, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rewind_without_a_session_log_is_unsupported() {
    let sessions: Arc<dyn SessionService> = Arc::new(WithoutLog::default());
    let model = ScriptedModel::new("scripted").reply("Hello.");
    let agent = LlmAgent::builder("assistant").model(model).build().unwrap();
    let runner = runner(&sessions, agent).build().unwrap();
    let first = turn(&runner, "Hi").await;
    let refused = runner.rewind(USER, SESSION, &first).await.unwrap_err();
    let expected = "a session service without a log does not support rewinding";
    assert_eq!(refused.to_string(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rewind_from_inside_a_run_is_rejected() {
    for (name, sessions) in services().await {
        let inner = ScriptedModel::new("scripted").reply("Hello.");
        let inner = LlmAgent::builder("inner").model(inner).build().unwrap();
        let other = runner(&sessions, inner).build().unwrap();
        let tool = FunctionTool::new("undo", "Undoes.", move |ctx: ToolContext, _: Note| {
            let other = other.clone();
            async move {
                let rewind = Rewind::before("e-any").with_options(ctx.run_options());
                let refused = other.rewind_with(USER, SESSION, rewind).await;
                let nested = SessionError::NestedRun {
                    key: SessionKey::new("app", USER, SESSION),
                };
                let error = refused.map_or_else(|error| error.to_string(), |_| String::new());
                let is_refused = error == nested.to_string();
                Ok::<_, ToolError>(serde_json::json!({"is_refused": is_refused}))
            }
        });
        let model = ScriptedModel::new("scripted")
            .reply(call("undo", r#"{"text": ""}"#))
            .reply("Done.");
        let agent = LlmAgent::builder("assistant").model(model).tool(tool);
        let runner = runner(&sessions, agent.build().unwrap()).build().unwrap();
        turn(&runner, "Undo").await;
        let session = stored(&sessions).await;
        let answer = session.events.get(2).unwrap().function_responses()[0].clone();
        assert_eq!(answer.response.unwrap()["is_refused"], true, "{name}");
    }
}
