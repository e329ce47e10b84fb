//! `retain memory`: lists, searches, adds and forgets a user's memories.
//!
//! Memories are untrusted text: each is printed in one line, with control characters escaped.

use std::sync::Arc;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use retain::{
    GetSessionConfig,
    memory::{
        Forget, IngestOptions, IngestReceipt, ListMemories, LongTermMemory, MemoryEntry,
        MemoryFilter, MemoryHit, MemoryInfo, MemoryQuery, timestamp_text,
    },
    server::{memory_hit_json, memory_json},
    session::SessionOrigin,
};

use crate::output::say;

use super::{OpenMode, ServiceOptions, ServiceSet};

/// List, search, add and forget a user's memories.
#[derive(Debug, Args)]
pub(crate) struct Memory {
    #[command(subcommand)]
    command: MemoryCommand,
}

#[derive(Debug, Subcommand)]
enum MemoryCommand {
    /// Ingest sessions into memory; existing entries are skipped.
    Add(Add),
    /// Search memories, best first, with explanations.
    Search(Search),
    /// List memories in the order in which they were added.
    List(List),
    /// Forget memories permanently: adding their session again does not restore them.
    Forget(ForgetOptions),
    /// Print the number and size of memories.
    Stats(UserOptions),
}

/// The store and the user.
#[derive(Debug, Args)]
struct UserOptions {
    #[command(flatten)]
    stores: ServiceOptions,
    /// App of the user
    #[arg(long)]
    app: String,
    /// User who owns the memories
    #[arg(long)]
    user: String,
}

impl UserOptions {
    async fn open(&self) -> anyhow::Result<Arc<dyn LongTermMemory>> {
        long_term(&self.stores.open(OpenMode::Existing).await?)
    }
}

/// Returns the long-term memory of the services that a command has opened.
fn long_term(set: &ServiceSet) -> anyhow::Result<Arc<dyn LongTermMemory>> {
    let memory = set.services.long_term_memory.clone();
    memory.context("the memory store has only ADK's word matching; name a database")
}

/// Filters of memories.
#[derive(Debug, Args)]
struct FilterOptions {
    /// Only memories of this session
    #[arg(long)]
    session: Option<String>,
    /// Only memories of this author
    #[arg(long)]
    author: Option<String>,
    /// Only memories of this tool
    #[arg(long)]
    tool: Option<String>,
}

impl FilterOptions {
    fn filter(self) -> MemoryFilter {
        let mut filter = MemoryFilter::default();
        filter.session = self.session;
        filter.author = self.author;
        filter.tool = self.tool;
        filter
    }
}

#[derive(Debug, Args)]
struct Add {
    #[command(flatten)]
    user: UserOptions,
    /// Session to ingest [default: all sessions of the user]
    #[arg(long)]
    session: Option<String>,
}

#[derive(Debug, Args)]
struct Search {
    #[command(flatten)]
    user: UserOptions,
    #[command(flatten)]
    filters: FilterOptions,
    /// Maximum number of results
    #[arg(long, default_value_t = 10)]
    limit: usize,
    /// Print complete memories with score and explanation, as JSON Lines in the form of the API
    #[arg(long)]
    json: bool,
    /// Search query
    query: String,
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    user: UserOptions,
    #[command(flatten)]
    filters: FilterOptions,
    /// Maximum number of memories [default: all]
    #[arg(long)]
    limit: Option<usize>,
    /// Print complete memories, as JSON Lines in the form of the API
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ForgetOptions {
    #[command(flatten)]
    user: UserOptions,
    #[command(flatten)]
    filters: FilterOptions,
    /// Id of a memory to forget; repeatable
    #[arg(long, conflicts_with_all = ["session", "author", "tool"])]
    id: Vec<String>,
    /// Confirm; without this nothing is forgotten
    #[arg(long)]
    yes: bool,
}

impl Memory {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.command {
            MemoryCommand::Add(add) => add.run().await,
            MemoryCommand::Search(search) => search.run().await,
            MemoryCommand::List(list) => list.run().await,
            MemoryCommand::Forget(forget) => forget.run().await,
            MemoryCommand::Stats(user) => stats(&user).await,
        }
    }
}

impl Add {
    async fn run(self) -> anyhow::Result<()> {
        let UserOptions { stores, app, user } = &self.user;
        let set = stores.open(OpenMode::Existing).await?;
        let (sessions, memory) = (&set.services.sessions, long_term(&set)?);
        let ids = match self.session {
            Some(id) => vec![id],
            None => {
                let all = sessions.list_sessions(app, Some(user)).await?.sessions;
                all.into_iter().map(|session| session.id).collect()
            }
        };
        let mut total = IngestReceipt::default();
        for id in ids {
            let config = GetSessionConfig::default();
            let session = sessions.get_session(app, user, &id, config).await?;
            let session = session.with_context(|| format!("session {id:?} not found"))?;
            let options = IngestOptions::default();
            let memory = match SessionOrigin::new(sessions, &session) {
                Some(origin) => memory.long_term_for_session(origin),
                None => Arc::clone(&memory),
            };
            let added = memory.add_session_with(&session, &options).await?;
            total.added += added.added;
            total.replaced += added.replaced;
            total.unchanged += added.unchanged;
            total.forgotten += added.forgotten;
        }
        let IngestReceipt {
            added,
            replaced,
            unchanged,
            forgotten,
            ..
        } = total;
        say!(
            "added: {added} memories of user {user:?} ({replaced} replaced, {unchanged} already stored, \
             {forgotten} skipped because they were forgotten)"
        );
        Ok(())
    }
}

impl Search {
    async fn run(self) -> anyhow::Result<()> {
        let UserOptions { app, user, .. } = &self.user;
        let memory = self.user.open().await?;
        let search = MemoryQuery::new(self.query).with_limit(self.limit);
        let search = search.with_filter(self.filters.filter());
        for found in memory.search_memory_with(app, user, search).await? {
            if self.json {
                say!("{}", memory_hit_json(found)?);
                continue;
            }
            print_memory(&found.info, &found.entry, Some(found.score))?;
            say!("    {}", explain(&found));
        }
        Ok(())
    }
}

impl List {
    async fn run(self) -> anyhow::Result<()> {
        let UserOptions { app, user, .. } = &self.user;
        let memory = self.user.open().await?;
        let mut left = self.limit.unwrap_or(usize::MAX);
        let mut list = ListMemories::default().with_filter(self.filters.filter());
        while left > 0 {
            list.limit = left.min(500);
            let page = memory.list(app, user, list.clone()).await?;
            left -= page.memories.len();
            for record in page.memories {
                match self.json {
                    true => say!("{}", memory_json(record)?),
                    false => print_memory(&record.info, &record.entry(), None)?,
                }
            }
            match page.next {
                Some(next) => list.after = Some(next),
                None => break,
            }
        }
        Ok(())
    }
}

impl ForgetOptions {
    async fn run(self) -> anyhow::Result<()> {
        let UserOptions { app, user, .. } = &self.user;
        let filter = self.filters.filter();
        if self.id.is_empty() && filter.is_any() {
            anyhow::bail!("nothing selected: add --id, --session, --author or --tool");
        }
        if !self.yes {
            anyhow::bail!(
                "forgetting memories of user {user:?} cannot be undone; add --yes to confirm"
            );
        }
        let selection = match self.id.is_empty() {
            true => Forget::Matching(filter),
            false => Forget::Ids(self.id),
        };
        let memory = self.user.open().await?;
        let receipt = memory.forget(app, user, selection).await?;
        say!("forgotten: {} memories of user {user:?}", receipt.memories);
        Ok(())
    }
}

async fn stats(user: &UserOptions) -> anyhow::Result<()> {
    let memory = user.open().await?;
    let it = memory.statistics(&user.app, &user.user).await?;
    let time = |seconds: Option<f64>| {
        let text = seconds.and_then(timestamp_text);
        text.unwrap_or_else(|| "-".to_owned())
    };
    say!("memories   {}", it.entries);
    say!("bytes      {}", it.bytes);
    say!("sessions   {}", it.sessions);
    say!("from tools {}", it.from_tools);
    say!("direct     {}", it.direct);
    say!("embedded   {}", it.embedded);
    say!("oldest     {}", time(it.oldest));
    say!("newest     {}", time(it.newest));
    Ok(())
}

/// Prints a memory in two lines: its source, which is `direct` without a session, and its text.
fn print_memory(info: &MemoryInfo, entry: &MemoryEntry, score: Option<f32>) -> anyhow::Result<()> {
    let score = score
        .map(|score| format!("{score:.2} "))
        .unwrap_or_default();
    let source = match &info.session {
        Some(session) => format!("{session}:{}", info.position),
        None => "direct".to_owned(),
    };
    let (time, author) = (entry.timestamp.as_deref(), entry.author.as_deref());
    let head = [
        time.unwrap_or("-"),
        author.unwrap_or("-"),
        &source,
        &info.id,
    ];
    say!("{score}{}", head.map(visible).join("  "));
    say!("    {}", visible(&entry.content.text_concat()));
    Ok(())
}

/// Formats the contribution of each signal.
fn explain(found: &MemoryHit) -> String {
    let explanation = &found.explanation;
    let words: Vec<String> = explanation
        .words
        .iter()
        .map(|it| visible(&it.word))
        .collect();
    let signals = [
        ("words", explanation.lexical),
        ("conversation", explanation.session),
        ("author", explanation.author),
        ("meaning", explanation.meaning + explanation.context),
        ("embedder", explanation.embedding),
        ("time", explanation.time),
    ];
    let used = signals.into_iter().filter(|(_, score)| *score > 0.0);
    let used: Vec<String> = used
        .map(|(name, score)| format!("{name} {score:.2}"))
        .collect();
    format!("why: [{}] {}", words.join(" "), used.join(" + "))
}

/// Escapes control characters and characters that change the text direction.
fn visible(text: &str) -> String {
    let is_unsafe = |it: char| {
        it.is_control()
            || matches!(it, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut visible = String::with_capacity(text.len());
    for character in text.chars() {
        match is_unsafe(character) {
            true => visible.extend(character.escape_default()),
            false => visible.push(character),
        }
    }
    visible
}
