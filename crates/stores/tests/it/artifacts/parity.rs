//! Random operations give the same answers on our services and on Google's ADK; on a folder that
//! both use in turn, each behaves as if it were alone.
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

use super::script::{Flavour, script};

const SEED: u64 = 20_261_116;
const SCRIPTS: u64 = 40;

fn seeds() -> std::ops::Range<u64> {
    let count = if is_long() { SCRIPTS * 10 } else { SCRIPTS };
    let count = setting("RETAIN_SCRIPTS").unwrap_or(count);
    let seed = setting("RETAIN_SEED").unwrap_or(SEED);
    println!("{count} scripts from seed {seed}");
    seed..seed + count
}

/// Counts of outcomes: scripts in which every operation fails would prove nothing.
#[derive(Debug, Default)]
struct Seen {
    refused: u64,
    loaded: u64,
    absent: u64,
}

impl Seen {
    fn count(&mut self, op: &Json, answer: &Json) {
        self.refused += u64::from(answer.get("error").is_some());
        if op["op"] == "load" && answer.get("error").is_none() {
            match answer["ok"].is_null() {
                true => self.absent += 1,
                false => self.loaded += 1,
            }
        }
    }

    fn must_be_telling(&self) {
        println!("{self:?}");
        if setting("RETAIN_SCRIPTS").is_none() {
            let least = self.refused.min(self.loaded).min(self.absent);
            assert!(least > 50, "{self:?}");
        }
    }
}

#[tokio::test]
async fn in_memory_artifacts_match_adk() {
    let Some(mut adk) = Adk::start("artifacts in memory, parity") else {
        return;
    };
    let mut seen = Seen::default();
    for seed in seeds() {
        let ours = InMemoryArtifactService::new();
        for (number, op) in script(seed, Flavour::Memory).iter().enumerate() {
            let theirs = adk.play(&format!("memory:{seed}"), op);
            let ours = play(&ours, op, "").await;
            seen.count(op, &theirs);
            assert_same(seed, number, op, [&ours, &theirs]);
        }
    }
    seen.must_be_telling();
    adk.stop();
}

#[tokio::test]
async fn folder_artifacts_match_adk_also_when_shared() {
    let Some(mut adk) = Adk::start("artifacts in a folder, parity") else {
        return;
    };
    let mut seen = Seen::default();
    for seed in seeds() {
        let [alone, shared, theirs] = [(); 3].map(|()| retain_testkit::scratch::folder());
        let (ours, sharing) = (open(alone.path()), open(shared.path()));
        let mut turns = Random::new(seed);
        for (number, op) in script(seed, Flavour::Folder).iter().enumerate() {
            let by_adk = adk.play(&service_name(theirs.path()), op);
            let by_us = play(&ours, op, &uri(alone.path())).await;
            let by_both = match turns.chance(50) {
                true => adk.play(&service_name(shared.path()), op),
                false => play(&sharing, op, &uri(shared.path())).await,
            };
            seen.count(op, &by_adk);
            assert_same(seed, number, op, [&by_us, &by_adk]);
            assert_same(seed, number, op, [&by_both, &by_adk]);
        }
    }
    seen.must_be_telling();
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

/// Fail at the first answer that differs. Error messages may differ.
fn assert_same(seed: u64, number: usize, op: &Json, answers: [&Json; 2]) {
    let [ours, theirs] = answers;
    let same = match (ours.get("ok"), theirs.get("ok")) {
        (Some(ours), Some(theirs)) => without_refused(ours) == without_refused(theirs),
        (None, None) => true,
        _ => false,
    };
    assert!(
        same,
        "RETAIN_SEED={seed} RETAIN_SCRIPTS=1, operation {number}\n{op}\nours   {ours}\ntheirs {theirs}"
    );
}

/// ADK lists a file whose only save was rejected; scripts name those files `refused`.
fn without_refused(answer: &Json) -> Json {
    let Some(items) = answer.as_array() else {
        return answer.clone();
    };
    let kept = items.iter().filter(|item| {
        let name = item.as_str().unwrap_or_default();
        !name.trim_start_matches("user:").starts_with("refused")
    });
    Json::from(kept.cloned().collect::<Vec<Json>>())
}

/// Execute an operation on one of our services. `root` is the prefix of file URIs.
pub(crate) async fn play(artifacts: &dyn ArtifactService, op: &Json, root: &str) -> Json {
    match try_play(artifacts, op, root).await {
        Ok(answer) => Json::from(JsonMap::from([("ok", answer)])),
        Err(error @ (ArtifactError::Invalid { .. } | ArtifactError::Reference { .. })) => {
            Json::from(JsonMap::from([("error", error.to_string())]))
        }
        Err(error) => panic!("{op}: {error:?}"),
    }
}

async fn try_play(
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
    let told = |version: ArtifactVersion| {
        let mut value = Json::parse(&version.to_json().unwrap()).unwrap();
        let mut fields = value.as_object().unwrap().clone();
        fields.remove("createTime");
        let uri = version
            .canonical_uri
            .replace(root, if root.is_empty() { "" } else { "ROOT" });
        fields.insert("canonicalUri", uri);
        value = Json::from(fields);
        value
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
            let notes = op["notes"].as_object().cloned();
            artifacts.save_artifact(&key, part, notes).await?.into()
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
            let known = artifacts.list_artifact_versions(&key).await?;
            Json::from(known.into_iter().map(told).collect::<Vec<_>>())
        }
        "tell" => {
            let known = artifacts.get_artifact_version(&key, version).await?;
            known.map(told).unwrap_or_default()
        }
        other => panic!("no operation {other}"),
    })
}

/// A process that executes operations on ADK.
pub(crate) struct Adk(Oracle);

impl Adk {
    /// `None` if ADK is not installed.
    pub(crate) fn start(test: &str) -> Option<Adk> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/artifacts/oracle.py");
        Oracle::start(Reference::Adk, test, script).map(Adk)
    }

    pub(crate) fn play(&mut self, service: &str, op: &Json) -> Json {
        let mut op = op.as_object().expect("an object").clone();
        op.insert("service", service);
        self.0.ask(&op.into())
    }

    pub(crate) fn stop(self) {
        self.0.stop();
    }
}
