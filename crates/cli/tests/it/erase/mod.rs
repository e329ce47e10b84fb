//! Erasing a user leaves no byte in any store: a unique text is written everywhere, the user is
//! erased, and the text is searched in all files and tables.

mod in_flight;

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use retain::Json;
use retain_testkit::postgres::{TestDatabase, is_there};

use crate::serve::process::{Server, retain};

/// The user to erase. The text is also in every record of the user.
const CANARY: &str = "canary7f3a91";

/// Where the data of a server is.
struct Setup {
    folder: tempfile::TempDir,
    database: Option<TestDatabase>,
    /// The kinds of the stores in the receipt.
    kinds: &'static [&'static str],
}

impl Setup {
    /// Writes the settings that name the stores.
    fn new(settings: &str, kinds: &'static [&'static str]) -> Setup {
        let folder = retain_testkit::scratch::folder();
        let files = folder.path().join("files");
        let settings = settings.replace("FILES", &files.display().to_string());
        std::fs::write(folder.path().join("retain.toml"), settings).unwrap();
        Setup {
            folder,
            database: None,
            kinds,
        }
    }

    fn one_file() -> Setup {
        Setup::new("session-service-uri = \"sqlite:///s.db\"\n", &["sqlite"])
    }

    fn split_files() -> Setup {
        let settings = "session-service-uri = \"sqlite:///s.db\"\n\
                        memory-service-uri = \"sqlite:///m.db\"\n\
                        artifact-service-uri = \"sqlite:///a.db\"\n";
        Setup::new(settings, &["sqlite", "sqlite", "sqlite"])
    }

    fn folder_of_artifacts() -> Setup {
        let settings = "session-service-uri = \"sqlite:///s.db\"\n\
                        artifact-service-uri = \"file://FILES\"\n";
        Setup::new(settings, &["sqlite", "folder"])
    }

    async fn postgres() -> Setup {
        let database = TestDatabase::new().await;
        let settings = format!("session-service-uri = {:?}\n", database.uri());
        let mut setup = Setup::new(&settings, &["postgres"]);
        setup.database = Some(database);
        setup
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Lists the places that hold a text: files by name or content, and tables.
    async fn places_of(&self, text: &str) -> Vec<String> {
        let mut places = Vec::new();
        for path in paths_in(self.path()) {
            let in_name = path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().contains(text));
            let bytes = if path.is_file() {
                std::fs::read(&path).unwrap()
            } else {
                Vec::new()
            };
            let in_bytes = bytes
                .windows(text.len())
                .any(|window| window == text.as_bytes());
            if in_name || in_bytes {
                places.push(path.display().to_string());
            }
        }
        if let Some(database) = &self.database {
            let dump = database.dump().await;
            let found = dump.lines().filter(|line| line.contains(text));
            places.extend(found.map(str::to_owned));
        }
        places
    }

    /// Runs `retain erase` in the folder and returns the receipt.
    fn erase(&self) -> Json {
        let line = [
            "erase",
            "--app",
            "assistant",
            "--user",
            CANARY,
            "--yes",
            "--json",
        ];
        let ran = retain(self.path()).args(line).output().unwrap();
        let error = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{error}");
        Json::parse(&String::from_utf8(ran.stdout).unwrap()).unwrap()
    }
}

/// Lists all files and folders below a folder.
fn paths_in(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path.clone());
            }
            found.push(path);
        }
    }
    found
}

fn post(server: &Server, path: &str, body: &str) {
    let answer = server.post(path, body);
    assert!(
        (200..300).contains(&answer.status),
        "{path}: {}",
        answer.text
    );
}

/// Writes every kind of record of a user, each with the name of the user in every text.
fn fill(server: &Server, user: &str) {
    let base = format!("/api/v1/apps/assistant/users/{user}");
    for session in ["one", "two"] {
        let id = format!("{session}-{user}");
        let state = format!(r#"{{"k-{user}":"{user}","user:k-{user}":["{user}"]}}"#);
        let session = format!(r#"{{"sessionId":"{id}","state":{state}}}"#);
        post(server, &format!("{base}/sessions"), &session);
        let run = format!(
            r#"{{"appName":"assistant","userId":"{user}","sessionId":"{id}","stateDelta":{{"d-{user}":"{user}"}},
            "newMessage":{{"role":"user","parts":[{{"text":"My secret is {user}."}}]}}}}"#
        );
        post(server, "/run", &run);
        for name in [format!("{user}.txt"), format!("user:{user}.txt")] {
            let artifact = format!(
                r#"{{"filename":"{name}","artifact":{{"text":"{user}"}},"customMetadata":{{"m":"{user}"}}}}"#
            );
            post(
                server,
                &format!("{base}/sessions/{id}/artifacts"),
                &artifact,
            );
        }
        let ingest = format!(r#"{{"sessionId":"{id}","customMetadata":{{"m":"{user}"}}}}"#);
        post(server, &format!("{base}/memory/sessions"), &ingest);
    }
    let entry = format!(
        r#"{{"memories":[{{"content":{{"role":"user","parts":[{{"text":"{user}"}}]}},"id":"{user}-1","author":"{user}",
        "custom_metadata":{{"m":"{user}"}}}}]}}"#
    );
    post(server, &format!("{base}/memory/entries"), &entry);
    let search = server.post(&format!("{base}/memory/search"), r#"{"query":"secret"}"#);
    assert!(search.text.contains(user), "{}", search.text);
    assert_eq!(server.get(&format!("{base}/sessions")).status, 200);
}

/// Checks the counts and the stores of a receipt.
fn check_receipt(receipt: &Json, setup: &Setup) {
    let number = |field: &str| receipt[field].as_u64().unwrap();
    assert_eq!(receipt["complete"], true, "{receipt}");
    assert_eq!(
        (number("sessions"), number("artifacts")),
        (2, 4),
        "{receipt}"
    );
    assert!(
        number("memories") >= 3 && number("events") >= 4,
        "{receipt}"
    );
    let stores = receipt["stores"].as_array().unwrap();
    let kinds: Vec<&str> = stores
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, setup.kinds, "{receipt}");
    for store in stores {
        assert!(store["address"].as_str().is_some_and(|it| !it.is_empty()));
        assert!(!store["notes"].as_array().unwrap().is_empty(), "{receipt}");
    }
}

async fn erase_leaves_no_trace(setup: Setup, by_http: bool) {
    let server = Server::with(setup.path(), &[]);
    fill(&server, CANARY);
    fill(&server, "another");
    assert!(!setup.places_of(CANARY).await.is_empty());
    let user = format!("/api/v1/apps/assistant/users/{CANARY}");
    let receipt = match by_http {
        true => {
            let answer = server.ask("DELETE", &user, "", "");
            assert_eq!(answer.status, 200, "{}", answer.text);
            let (_, body) = answer.text.split_once("\r\n\r\n").unwrap();
            Json::parse(body.trim()).unwrap()
        }
        // The server that has cached the user's data keeps running.
        false => setup.erase(),
    };
    check_receipt(&receipt, &setup);
    for path in ["sessions", "memory/entries", "artifacts", "state"] {
        let answer = server.get(&format!("{user}/{path}"));
        let (_, body) = answer.text.split_once("\r\n\r\n").unwrap();
        assert!(
            answer.status == 200 && !body.contains(CANARY),
            "{path}: {body}"
        );
    }
    assert_eq!(setup.places_of(CANARY).await, Vec::<String>::new());
    assert!(!setup.places_of("another").await.is_empty());
    server.stop();
    assert_eq!(setup.places_of(CANARY).await, Vec::<String>::new());
    let again = setup.erase();
    assert_eq!(again["sessions"].as_u64(), Some(0), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn erase_leaves_no_trace_in_one_file() {
    erase_leaves_no_trace(Setup::one_file(), false).await;
    erase_leaves_no_trace(Setup::one_file(), true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn erase_leaves_no_trace_in_split_files() {
    erase_leaves_no_trace(Setup::split_files(), false).await;
    erase_leaves_no_trace(Setup::split_files(), true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn erase_leaves_no_trace_in_a_folder_of_artifacts() {
    erase_leaves_no_trace(Setup::folder_of_artifacts(), false).await;
    erase_leaves_no_trace(Setup::folder_of_artifacts(), true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn erase_leaves_no_trace_in_postgres() {
    if is_there() {
        erase_leaves_no_trace(Setup::postgres().await, false).await;
        erase_leaves_no_trace(Setup::postgres().await, true).await;
    }
}

#[test]
fn erase_without_confirmation_erases_nothing() {
    let setup = Setup::one_file();
    let mut command = retain(setup.path());
    command.args(["erase", "--app", "assistant", "--user", "ada"]);
    let ran = command.stdin(Stdio::null()).output().unwrap();
    assert!(!ran.status.success());
    assert!(String::from_utf8_lossy(&ran.stderr).contains("--yes"));
}
