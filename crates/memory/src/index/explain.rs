//! Explains hits: the contribution of each signal, and where each word matched.

use super::{
    UserIndex,
    fuse::Signals,
    lexical::{WindowWeights, saturated},
    parsed_query::Word,
    postings::{MOST_COUNTED, Slot, Term},
    ranking::OCCURRENCE,
    sessions::NONE,
    types::{Explanation, MatchPlace, MatchedWord},
};

/// Explains a hit.
pub(crate) fn explain(index: &UserIndex, signals: &Signals<'_>, slot: Slot) -> Explanation {
    let parts = signals.parts(slot);
    let weights = WindowWeights::new(&index.ranking);
    let mut words: Vec<MatchedWord> = Vec::new();
    for (word, share) in signals.query.words.iter().zip(&signals.lexical.shares) {
        let places = weights_by_place(index, &weights, word, slot);
        let sum: u32 = places.iter().map(|(_, worth)| worth).sum();
        let place = places.into_iter().rev().max_by_key(|(_, worth)| *worth);
        if let Some((place, 1..)) = place {
            let level = saturated(sum, index.ranking.saturation);
            words.push(MatchedWord {
                word: word.text.clone(),
                place,
                weight: signals.weights.lexical * share * level,
            });
        }
    }
    words.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    Explanation {
        words,
        lexical: parts.lexical,
        session: parts.session,
        author: parts.author,
        meaning: parts.meaning,
        context: parts.context,
        embedding: parts.embedding,
        time: parts.time,
        duplicates: Vec::new(),
    }
}

/// Returns the weight of a word for a document, by where the word matched. The weights add up to
/// the weight that `lexical.rs` computes.
fn weights_by_place(
    index: &UserIndex,
    weights: &WindowWeights,
    word: &Word,
    slot: Slot,
) -> [(MatchPlace, u32); 4] {
    let documents = &index.documents;
    let worth = |distance: i32, weight: u32| {
        let at = documents.neighbor(slot, distance);
        match word.term {
            Some(term) if at != NONE => {
                count(index, term, at) * weights.occurrence_weight(documents, at) * weight
            }
            _ => 0,
        }
    };
    let near: u32 = weights
        .weights()
        .map(|(distance, weight)| worth(distance, weight))
        .sum();
    let at = slot as usize;
    let by_author = documents.author[at] != NONE && word.authors.contains(&documents.author[at]);
    let by_date = word.date.is_some_and(|it| it.matches(documents.date[at]));
    let weight_if = |matches: bool, worth: f32| {
        if matches {
            (worth * OCCURRENCE as f32) as u32
        } else {
            0
        }
    };
    [
        (MatchPlace::Own, worth(0, weights.own)),
        (MatchPlace::Near, near),
        (
            MatchPlace::Author,
            weight_if(by_author, index.ranking.author_saying),
        ),
        (
            MatchPlace::Date,
            weight_if(by_date, index.ranking.date_saying),
        ),
    ]
}

/// Returns the number of occurrences of a term in a document.
fn count(index: &UserIndex, term: Term, slot: Slot) -> u32 {
    let terms = index.documents.rows[slot as usize]
        .as_ref()
        .map_or(&[][..], |it| &it.terms);
    let start = terms.partition_point(|it| *it < term);
    let same = terms[start..].iter().take_while(|it| **it == term).count();
    (same as u32).min(MOST_COUNTED)
}
