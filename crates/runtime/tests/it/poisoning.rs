//! Memories with injected text, in the durable service: the text stays inside its block in the
//! prompt, does not reach other users, and can be traced to its source and deleted permanently.
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
/// An honest memory, without injected text.
const HONEST: &str = "The Lisbon booking is for two nights in May.";
const QUESTION: &str = "What about the Lisbon booking?";
const ATTEMPTS: &str = include_str!("../../testdata/poisoning.yaml");

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempt {
    name: String,
    #[serde(default)]
    by: Source,
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
enum Source {
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
    serde_saphyr::from_str(ATTEMPTS).expect("valid attempts")
}

impl Attempt {
    fn app(&self) -> &str {
        self.app.as_deref().unwrap_or(APP)
    }

    fn user(&self) -> &str {
        self.user.as_deref().unwrap_or(VICTIM)
    }

    /// Whether the attempt targets the victim's own memories.
    fn is_of_victim(&self) -> bool {
        (self.app(), self.user()) == (APP, VICTIM)
    }

    fn author(&self) -> &str {
        let usual = match self.by {
            Source::User => "user",
            Source::Agent => "helper",
            Source::Tool => "web",
            Source::Direct => "",
        };
        self.author.as_deref().unwrap_or(usual)
    }

    /// Returns the author as the prompt shows it.
    fn label(&self) -> String {
        match self.by {
            Source::Tool => format!("{} (tool)", self.author()),
            _ => self.author().to_owned(),
        }
    }

    /// Returns the texts, in the order of their turns.
    fn texts(&self) -> Vec<String> {
        let texts = self.text.iter().chain(&self.texts);
        let texts = texts.map(|text| text.repeat(self.repeat));
        let copies = texts.flat_map(|text| {
            let copy = move |n: usize| text.replace('%', &n.to_string());
            (0..self.copies).map(copy)
        });
        copies
            .map(|text| format!("{text} (Lisbon booking)"))
            .collect()
    }

    fn event(&self, text: &str) -> Event {
        if self.by != Source::Tool {
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

    /// Whether an unindented line of the block can belong to a stored memory: it is the memory's
    /// time, or its author and the start of its text.
    fn is_line_of_memory(&self, line: &str) -> bool {
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
            // Without an author, the line must not look like a line with an author.
            true => Some(line.strip_prefix("unknown: ").unwrap_or(line))
                .filter(|text| *text != line || !line.contains(':')),
            false => line.strip_prefix(&format!("{label}: ")),
        };
        let texts = self.texts();
        text.is_some_and(|text| texts.iter().any(|it| text.starts_with(&plain(it))))
    }

    /// Adds the attempt to the memory that it targets.
    async fn add(&self, memory: &Memory) -> Result<(), MemoryError> {
        if self.by == Source::Direct {
            let entries = self.texts().into_iter().map(|text| MemoryEntry {
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
        for (position, text) in (1..).zip(self.texts()) {
            let mut event = self.event(&text);
            event.id = format!("injected-{position}");
            session.events.push(position, event);
        }
        let options = IngestOptions::default().with_tool_responses(true);
        memory.add_session_with(&session, &options).await.map(drop)
    }

    /// Returns the filter that removes the attempt by its source.
    fn forget(&self) -> Forget {
        match self.by {
            Source::User | Source::Agent => Forget::session(self.name.as_str()),
            Source::Tool => Forget::tool(self.author()),
            Source::Direct => {
                Forget::Matching(MemoryFilter::default().with_kind(MemoryKind::Direct))
            }
        }
    }
}

/// A database with the honest memory, once for the victim and once for each of two other users.
struct Database {
    sessions: SqliteSessionService,
    memory: Memory,
    folder: tempfile::TempDir,
}

/// The other users, whose memories must not change.
const OTHERS: [(&str, &str); 2] = [(APP, "grace"), ("bank", VICTIM)];

impl Database {
    async fn new() -> Database {
        let folder = retain_testkit::scratch::folder();
        let (sessions, memory) = Database::open(&folder).await;
        for (app, user) in OTHERS.into_iter().chain([(APP, VICTIM)]) {
            let mut session = Session::new(app, user, "honest");
            let mut event = Event::user_text(HONEST);
            event.id = "honest-1".to_owned();
            session.events.push(1, event);
            memory.add_session_to_memory(&session).await.unwrap();
        }
        Database {
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

    /// Closes the database and opens the same file again.
    async fn reopen(self) -> Database {
        drop((self.sessions, self.memory));
        let (sessions, memory) = Database::open(&self.folder).await;
        Database {
            sessions,
            memory,
            folder: self.folder,
        }
    }

    /// Returns the requests that the model receives for the victim's question.
    async fn requests(
        &self,
        model: ScriptedModel,
        tool: impl Tool + 'static,
    ) -> Vec<Arc<LlmRequest>> {
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

    async fn search(&self, app: &str, user: &str) -> Vec<MemoryHit> {
        let query = MemoryQuery::new(QUESTION).with_limit(1000);
        let hits = self.memory.search_memory_with(app, user, query).await;
        hits.unwrap()
    }

    /// Returns all stored memories of a user as texts.
    async fn list(&self, app: &str, user: &str) -> Vec<String> {
        let list = ListMemories::default().with_limit(10_000);
        let page = self.memory.list(app, user, list).await.unwrap();
        let texts = page.memories.iter().map(|it| it.content.text_concat());
        texts.collect()
    }
}

/// Normalizes a text to what a reader sees: replaces look-alike letters and drops zero-width
/// characters. Deliberately does not use the code under test.
fn visible_letters(text: &str) -> String {
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

/// Returns the lines without indentation, for every kind of line break.
fn unindented_lines(block: &str) -> impl Iterator<Item = &str> {
    let ends = [
        '\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}',
    ];
    let lines = block.split(ends).filter(|line| !line.is_empty());
    lines.filter(|line| !line.starts_with("  "))
}

/// Returns the text of all parts.
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
    assert!(attempts.iter().all(|it| !it.texts().is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn injected_text_stays_inside_the_preloaded_block() {
    for attempt in attempts().iter().filter(|it| it.is_of_victim()) {
        let database = Database::new().await;
        attempt.add(&database.memory).await.unwrap();
        let model = ScriptedModel::new("scripted").reply("Fine.");
        let requests = database.requests(model, preload_memory_tool(10)).await;
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
        let inner = inner.unwrap_or_else(|| {
            panic!("{name}: the text does not end with the end of the block: {text}")
        });
        let looks = visible_letters(inner);
        assert!(!looks.contains("<PASTCONVERSATIONS"), "{name}: {inner}");
        for mark in ["_QUOTED_AGENT_CONTENT>>>", "_SYSTEM_INSTRUCTION>>>"] {
            assert!(!inner.contains(mark), "{name}: {inner}");
        }
        for line in unindented_lines(inner) {
            assert!(
                attempt.is_line_of_memory(line),
                "{name} looks like a memory: {line}"
            );
        }
        assert!(
            inner.contains(HONEST),
            "{name} hides the honest memory: {inner:.300}"
        );
        let is_in_prompt = inner.matches("booking)").count() > 0 || inner.contains('…');
        assert!(is_in_prompt, "{name} is not in the prompt: {inner:.300}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn injected_text_stays_inside_the_tool_response() {
    for attempt in attempts().iter().filter(|it| it.is_of_victim()) {
        let database = Database::new().await;
        attempt.add(&database.memory).await.unwrap();
        let query = call("load_memory", r#"{"query": "Lisbon booking"}"#);
        let model = ScriptedModel::new("scripted").reply(query).reply("Fine.");
        let requests = database.requests(model, load_memory_tool()).await;
        let name = &attempt.name;
        let [question, call, answer] = requests[1].contents.as_slice() else {
            panic!("{name}: {} contents", requests[1].contents.len());
        };
        assert_eq!(text_of(question), QUESTION, "{name}");
        assert!(call.parts()[0].function_call.is_some(), "{name}");
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
        assert!(texts.contains(&HONEST), "{name} hides the honest memory");
        // The response names the real author, whatever the text or the metadata says.
        let injected = memories
            .iter()
            .find(|it| it["content"]["parts"][0]["text"] != HONEST);
        let author =
            injected.unwrap_or_else(|| panic!("{name} is not in the response"))["author"].as_str();
        assert_eq!(author.unwrap_or_default(), attempt.label(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn injected_text_does_not_reach_other_users() {
    let database = Database::new().await;
    for attempt in attempts() {
        let added = attempt.add(&database.memory).await;
        // Attempts with invalid names are rejected; all others are ingested.
        let refused = matches!(added, Err(MemoryError::InvalidInput { .. }));
        assert!(added.is_ok() || refused, "{}: {added:?}", attempt.name);
        assert!(!(attempt.is_of_victim() && refused), "{}", attempt.name);
        for (app, user) in OTHERS {
            let hits = database.search(app, user).await;
            assert_eq!(hits.len(), 1, "{}", attempt.name);
            assert_eq!(hits[0].entry.content.text_concat(), HONEST);
            assert_eq!(database.list(app, user).await, [HONEST], "{}", attempt.name);
        }
        if !attempt.is_of_victim() {
            let texts = database.list(APP, VICTIM).await;
            let injected = attempt.texts();
            assert!(
                !texts.iter().any(|it| injected.contains(it)),
                "{}",
                attempt.name
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn injected_memory_is_traced_to_its_origin_and_deleted_permanently() {
    for attempt in attempts().iter().filter(|it| it.is_of_victim()) {
        let (mut database, name) = (Database::new().await, &attempt.name);
        attempt.add(&database.memory).await.unwrap();
        let injected = attempt.texts();
        let is_injected = |it: &MemoryHit| injected.contains(&it.entry.content.text_concat());
        let hits = database.search(APP, VICTIM).await;
        let hit = hits.iter().find(|it| is_injected(it));
        assert_source(
            attempt,
            hit.unwrap_or_else(|| panic!("the search does not return {name}")),
        );

        let receipt = database.memory.forget(APP, VICTIM, attempt.forget()).await;
        let memories = if attempt.by == Source::Direct {
            1
        } else {
            injected.len()
        };
        assert_eq!(receipt.unwrap().memories, memories as u64, "{name}");
        for step in [
            "forgotten",
            "added again",
            "reopened",
            "added after reopening",
        ] {
            match step {
                "reopened" => database = database.reopen().await,
                "forgotten" => {}
                _ => attempt.add(&database.memory).await.unwrap(),
            }
            let hits = database.search(APP, VICTIM).await;
            assert!(!hits.iter().any(is_injected), "{name} is back when {step}");
            assert_eq!(database.list(APP, VICTIM).await, [HONEST], "{name}, {step}");
        }
    }
}

/// Checks that a hit names its source.
fn assert_source(attempt: &Attempt, hit: &MemoryHit) {
    let (info, name) = (&hit.info, &attempt.name);
    assert_eq!(
        info.author.as_deref().unwrap_or_default(),
        attempt.author(),
        "{name}"
    );
    let origin = match attempt.by {
        Source::User => OriginKind::Person,
        Source::Agent => OriginKind::Agent,
        Source::Tool => OriginKind::Tool,
        Source::Direct => OriginKind::Direct,
    };
    assert_eq!(info.origin.kind(), origin, "{name}");
    if let MemoryOrigin::Tool { name: tool } = &info.origin {
        assert_eq!(tool, attempt.author());
    }
    match attempt.by {
        Source::Direct => assert_eq!(
            (info.session.as_deref(), info.position),
            (None, 0),
            "{name}"
        ),
        _ => {
            assert_eq!(info.session.as_deref(), Some(name.as_str()));
            let texts = attempt.texts();
            let text = &texts[info.position as usize - 1];
            assert_eq!(&hit.entry.content.text_concat(), text, "{name}");
            let event = format!("injected-{}", info.position);
            assert_eq!(info.event_id, Some(event), "{name}");
        }
    }
}
