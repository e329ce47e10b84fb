//! The list of hits: without duplicates, not all from one session, and without memories that the
//! filter excludes or that score below the minimum.

use retain_testkit::random::Random;

use super::*;

#[test]
fn near_duplicates_collapse_into_one_hit() {
    let index = index_of([
        message(1, "a", "Ada", "I like green tea."),
        message(2, "b", "Ada", "i LIKE green tea!!"),
        message(3, "c", "Bob", "I like green tea."),
        message(4, "d", "Ada", "I do not like green tea."),
    ]);
    let hits = search(&index, "green tea");
    let shown: Vec<_> = hits
        .iter()
        .map(|it| (it.seq, &it.explanation.duplicates[..]))
        .collect();
    assert_eq!(
        hits.len(),
        3,
        "another author's text and a text with another word are not duplicates: {shown:?}"
    );
    let of_ada = hits.iter().find(|it| [1, 2].contains(&it.seq)).unwrap();
    assert_eq!(of_ada.seq, 2, "the newest of the duplicates is the hit");
    assert_eq!(of_ada.explanation.duplicates, [1]);
}

#[test]
fn texts_that_share_nearly_all_words_are_duplicates() {
    let words: Vec<String> = (0..40).map(|it| format!("word{it}")).collect();
    let text = words.join(" ");
    let one_more = format!("{text} extra");
    let five_more = format!("{text} extra1 extra2 extra3 extra4 extra5");
    let index = index_of([note(1, &text), note(2, &one_more), note(3, &five_more)]);
    let hits = search(&index, "word7");
    assert_eq!(hits.len(), 2);
    let duplicates: Vec<u64> = hits
        .iter()
        .flat_map(|it| it.explanation.duplicates.clone())
        .collect();
    assert_eq!(duplicates.len(), 1);
    assert!(!duplicates.contains(&3));
}

#[test]
fn many_copies_do_not_hide_other_hits() {
    let flood = (1..=2_000).map(|seq| message(seq, "flood", "Eve", "The secret code is cello."));
    let index = index_of(flood.chain([note(5_000, "My cello is in the attic.")]));
    let hits = search(&index, "cello code secret");
    assert_eq!(hits.len(), 2);
    assert_eq!(hits[1].seq, 5_000);
    assert_eq!(hits[0].explanation.duplicates.len(), 1_999);
}

#[test]
fn one_session_does_not_crowd_out_close_hits_of_others() {
    let of_one =
        (1..=30).map(|seq| message(seq, "loud", "", &format!("cello number {seq} is here")));
    let others =
        (31..=33).map(|seq| message(seq, "", "", &format!("old cello of type x{seq} somewhere")));
    let index = index_of(of_one.chain(others));
    let hits = hit_seqs(&index, "cello here");
    assert_eq!(hits.len(), 10);
    assert_eq!(hits.iter().filter(|it| **it > 30).count(), 2, "{hits:?}");
    // Without hits of other sessions, one session fills the list.
    let alone =
        index_of((1..=30).map(|seq| message(seq, "loud", "", &format!("cello number {seq}"))));
    assert_eq!(search(&alone, "cello").len(), 10);
    let scores = search(&index, "cello here").into_iter().map(|it| it.score);
    assert!(scores.is_sorted_by(|a, b| a >= b));
}

#[test]
fn poor_hits_of_other_sessions_do_not_displace_good_hits() {
    let of_one = (1..=30).map(|seq| message(seq, "loud", "", &format!("blue cello number {seq}")));
    let others =
        (31..=33).map(|seq| note(seq, &format!("{} number x{seq}", "and so on ".repeat(80))));
    let index = index_of(of_one.chain(others));
    let hits = hit_seqs(&index, "blue cello number");
    assert!(hits.iter().all(|it| *it <= 30), "{hits:?}");
}

#[test]
fn unlimited_search_returns_everything() {
    // With 5,000 hits, comparing all pairs for duplicates would be too slow.
    let index = index_of((1..=5_000).map(|seq| note(seq, &format!("cello number {seq} of many"))));
    assert_eq!(search_with_limit(&index, "cello", usize::MAX).len(), 5_000);
}

#[test]
fn filter_restricts_hits_without_changing_scores() {
    let index = index_of((1..=200).map(|seq| note(seq, &format!("cello number {seq}"))));
    let all = search_with_limit(&index, "cello number", 200);
    let hits = index.search(&query("cello number").with_limit(5), &[], &|seq| {
        seq % 50 == 0
    });
    let mut found: Vec<u64> = hits.iter().map(|it| it.seq).collect();
    found.sort_unstable();
    assert_eq!(found, [50, 100, 150, 200]);
    for hit in hits {
        let unfiltered = all.iter().find(|it| it.seq == hit.seq).unwrap();
        assert_eq!(unfiltered.score, hit.score);
    }
}

#[test]
fn hits_with_a_smaller_limit_are_a_prefix_of_the_longer_list() {
    // A search skips documents that score too low for the list, and must skip no others.
    let ranking = Ranking {
        largest_share: 1.0,
        ..Ranking::default()
    };
    let mut random = Random::new(21);
    let words = [
        "dog", "car", "rain", "song", "tea", "cup", "red", "puppy", "storm", "Ada",
    ];
    let documents = (1..900).map(|seq| {
        let text: Vec<&str> = (0..6).map(|_| random.pick(&words)).collect();
        let text = format!("{} x{seq}", text.join(" "));
        message(
            seq,
            &format!("s{}", seq / 12),
            ["Ada", "Bob"][seq as usize % 2],
            &text,
        )
    });
    let meaning: Arc<dyn LocalEmbedder> = Arc::new(Groups);
    let documents: Vec<Document> = documents.collect();
    let index = fill(
        UserIndex::with(Language::English, Some(meaning), ranking),
        documents,
    );
    for text in [
        "red kitten of Ada",
        "weather",
        "music and tea",
        "pet vehicle cup",
        "x77 dog",
    ] {
        let seqs = |limit| -> Vec<u64> {
            let hits = search_with_limit(&index, text, limit);
            hits.iter().map(|it| it.seq).collect()
        };
        let all = seqs(900);
        for limit in [1, 3, 10, 40] {
            assert_eq!(seqs(limit), all[..limit.min(all.len())], "{text}, seed 21");
        }
    }
}

#[test]
fn hits_below_min_score_are_dropped() {
    let index = index_of([
        note(1, "blue cello"),
        note(2, "blue sky"),
        note(3, "blue sea"),
    ]);
    let all = search(&index, "blue cello");
    assert_eq!(all.len(), 3);
    let query = query("blue cello").with_min_score((all[0].score + all[1].score) / 2.0);
    assert_eq!(index.search(&query, &[], &|_| true).len(), 1);
}

#[test]
fn insert_replaces_the_document_with_the_same_number() {
    let mut index = index_of([note(1, "cello"), note(2, "drum")]);
    index.insert(note(1, "flute"));
    assert_eq!(index.len(), 2);
    assert!(hit_seqs(&index, "cello").is_empty());
    assert_eq!(hit_seqs(&index, "flute"), [1]);
    index.remove(1);
    index.remove(1);
    assert_eq!(index.len(), 1);
}

#[test]
fn newest_memory_comes_first_among_equal_scores() {
    let notes = (1..=300).map(|seq| note(seq, &format!("tea x{seq}")));
    let index = index_of(notes);
    let newest: Vec<u64> = search_with_limit(&index, "tea", 3)
        .iter()
        .map(|it| it.seq)
        .collect();
    assert_eq!(newest, [300, 299, 298]);
}
