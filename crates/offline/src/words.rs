//! Splits a text into words and sentences for passage search.
//!
//! The rules are simple: words are in lower case and lose their English suffixes. Questions and
//! passages are stemmed alike, so a stem need not be a real word.

/// A period after one of these does not end a sentence.
const ABBREVIATIONS: [&str; 12] = [
    "mr", "mrs", "ms", "dr", "prof", "st", "vs", "e.g", "i.e", "z.b", "bzw", "no",
];

/// Returns the words of a text in lower case.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .flat_map(pieces)
        .map(str::to_lowercase)
}

/// Splits a run of letters into words: in scripts without spaces each character is a word.
fn pieces(run: &str) -> impl Iterator<Item = &str> {
    let mut rest = run;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = match is_unspaced(first) {
            true => first.len_utf8(),
            false => rest.find(is_unspaced).unwrap_or(rest.len()),
        };
        let (piece, others) = rest.split_at(end);
        rest = others;
        Some(piece)
    })
}

/// Whether the character belongs to a script without spaces between words: Chinese and Japanese.
fn is_unspaced(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// Removes inflectional suffixes: `lives`, `lived` and `living` have the same stem.
pub(super) fn stem(word: &str) -> String {
    let mut stem = word.replace("our", "or");
    let long = |stem: &str, least: usize| stem.chars().count() >= least;
    if let Some(head) = stem.strip_suffix("ies").or(stem.strip_suffix("ied")) {
        if long(head, 2) {
            stem = format!("{head}y");
        }
    } else if let Some(head) = stem.strip_suffix("ing").filter(|head| long(head, 3)) {
        stem = remove_doubled_consonant(head);
    } else if let Some(head) = stem.strip_suffix("ed").filter(|head| long(head, 3)) {
        stem = remove_doubled_consonant(head);
    } else if let Some(head) = stem.strip_suffix('s')
        && long(head, 3)
        && !head.ends_with(['s', 'u', 'i'])
    {
        stem = head.to_owned();
    }
    match stem.strip_suffix('e') {
        Some(head) if long(head, 3) => head.to_owned(),
        _ => stem,
    }
}

/// Shortens a doubled final consonant: `plann` of `planned` becomes `plan`; `fill` is unchanged.
fn remove_doubled_consonant(stem: &str) -> String {
    let mut letters = stem.chars().rev();
    let (last, before) = (letters.next(), letters.next());
    match last {
        Some(letter) if last == before && !"lsz".contains(letter) => {
            stem[..stem.len() - letter.len_utf8()].to_owned()
        }
        _ => stem.to_owned(),
    }
}

/// Returns the trimmed sentences of a text, each with its byte offset.
pub(super) fn sentences(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let end = at + letter.len_utf8();
        let follows = letters.peek().map(|(_, next)| *next);
        let ends = match letter {
            '\n' | '。' | '！' | '？' => true,
            '!' | '?' | '…' | '؟' => is_end(follows),
            '.' => is_end(follows) && !is_abbreviation(&text[start..at]),
            _ => false,
        };
        if ends {
            found.extend(sentence(text, start, end));
            start = end;
        }
    }
    found.extend(sentence(text, start, text.len()));
    found
}

/// Returns the sentence between two byte offsets, if it contains a word.
fn sentence(text: &str, start: usize, end: usize) -> Option<(usize, &str)> {
    let untrimmed = &text[start..end];
    let sentence = untrimmed.trim_start();
    let has_word = sentence.chars().any(char::is_alphanumeric);
    has_word.then(|| (end - sentence.len(), sentence.trim_end()))
}

fn is_end(follows: Option<char>) -> bool {
    follows.is_none_or(char::is_whitespace)
}

fn is_abbreviation(text: &str) -> bool {
    // An abbreviation is short; scanning to the start of the text for every period would be slow.
    let end = text.char_indices().rev().take(5).last();
    let end = end.map_or("", |(at, _)| &text[at..]);
    let word = end.rsplit(char::is_whitespace).next().unwrap_or(end);
    ABBREVIATIONS.contains(&word.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_runs_of_letters_in_lower_case() {
        let found: Vec<_> = words("Ünder_way, it's 7pm: 我爱Rust!").collect();
        assert_eq!(
            found,
            ["ünder", "way", "it", "s", "7pm", "我", "爱", "rust"]
        );
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for forms in [
            &["live", "lives", "lived", "living"][..],
            &["plan", "plans", "planned", "planning"],
            &["city", "cities"],
            &["study", "studied", "studying", "studies"],
            &["box", "boxes"],
            &["favorite", "favorites"],
            &["honor", "honour", "honors"],
            &["class", "classes"],
        ] {
            for form in forms {
                assert_eq!(stem(form), stem(forms[0]), "{form}");
            }
        }
        for word in ["bus", "bring", "red", "ring", "is", "as", "é", ""] {
            assert_eq!(stem(word), word);
        }
    }

    #[test]
    fn text_is_split_into_sentences() {
        let text = "Dr. Ito has 2.5 dogs.  Really?\nYes!! And v1.2 came。好的 … ";
        let expected = [
            "Dr. Ito has 2.5 dogs.",
            "Really?",
            "Yes!!",
            "And v1.2 came。",
            "好的 …",
        ];
        let found = sentences(text);
        let texts: Vec<_> = found.iter().map(|(_, sentence)| *sentence).collect();
        assert_eq!(texts, expected);
        for (start, sentence) in found {
            assert!(text[start..].starts_with(sentence), "{sentence}");
        }
        assert!(sentences(" ... !").is_empty());
    }
}
