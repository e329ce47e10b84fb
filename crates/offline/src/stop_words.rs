//! Stop words of questions, in several languages.
//!
//! Only the words of questions are filtered. A stop word of one language can be a content word of
//! another (`hat`, `son`, `war`), so only the list of the question's apparent language applies.

/// Words that ask about knowledge or earlier statements. They do not belong to the topic.
const ASKING: &str = "remember recall know knew tell told say said mention mentioned remind \
    weißt erinnerst gesagt erzählt sais souviens dit sabes recuerdas dije sai ricordi detto lembra \
    lembras disse weet herinner gezegd";

const ENGLISH: &str = "a about again all also am an and any anything are as at be been before but by \
    can could d did do does doing done ever everything for from had has have he her hers him his how i \
    if in into is it its just ll m may me mine more my myself no not now of off on once one only or our \
    ours out over please re s shall she should so some something t than that the their them then there \
    these they thing things this those to too up us ve very was we were what when where which who whom \
    whose why will with would you your yours";

const GERMAN: &str = "aber alle alles als am an auch auf aus bei bin bis bist bitte da das dass dein \
    deine dem den denn der des dich die dir du ein eine einem einen einer es etwas für habe haben hast \
    hat hatte ich ihm ihn ihr im in ist ja kann kannst mal man mein meine meinem meinen meiner mich mir \
    mit nach nicht noch nun nur oder sie sein sind so über um und uns unser von vor war waren warum was \
    welche welchem welchen welcher welches wem wen wenn wer wie wieso will wir wo woher wohin wurde zu \
    zum zur";

const FRENCH: &str = "à ai as au aux avec avez avais avait c ce ces cette comment combien d dans de des \
    du elle en es est et eu il ils j je l la le les leur lui ma mais me mes moi mon n ne nos notre nous \
    on ont ou où par pas plus pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa ses si \
    son sont suis sur t ta te tes toi ton tu un une vos votre vous y";

const SPANISH: &str = "a al algo como cómo con cuál cuáles cuándo cuánta cuánto de del dónde e el él \
    ella en era eres es esa ese eso está estaba estoy esta este esto fue ha había han has he la las le \
    les lo los me mi mí mis muy no nos o para pero por porque qué que quién quiénes se ser sí si sin sobre \
    son soy su sus te tengo tiene tu tú tus un una unos y ya yo";

const ITALIAN: &str = "a ad ai al alla anche avevo c che chi ci come con cosa cui da dal dalla dei del \
    della di dove e è ed era ero gli ha hai ho i il in io l la le lei lo loro lui ma me mi mia mie miei \
    mio ne nel nella noi non o per perché più qual quale quali quando quanto questa questo se sei si sia sono \
    su sua sul suo te ti tu tua tuo un una uno voi";

const PORTUGUESE: &str = "a ao aos as com como da das de deles do dos e é ela ele em era essa esse esta \
    está este eu foi há isso já mais mas me meu meus minha minhas na nas não no nos o onde os ou para pela \
    pelo por porque qual quais quando quanto que quem se sem ser seu seus só sou sua também te tem tenho \
    teu tu um uma você";

const DUTCH: &str = "aan al alles als ben bij dan dat de der deze die dit doe een en er haar had heb heeft \
    hem het hij hoe iets ik in is ja je jij jouw kan maar me mij mijn naar niet nog nu of om ons ook op over \
    te toen uit van veel voor waar waarom wanneer want waren was wat we welke werd wie wij wil worden zal ze \
    zich zijn zo";

const LANGUAGES: [&str; 7] = [ENGLISH, GERMAN, FRENCH, SPANISH, ITALIAN, PORTUGUESE, DUTCH];

/// Returns the content words of a question, in order.
pub(super) fn content_words(words: Vec<String>) -> Vec<String> {
    let is_listed = |list: &str, word: &str| list.split(' ').any(|listed| listed == word);
    // The list with the most words of a sample determines the language; the first one wins a tie.
    let sample = &words[..words.len().min(40)];
    let hits = |list: &&str| sample.iter().filter(|word| is_listed(list, word)).count();
    let language = LANGUAGES.iter().rev().max_by_key(|list| hits(list));
    let language = language.copied().unwrap_or(ENGLISH);
    let is_content = |word: &String| !is_listed(language, word) && !is_asking(word);
    words.into_iter().filter(is_content).collect()
}

/// Whether the word is one of [`ASKING`].
pub(super) fn is_asking(word: &str) -> bool {
    ASKING.split_whitespace().any(|listed| listed == word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::words;

    fn content(question: &str) -> Vec<String> {
        content_words(words(question).collect())
    }

    #[test]
    fn topic_of_a_question_is_its_content_words() {
        for (question, topic) in [
            ("What is my favorite project?", &["favorite", "project"][..]),
            (
                "Do you remember where my son bought the hat?",
                &["son", "bought", "hat"],
            ),
            ("Was ist mein liebstes Projekt?", &["liebstes", "projekt"]),
            ("Quel est mon projet préféré ?", &["projet", "préféré"]),
            ("¿Cuál es mi proyecto favorito?", &["proyecto", "favorito"]),
            (
                "Qual è il mio progetto preferito?",
                &["progetto", "preferito"],
            ),
            ("Onde eu moro?", &["moro"]),
            ("Waar woont mijn zus?", &["woont", "zus"]),
            ("What did I tell you?", &[]),
        ] {
            assert_eq!(content(question), topic, "{question}");
        }
    }

    #[test]
    fn stop_word_lists_have_only_single_spaces() {
        for list in LANGUAGES.iter().chain([&ASKING]) {
            assert!(!list.contains("  ") && !list.contains('\n'), "{list}");
        }
    }
}
