//! Searching: what answers a question, and why.

use axum::{extract::State, http::Method, response::Response};
use retain_core::MemoryEntry;
use retain_memory::{
    MemoryHit, MemoryQuery,
    index::{Explanation, Place},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        Api,
        body::{JsonBody, ok},
        operation::Operation,
        path::OfUser,
        problem::Problem,
        query::Params,
        shapes::{FreeObject, MemoryEntryObject, Score, SearchLimit, Time, Tokens},
    },
    about::{About, KindName},
    filter::{Filter, Origins},
    long_term,
};
use crate::{guard::Scope, routes::Access, services::Shared};

pub(super) fn routes(api: Api) -> Api {
    const SEARCH: &str = "/api/v1/apps/{app}/users/{user}/memory/search";
    let search_it = Operation::new(
        Method::POST,
        SEARCH,
        "searchMemory",
        "Find what answers a question, the best first",
    );
    api.add(
        search_it.takes::<Search>().answers::<Found>(200),
        Access::Path(Scope::MemoryRead),
        search,
    )
}

/// A question, and which memories may answer it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "MemoryQuery")]
struct Search {
    /// In words.
    query: String,
    /// At most so many. 10 if nothing is said.
    limit: Option<SearchLimit>,
    /// At most so many tokens in all of them, roughly.
    token_budget: Option<Tokens>,
    /// Said at this time or later, in seconds since 1970.
    from: Option<Time>,
    /// Said before this time.
    to: Option<Time>,
    /// Said by this author.
    author: Option<String>,
    /// Said in this session.
    session: Option<String>,
    /// Of this kind.
    kind: Option<KindName>,
    /// From one of these.
    origin: Option<Origins>,
    /// From this tool.
    tool: Option<String>,
    /// With these notes: every key has this very value.
    #[schemars(with = "Option<FreeObject>")]
    metadata: Option<retain_core::JsonMap>,
    /// Nothing below this score.
    min_score: Option<Score>,
    /// What "yesterday" is relative to. Now, if nothing is said.
    reference_time: Option<Time>,
    /// Say why each was found.
    explain: Option<bool>,
}

/// What was found, the best first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "MemoryHits")]
struct Found {
    /// The memories.
    memories: Vec<FoundBody>,
}

/// A memory that answers a question.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "MemoryHit")]
struct FoundBody {
    /// As ADK has it.
    #[schemars(with = "MemoryEntryObject")]
    memory: MemoryEntry,
    /// How well it answers, from 0 to 1; null where the service does not say.
    score: Option<f32>,
    /// Where it comes from; null where the service does not say.
    about: Option<About>,
    /// Why it was found, if that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<Explained>,
}

/// Why a memory was found. What the signals gave adds up to the score.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Explanation")]
struct Explained {
    /// The words of the question that were found, the weightiest first.
    words: Vec<Word>,
    /// From words of its own, its neighbours, its author and its date.
    lexical: f32,
    /// From the conversation as a whole.
    session: f32,
    /// Because the question names its author.
    author: f32,
    /// From the meaning of its own words.
    meaning: f32,
    /// From the meaning of its words and those around it.
    context: f32,
    /// From the embedder that was given.
    embedding: f32,
    /// Because it is from the time that the question names.
    time: f32,
    /// The numbers of near-duplicates that it stands for.
    duplicates: Vec<u64>,
}

/// A word of the question that was found.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "MatchedWord")]
struct Word {
    /// As it stands in the question.
    word: String,
    /// Where it was found: in what was said, right before or after, as the author's name, in the
    /// date.
    place: PlaceName,
    /// What it gave.
    weight: f32,
}

/// Where a word was found.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MatchedPlace")]
enum PlaceName {
    Own,
    Near,
    Author,
    Date,
}

impl From<Explanation> for Explained {
    fn from(it: Explanation) -> Explained {
        let words = it.words.into_iter().map(|word| Word {
            word: word.word,
            place: match word.place {
                Place::Own => PlaceName::Own,
                Place::Near => PlaceName::Near,
                Place::Author => PlaceName::Author,
                Place::Date => PlaceName::Date,
            },
            weight: word.weight,
        });
        Explained {
            words: words.collect(),
            lexical: it.lexical,
            session: it.session,
            author: it.author,
            meaning: it.meaning,
            context: it.context,
            embedding: it.embedding,
            time: it.time,
            duplicates: it.duplicates,
        }
    }
}

async fn search(
    State(server): State<Shared>,
    OfUser { app, user }: OfUser,
    params: Params,
    JsonBody(search): JsonBody<Search>,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let explain = search.explain.unwrap_or(false);
    let query = MemoryQuery::from(search);
    if explain || !query.is_plain() {
        long_term(&server, "search by more than words")?;
    }
    let services = &server.services;
    let Some(memory) = &services.long_term_memory else {
        let found = services
            .memory
            .search_memory(&app, &user, &query.text)
            .await?;
        let found = found.memories.into_iter().take(query.limit);
        return ok(&Found {
            memories: found.map(only_entry).collect(),
        });
    };
    let found = memory.search_memory_with(&app, &user, query).await?;
    ok(&Found {
        memories: found
            .into_iter()
            .map(|found| found_body(found, explain))
            .collect(),
    })
}

fn only_entry(memory: MemoryEntry) -> FoundBody {
    FoundBody {
        memory,
        score: None,
        about: None,
        explanation: None,
    }
}

fn found_body(found: MemoryHit, explain: bool) -> FoundBody {
    FoundBody {
        memory: found.entry,
        score: Some(found.score),
        about: Some(found.about.into()),
        explanation: explain.then(|| found.explanation.into()),
    }
}

impl From<Search> for MemoryQuery {
    fn from(search: Search) -> MemoryQuery {
        let filter = Filter {
            from: search.from,
            to: search.to,
            author: search.author,
            session: search.session,
            kind: search.kind,
            origin: search.origin,
            tool: search.tool,
            metadata: search.metadata,
        };
        MemoryQuery {
            text: search.query,
            limit: search.limit.map_or(10, |limit| limit.0 as usize),
            token_budget: search.token_budget.map(|tokens| tokens.0 as usize),
            filter: filter.into(),
            min_score: search.min_score.map_or(0.0, |score| score.0),
            reference_time: search.reference_time.map(|time| time.0),
        }
    }
}
