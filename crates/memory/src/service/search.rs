//! Searches and lists memories.

use std::sync::Arc;

use retain_core::{MemoryError, MemoryRecord, MemoryRows, MemoryScope, MemoryStore, seconds};

use super::{
    ListMemories, MemoryHit, MemoryPage, StoreMemoryService,
    cache::{ScopeView, off_executor},
    embedding::embed_query,
    scope_to_read,
    text::spoken_text,
    view::IndexConfig,
};
use crate::{MemoryQuery, index::Hit};

/// Maximum number of entries of an index that is searched on the executor. Moving so short a search
/// to another thread would take longer than the search.
const SMALL_INDEX: usize = 2000;
/// Approximate number of bytes per token.
const TOKEN_BYTES: usize = 4;
/// Maximum size of a query in bytes; longer queries are truncated.
const QUERY_BYTES_MAX: usize = 8192;
/// Number of memories per read of a listing.
const PAGE: usize = 500;

impl<S: MemoryStore> StoreMemoryService<S> {
    /// Searches memories, best hits first, with explanations.
    pub async fn search_memory_with(
        &self,
        app_name: &str,
        user_id: &str,
        mut query: MemoryQuery,
    ) -> Result<Vec<MemoryHit>, MemoryError> {
        truncate_query(&mut query.text);
        if query.text.trim().is_empty() || query.limit == 0 {
            return Ok(Vec::new());
        }
        let scope = scope_to_read(app_name, user_id)?;
        self.evict_erased_if_due().await;
        let embedding = match &self.embedder {
            Some(embedder) => embed_query(&**embedder, &query.text).await,
            None => Vec::new(),
        };
        let view = self.up_to_date(&scope).await?;
        let now_us = self.clock.now_us();
        query.reference_time.get_or_insert(seconds(now_us));
        let query = Arc::new(query);
        let hits = search_view(view, Arc::clone(&query), embedding, now_us).await?;
        let seqs = hits.iter().map(|hit| hit.seq).collect();
        let rows = MemoryRows::Numbered(seqs);
        let mut records = self.store.rows(&scope, rows, false).await?;
        // The records may have changed since the index search.
        let now_us = self.clock.now_us();
        records.retain(|it| {
            it.info.is_alive(now_us) && query.filter.matches(&it.info.filter_fields())
        });
        Ok(fill_hits(hits, records, query.token_budget))
    }

    /// Lists the user's memories in order of arrival, page by page.
    pub async fn list(
        &self,
        app_name: &str,
        user_id: &str,
        list: ListMemories,
    ) -> Result<MemoryPage, MemoryError> {
        let scope = scope_to_read(app_name, user_id)?;
        let (limit, now_us) = (list.limit.max(1), self.clock.now_us());
        let mut page = MemoryPage::default();
        let mut seq = list.after.unwrap_or(0);
        loop {
            let rows = MemoryRows::After { seq, limit: PAGE };
            let records = self.store.rows(&scope, rows, false).await?;
            let is_last = records.len() < PAGE;
            for record in records {
                if page.memories.len() == limit {
                    page.next = Some(seq);
                    return Ok(page);
                }
                seq = record.info.seq;
                if record.info.is_alive(now_us) && list.filter.matches(&record.info.filter_fields())
                {
                    page.memories.push(record);
                }
            }
            if is_last {
                return Ok(page);
            }
        }
    }

    /// Returns the scope's view, refreshed and without expired entries. Starts embedding entries
    /// that have no embedding.
    pub(super) async fn up_to_date(
        &self,
        scope: &MemoryScope,
    ) -> Result<Arc<ScopeView>, MemoryError> {
        let models = IndexConfig {
            language: self.language,
            table: self.table().await?,
            embedder: self.embedder.as_ref().map(|it| (it.id(), it.dims())),
        };
        let view = self.views.up_to_date(&*self.store, scope, models).await?;
        let now_us = self.clock.now_us();
        view.remove_expired_entries(now_us).await?;
        if view.lacks_vectors() && !self.embedding.is_pausing(scope, now_us) {
            self.embed_later(scope);
        }
        Ok(view)
    }
}

/// Searches a view: off the executor if it is large or a refresh is changing it.
async fn search_view(
    view: Arc<ScopeView>,
    query: Arc<MemoryQuery>,
    embedding: Vec<f32>,
    now_us: i64,
) -> Result<Vec<Hit>, MemoryError> {
    if let Some(view) = view.try_read().filter(|view| view.len() <= SMALL_INDEX) {
        return Ok(view.search(&query, &embedding, now_us));
    }
    off_executor(move || view.read().search(&query, &embedding, now_us)).await
}

/// Truncates a query at a character boundary.
fn truncate_query(text: &mut String) {
    let mut end = text.len().min(QUERY_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// Combines hits with their records. Skips hits whose record no longer exists, and hits that exceed
/// the remaining token budget.
fn fill_hits(
    hits: Vec<Hit>,
    records: Vec<MemoryRecord>,
    token_budget: Option<usize>,
) -> Vec<MemoryHit> {
    let mut records: std::collections::HashMap<u64, MemoryRecord> = records
        .into_iter()
        .map(|record| (record.info.seq, record))
        .collect();
    let mut tokens_left = token_budget.unwrap_or(usize::MAX);
    let mut filled = Vec::with_capacity(hits.len());
    for hit in hits {
        let Some(record) = records.remove(&hit.seq) else {
            continue;
        };
        if token_budget.is_some() {
            let tokens = spoken_text(&record.content).len().div_ceil(TOKEN_BYTES);
            if tokens > tokens_left {
                continue;
            }
            tokens_left -= tokens;
        }
        filled.push(MemoryHit {
            entry: record.entry(),
            info: record.info,
            score: hit.score,
            explanation: hit.explanation,
        });
    }
    filled
}
