//! Artifacts in a run: tools and callbacks keep them, instructions quote them.

use std::sync::Arc;

use retain_core::{ArtifactKey, ArtifactService, BoxError, Part, SessionKey, SessionService};
use retain_runtime::{
    FunctionTool, Instruction, LlmAgent, ReadonlyContext, RunError, Runner, ScriptedModel,
    TemplateError, ToolContext, ToolError,
};
use retain_sessions::{InMemoryArtifactService, InMemorySessionService};

use crate::support::{APP, SESSION, USER, call, runner, services, stored};

#[derive(schemars::JsonSchema, serde::Deserialize)]
struct File {
    name: String,
}

/// A tool that saves a file twice and says which files there are and what the newest holds.
fn keeper() -> FunctionTool {
    FunctionTool::new(
        "keep",
        "Keeps a file.",
        |ctx: ToolContext, file: File| async move {
            ctx.save_artifact(&file.name, Part::text("one"), None)
                .await?;
            let version = ctx
                .save_artifact(&file.name, Part::text("two"), None)
                .await?;
            let loaded = ctx.load_artifact(&file.name, None).await?;
            let about = ctx.get_artifact_version(&file.name, Some(0)).await?;
            Ok::<_, ToolError>(serde_json::json!({
                "version": version,
                "names": ctx.list_artifacts().await?,
                "text": loaded.and_then(|part| part.text),
                "first": about.map(|about| about.version),
            }))
        },
    )
}

fn keeping_agent(model: ScriptedModel) -> LlmAgent {
    let agent = LlmAgent::builder("agent").model(model);
    agent.tool(keeper()).build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tool_saves_is_kept_and_told_by_its_event() {
    for (kind, sessions) in services().await {
        let model = ScriptedModel::new("scripted")
            .reply(call("keep", r#"{"name": "a.txt"}"#))
            .reply("Done.");
        let artifacts = Arc::new(InMemoryArtifactService::new());
        let service: Arc<dyn ArtifactService> = artifacts.clone();
        let runner = runner(&sessions, keeping_agent(model)).artifact_service(service);
        let runner = runner.build().unwrap();
        runner
            .run(USER, Some(SESSION), "Keep it.")
            .await
            .unwrap()
            .answer()
            .await
            .unwrap();
        let session = stored(&sessions).await;
        let answered = session
            .events
            .iter()
            .find(|event| !event.actions.artifact_delta.is_empty());
        let answered = answered.expect("an event that tells of the artifact");
        assert_eq!(answered.actions.artifact_delta["a.txt"], 1, "{kind}");
        let content = answered.content().unwrap();
        let response = content
            .function_responses()
            .next()
            .unwrap()
            .response
            .clone()
            .unwrap();
        assert_eq!(response["version"], 1, "{kind}");
        assert_eq!(response["names"][0], "a.txt");
        assert_eq!(response["text"], "two");
        assert_eq!(response["first"], 0);
        let key = ArtifactKey::in_session(&SessionKey::new(APP, USER, SESSION), "a.txt");
        assert_eq!(artifacts.list_versions(&key).await.unwrap(), [0, 1]);
    }
}

#[tokio::test]
async fn without_a_service_a_tool_is_told_what_to_do() {
    let sessions: Arc<dyn SessionService> = Arc::new(InMemorySessionService::new());
    let model = ScriptedModel::new("scripted").reply(call("keep", r#"{"name": "a.txt"}"#));
    let runner = runner(&sessions, keeping_agent(model)).build().unwrap();
    let run = runner.run(USER, Some(SESSION), "Keep it.").await.unwrap();
    let error = run.answer().await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("give the runner one with `artifact_service`"),
        "{text}"
    );
}

async fn instructed(instruction: Instruction, with_service: bool) -> Result<String, RunError> {
    let sessions: Arc<dyn SessionService> = Arc::new(InMemorySessionService::new());
    let artifacts = InMemoryArtifactService::new();
    let session = SessionKey::new(APP, USER, SESSION);
    for (name, text) in [("a.txt", "old"), ("a.txt", "new"), ("user:b", "shared")] {
        let key = ArtifactKey::in_session(&session, name);
        artifacts
            .save_artifact(&key, Part::text(text), None)
            .await
            .unwrap();
    }
    let model = Arc::new(ScriptedModel::new("scripted").reply("Hi."));
    let agent = LlmAgent::builder("agent")
        .model(Arc::clone(&model))
        .instruction(instruction);
    let mut runner = runner(&sessions, agent.build().unwrap());
    if with_service {
        runner = runner.artifact_service(Arc::new(artifacts));
    }
    let runner: Runner = runner.build().unwrap();
    runner
        .run(USER, Some(SESSION), "Hello")
        .await?
        .answer()
        .await?;
    let sent = model.requests()[0].config.system_instruction.clone();
    Ok(sent.unwrap_or_default().to_string())
}

#[tokio::test]
async fn instructions_quote_the_newest_version() {
    let text = "<{artifact.a.txt}|{artifact.user:b}|{artifact.none?}>";
    let sent = instructed(text.into(), true).await.unwrap();
    assert!(sent.contains("<new|shared|>"), "{sent}");

    async fn provide(ctx: ReadonlyContext) -> Result<String, BoxError> {
        Ok(ctx.inject_session_state("<{artifact.a.txt}>").await?)
    }
    let sent = instructed(Instruction::provider(provide), true)
        .await
        .unwrap();
    assert!(sent.contains("<new>"), "{sent}");
}

#[tokio::test]
async fn an_artifact_that_is_not_there_fails_the_run() {
    let error = instructed("{artifact.none}".into(), true)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, RunError::Template { source: TemplateError::MissingArtifact { name, .. }, .. } if name == "none"),
        "{error:?}"
    );
    for text in ["{artifact.a.txt}", "{artifact.a.txt?}"] {
        let error = instructed(text.into(), false).await.unwrap_err();
        assert!(
            matches!(
                &error,
                RunError::Template {
                    source: TemplateError::NoArtifactService { .. },
                    ..
                }
            ),
            "{error:?}"
        );
    }
}
