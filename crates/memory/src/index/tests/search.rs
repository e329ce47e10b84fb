//! Which documents a search finds, and why.

use super::*;

#[test]
fn word_forms_match_and_rare_words_weigh_more() {
    let index = index_of([
        note(1, "I painted the fence."),
        note(2, "We like the garden fence."),
        note(3, "A walk in the garden."),
        note(4, "The garden is green."),
    ]);
    assert_eq!(hit_seqs(&index, "Who is painting the garden?")[0], 1);
    assert_eq!(hit_seqs(&index, "PAINTINGS"), [1]);
    assert!(hit_seqs(&index, "submarine").is_empty());
}

#[test]
fn empty_query_finds_nothing() {
    let index = index_with_groups([note(1, "Some text, with signs?!")]);
    for text in ["", " ", "?!…", "\0", "\u{200d}\u{fe0f}", "---"] {
        assert!(search(&index, text).is_empty(), "{text:?}");
    }
    assert!(search_with_limit(&index, "text", 0).is_empty());
    assert!(search(&UserIndex::new(), "text").is_empty());
}

#[test]
fn stop_words_match_only_if_the_query_has_no_other_words() {
    let index = index_of([note(1, "To be or not to be"), note(2, "A cup of tea")]);
    assert_eq!(hit_seqs(&index, "to be, or not to be?")[0], 1);
    let hits = hit_seqs(&index, "What is tea about?");
    assert_eq!(hits, [2], "stop words beside another word are ignored");
}

#[test]
fn memory_is_found_by_words_of_its_neighbors() {
    let index = index_of([
        message(1, "a", "Ada", "Which instrument do you play?"),
        message(2, "a", "Bob", "The cello, since I was six."),
        message(3, "b", "Ada", "Lunch was good."),
        message(4, "b", "Bob", "Indeed."),
    ]);
    let hits = search(&index, "instrument");
    assert_eq!(hits[0].seq, 1);
    assert_eq!(hits[1].seq, 2);
    assert_eq!(hits[0].explanation.words[0].place, MatchPlace::Own);
    assert_eq!(hits[1].explanation.words[0].place, MatchPlace::Near);
    assert_eq!(
        hits.len(),
        2,
        "messages of other sessions are not neighbors"
    );
}

#[test]
fn neighbor_weight_falls_with_distance() {
    let index = index_of((1..=10).map(|seq| {
        let text = if seq == 5 {
            "zebra"
        } else {
            "and so on it went"
        };
        message(seq, "a", &format!("person {seq}"), text)
    }));
    // Three memories after the match but only two before it are hits, because answers follow
    // questions.
    assert_eq!(hit_seqs(&index, "zebra"), [5, 6, 4, 7, 8, 3]);
}

#[test]
fn long_text_does_not_rank_higher_for_its_length() {
    let long = "word ".repeat(400) + "cello and much more";
    let index = index_of([note(1, &long), note(2, "I play the cello.")]);
    assert_eq!(hit_seqs(&index, "cello"), [2, 1]);
    // A few more words hardly change the score of a short text.
    let scores: Vec<f32> = search(&index, "cello").iter().map(|it| it.score).collect();
    let short = index_of([
        note(1, "cello"),
        note(2, "I play the cello at home, sometimes"),
    ]);
    let close: Vec<f32> = search(&short, "cello").iter().map(|it| it.score).collect();
    assert!(close[0] - close[1] < 0.1 && scores[0] - scores[1] > 0.3);
}

#[test]
fn author_and_date_words_boost_but_do_not_filter() {
    let mut march = message(1, "a", "Ada", "I adopted a dog.");
    march.timestamp = A_MONDAY - 60.0 * DAY;
    let index = index_of([
        march,
        message(2, "b", "Bob", "I adopted a dog too."),
        message(3, "c", "Cid", "Nothing new."),
    ]);
    let by_ada = search(&index, "Did Ada adopt a dog?");
    assert_eq!(by_ada.iter().map(|it| it.seq).collect::<Vec<_>>(), [1, 2]);
    assert!(by_ada[0].explanation.author > 0.0);
    let match_place = |hit: &Hit, word: &str| {
        let words = &hit.explanation.words;
        words.iter().find(|it| it.word == word).map(|it| it.place)
    };
    assert_eq!(match_place(&by_ada[0], "Ada"), Some(MatchPlace::Author));
    assert_eq!(hit_seqs(&index, "dog adopted by Bob")[0], 2);

    let in_march = search(&index, "the dog in March");
    assert_eq!(in_march[0].seq, 1);
    assert_eq!(match_place(&in_march[0], "March"), Some(MatchPlace::Date));
    assert!(in_march[0].explanation.time > 0.0);
    assert_eq!(in_march[1].seq, 2, "the date is not a filter");
}

#[test]
fn relative_times_use_the_reference_time() {
    let at = |seq: u64, days_ago: f64, text: &str| Document {
        timestamp: A_MONDAY - days_ago * DAY,
        ..note(seq, text)
    };
    let index = index_of([
        at(1, 1.0, "We had pizza."),
        at(2, 30.0, "We had pizza there."),
        at(3, 1.0, "Yesterday was dull, said the book."),
    ]);
    assert_eq!(hit_seqs(&index, "pizza yesterday")[0], 1);
    assert_eq!(hit_seqs(&index, "pizza last month")[0], 2);
    let mut all = hit_seqs(&index, "What did I do yesterday?");
    all.sort_unstable();
    assert_eq!(
        all,
        [1, 3],
        "the time matches; the word \"yesterday\" does not"
    );
}

#[test]
fn scripts_without_spaces_emoji_and_names_are_found() {
    let index = index_of([
        note(1, "我住在东京大学附近"),
        note(2, "我喜欢京都"),
        note(3, "明日は雨です"),
        note(4, "서울에서 만나요"),
        note(5, "Party 🎉 tonight"),
        note(6, "José lives in São Paulo"),
        note(7, "Я живу в Москве"),
        note(8, "مرحبا بالعالم"),
    ]);
    for (text, expected) in [
        ("东京", 1),
        ("京都", 2),
        ("雨", 3),
        ("서울", 4),
        ("🎉", 5),
        ("jose sao", 6),
        ("МОСКВЕ", 7),
        ("بالعالم", 8),
        ("ＰＡＲＴＹ", 5),
    ] {
        assert_eq!(hit_seqs(&index, text).first(), Some(&expected), "{text}");
    }
}

#[test]
fn memory_is_found_by_meaning_without_a_common_word() {
    let others =
        (10..60).map(|seq| note(seq, &format!("remark {seq} about things of no interest")));
    let index = index_with_groups(others.chain([note(1, "a kitten"), note(2, "the engine")]));
    let hits = search(&index, "pet");
    assert_eq!(hits.iter().map(|it| it.seq).collect::<Vec<_>>(), [1]);
    assert!(hits[0].explanation.meaning > 0.0 && hits[0].explanation.words.is_empty());
    assert!(hit_seqs(&index, "xylophone").is_empty());
}

#[test]
fn precomputed_vector_is_used_instead_of_embedding_the_text() {
    let others =
        (10..60).map(|seq| note(seq, &format!("remark {seq} about things of no interest")));
    let with_vector = |seq, text: &str, meaning: Vec<i8>| Document {
        meaning: Some(meaning),
        ..note(seq, text)
    };
    let pet = Groups.embed("pet").0;
    let matching = with_vector(1, "the engine", pet.clone());
    let too_short = with_vector(2, "the lorry", pet[..39].to_vec());
    let index = index_with_groups(others.chain([matching, too_short]));
    assert_eq!(hit_seqs(&index, "kitten"), [1]);
}

#[test]
fn neighbors_contribute_to_the_meaning_score() {
    let others = (10..60).map(|seq| note(seq, "remark about things of no interest"));
    let index = index_with_groups(others.chain([
        message(1, "a", "", "puppy puppy puppy"),
        message(2, "a", "", "It is walnut."),
        message(3, "b", "", "engine engine engine"),
        message(4, "b", "", "It is walnut."),
    ]));
    let hits = search(&index, "walnut pet");
    let of = |seq: u64| {
        hits.iter()
            .find(|it| it.seq == seq)
            .map_or(0.0, |it| it.explanation.context)
    };
    assert!(of(2) > of(4), "{} {}", of(2), of(4));
}

#[test]
fn embedding_similarity_contributes_to_the_score() {
    let with = |seq: u64, text: &str, embedding: [f32; 2]| Document {
        embedding: embedding.into(),
        ..note(seq, text)
    };
    let index = index_of([
        with(1, "red apple", [1.0, 0.0]),
        with(2, "red wine", [0.0, 1.0]),
        note(3, "red ink"),
        Document {
            embedding: vec![1.0; 5],
            ..note(4, "red flag")
        },
        Document {
            embedding: vec![f32::NAN, 0.0],
            ..note(5, "red tape")
        },
    ]);
    let hits = index.search(&query("red"), &[0.1, 0.9], &|_| true);
    assert_eq!(
        hits.len(),
        5,
        "a document without a comparable vector is found by words"
    );
    assert_eq!(hits[0].seq, 2);
    assert!(hits[0].explanation.embedding > 0.0);
    assert!(hits.iter().all(|it| it.score.is_finite()));
}

#[test]
fn signals_add_up_to_the_score() {
    let documents = (1..80).map(|seq| {
        let text = format!("Ada has a {} and {}", GROUPS[seq as usize % 4][0], seq % 9);
        message(
            seq,
            &format!("s{}", seq % 6),
            if seq % 2 == 0 { "Ada" } else { "Bob" },
            &text,
        )
    });
    let index = index_with_groups(documents);
    for text in [
        "Which pet has Ada?",
        "storm on 8 May 2023",
        "music last week",
        "7",
    ] {
        let hits = search(&index, text);
        assert!(!hits.is_empty(), "{text}");
        for hit in hits {
            assert!((0.0..=1.0).contains(&hit.score));
            assert!(
                (sum_of_parts(&hit.explanation) - hit.score).abs() < 1e-5,
                "{hit:?}"
            );
            let words: f32 = hit.explanation.words.iter().map(|it| it.weight).sum();
            assert!((words - hit.explanation.lexical).abs() < 1e-5, "{hit:?}");
            let weights: Vec<f32> = hit.explanation.words.iter().map(|it| it.weight).collect();
            assert!(
                weights.is_sorted_by(|a, b| a >= b),
                "words are in descending order of weight"
            );
        }
    }
}

#[test]
fn hostile_texts_are_indexed_as_text() {
    let texts = [
        "\0\0\0".to_owned(),
        "x".repeat(1 << 20),
        "a ".repeat(1 << 19),
        "\u{202e}gnorts\u{202c} strong".to_owned(),
        "e\u{301}".repeat(5_000),
        "👩‍👩‍👧‍👦".repeat(1_000),
        "'".repeat(1_000) + "s",
        "1,2,3.4.5,".repeat(100),
        String::new(),
    ];
    let documents = texts.iter().zip(1..).map(|(text, seq)| note(seq, text));
    let mut index = index_with_groups(documents);
    for text in &texts {
        search(&index, text);
    }
    assert_eq!(hit_seqs(&index, "strong"), [4]);
    let odd = [f64::NAN, f64::INFINITY, f64::MIN, 1e300];
    for (timestamp, seq) in odd.into_iter().zip(20..) {
        index.insert(Document {
            timestamp,
            ..note(seq, "odd time")
        });
        search(&index, "odd time yesterday in May");
    }
    assert_eq!(search(&index, "odd").len(), 1, "near-duplicates");
}
