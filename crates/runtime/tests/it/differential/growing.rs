//! Histories that grow event by event: after each step, the cached contents equal newly assembled
//! ones.

use retain_core::{Content, Event, Events, FunctionCall, FunctionResponse, JsonMap, LlmResponse};
use retain_runtime::contents::{ContentsCache, ContentsOptions, assemble_contents};
use retain_testkit::random::Random;

use crate::differential::{generator::Generator, history::History, oracle::cases};

/// The cache's steps over all histories.
#[derive(Debug, Default)]
struct Steps {
    all: usize,
    /// Steps after which all events were settled.
    settled: usize,
    /// Steps after which all previously settled events were still settled.
    retained: usize,
    /// Steps after which fewer events were settled than before.
    reverted: usize,
}

pub(crate) fn compare() {
    let mut steps = Steps::default();
    let seeds = cases(1200);
    for seed in seeds.batches(1).flatten() {
        let history = History::generate(seed);
        let mut options = history.options();
        options.include_contents = Default::default();
        grow(seed, &extend(seed, &history), &options, &mut steps);
    }
    println!("{steps:?}");
    if seeds.is_whole_run() {
        assert!(steps.settled > steps.all / 10, "{steps:?}");
        assert!(steps.retained > steps.all / 10, "{steps:?}");
        assert!(steps.reverted > steps.all / 100, "{steps:?}");
    }
}

/// Returns the history, sometimes with more events, whose ids usually differ from the others.
fn extend(seed: u64, history: &History) -> Events {
    let mut random = Random::new(seed ^ 0xABCD);
    let mut events = history.events.clone();
    for round in 0..random.below(3) {
        let more = Generator::new(&mut random).events();
        let has_own_ids = random.chance(80);
        for event in &more {
            let mut event = event.clone();
            if has_own_ids {
                rename(&mut event, round);
            }
            events.push(events.len() as u64 + 1, event);
        }
    }
    events
}

/// Gives calls and responses new ids, and the event a later time and another invocation.
fn rename(event: &mut Event, round: u64) {
    let rename = |id: &mut Option<String>| {
        if let Some(id) = id {
            id.push_str(&format!("-{round}"));
        }
    };
    let content = event.response.content.as_mut();
    for part in content
        .into_iter()
        .flat_map(|it| it.parts.iter_mut().flatten())
    {
        if let Some(call) = &mut part.function_call {
            rename(&mut call.id);
        }
        if let Some(response) = &mut part.function_response {
            rename(&mut response.id);
        }
    }
    if let Some(ids) = &mut event.long_running_tool_ids {
        *ids = ids.iter().map(|id| format!("{id}-{round}")).collect();
    }
    event.invocation_id.push_str(&format!("-{round}"));
    event.timestamp += 100.0 * (round + 1) as f64;
}

fn grow(seed: u64, events: &Events, options: &ContentsOptions<'_>, steps: &mut Steps) {
    let mut random = Random::new(seed);
    let mut cache = ContentsCache::default();
    let mut grown = Events::default();
    for (index, (position, _)) in events.iter_with_positions().enumerate() {
        grown.push(position, events.get_shared(index).expect("an event"));
        // Between two model calls, several events may be added.
        if random.chance(40) {
            continue;
        }
        let before = cache.settled();
        let contents = cache.assemble(&grown, options);
        let all = assemble_contents(&grown, options);
        if contents != all {
            let texts = grown.iter().map(|event| event.to_json().expect("JSON"));
            let texts: Vec<String> = texts.collect();
            let texts = texts.join("\n  ");
            panic!("RETAIN_SEED={seed}\n{options:?}\n  {texts}\n{contents:#?}\nwhole {all:#?}");
        }
        steps.all += 1;
        steps.settled += usize::from(cache.settled() == grown.len());
        steps.retained += usize::from(before > 0 && cache.settled() >= before);
        steps.reverted += usize::from(cache.settled() < before);
    }
}

/// In a typical session, the cache must settle all events at each step.
pub(crate) fn settle_tool_loops() {
    let mut cache = ContentsCache::default();
    let options = ContentsOptions::new("main");
    let mut events = Events::default();
    let push = |events: &mut Events, event: Event| events.push(events.len() as u64 + 1, event);
    for step in 0..200 {
        if step % 20 == 0 {
            push(&mut events, Event::user_text("go on"));
        }
        let call = FunctionCall {
            id: Some(format!("adk-{step}")),
            ..FunctionCall::new("lookup", JsonMap::new())
        };
        let response = FunctionResponse::new(format!("adk-{step}"), "lookup", JsonMap::new());
        for (role, part) in [("model", call.into()), ("user", response.into())] {
            let content = Content::new(role, vec![part]);
            push(
                &mut events,
                Event::new("main", LlmResponse::from_content(content)),
            );
        }
        let contents = cache.assemble(&events, &options);
        assert_eq!(contents, assemble_contents(&events, &options));
        assert_eq!(cache.settled(), events.len());
    }
}

/// The cache must detect other events, fewer events and another agent.
pub(crate) fn detect_other_lists() {
    let list = |texts: &[&str]| -> Events {
        let texts = texts.iter().zip(1..);
        texts
            .map(|(text, position)| (position, Event::model_text("main", *text)))
            .collect()
    };
    let one = list(&["a", "b", "c"]);
    let mut shorter = one.clone();
    shorter.truncate(2);
    // One list without the first event, and one with another event in its place.
    let mut later = Events::default();
    let mut other_first = list(&["x"]);
    for index in 1..3 {
        let event = one.get_shared(index).expect("an event");
        later.push(index as u64 + 1, event.clone());
        other_first.push(index as u64 + 1, event);
    }
    let other = list(&["d", "e", "f"]);
    let longer = list(&["d", "e", "f", "g"]);
    let mut cache = ContentsCache::default();
    let mut check = |events: &Events, agent: &str| {
        let options = ContentsOptions::new(agent);
        let contents = cache.assemble(events, &options);
        assert_eq!(contents, assemble_contents(events, &options));
        assert_eq!(cache.settled(), events.len());
    };
    for next in [&other, &longer, &shorter, &later, &other_first] {
        check(&one, "main");
        check(next, "main");
    }
    for agent in ["main", "helper", "main"] {
        check(&one, agent);
    }
}
