//! A random history with its options, and the report for differing answers.

use retain_core::{Content, Event, Events, Json, JsonMap};
use retain_runtime::contents::{ContentsOptions, IncludeContents};
use retain_testkit::random::Random;

use crate::differential::generator::{BRANCHES, Generator, NODES, SCOPES};

/// Fields that every event has; reports omit them.
const EMPTY_ACTIONS: &str = concat!(
    r#""actions":{"stateDelta":{},"artifactDelta":{},"#,
    r#""requestedAuthConfigs":{},"requestedToolConfirmations":{}},"#
);

/// A history and the options of the agent that reads it.
pub(crate) struct History {
    pub(crate) seed: u64,
    pub(crate) events: Events,
    pub(crate) agent: &'static str,
    pub(crate) branch: Option<&'static str>,
    pub(crate) scope: Option<&'static str>,
    pub(crate) node: Option<&'static str>,
    pub(crate) is_current_turn_only: bool,
    pub(crate) keeps_ids: bool,
    pub(crate) thoughts: bool,
    pub(crate) is_single_turn: bool,
    pub(crate) user_content: Option<Content>,
}

impl History {
    pub(crate) fn generate(seed: u64) -> History {
        let mut random = Random::new(seed);
        let events = Generator::new(&mut random).events();
        let some = |random: &mut Random, percent, choices: &[&'static str]| {
            let choice = random.pick(choices);
            random.chance(percent).then_some(choice)
        };
        let agent = random.pick(&["main", "main", "main", "main", "helper", "absent", ""]);
        let content = |random: &mut Random| {
            let user = events.iter().filter(|event| event.author == "user");
            let contents: Vec<&Content> = user.filter_map(Event::content).collect();
            match random.below(4) {
                0 => Some(Content::user("the task")),
                1 => Some(Content::new("user", Vec::new())),
                2 if !contents.is_empty() => Some(random.pick(&contents).clone()),
                _ => None,
            }
        };
        History {
            seed,
            agent,
            branch: some(&mut random, 35, &BRANCHES),
            scope: some(&mut random, 20, &SCOPES),
            node: some(&mut random, 35, &NODES),
            is_current_turn_only: random.chance(25),
            keeps_ids: random.chance(40),
            thoughts: random.chance(30),
            is_single_turn: random.chance(20),
            user_content: content(&mut random),
            events,
        }
    }

    pub(crate) fn options(&self) -> ContentsOptions<'_> {
        let mut options = ContentsOptions::new(self.agent);
        options.branch = self.branch;
        options.isolation_scope = self.scope;
        options.node_path = self.node;
        if self.is_current_turn_only {
            options.include_contents = IncludeContents::None;
        }
        options.keep_call_ids = self.keeps_ids;
        options.thoughts_of_other_agents = self.thoughts;
        options.is_single_turn = self.is_single_turn;
        options.user_content = self.user_content.as_ref();
        options
    }

    pub(crate) fn options_json(&self) -> Json {
        let text = |text: Option<&str>| text.map_or(Json::Null, Json::from);
        let content = self.user_content.as_ref().map(|content| {
            let text = content.to_json().expect("a content is JSON");
            Json::parse(&text).expect("a content is JSON")
        });
        let include = if self.is_current_turn_only {
            "none"
        } else {
            "default"
        };
        JsonMap::from([
            ("agentName", Json::from(self.agent)),
            ("branch", text(self.branch)),
            ("isolationScope", text(self.scope)),
            ("nodePath", text(self.node)),
            ("includeContents", include.into()),
            ("keepCallIds", self.keeps_ids.into()),
            ("thoughts", self.thoughts.into()),
            ("isSingleTurn", self.is_single_turn.into()),
            ("userContent", content.unwrap_or_default()),
        ])
        .into()
    }

    pub(crate) fn to_json(&self) -> Json {
        let events = self.events.iter().map(|event| event.to_json());
        let events: Vec<String> = events.map(|text| text.expect("an event is JSON")).collect();
        let events = format!("[{}]", events.join(","));
        JsonMap::from([("options", self.options_json()), ("events", events.into())]).into()
    }

    /// Returns a report of the case and both answers.
    pub(crate) fn report(&self, ours: &Json, theirs: &Json) -> String {
        let mut text = format!("RETAIN_SEED={}\n{}\n", self.seed, self.options_json());
        for (index, event) in self.events.iter().enumerate() {
            let event = event.to_json().expect("an event is JSON");
            let event = event.replace(EMPTY_ACTIONS, "");
            text += &format!("  {index}: {event}\n");
        }
        let none = Vec::new();
        let contents = |answer: &Json| {
            answer["contents"]
                .as_array()
                .map_or(none.clone(), Into::into)
        };
        let (mine, adks) = (contents(ours), contents(theirs));
        for place in 0..mine.len().max(adks.len()) {
            if mine.get(place) != adks.get(place) {
                text += &format!("at {place}\n");
                text += &format!("  ours {:?}\n", mine.get(place));
                text += &format!("  ADK  {:?}\n", adks.get(place));
            }
        }
        let places =
            |answer: &Json| format!("{:?} {:?}", answer["beforeUserTurn"], answer["userContent"]);
        text += &format!("places: ours {}, ADK {}\n", places(ours), places(theirs));
        text += &format!("{:?}", theirs["error"]);
        text
    }
}
