//! Poisoned memories against the durable service: none escapes its block in the prompt, none
//! reaches another user, and each is traced to its source and removed permanently.
//!
//! The attempts are in `testdata/poisoning.yaml`, which documents its keys.

use std::{collections::HashSet, sync::Arc};

use retain_core::{
    Content, Event, Forget, FunctionResponse, Json, JsonMap, MemoryEntry, MemoryError,
    MemoryFilter, MemoryKind, MemoryOrigin, MemoryService as _, OriginKind, Part, Session,
    SessionService,
};
use retain_memory::{IngestOptions, ListMemories, MemoryHit, MemoryQuery, StoreMemoryService};
use retain_runtime::{
    LlmAgent, LlmRequest, ScriptedModel, Tool, load_memory_tool, preload_memory_tool,
};
use retain_stores::{SqliteMemoryStore, SqliteSessionService};

use crate::support::{APP, call, runner};

type Memory = StoreMemoryService<SqliteMemoryStore>;

const VICTIM: &str = "victim";
const HONEST: &str = "The Lisbon booking is for two nights in May.";
const QUESTION: &str = "What about the Lisbon booking?";
const ATTEMPTS: &str = include_str!("../../testdata/poisoning.yaml");

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempt {
    name: String,
    #[serde(default)]
    by: By,
    text: Option<String>,
    #[serde(default)]
    texts: Vec<String>,
    #[serde(default = "once")]
    repeat: usize,
    #[serde(default = "once")]
    copies: usize,
    author: Option<String>,
    app: Option<String>,
    user: Option<String>,
    id: Option<String>,
    #[serde(default)]
    metadata: serde_json::Map<String, serde_json::Value>,
}

#[derive(serde::Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
enum By {
    #[default]
    User,
    Agent,
    Tool,
    Direct,
}

fn once() -> usize {
    1
}

fn attempts() -> Vec<Attempt> {
    serde_saphyr::from_str(ATTEMPTS).expect("the attempts are as they are described")
}

impl Attempt {
    fn app(&self) -> &str {
        self.app.as_deref().unwrap_or(APP)
    }

    fn user(&self) -> &str {
        self.user.as_deref().unwrap_or(VICTIM)
    }

    /// Whether the attempt is added to the victim's own memories.
    fn is_of_victim(&self) -> bool {
        (self.app(), self.user()) == (APP, VICTIM)
    }

    fn author(&self) -> &str {
        let usual = match self.by {
            By::User => "user",
            By::Agent => "helper",
            By::Tool => "web",
            By::Direct => "",
        };
        self.author.as_deref().unwrap_or(usual)
    }

    /// The author shown to a reader.
    fn label(&self) -> String {
        match self.by {
            By::Tool => format!("{} (tool)", self.author()),
            _ => self.author().to_owned(),
        }
    }

    /// The messages, turn by turn.
    fn said(&self) -> Vec<String> {
        let given = self.text.iter().chain(&self.texts);
        let given = given.map(|text| text.repeat(self.repeat));
        let copies = given.flat_map(|text| {
            let copy = move |n: usize| text.replace('%', &n.to_string());
            (0..self.copies).map(copy)
        });
        copies
            .map(|text| format!("{text} (Lisbon booking)"))
            .collect()
    }

    fn event(&self, text: &str) -> Event {
        if self.by != By::Tool {
            let mut event = Event::user_text(text);
            event.author = self.author().to_owned();
            return event;
        }
        let answer = JsonMap::from([("page", Json::from(text))]);
        let part = Part {
            function_response: Some(FunctionResponse::new("call-1", self.author(), answer)),
            ..Part::default()
        };
        let mut event = Event::user_text("");
        event.author = "helper".to_owned();
        event.response.content = Some(Content::new("user", vec![part]));
        event
    }

    /// Whether a line at the margin of the block belongs to a stored memory: its time, or its
    /// author followed by the start of its text.
    fn may_begin(&self, line: &str) -> bool {
        let plain = |text: &str| -> String {
            let letters = text.chars().take(12);
            letters
                .take_while(|it| it.is_ascii_alphanumeric() || *it == ' ')
                .collect()
        };
        let is_time = |time: &str| time.starts_with("20") && time.len() < 30;
        if line.strip_prefix("Time: ").is_some_and(is_time) || line == format!("user: {HONEST}") {
            return true;
        }
        // A name is on one line and contains no colon; `<` is escaped below.
        let label = self.label().replace([':', '：'], "_").replace('\n', " ");
        let label = label.replace('<', "&lt;");
        let text = match label.is_empty() {
            // Without an author, the line must not look as if it had one.
            true => Some(line.strip_prefix("unknown: ").unwrap_or(line))
                .filter(|text| *text != line || !line.contains(':')),
            false => line.strip_prefix(&format!("{label}: ")),
        };
        let said = self.said();
        text.is_some_and(|text| said.iter().any(|said| text.starts_with(&plain(said))))
    }

    /// Add the attempt to the memory it targets.
    async fn add(&self, memory: &Memory) -> Result<(), MemoryError> {
        if self.by == By::Direct {
            let entries = self.said().into_iter().map(|text| MemoryEntry {
                content: Content::user(text),
                id: Some(self.id.clone().unwrap_or_else(|| "given-1".to_owned())),
                author: self.author.clone(),
                custom_metadata: Json::from(serde_json::Value::from(self.metadata.clone()))
                    .as_object()
                    .cloned()
                    .unwrap_or_default(),
                ..MemoryEntry::default()
            });
            let entries: Vec<MemoryEntry> = entries.collect();
            return memory
                .add_memory(self.app(), self.user(), &entries, None)
                .await;
        }
        let mut session = Session::new(self.app(), self.user(), self.name.as_str());
        for (position, text) in (1..).zip(self.said()) {
            let mut event = self.event(&text);
            event.id = format!("poison-{position}");
            session.events.push(position, event);
        }
        let options = IngestOptions::default().with_tool_responses(true);
        memory.add_session_with(&session, &options).await.map(drop)
    }

    /// The filter that removes the attempt by its source.
    fn forget(&self) -> Forget {
        match self.by {
            By::User | By::Agent => Forget::session(self.name.as_str()),
            By::Tool => Forget::tool(self.author()),
            By::Direct => Forget::Matching(MemoryFilter::default().with_kind(MemoryKind::Direct)),
        }
    }
}

/// A database with an honest memory of the victim and of two other users.
struct Scene {
    sessions: SqliteSessionService,
    memory: Memory,
    folder: tempfile::TempDir,
}

/// Users who are not the victim, and whose memories must not change.
const OTHERS: [(&str, &str); 2] = [(APP, "grace"), ("bank", VICTIM)];

impl Scene {
    async fn new() -> Scene {
        let folder = retain_testkit::scratch::folder();
        let (sessions, memory) = Scene::open(&folder).await;
        for (app, user) in OTHERS.into_iter().chain([(APP, VICTIM)]) {
            let mut session = Session::new(app, user, "honest");
            let mut event = Event::user_text(HONEST);
            event.id = "honest-1".to_owned();
            session.events.push(1, event);
            memory.add_session_to_memory(&session).await.unwrap();
        }
        Scene {
            sessions,
            memory,
            folder,
        }
    }

    async fn open(folder: &tempfile::TempDir) -> (SqliteSessionService, Memory) {
        let file = folder.path().join("sessions.db");
        let uri = format!("sqlite:///{}", file.display());
        let sessions = SqliteSessionService::connect(&uri).await.unwrap();
        let memory = StoreMemoryService::over(sessions.store().memory());
        (sessions, memory)
    }

    /// Reopen the same file without any in-memory state.
    async fn reopened(self) -> Scene {
        drop((self.sessions, self.memory));
        let (sessions, memory) = Scene::open(&self.folder).await;
        Scene {
            sessions,
            memory,
            folder: self.folder,
        }
    }

    /// Return the requests the model receives when the victim asks.
    async fn asked(&self, model: ScriptedModel, tool: impl Tool + 'static) -> Vec<Arc<LlmRequest>> {
        let model = Arc::new(model);
        let agent = LlmAgent::builder("helper").model(Arc::clone(&model));
        let agent = agent.instruction("You help.").tool(tool).build().unwrap();
        let sessions: Arc<dyn SessionService> = Arc::new(self.sessions.clone());
        let runner = runner(&sessions, agent);
        let runner = runner.memory_service(Arc::new(self.memory.clone()));
        let runner = runner.build().unwrap();
        let run = runner.run(VICTIM, None, QUESTION).await.unwrap();
        run.collect_events().await.unwrap();
        model.requests()
    }

    async fn found(&self, app: &str, user: &str) -> Vec<MemoryHit> {
        let search = MemoryQuery::new(QUESTION).with_limit(1000);
        let found = self.memory.search_memory_with(app, user, search).await;
        found.unwrap()
    }

    /// Return all stored memories of a user as texts.
    async fn kept(&self, app: &str, user: &str) -> Vec<String> {
        let list = ListMemories::default().with_limit(10_000);
        let page = self.memory.list(app, user, list).await.unwrap();
        let texts = page.memories.iter().map(|it| it.content.text_concat());
        texts.collect()
    }
}

/// Normalize the text as a reader sees it: replace look-alike letters and drop zero-width
/// characters. Duplicated here on purpose, because it checks the code.
fn as_it_looks(text: &str) -> String {
    use unicode_normalization::UnicodeNormalization as _;
    let looks = |letter: char| match letter {
        '‹' | '〈' | '❮' | '⟨' => '<',
        'Р' | 'Ρ' => 'P',
        'А' | 'Α' => 'A',
        'Ѕ' => 'S',
        'Т' | 'Τ' => 'T',
        'С' => 'C',
        'О' | 'Ο' => 'O',
        'Ν' => 'N',
        'Е' | 'Ε' => 'E',
        'І' | 'Ι' => 'I',
        it => it.to_ascii_uppercase(),
    };
    let letters = text.nfkd().map(looks);
    letters
        .filter(|it| it.is_ascii_alphabetic() || *it == '<')
        .collect()
}

/// Return the lines that start at the margin, for every kind of line break.
fn lines_at_the_margin(block: &str) -> impl Iterator<Item = &str> {
    let ends = [
        '\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}',
    ];
    let lines = block.split(ends).filter(|line| !line.is_empty());
    lines.filter(|line| !line.starts_with("  "))
}

/// Return the text of all parts.
fn text_of(content: &Content) -> String {
    let texts = content.parts().iter().filter_map(|it| it.text.as_deref());
    texts.collect()
}

#[test]
fn injection_attempts_are_numerous_and_distinct() {
    let attempts = attempts();
    assert!(attempts.len() >= 60, "{}", attempts.len());
    let names: HashSet<&str> = attempts.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names.len(), attempts.len());
    assert!(attempts.iter().all(|it| !it.said().is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn injected_text_stays_inside_the_preloaded_block() {
    for attempt in attempts().iter().filter(|it| it.is_of_victim()) {
        let scene = Scene::new().await;
        attempt.add(&scene.memory).await.unwrap();
        let model = ScriptedModel::new("scripted").reply("Fine.");
        let requests = scene.asked(model, preload_memory_tool(10)).await;
        let request = &requests[0];
        let name = &attempt.name;
        let [block, question] = request.contents.as_slice() else {
            panic!("{name}: {} contents", request.contents.len());
        };
        assert_eq!(text_of(question), QUESTION, "{name}");
        assert_eq!(block.role.as_deref(), Some("user"), "{name}");
        let instruction =
            Json::from(serde_json::to_value(&request.config.system_instruction).unwrap());
        assert_eq!(instruction.to_string().matches("You help.").count(), 1);
        assert!(!instruction.to_string().contains("Lisbon"), "{name}");
        let text = text_of(block);
        let inner = text
            .split_once("<PAST_CONVERSATIONS>\n")
            .expect("the block is opened")
            .1;
        let inner = inner.strip_suffix("\n</PAST_CONVERSATIONS>\n");
        let inner = inner.unwrap_or_else(|| panic!("{name}: the block does not end it: {text}"));
        let looks = as_it_looks(inner);
        assert!(!looks.contains("<PASTCONVERSATIONS"), "{name}: {inner}");
        for mark in ["_QUOTED_AGENT_CONTENT>>>", "_SYSTEM_INSTRUCTION>>>"] {
            assert!(!inner.contains(mark), "{name}: {inner}");
        }
        for line in lines_at_the_margin(inner) {
            assert!(
                attempt.may_begin(line),
                "{name} passes for a memory: {line}"
            );
        }
        assert!(
            inner.contains(HONEST),
            "{name} hides the honest: {inner:.300}"
        );
        let is_there = inner.matches("booking)").count() > 0 || inner.contains('…');
        assert!(is_there, "{name} was not tried: {inner:.300}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn injected_text_stays_inside_the_tool_response() {
    for attempt in attempts().iter().filter(|it| it.is_of_victim()) {
        let scene = Scene::new().await;
        attempt.add(&scene.memory).await.unwrap();
        let query = call("load_memory", r#"{"query": "Lisbon booking"}"#);
        let model = ScriptedModel::new("scripted").reply(query).reply("Fine.");
        let requests = scene.asked(model, load_memory_tool()).await;
        let name = &attempt.name;
        let [question, asked, answer] = requests[1].contents.as_slice() else {
            panic!("{name}: {} contents", requests[1].contents.len());
        };
        assert_eq!(text_of(question), QUESTION, "{name}");
        assert!(asked.parts()[0].function_call.is_some(), "{name}");
        let [part] = answer.parts() else {
            panic!("{name}: {} parts", answer.parts().len());
        };
        assert!(part.text.is_none(), "{name}");
        let response = part.function_response.as_ref().unwrap();
        assert_eq!(response.name.as_deref(), Some("load_memory"), "{name}");
        let response = Json::from(response.response.clone().unwrap());
        let memories = response["result"]["memories"].as_array().unwrap();
        let texts = memories.iter().map(|it| &it["content"]["parts"][0]["text"]);
        let texts: Vec<&str> = texts.filter_map(Json::as_str).collect();
        assert!(texts.contains(&HONEST), "{name} hides the honest");
        // The author is the real one, whatever the text or the metadata claims.
        let poison = memories
            .iter()
            .find(|it| it["content"]["parts"][0]["text"] != HONEST);
        let author = poison.unwrap_or_else(|| panic!("{name} was not tried"))["author"].as_str();
        assert_eq!(author.unwrap_or_default(), attempt.label(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn injected_text_does_not_reach_other_users() {
    let scene = Scene::new().await;
    for attempt in attempts() {
        let added = attempt.add(&scene.memory).await;
        // Names that no store can hold are rejected; all others are ingested.
        let refused = matches!(added, Err(MemoryError::InvalidInput { .. }));
        assert!(added.is_ok() || refused, "{}: {added:?}", attempt.name);
        assert!(!(attempt.is_of_victim() && refused), "{}", attempt.name);
        for (app, user) in OTHERS {
            let found = scene.found(app, user).await;
            assert_eq!(found.len(), 1, "{}", attempt.name);
            assert_eq!(found[0].entry.content.text_concat(), HONEST);
            assert_eq!(scene.kept(app, user).await, [HONEST], "{}", attempt.name);
        }
        if !attempt.is_of_victim() {
            let texts = scene.kept(APP, VICTIM).await;
            let said = attempt.said();
            assert!(
                !texts.iter().any(|it| said.contains(it)),
                "{}",
                attempt.name
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn injected_memory_is_traced_to_its_origin_and_deleted_permanently() {
    for attempt in attempts().iter().filter(|it| it.is_of_victim()) {
        let (mut scene, name) = (Scene::new().await, &attempt.name);
        attempt.add(&scene.memory).await.unwrap();
        let said = attempt.said();
        let is_poison = |it: &MemoryHit| said.contains(&it.entry.content.text_concat());
        let found = scene.found(APP, VICTIM).await;
        let hit = found.iter().find(|it| is_poison(it));
        trace(
            attempt,
            hit.unwrap_or_else(|| panic!("{name} is not found")),
        );

        let receipt = scene.memory.forget(APP, VICTIM, attempt.forget()).await;
        let memories = if attempt.by == By::Direct {
            1
        } else {
            said.len()
        };
        assert_eq!(receipt.unwrap().memories, memories as u64, "{name}");
        for round in ["forgotten", "added again", "reopened", "added again there"] {
            match round {
                "reopened" => scene = scene.reopened().await,
                "forgotten" => {}
                _ => attempt.add(&scene.memory).await.unwrap(),
            }
            let found = scene.found(APP, VICTIM).await;
            assert!(!found.iter().any(is_poison), "{name} is back when {round}");
            assert_eq!(scene.kept(APP, VICTIM).await, [HONEST], "{name}, {round}");
        }
    }
}

/// Check that a hit names its source.
fn trace(attempt: &Attempt, hit: &MemoryHit) {
    let (about, name) = (&hit.info, &attempt.name);
    assert_eq!(
        about.author.as_deref().unwrap_or_default(),
        attempt.author(),
        "{name}"
    );
    let origin = match attempt.by {
        By::User => OriginKind::Person,
        By::Agent => OriginKind::Agent,
        By::Tool => OriginKind::Tool,
        By::Direct => OriginKind::Direct,
    };
    assert_eq!(about.origin.kind(), origin, "{name}");
    if let MemoryOrigin::Tool { name: tool } = &about.origin {
        assert_eq!(tool, attempt.author());
    }
    match attempt.by {
        By::Direct => assert_eq!(
            (about.session.as_deref(), about.position),
            (None, 0),
            "{name}"
        ),
        _ => {
            assert_eq!(about.session.as_deref(), Some(name.as_str()));
            let said = attempt.said();
            let here = &said[about.position as usize - 1];
            assert_eq!(&hit.entry.content.text_concat(), here, "{name}");
            let event = format!("poison-{}", about.position);
            assert_eq!(about.event_id, Some(event), "{name}");
        }
    }
}
