//! Artifacts in a run: tools and callbacks save them, and instructions quote them.

use std::sync::Arc;

use async_trait::async_trait;
use retain_core::{
    ArtifactAddress, ArtifactError, ArtifactKey, ArtifactNaming, ArtifactService, ArtifactStore,
    ArtifactVersion, Blob, BoxError, Content, EventActions, JsonMap, NewArtifact, Part, SessionKey,
    SessionService, StoreArtifactService, StoredArtifact,
};
use retain_runtime::{
    CallbackContext, FunctionTool, HookResult, Instruction, LlmAgent, Plugin, ReadonlyContext,
    RunError, Runner, SaveFilesAsArtifactsPlugin, ScriptedModel, TemplateError, ToolContext,
    ToolError, load_artifacts_tool,
};
use retain_stores::{InMemoryArtifactService, InMemoryArtifactStore, InMemorySessionService};

use crate::support::{APP, SESSION, USER, call, events_of, runner, services, stored};

#[derive(schemars::JsonSchema, serde::Deserialize)]
struct File {
    name: String,
}

/// Creates a tool that saves a file twice and returns the file names and the newest content.
fn save_tool() -> FunctionTool {
    FunctionTool::new(
        "save",
        "Saves a file.",
        |ctx: ToolContext, file: File| async move {
            ctx.save_artifact(&file.name, Part::text("one"), None)
                .await?;
            let version = ctx
                .save_artifact(&file.name, Part::text("two"), None)
                .await?;
            let loaded = ctx.load_artifact(&file.name, None).await?;
            let saved = ctx.get_artifact_version(&file.name, Some(0)).await?;
            Ok::<_, ToolError>(serde_json::json!({
                "version": version,
                "names": ctx.list_artifacts().await?,
                "text": loaded.and_then(|part| part.text),
                "first": saved.map(|saved| saved.version),
            }))
        },
    )
}

fn saving_agent(model: ScriptedModel) -> LlmAgent {
    let agent = LlmAgent::builder("agent").model(model);
    agent.tool(save_tool()).build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_event_records_the_saved_artifact() {
    for (kind, sessions) in services().await {
        let model = ScriptedModel::new("scripted")
            .reply(call("save", r#"{"name": "a.txt"}"#))
            .reply("Done.");
        let artifacts = Arc::new(InMemoryArtifactService::new());
        let service: Arc<dyn ArtifactService> = artifacts.clone();
        let runner = runner(&sessions, saving_agent(model)).artifact_service(service);
        let runner = runner.build().unwrap();
        runner
            .run(USER, Some(SESSION), "Save it.")
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
        let answered = answered.expect("an event that records the artifact");
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
async fn saving_without_an_artifact_service_fails_with_advice() {
    let sessions: Arc<dyn SessionService> = Arc::new(InMemorySessionService::new());
    let model = ScriptedModel::new("scripted").reply(call("save", r#"{"name": "a.txt"}"#));
    let runner = runner(&sessions, saving_agent(model)).build().unwrap();
    let run = runner.run(USER, Some(SESSION), "Save it.").await.unwrap();
    let error = run.answer().await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("set one with `artifact_service`"), "{text}");
}

/// Runs an agent with this instruction, and returns the instruction that the model receives.
async fn rendered_instruction(
    instruction: Instruction,
    with_service: bool,
) -> Result<String, RunError> {
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
async fn instruction_contains_the_newest_version_of_an_artifact() {
    let text = "<{artifact.a.txt}|{artifact.user:b}|{artifact.none?}>";
    let sent = rendered_instruction(text.into(), true).await.unwrap();
    assert!(sent.contains("<new|shared|>"), "{sent}");

    async fn provide(ctx: ReadonlyContext) -> Result<String, BoxError> {
        Ok(ctx.inject_session_state("<{artifact.a.txt}>").await?)
    }
    let sent = rendered_instruction(Instruction::provider(provide), true)
        .await
        .unwrap();
    assert!(sent.contains("<new>"), "{sent}");
}

#[tokio::test]
async fn missing_artifact_fails_the_run() {
    let error = rendered_instruction("{artifact.none}".into(), true)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, RunError::Template { source: TemplateError::MissingArtifact { name, .. }, .. } if name == "none"),
        "{error:?}"
    );
    for text in ["{artifact.a.txt}", "{artifact.a.txt?}"] {
        let error = rendered_instruction(text.into(), false).await.unwrap_err();
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

/// An artifact store with URIs that models can read. It rejects one name.
#[derive(Debug, Default)]
struct WebArtifactStore(InMemoryArtifactStore);

#[async_trait]
impl ArtifactStore for WebArtifactStore {
    fn naming(&self) -> ArtifactNaming {
        self.0.naming()
    }

    async fn put(&self, address: &ArtifactAddress, new: NewArtifact) -> Result<u64, ArtifactError> {
        match address.name.as_str() {
            "cursed" => Err(ArtifactError::invalid("artifact", "is cursed")),
            _ => self.0.put(address, new).await,
        }
    }

    async fn get(
        &self,
        address: &ArtifactAddress,
        version: Option<u64>,
    ) -> Result<Option<StoredArtifact>, ArtifactError> {
        self.0.get(address, version).await
    }

    async fn versions(
        &self,
        address: &ArtifactAddress,
    ) -> Result<Vec<ArtifactVersion>, ArtifactError> {
        let mut versions = self.0.versions(address).await?;
        for version in &mut versions {
            version.canonical_uri = format!("HTTPS://files/{}", address.name);
        }
        Ok(versions)
    }

    async fn delete(&self, address: &ArtifactAddress) -> Result<(), ArtifactError> {
        self.0.delete(address).await
    }

    async fn list(
        &self,
        app: &str,
        user: &str,
        session: Option<&str>,
    ) -> Result<Vec<String>, ArtifactError> {
        self.0.list(app, user, session).await
    }

    async fn addresses(
        &self,
        after: Option<&ArtifactAddress>,
        limit: usize,
    ) -> Result<Vec<ArtifactAddress>, ArtifactError> {
        self.0.addresses(after, limit).await
    }
}

fn upload(name: &str, size: usize) -> Part {
    Part {
        inline_data: Some(Blob {
            data: Some(vec![7; size].into()),
            display_name: Some(name.to_owned()),
            ..Blob::default()
        }),
        ..Part::default()
    }
}

/// Sends a message with files, and returns the parts that the model receives, one per line. Without
/// an artifact service the files stay in the event, so they are small.
async fn sent_parts(plugin: SaveFilesAsArtifactsPlugin, with_service: bool) -> String {
    let sessions: Arc<dyn SessionService> = Arc::new(InMemorySessionService::new());
    let model = Arc::new(ScriptedModel::new("scripted").reply("Hi."));
    let agent = LlmAgent::builder("agent").model(Arc::clone(&model));
    let mut runner = runner(&sessions, agent.build().unwrap()).plugin(Arc::new(plugin));
    if with_service {
        let web = StoreArtifactService::over(WebArtifactStore::default());
        runner = runner.artifact_service(Arc::new(web));
    }
    let limit = if with_service { 20 * 1024 * 1024 } else { 1 };
    let parts = vec![
        upload("a.bin", limit),
        upload("b.bin", limit + 1),
        upload("cursed", 1),
    ];
    let run = runner.build().unwrap();
    let run = run.run(USER, Some(SESSION), Content::new("user", parts));
    run.await.unwrap().answer().await.unwrap();
    let parts = model.requests()[0].contents[0].parts().to_vec();
    let lines = parts
        .iter()
        .map(|part| match (&part.text, &part.file_data) {
            (Some(text), _) => text.clone(),
            (_, Some(file)) => format!(
                "{:?} {:?}",
                file.file_uri.as_deref().unwrap(),
                file.display_name.as_deref().unwrap()
            ),
            _ => format!("{:?}", part.inline_data.as_ref().unwrap().display_name),
        });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn message_files_are_saved_rejected_or_left_inline() {
    let sent = sent_parts(SaveFilesAsArtifactsPlugin::new(), true).await;
    let expected = "[Uploaded Artifact: \"a.bin\"]
\"HTTPS://files/a.bin\" \"a.bin\"
[Upload Error: File b.bin (20.00 MB) exceeds the maximum supported size of 20MB. Please upload a \
                    smaller file.]
Some(\"cursed\")";
    assert_eq!(sent, expected);
    let plugin = SaveFilesAsArtifactsPlugin::new().with_file_reference(false);
    assert!(!sent_parts(plugin, true).await.contains("HTTPS"));
    let sent = sent_parts(SaveFilesAsArtifactsPlugin::new(), false).await;
    assert_eq!(sent.lines().count(), 3, "{sent}");
    assert!(sent.starts_with("Some(\"a.bin\")"), "{sent}");
}

/// A plugin that answers in place of the agent, so that later plugins are skipped.
#[derive(Debug)]
struct AnsweringPlugin;

#[async_trait]
impl Plugin for AnsweringPlugin {
    fn name(&self) -> &str {
        "answers"
    }

    async fn before_agent(&self, _: &CallbackContext) -> HookResult<Content> {
        Ok(Some(Content::new("model", vec![Part::text("Later.")])))
    }
}

#[tokio::test]
async fn message_event_records_its_saved_files() {
    for (name, sessions) in services().await {
        let artifacts = Arc::new(InMemoryArtifactService::new());
        let agent = LlmAgent::builder("agent").model(ScriptedModel::new("m"));
        let runner = runner(&sessions, agent.build().unwrap()).plugin(Arc::new(AnsweringPlugin));
        let runner = runner.plugin(Arc::new(SaveFilesAsArtifactsPlugin::new()));
        let runner = runner.artifact_service(Arc::<InMemoryArtifactService>::clone(&artifacts));
        let runner = runner.build().unwrap();
        let message = Content::new("user", vec![upload("n.bin", 3)]);
        let run = runner.run(USER, Some(SESSION), message).await.unwrap();
        // So far only the message is stored. A crash here must not lose the file.
        let events = events_of(&stored(&sessions).await);
        let saved: Vec<_> = events
            .iter()
            .map(|event| event.actions.artifact_delta.clone())
            .collect();
        assert_eq!(saved, [JsonMap::from([("n.bin", 0)])], "{name}");
        let id = run.invocation_id().to_owned();
        let events = run.collect_events().await.unwrap();
        let actions: Vec<_> = events.iter().map(|event| &event.actions).collect();
        let none = [&EventActions::default()];
        assert_eq!(actions, none, "{name}: only the message records the file");
        if Arc::clone(&sessions).log().is_some() {
            runner.rewind(USER, SESSION, &id).await.unwrap();
            let key = ArtifactKey::in_session(&SessionKey::new(APP, USER, SESSION), "n.bin");
            let now = artifacts.load_artifact(&key, None).await.unwrap();
            assert_eq!(now, None, "{name}: the rewind removes the file");
        }
    }
}

#[tokio::test]
async fn load_artifacts_callback_transforms_or_drops_a_file() {
    let sessions: Arc<dyn SessionService> = Arc::new(InMemorySessionService::new());
    let artifacts = Arc::new(InMemoryArtifactService::new());
    for name in ["broken", "secret", "user:plain"] {
        let key = ArtifactKey::in_session(&SessionKey::new(APP, USER, SESSION), name);
        let saved = artifacts.save_artifact(&key, Part::text(name), None);
        saved.await.unwrap();
    }
    let tool = load_artifacts_tool().with_processor(|part, name| async move {
        match name.as_str() {
            "broken" => Err("broken".into()),
            "secret" => Ok(None),
            name => Ok(Some(Part::text(format!("{name}: {}", part.text.unwrap())))),
        }
    });
    let names = r#"{"artifact_names": ["broken", "secret", "plain"]}"#;
    let model = ScriptedModel::new("scripted").reply(call("load_artifacts", names));
    let model = Arc::new(model.reply("Done."));
    let agent = LlmAgent::builder("agent").model(Arc::clone(&model));
    let agent = agent.tool(tool).build().unwrap();
    let runner = runner(&sessions, agent).artifact_service(artifacts);
    let run = runner.build().unwrap();
    let run = run.run(USER, Some(SESSION), "Load.").await.unwrap();
    run.answer().await.unwrap();
    let requests = model.requests();
    let contents = &requests[1].contents;
    assert_eq!(contents.len(), 4);
    let parts = contents[3].parts();
    assert_eq!(parts[0].text.as_deref(), Some("Artifact plain is:"));
    assert_eq!(parts[1].text.as_deref(), Some("user:plain: user:plain"));
}
