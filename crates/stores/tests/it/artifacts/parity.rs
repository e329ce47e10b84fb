//! Random operations get the same answers from Retain's artifact services as from Google's ADK,
//! also on a folder that both write.
//!
//! A failure prints the seed of its script: `RETAIN_SEED=7 RETAIN_SCRIPTS=1` runs it alone.

use std::path::Path;

use retain_core::{
    ArtifactError, ArtifactKey, ArtifactService, ArtifactVersion, Json, JsonMap, Part,
};
use retain_stores::{FileArtifactService, FileArtifactStore, InMemoryArtifactService};
use retain_testkit::{
    oracle::{Oracle, Reference, is_long, setting},
    random::Random,
};

use super::script::{self, ScriptTarget};

const SEED: u64 = 20_261_116;
const SCRIPTS: u64 = 40;

fn seeds() -> std::ops::Range<u64> {
    let count = if is_long() { SCRIPTS * 10 } else { SCRIPTS };
    let count = setting("RETAIN_SCRIPTS").unwrap_or(count);
    let seed = setting("RETAIN_SEED").unwrap_or(SEED);
    println!("{count} scripts from seed {seed}");
    seed..seed + count
}

/// Number of answers of each kind. If all operations of the scripts failed, the test would prove
/// nothing.
#[derive(Debug, Default)]
struct AnswerCounts {
    rejected: u64,
    loaded: u64,
    absent: u64,
}

impl AnswerCounts {
    fn count(&mut self, op: &Json, answer: &Json) {
        self.rejected += u64::from(answer.get("error").is_some());
        if op["op"] == "load" && answer.get("error").is_none() {
            if answer["ok"].is_null() {
                self.absent += 1;
            } else {
                self.loaded += 1;
            }
        }
    }

    /// Fails unless every kind of answer occurred often.
    fn assert_all_common(&self) {
        println!("{self:?}");
        if setting("RETAIN_SCRIPTS").is_none() {
            let least = self.rejected.min(self.loaded).min(self.absent);
            assert!(least > 50, "{self:?}");
        }
    }
}

#[tokio::test]
async fn in_memory_artifacts_match_adk() {
    let Some(mut adk) = Adk::start("artifacts in memory, parity") else {
        return;
    };
    let mut counts = AnswerCounts::default();
    for seed in seeds() {
        let ours = InMemoryArtifactService::new();
        for (number, op) in script::generate(seed, ScriptTarget::Memory)
            .iter()
            .enumerate()
        {
            let theirs = adk.execute(&format!("memory:{seed}"), op);
            let ours = execute(&ours, op, "").await;
            counts.count(op, &theirs);
            assert_same(seed, number, op, [&ours, &theirs]);
        }
    }
    counts.assert_all_common();
    adk.stop();
}

#[tokio::test]
async fn folder_artifacts_match_adk_in_separate_and_shared_folders() {
    let Some(mut adk) = Adk::start("artifacts in a folder, parity") else {
        return;
    };
    let mut counts = AnswerCounts::default();
    for seed in seeds() {
        let [alone, shared, theirs] = [(); 3].map(|()| retain_testkit::scratch::folder());
        let (ours, sharing) = (open(alone.path()), open(shared.path()));
        let mut random = Random::new(seed);
        for (number, op) in script::generate(seed, ScriptTarget::Folder)
            .iter()
            .enumerate()
        {
            let by_adk = adk.execute(&service_name(theirs.path()), op);
            let by_us = execute(&ours, op, &uri(alone.path())).await;
            let by_both = if random.chance(50) {
                adk.execute(&service_name(shared.path()), op)
            } else {
                execute(&sharing, op, &uri(shared.path())).await
            };
            counts.count(op, &by_adk);
            assert_same(seed, number, op, [&by_us, &by_adk]);
            assert_same(seed, number, op, [&by_both, &by_adk]);
        }
    }
    counts.assert_all_common();
    adk.stop();
}

fn open(root: &Path) -> FileArtifactService {
    FileArtifactService::over(FileArtifactStore::open(root).unwrap())
}

fn service_name(root: &Path) -> String {
    format!("file:{}", root.display())
}

fn uri(root: &Path) -> String {
    format!("file://{}", root.canonicalize().unwrap().display())
}

/// Fails at the first answer that differs. Error messages may differ.
fn assert_same(seed: u64, number: usize, op: &Json, answers: [&Json; 2]) {
    let [ours, theirs] = answers;
    let same = match (ours.get("ok"), theirs.get("ok")) {
        (Some(ours), Some(theirs)) => without_rejected(ours) == without_rejected(theirs),
        (None, None) => true,
        _ => false,
    };
    assert!(
        same,
        "RETAIN_SEED={seed} RETAIN_SCRIPTS=1, operation {number}\n{op}\nours   {ours}\ntheirs {theirs}"
    );
}

/// Removes the files named `refused` from a list: ADK lists a file even if every save was rejected.
fn without_rejected(answer: &Json) -> Json {
    let Some(items) = answer.as_array() else {
        return answer.clone();
    };
    let accepted = items.iter().filter(|item| {
        let name = item.as_str().unwrap_or_default();
        !name.trim_start_matches("user:").starts_with("refused")
    });
    Json::from(accepted.cloned().collect::<Vec<Json>>())
}

/// Executes an operation on one of Retain's services. `root` is the prefix of file URIs.
pub(crate) async fn execute(artifacts: &dyn ArtifactService, op: &Json, root: &str) -> Json {
    match try_execute(artifacts, op, root).await {
        Ok(answer) => Json::from(JsonMap::from([("ok", answer)])),
        Err(error @ (ArtifactError::Invalid { .. } | ArtifactError::Reference { .. })) => {
            Json::from(JsonMap::from([("error", error.to_string())]))
        }
        Err(error) => panic!("{op}: {error:?}"),
    }
}

async fn try_execute(
    artifacts: &dyn ArtifactService,
    op: &Json,
    root: &str,
) -> Result<Json, ArtifactError> {
    let text = |name: &str| op[name].as_str().unwrap_or_default().to_owned();
    let session = op["session"].as_str();
    let key = ArtifactKey {
        app_name: text("app"),
        user_id: text("user"),
        session_id: session.map(str::to_owned),
        filename: text("file"),
    };
    let version = op["version"].as_u64();
    let version_json = |version: ArtifactVersion| {
        let value = Json::parse(&version.to_json().unwrap()).unwrap();
        let mut fields = value.as_object().unwrap().clone();
        fields.remove("createTime");
        let uri = version
            .canonical_uri
            .replace(root, if root.is_empty() { "" } else { "ROOT" });
        fields.insert("canonicalUri", uri);
        Json::from(fields)
    };
    Ok(match op["op"].as_str().unwrap() {
        "list" => {
            let listed = artifacts.list_artifact_keys(&key.app_name, &key.user_id, session);
            Json::from(
                listed
                    .await?
                    .into_iter()
                    .map(Json::from)
                    .collect::<Vec<_>>(),
            )
        }
        "save" => {
            let part = Part::from_json(&op["part"].to_string()).unwrap();
            let metadata = op["notes"].as_object().cloned();
            artifacts.save_artifact(&key, part, metadata).await?.into()
        }
        "load" => match artifacts.load_artifact(&key, version).await? {
            Some(part) => Json::parse(&part.to_json().unwrap()).unwrap(),
            None => Json::Null,
        },
        "delete" => {
            artifacts.delete_artifact(&key).await?;
            Json::Null
        }
        "versions" => {
            let versions = artifacts.list_versions(&key).await?;
            Json::from(versions.into_iter().map(Json::from).collect::<Vec<_>>())
        }
        "tell_all" => {
            let versions = artifacts.list_artifact_versions(&key).await?;
            Json::from(versions.into_iter().map(version_json).collect::<Vec<_>>())
        }
        "tell" => {
            let found = artifacts.get_artifact_version(&key, version).await?;
            found.map(version_json).unwrap_or_default()
        }
        other => panic!("unknown operation {other}"),
    })
}

/// A process that executes operations on ADK.
pub(crate) struct Adk(Oracle);

impl Adk {
    /// Starts ADK; `None` if it is not installed.
    pub(crate) fn start(test: &str) -> Option<Adk> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/artifacts/oracle.py");
        Oracle::start(Reference::Adk, test, script).map(Adk)
    }

    pub(crate) fn execute(&mut self, service: &str, op: &Json) -> Json {
        let mut op = op.as_object().expect("an object").clone();
        op.insert("service", service);
        self.0.ask(&op.into())
    }

    pub(crate) fn stop(self) {
        self.0.stop();
    }
}
