//! Plain BM25 in memory, over the stemmed words of turn and speaker without stop words. This
//! baseline shows how much a more complex memory improves the results.

use crate::{Memory, Question, Session};
use bench_common::{Failure, Res};
use rust_stemmers::{Algorithm, Stemmer};
use std::collections::{HashMap, HashSet};

const K1: f64 = 1.2;
const B: f64 = 0.75;

const STOP_WORDS: &str = "a about after all am an and any are as at be because been before being \
    but by can could did do does doing for from had has have having he her here hers him his how \
    i if in into is it its just me more most my no nor not now of off on once only or other our \
    out over own same she should so some such than that the their them then there these they this \
    those to too under until up very was we were what when where which while who whom why will \
    with would you your";

pub struct Bm25 {
    stemmer: Stemmer,
    stop_words: HashSet<&'static str>,
    users: HashMap<String, Turns>,
}

#[derive(Default)]
struct Turns {
    ids: Vec<String>,
    lengths: Vec<f64>,
    /// For each word, the turns that contain it, and how often.
    postings: HashMap<String, Vec<(usize, f64)>>,
}

impl Bm25 {
    pub fn new() -> Bm25 {
        Bm25 {
            stemmer: Stemmer::create(Algorithm::English),
            stop_words: STOP_WORDS.split_whitespace().collect(),
            users: HashMap::new(),
        }
    }

    fn terms(&self, text: &str) -> Vec<String> {
        let text = text.to_lowercase();
        let words = text.split(|c: char| !c.is_alphanumeric());
        let words = words.filter(|word| !word.is_empty() && !self.stop_words.contains(word));
        words
            .map(|word| self.stemmer.stem(word).into_owned())
            .collect()
    }
}

impl Memory for Bm25 {
    fn remember(&mut self, user: &str, session: &Session) -> Res<()> {
        for turn in &session.turns {
            let terms = self.terms(&format!("{} {}", turn.author, turn.text));
            let turns = self.users.entry(user.to_owned()).or_default();
            let number = turns.ids.len();
            turns.ids.push(turn.id.clone());
            turns.lengths.push(terms.len() as f64);
            let mut counts: HashMap<String, f64> = HashMap::new();
            terms
                .into_iter()
                .for_each(|term| *counts.entry(term).or_default() += 1.0);
            for (term, count) in counts {
                let list = turns.postings.entry(term).or_default();
                list.push((number, count));
            }
        }
        Ok(())
    }

    fn ask(&mut self, user: &str, question: &Question<'_>) -> Res<Vec<String>> {
        let terms = self.terms(question.text);
        let Some(turns) = self.users.get(user) else {
            return Ok(Vec::new());
        };
        let all = turns.ids.len() as f64;
        let average = turns.lengths.iter().sum::<f64>() / all;
        let mut scores = vec![0.0; turns.ids.len()];
        for list in terms.iter().filter_map(|term| turns.postings.get(term)) {
            let matching = list.len() as f64;
            let idf = (1.0 + (all - matching + 0.5) / (matching + 0.5)).ln();
            for (turn, count) in list {
                let length = 1.0 - B + B * turns.lengths[*turn] / average;
                scores[*turn] += idf * count * (K1 + 1.0) / (count + K1 * length);
            }
        }
        let mut best: Vec<usize> = (0..scores.len()).filter(|it| scores[*it] > 0.0).collect();
        best.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        best.truncate(question.limit);
        Ok(best.into_iter().map(|it| turns.ids[it].clone()).collect())
    }

    fn reopen(&mut self, _is_durable: bool) -> Res<()> {
        Err(Failure::Unsupported("unsupported in memory".to_owned()))
    }

    fn settings(&self) -> Res<String> {
        Ok("in memory".to_owned())
    }

    fn bytes(&mut self) -> Res<u64> {
        Err(Failure::Unsupported("unsupported in memory".to_owned()))
    }
}
