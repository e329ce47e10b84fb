//! Search memories, with explanations.

use axum::{extract::State, http::Method, response::Response};
use retain_core::MemoryEntry;
use retain_memory::{
    MemoryHit, MemoryQuery,
    index::{Explanation, MatchPlace},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        Api,
        body::{JsonBody, ok},
        operation::Operation,
        path::UserPath,
        problem::Problem,
        query::Params,
        shapes::{MemoryEntryObject, Score, SearchLimit, Time, Tokens},
    },
    filter::filter_body,
    info::MemoryInfoBody,
    long_term,
};
use crate::{guard::Scope, routes::Access, services::Shared};

pub(super) fn routes(api: Api) -> Api {
    const SEARCH: &str = "/api/v1/apps/{app}/users/{user}/memory/search";
    let search_it = Operation::new(
        Method::POST,
        SEARCH,
        "searchMemory",
        "Search memories, best hits first",
    );
    api.add(
        search_it.takes::<SearchBody>().answers::<HitsBody>(200),
        Access::Path(Scope::MemoryRead),
        search,
    )
}

filter_body! {
    /// A memory query with its filter.
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    #[schemars(rename = "MemoryQuery")]
    struct SearchBody {
        before {
            /// The query in natural language.
            query: String,
            /// Maximum number of results (default 10).
            limit: Option<SearchLimit>,
            /// Approximate maximum number of tokens of all results together.
            token_budget: Option<Tokens>,
        }
        after {
            /// Minimum score.
            min_score: Option<Score>,
            /// The time that words such as "yesterday" are relative to (default: now).
            reference_time: Option<Time>,
            /// Whether to explain each hit.
            explain: Option<bool>,
        }
    }
}

/// The hits, best first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "MemoryHits")]
struct HitsBody {
    /// The hits.
    memories: Vec<HitBody>,
}

/// A memory that matches the query.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "MemoryHit")]
pub(crate) struct HitBody {
    /// The entry as ADK defines it.
    #[schemars(with = "MemoryEntryObject")]
    memory: MemoryEntry,
    /// The score from 0 to 1; null if the service has none.
    score: Option<f32>,
    /// The source of the entry; null if the service does not record it.
    about: Option<MemoryInfoBody>,
    /// Why it matched, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<ExplanationBody>,
}

/// Why a memory matched. The signals (`lexical` to `time`) add up to the score.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Explanation")]
struct ExplanationBody {
    /// The words of the query that matched, highest weight first.
    words: Vec<MatchedWordBody>,
    /// Score of the query's words in the memory's text, neighboring messages, author and date.
    lexical: f32,
    /// Score of the query's words in the memory's whole session.
    session: f32,
    /// Score added if the query names the memory's author.
    author: f32,
    /// Semantic similarity of the memory's text to the query (built-in word vectors).
    meaning: f32,
    /// Like `meaning`, for the memory's text together with its neighboring messages.
    context: f32,
    /// Semantic similarity of the memory's text to the query (configured embedding model).
    embedding: f32,
    /// Score added if the query names the memory's time.
    time: f32,
    /// Sequence numbers of near-duplicates that are omitted in favor of this memory.
    duplicates: Vec<u64>,
}

/// A word of the query that matched.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "MatchedWord")]
struct MatchedWordBody {
    /// The word as written in the query.
    word: String,
    /// Where it matched: the memory's text, a neighboring message, the author's name or the date.
    place: MatchPlaceBody,
    /// Its share of the score.
    weight: f32,
}

/// Where a word matched.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MatchPlace")]
enum MatchPlaceBody {
    Own,
    Near,
    Author,
    Date,
}

impl From<Explanation> for ExplanationBody {
    fn from(it: Explanation) -> ExplanationBody {
        let words = it.words.into_iter().map(|word| MatchedWordBody {
            word: word.word,
            place: match word.place {
                MatchPlace::Own => MatchPlaceBody::Own,
                MatchPlace::Near => MatchPlaceBody::Near,
                MatchPlace::Author => MatchPlaceBody::Author,
                MatchPlace::Date => MatchPlaceBody::Date,
            },
            weight: word.weight,
        });
        ExplanationBody {
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
    UserPath { app, user }: UserPath,
    params: Params,
    JsonBody(search): JsonBody<SearchBody>,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let explain = search.explain.unwrap_or(false);
    let query = MemoryQuery::from(search);
    if explain || !query.is_plain() {
        long_term(&server, "search options")?;
    }
    let services = &server.services;
    let Some(memory) = &services.long_term_memory else {
        let found = services
            .memory
            .search_memory(&app, &user, &query.text)
            .await?;
        let found = found.memories.into_iter().take(query.limit);
        return ok(&HitsBody {
            memories: found.map(hit_without_details).collect(),
        });
    };
    let found = memory.search_memory_with(&app, &user, query).await?;
    ok(&HitsBody {
        memories: found
            .into_iter()
            .map(|found| HitBody::new(found, explain))
            .collect(),
    })
}

fn hit_without_details(memory: MemoryEntry) -> HitBody {
    HitBody {
        memory,
        score: None,
        about: None,
        explanation: None,
    }
}

impl HitBody {
    pub(crate) fn new(found: MemoryHit, explain: bool) -> HitBody {
        HitBody {
            memory: found.entry,
            score: Some(found.score),
            about: Some(found.info.into()),
            explanation: explain.then(|| found.explanation.into()),
        }
    }
}

impl From<SearchBody> for MemoryQuery {
    fn from(mut search: SearchBody) -> MemoryQuery {
        let filter = search.take_filter();
        let mut query = MemoryQuery::new(search.query).with_filter(filter);
        query.limit = search.limit.map_or(query.limit, |limit| limit.0 as usize);
        query.token_budget = search.token_budget.map(|tokens| tokens.0 as usize);
        query.min_score = search.min_score.map_or(0.0, |score| score.0);
        query.reference_time = search.reference_time.map(|time| time.0);
        query
    }
}
