//! Random turns with artifacts give the same requests, events, state and files as in ADK. They use
//! `load_artifacts`, files in messages, an agent tool and a final rewind.
//!
//! `RETAIN_SEED` sets the first seed, as a failure prints it; `RETAIN_CASES` sets the number of
//! scripts.

mod script;

use std::{collections::HashSet, sync::Arc};

use retain_core::{
    ArtifactKey, ArtifactService, Content, Event, EventActions, FunctionDeclaration,
    GetSessionConfig, Json, JsonMap, LlmResponse, Part, SessionKey, SessionService as _,
};
use retain_runtime::{
    AgentTool, LlmAgent, LlmAgentBuilder, Runner, SaveFilesAsArtifactsPlugin, ScriptedModel, Tool,
    ToolContext, ToolError, ToolOutput, load_artifacts_tool,
};
use retain_stores::{
    FileArtifactService, FileArtifactStore, InMemoryArtifactService, InMemorySessionService,
};
use retain_testkit::oracle::{Oracle, Reference, is_long, setting};

const SEED: u64 = 20_261_116;
const SCRIPTS: u64 = 150;

/// The situations that the scripts must cover, each with a text that occurs only in it.
const SITUATIONS: [(&str, &str); 11] = [
    ("a file for the model", r#""Artifact photo.png is:""#),
    ("a file as text", "hello w"),
    ("a file that is described", "[Binary artifact: "),
    ("a file without data", "No inline data was provided"),
    ("a name without user:", r#""Artifact portrait is:""#),
    ("a name with user:", r#""Artifact user:shared.txt is:""#),
    ("an invalid call", "INVALID_ARGUMENTS"),
    ("an uploaded file", "[Uploaded Artifact: "),
    (
        "a file without a name",
        r#"[Uploaded Artifact: \"artifact_"#,
    ),
    ("a file that the helper saves", "saved by the helper"),
    ("a rewind", "rewindBeforeInvocationId"),
];

#[tokio::test(flavor = "multi_thread")]
async fn artifact_turns_match_adk() {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/it/artifacts_differential/oracle.py"
    );
    let Some(mut adk) = Oracle::start(Reference::Adk, "differential artifacts", script) else {
        return;
    };
    let given = setting("RETAIN_SEED");
    let count = if is_long() { SCRIPTS * 10 } else { SCRIPTS };
    let count = if given.is_some() { 1 } else { count };
    let count = setting("RETAIN_CASES").unwrap_or(count);
    let seed = given.unwrap_or(SEED);
    println!("{count} scripts from seed {seed}");
    let scripts: Vec<Json> = (seed..seed + count).map(script::script).collect();
    let mut counts = [0; SITUATIONS.len()];
    for ((seed, script), theirs) in (seed..).zip(&scripts).zip(adk.ask_all(&scripts)) {
        let ours = comparable(&play(script).await);
        let theirs = comparable(&move_files_to_messages(&theirs));
        for field in ["requests", "helperRequests", "stored", "state", "files"] {
            assert_same(seed, field, &ours[field], &theirs[field]);
        }
        let text = ours.to_string();
        for (count, (_, words)) in counts.iter_mut().zip(SITUATIONS) {
            *count += usize::from(text.contains(words));
        }
    }
    for (count, (what, _)) in counts.iter().zip(SITUATIONS) {
        println!("{count:5} {what}");
        assert!(
            given.is_some() || *count > 2,
            "fewer than 3 scripts have {what}"
        );
    }
}

/// Fails at the first character that differs, and shows the text around it.
fn assert_same(seed: u64, field: &str, ours: &Json, theirs: &Json) {
    let [ours, theirs] = [ours, theirs].map(|it| it.to_string().chars().collect::<Vec<_>>());
    let same = ours.iter().zip(&theirs).take_while(|(a, b)| a == b);
    let at = same.count();
    let around = |text: &[char]| {
        let end = text.len().min(at + 200);
        text[at.saturating_sub(200)..end].iter().collect::<String>()
    };
    assert!(
        ours == theirs,
        "RETAIN_SEED={seed}: {field}\nours   {}\ntheirs {}",
        around(&ours),
        around(&theirs)
    );
}

fn json<E: std::fmt::Debug>(text: Result<String, E>) -> Json {
    Json::parse(&text.expect("the value is JSON")).expect("the value is JSON")
}

/// Creates a tool that saves a file and returns its metadata.
fn save_tool() -> impl Tool {
    #[derive(Debug)]
    struct SaveTool;

    #[async_trait::async_trait]
    impl Tool for SaveTool {
        fn name(&self) -> &str {
            "save"
        }

        fn declaration(&self) -> Option<FunctionDeclaration> {
            Some(FunctionDeclaration {
                name: Some("save".into()),
                description: Some("Saves a file.".into()),
                ..FunctionDeclaration::default()
            })
        }

        async fn run(&self, ctx: ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
            let name = args["name"].as_str().unwrap();
            let part = Part::text(args["text"].as_str().unwrap());
            let metadata = JsonMap::from([("by", "save")]);
            let version = ctx.save_artifact(name, part, Some(metadata)).await?;
            let saved = ctx.get_artifact_version(name, Some(version)).await?;
            let first = ctx.load_artifact(name, Some(0)).await?;
            let names = ctx.list_artifacts().await?;
            let names = names.into_iter().map(Json::from).collect::<Vec<_>>();
            let mut answer = JsonMap::from([("version", version)]);
            answer.insert("metadata", saved.unwrap().custom_metadata);
            let first = first.map(|first| json(first.to_json()));
            answer.insert("first", first.unwrap_or_default());
            answer.insert("names", names);
            Ok(Json::from(answer).into())
        }
    }
    SaveTool
}

fn scripted_model(replies: &Json) -> Arc<ScriptedModel> {
    let mut model = ScriptedModel::new("gemini-scripted");
    for parts in replies.as_array().unwrap() {
        let parts = parts.as_array().unwrap().iter();
        let parts = parts.map(|part| Part::from_json(&part.to_string()).unwrap());
        let content = Content::new("model", parts.collect());
        model = model.reply(LlmResponse::from_content(content));
    }
    // More replies than any script needs.
    Arc::new((0..50).fold(model, |model, _| model.reply("Done.")))
}

fn agent(name: &str, model: &Arc<ScriptedModel>) -> LlmAgentBuilder {
    LlmAgent::builder(name)
        .model(Arc::clone(model))
        .description(format!("Is {name}."))
        .instruction("Note: {artifact.note.txt?}")
        .tool(load_artifacts_tool())
        .tool(save_tool())
}

async fn play(script: &Json) -> Json {
    let folder = retain_testkit::scratch::folder();
    let artifacts: Arc<dyn ArtifactService> = match script["folder"] == true {
        true => {
            let store = FileArtifactStore::open(folder.path()).unwrap();
            Arc::new(FileArtifactService::over(store))
        }
        false => Arc::new(InMemoryArtifactService::new()),
    };
    let model = scripted_model(&script["replies"]);
    let helper_model = scripted_model(&script["helperReplies"]);
    let helper = agent("helper", &helper_model).build().unwrap();
    let root = agent("agent", &model).tool(AgentTool::new(helper));
    let sessions = Arc::new(InMemorySessionService::new());
    let runner = Runner::builder()
        .app_name("app")
        .agent(root.build().unwrap())
        .session_service(Arc::<InMemorySessionService>::clone(&sessions))
        .artifact_service(Arc::clone(&artifacts))
        .plugin(Arc::new(SaveFilesAsArtifactsPlugin::new()))
        .build()
        .unwrap();
    let key = SessionKey::new("app", "ada", "s1");
    let created = sessions.create_session("app", "ada", None, Some("s1"));
    created.await.unwrap();
    for file in script["files"].as_array().unwrap() {
        let part = Part::from_json(&file["part"].to_string()).unwrap();
        let mut file = ArtifactKey::in_session(&key, file["name"].as_str().unwrap());
        if file.filename == script::SHARED {
            file.session_id = None;
        }
        artifacts.save_artifact(&file, part, None).await.unwrap();
    }
    let mut invocations = Vec::new();
    for parts in script["turns"].as_array().unwrap() {
        let parts = parts.as_array().unwrap().iter();
        let parts = parts.map(|part| Part::from_json(&part.to_string()).unwrap());
        let run = runner.run("ada", Some("s1"), Content::new("user", parts.collect()));
        let run = run.await.unwrap();
        invocations.push(run.invocation_id().to_owned());
        run.collect_events().await.unwrap();
    }
    let before = &invocations[script["rewind"].as_u64().unwrap() as usize];
    runner.rewind("ada", "s1", before).await.unwrap();
    let session = sessions.get_session("app", "ada", "s1", GetSessionConfig::default());
    let session = session.await.unwrap().unwrap();
    let stored = session.events.iter().map(|event| json(event.to_json()));
    let state = session.state.iter();
    let state: JsonMap = state.map(|(key, value)| (key, value.clone())).collect();
    let mut result = JsonMap::from([("stored", stored.collect::<Vec<Json>>())]);
    result.insert("requests", requests(&model));
    result.insert("helperRequests", requests(&helper_model));
    result.insert("state", state);
    result.insert("files", files(&*artifacts, &key).await);
    result.into()
}

/// Returns the requests that a model received.
fn requests(model: &ScriptedModel) -> Vec<Json> {
    let requests = model.requests().into_iter().map(|request| {
        let contents = request.contents.iter().map(|it| json(it.to_json()));
        let tools = request.config.tools.iter().flatten();
        let mut fields = JsonMap::from([("contents", contents.collect::<Vec<_>>())]);
        fields.insert(
            "instruction",
            request.config.system_instruction.clone().unwrap(),
        );
        fields.insert(
            "tools",
            tools.map(|it| json(it.to_json())).collect::<Vec<_>>(),
        );
        fields.into()
    });
    requests.collect()
}

/// Returns each file with its versions and its current content.
async fn files(artifacts: &dyn ArtifactService, session: &SessionKey) -> JsonMap {
    let names = artifacts.list_artifact_keys("app", "ada", Some("s1"));
    let mut files = JsonMap::new();
    for name in names.await.unwrap() {
        let key = ArtifactKey::in_session(session, &name);
        let loaded = artifacts.load_artifact(&key, None).await.unwrap();
        let loaded = loaded.map(|part| json(part.to_json())).unwrap_or_default();
        let versions = artifacts.list_versions(&key).await.unwrap();
        let versions = versions.into_iter().map(Json::from).collect::<Vec<_>>();
        files.insert(name, vec![Json::from(versions), loaded]);
    }
    files
}

/// Moves files from ADK's separate event to the message event. ADK records a message's files in an
/// event before the first agent runs; Retain records them in the message event.
fn move_files_to_messages(theirs: &Json) -> Json {
    const PENDING: &str = "save_files_as_artifacts_plugin:pending_delta";
    let mut theirs = theirs.as_object().unwrap().clone();
    let mut stored: Vec<Json> = Vec::new();
    for event in theirs["stored"].as_array().unwrap() {
        let mut event = Event::from_json(&event.to_string()).unwrap();
        let pending = event.actions.state_delta.remove(PENDING);
        if pending.is_none_or(|pending| pending.is_null()) {
            stored.push(json(event.to_json()));
            continue;
        }
        let message = stored.pop().expect("a message comes first");
        let mut message = Event::from_json(&message.to_string()).unwrap();
        let versions = std::mem::take(&mut event.actions.artifact_delta);
        assert_eq!(
            (event.content(), &event.actions),
            (None, &EventActions::default())
        );
        assert_eq!(message.author, "user");
        message.actions.artifact_delta = versions;
        stored.push(json(message.to_json()));
    }
    theirs.insert("stored", stored);
    let mut state = theirs["state"].as_object().unwrap().clone();
    state.remove(PENDING);
    theirs.insert("state", state);
    theirs.into()
}

/// Returns the result with ids numbered in order of appearance and without times.
fn comparable(result: &Json) -> Json {
    let mut result = result.as_object().unwrap().clone();
    let mut ids: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    let stored = result["stored"].as_array().unwrap().iter();
    let stored: Vec<Json> = stored
        .map(|event| {
            let event = Event::from_json(&event.to_string()).unwrap();
            let calls = event
                .function_calls()
                .into_iter()
                .filter_map(|call| call.id.clone());
            let named = [event.id.clone(), event.invocation_id.clone()];
            ids.extend(
                named
                    .into_iter()
                    .chain(calls)
                    .filter(|id| seen.insert(id.clone())),
            );
            let mut event = json(event.to_json());
            let fields = event.as_object_mut().unwrap();
            fields.remove("timestamp");
            if fields
                .get("nodeInfo")
                .is_some_and(|info| info["path"] == "")
            {
                fields.remove("nodeInfo");
            }
            event
        })
        .collect();
    result.insert("stored", stored);
    // After a rewind, ADK stores `null` for state keys that did not exist before.
    let mut state = result["state"].as_object().unwrap().clone();
    state.retain(|_, value| !value.is_null());
    result.insert("state", state);
    let mut text = Json::from(result).to_string();
    for (number, id) in ids.iter().enumerate() {
        text = text.replace(id, &format!("#{number}#"));
    }
    Json::parse(&text).unwrap()
}
