//! Questions in languages other than English find their answers by words: with the language's
//! stemmer or the English one, and with or without the English word vectors.

use super::*;
use crate::static_vectors::StaticVectors;

struct Chat {
    language: Language,
    messages: [&'static str; 6],
    /// One question per message, in the order of the messages.
    questions: [&'static str; 6],
}

const CHATS: [Chat; 6] = [
    Chat {
        language: Language::German,
        messages: [
            "Meine Schwester wohnt seit drei Jahren in Hamburg.",
            "Ich vertrage keine Erdnüsse.",
            "Am Wochenende haben wir das Wohnzimmer grün gestrichen.",
            "Unser Hund heißt Bruno und ist zwei Jahre alt.",
            "Ich lerne gerade Geige zu spielen.",
            "Der Zug nach Wien hatte gestern zwei Stunden Verspätung.",
        ],
        questions: [
            "In welcher Stadt wohnt die Schwester?",
            "Wer verträgt keine Erdnüsse?",
            "Welche Farbe hat das Wohnzimmer?",
            "Wie heißt der Hund?",
            "Wer lernt Geige?",
            "Wie viel Verspätung hatte der Zug?",
        ],
    },
    Chat {
        language: Language::French,
        messages: [
            "Ma sœur habite à Lyon depuis trois ans.",
            "Je suis allergique aux arachides.",
            "Ce week-end nous avons repeint le salon en vert.",
            "Notre chien s'appelle Bruno et il a deux ans.",
            "J'apprends à jouer du violon.",
            "Le train pour Vienne avait deux heures de retard hier.",
        ],
        questions: [
            "Où habite la sœur ?",
            "Qui est allergique aux arachides ?",
            "De quelle couleur est le salon ?",
            "Comment s'appelle le chien ?",
            "Qui apprend le violon ?",
            "Combien de retard avait le train ?",
        ],
    },
    Chat {
        language: Language::Russian,
        messages: [
            "Моя сестра уже три года живёт в Казани.",
            "У меня аллергия на арахис.",
            "В выходные мы покрасили гостиную в зелёный цвет.",
            "Нашу собаку зовут Бруно, ей два года.",
            "Я учусь играть на скрипке.",
            "Поезд в Вену вчера опоздал на два часа.",
        ],
        questions: [
            "Где живёт сестра?",
            "На что аллергия?",
            "В какой цвет покрасили гостиную?",
            "Как зовут собаку?",
            "Кто учится играть на скрипке?",
            "На сколько опоздал поезд?",
        ],
    },
    Chat {
        language: Language::None,
        messages: [
            "我姐姐在上海住了三年。",
            "我对花生过敏。",
            "周末我们把客厅刷成了绿色。",
            "我们的狗叫布鲁诺，今年两岁。",
            "我正在学拉小提琴。",
            "昨天去维也纳的火车晚点了两个小时。",
        ],
        questions: [
            "姐姐住在哪里？",
            "谁对花生过敏？",
            "客厅是什么颜色？",
            "狗叫什么名字？",
            "谁在学小提琴？",
            "火车晚点了多久？",
        ],
    },
    Chat {
        language: Language::None,
        messages: [
            "姉は三年前から大阪に住んでいます。",
            "私はピーナッツアレルギーです。",
            "週末に居間を緑色に塗りました。",
            "うちの犬の名前はブルーノで、二歳です。",
            "今、バイオリンを習っています。",
            "昨日ウィーン行きの電車が二時間遅れました。",
        ],
        questions: [
            "姉はどこに住んでいますか？",
            "ピーナッツを食べられないのは誰ですか？",
            "居間は何色ですか？",
            "犬の名前は何ですか？",
            "バイオリンを習っているのは誰ですか？",
            "電車はどれくらい遅れましたか？",
        ],
    },
    Chat {
        language: Language::Arabic,
        messages: [
            "أختي تسكن في القاهرة منذ ثلاث سنوات.",
            "عندي حساسية من الفول السوداني.",
            "في نهاية الأسبوع دهنّا غرفة الجلوس باللون الأخضر.",
            "كلبنا اسمه برونو وعمره سنتان.",
            "أتعلم العزف على الكمان.",
            "تأخر القطار إلى فيينا ساعتين أمس.",
        ],
        questions: [
            "أين تسكن أختي؟",
            "من عنده حساسية من الفول السوداني؟",
            "ما لون غرفة الجلوس؟",
            "ما اسمه كلبنا؟",
            "من يتعلم العزف على الكمان؟",
            "كم تأخر القطار؟",
        ],
    },
];

/// Returns a description of each question whose answer is not among the first two hits. One wrong
/// hit may rank higher, because the stop words are English.
fn unanswered_questions(
    chat: &Chat,
    language: Language,
    meaning: Option<Arc<dyn LocalEmbedder>>,
) -> Vec<String> {
    let mut unanswered = Vec::new();
    let has_meaning = meaning.is_some();
    let messages = (1..).zip(chat.messages);
    let documents = messages.map(|(seq, text)| note(seq, text));
    let index = UserIndex::with(language, meaning, Ranking::default());
    let index = fill(index, documents);
    for (answer, question) in (1..).zip(chat.questions) {
        let hits = hit_seqs(&index, question);
        if !hits.iter().take(2).any(|seq| *seq == answer) {
            unanswered.push(format!(
                "{question} with {language:?}, vectors: {has_meaning}: {hits:?}"
            ));
        }
    }
    unanswered
}

#[test]
fn memories_in_other_languages_are_found() {
    let mut unanswered = Vec::new();
    for chat in &CHATS {
        for language in [Language::English, chat.language] {
            unanswered.extend(unanswered_questions(chat, language, None));
            if let Ok(vectors) = StaticVectors::get() {
                let meaning: Arc<dyn LocalEmbedder> = Arc::new(vectors);
                unanswered.extend(unanswered_questions(chat, language, Some(meaning)));
            }
        }
    }
    assert!(unanswered.is_empty(), "{unanswered:#?}");
}

#[test]
fn text_without_word_vectors_is_ranked_by_word_matches_only() {
    let Ok(vectors) = StaticVectors::get() else {
        return;
    };
    let notes = [
        note(1, "居間を緑色に塗りました。"),
        note(2, "Pythonを習っています。"),
    ];
    let index = fill(UserIndex::with_local_embedder(Arc::new(vectors)), notes);
    for (question, has_meaning) in [("居間は何色ですか？", false), ("Pythonを習う？", true)]
    {
        let first = &search(&index, question)[0].explanation;
        assert!(first.lexical > 0.0, "{question}");
        assert_eq!(first.meaning > 0.0, has_meaning, "{question}");
    }
}
