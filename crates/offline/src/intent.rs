//! Classifies a sentence: question, greeting, thanks, farewell or statement.

use crate::words::words;

/// A kind of courtesy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Courtesy {
    Greeting,
    Thanks,
    Farewell,
}

/// Words that start a question even without a question mark. The list omits words that start
/// statements just as often.
const ASKING_WORDS: [&str; 36] = [
    "what", "which", "who", "whom", "whose", "why", "wer", "wann", "warum", "wieso", "weshalb",
    "welche", "welcher", "welches", "welchen", "quel", "quelle", "quels", "quelles", "pourquoi",
    "combien", "qué", "cuál", "cuáles", "quién", "cuándo", "dónde", "cómo", "quale", "quali",
    "dimmi", "dime", "qual", "quais", "quem", "waarom",
];

/// Phrases that start a question.
const ASKING_PHRASES: [&[&str]; 19] = [
    &["tell", "me"],
    &["remind", "me"],
    &["do", "you"],
    &["do", "i"],
    &["did", "i"],
    &["did", "you"],
    &["have", "i"],
    &["am", "i"],
    &["is", "my"],
    &["are", "my"],
    &["can", "you", "tell"],
    &["could", "you", "tell"],
    &["please", "tell", "me"],
    &["sag", "mir"],
    &["weißt", "du"],
    &["erinnerst", "du"],
    &["dis", "moi"],
    &["est", "ce", "que"],
    &["qu", "est", "ce"],
];

/// Words that start a question only before a verb or a measure: "When I was young" is not a
/// question.
const ASKING_BEFORE_VERB: [&str; 3] = ["when", "where", "how"];
const VERBS: &str = "is are was were am do does did can could will would should has have had s many much \
    old long far often about big tall";

const GREETINGS: &str = "hi hello hey hiya greetings howdy hallo moin servus bonjour salut coucou hola \
    buenos buenas ciao salve buongiorno olá oi hoi dag";
const THANKS: &str = "thanks thank thx danke merci gracias grazie obrigado obrigada bedankt dank";
const FAREWELLS: &str = "bye goodbye tschüss ciao adieu adiós arrivederci tchau doei cheers";

/// Whether the sentence is a question.
pub(super) fn is_question(sentence: &str) -> bool {
    let trimmed = sentence.trim_end_matches(|letter: char| {
        letter.is_whitespace() || "\"'’”\u{bb})]}*_!".contains(letter)
    });
    if trimmed.ends_with(['?', '？', '؟']) {
        return true;
    }
    let first: Vec<String> = words(sentence).take(4).collect();
    let [word, rest @ ..] = first.as_slice() else {
        return false;
    };
    let begins = |phrase: &&[&str]| {
        first.len() >= phrase.len() && first.iter().zip(*phrase).all(|(word, other)| word == other)
    };
    if ASKING_PHRASES.iter().any(begins) {
        return true;
    }
    let next = rest.first().map_or("", String::as_str);
    if ASKING_BEFORE_VERB.contains(&word.as_str()) {
        return is_listed(VERBS, next);
    }
    // "What a day!" is not a question.
    ASKING_WORDS.contains(&word.as_str()) && !["a", "an", ""].contains(&next)
}

/// Whether the word addresses the listener.
pub(super) fn is_you(word: &str) -> bool {
    is_listed(
        "you your yourself du dich dir dein tu te toi vous tú te ti você jij je",
        word,
    )
}

/// Returns the kind of courtesy if the whole message is a courtesy.
pub(super) fn courtesy(message: &str) -> Option<Courtesy> {
    let words: Vec<String> = words(message).take(5).collect();
    let [first, rest @ ..] = words.as_slice() else {
        return None;
    };
    if rest.len() >= 4 {
        return None;
    }
    let next = rest.first().map_or("", String::as_str);
    let is_day = is_listed("morning morgen day tag evening abend afternoon", next);
    if is_listed(THANKS, first) {
        return Some(Courtesy::Thanks);
    }
    if rest.len() >= 3 {
        return None;
    }
    if is_listed(GREETINGS, first) || (is_listed("good guten", first) && is_day) {
        return Some(Courtesy::Greeting);
    }
    let parts = (first.as_str(), next);
    let is_farewell = matches!(
        parts,
        ("good", "bye" | "night") | ("see", "you") | ("au", "revoir")
    );
    (is_farewell || is_listed(FAREWELLS, first)).then_some(Courtesy::Farewell)
}

fn is_listed(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|listed| listed == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_is_recognized_by_its_mark_or_first_words() {
        for question in [
            "My name is?",
            "What is my name",
            "where do I live",
            "How old am I",
            "Do you remember my name.",
            "Tell me my favorite project",
            "Wann habe ich Geburtstag",
            "Wo wohne ich?",
            "Dis-moi mon nom",
            "¿Dónde vivo?",
            "\"Who is there?\"",
            "我叫什么？",
        ] {
            assert!(is_question(question), "{question}");
        }
        for statement in [
            "My name is Ada.",
            "When I was young, I lived in Oslo.",
            "What a day!",
            "She asked \"why?\" and left.",
            "How nice",
            "What",
            "",
        ] {
            assert!(!is_question(statement), "{statement}");
        }
    }

    #[test]
    fn only_a_short_greeting_or_thanks_is_a_courtesy() {
        assert_eq!(courtesy("Hello there!"), Some(Courtesy::Greeting));
        assert_eq!(courtesy("Good morning"), Some(Courtesy::Greeting));
        assert_eq!(courtesy("Thank you very much."), Some(Courtesy::Thanks));
        assert_eq!(courtesy("Good bye"), Some(Courtesy::Farewell));
        for statement in [
            "Hi, I am Ada.",
            "Thank you for the room in Oslo.",
            "Good rooms are high up.",
            "",
        ] {
            assert_eq!(courtesy(statement), None, "{statement}");
        }
    }
}
