//! `retain check`: checks the stores for corruption, and repairs what can be derived.

use std::{fmt, sync::Arc};

use anyhow::Context as _;
use clap::Args;
use retain::store::{FileArtifactStore, Problem, TransferStore, check_artifacts, repair_store};
use serde_json::{Value, json};

use crate::output::say;

use super::{Database, OpenMode, ServiceOptions, services::folder, spinner::Spinner};

/// Check the stores for corruption.
///
/// Checks that every record can be read, that states and counts equal what the logs give, that
/// records refer to records that exist, and that the schema is the one that Retain creates.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 if all is intact, 1 if there are problems, 2 if the check could not be completed"
)]
pub(crate) struct Check {
    #[command(flatten)]
    stores: ServiceOptions,
    /// Rebuild what the logs give, such as states, counts and indexes, and name what cannot be
    /// rebuilt. Running servers can stay up; make a backup before
    #[arg(long)]
    repair: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// A failure of the check itself, which has its own exit code.
#[derive(Debug)]
pub(crate) struct CheckIncomplete;

impl fmt::Display for CheckIncomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the check could not be completed")
    }
}

/// The exit code of a check that could not be completed.
pub(crate) const INCOMPLETE_CODE: i32 = 2;

/// What was found in one store.
struct StoreResult {
    store: String,
    repaired: Vec<Problem>,
    problems: Vec<Problem>,
}

impl Check {
    /// Prints every problem; fails if there is one.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let results = self.check_all().await.context(CheckIncomplete)?;
        match self.json {
            true => say!("{}", to_json(&results)),
            false => self.print(&results)?,
        }
        match results.iter().map(|result| result.problems.len()).sum() {
            0 => Ok(()),
            1 => anyhow::bail!("1 problem found"),
            count => anyhow::bail!("{count} problems found"),
        }
    }

    fn print(&self, results: &[StoreResult]) -> anyhow::Result<()> {
        let has_several = results.len() > 1;
        for result in results {
            let store = match has_several {
                true => format!("{}: ", result.store),
                false => String::new(),
            };
            for problem in &result.repaired {
                say!("{store}repaired: {}: {}", problem.location, problem.damage);
            }
            for problem in &result.problems {
                say!("{store}{problem}");
            }
        }
        if results.iter().all(|result| result.problems.is_empty()) {
            say!("no corruption found");
        }
        Ok(())
    }

    async fn check_all(&self) -> anyhow::Result<Vec<StoreResult>> {
        let uris = self.stores.uris()?;
        let mut results = Vec::new();
        let mut checked: Vec<Option<String>> = Vec::new();
        let all = [Some(uris.sessions), uris.memory, uris.artifacts];
        for uri in all.into_iter().flatten() {
            if uri.starts_with("file:") {
                results.push(check_folder(&uri).await?);
                continue;
            }
            let mode = match self.repair {
                true => OpenMode::Existing,
                false => OpenMode::ReadOnly,
            };
            let database = Database::open(&uri, mode).await?;
            let store = database.shared_store();
            let identity = store.identity().await?;
            // Several options may name one database.
            if !checked.contains(&identity) {
                let shown = database.display_uri(&uri);
                results.push(self.check_database(shown, store).await?);
                checked.push(identity);
            }
        }
        Ok(results)
    }

    async fn check_database(
        &self,
        shown: String,
        store: Arc<dyn TransferStore>,
    ) -> anyhow::Result<StoreResult> {
        let _spinner = Spinner::new(format!("checking {shown}"));
        let (repaired, problems) = match self.repair {
            true => {
                let report = repair_store(&*store).await?;
                (report.repaired, report.remaining)
            }
            false => (Vec::new(), store.check().await?),
        };
        Ok(StoreResult {
            store: shown,
            repaired,
            problems,
        })
    }
}

/// Checks a folder of artifacts, in which nothing can be derived.
async fn check_folder(uri: &str) -> anyhow::Result<StoreResult> {
    let _spinner = Spinner::new(format!("checking {uri}"));
    let store = FileArtifactStore::open_read_only(folder(uri)?)?;
    Ok(StoreResult {
        store: uri.to_owned(),
        repaired: Vec::new(),
        problems: check_artifacts(&store).await?,
    })
}

fn to_json(results: &[StoreResult]) -> Value {
    let describe = |store: &str, problem: &Problem| {
        let fields = problem.location.fields().into_iter();
        let place: serde_json::Map<String, Value> = fields
            .map(|(name, value)| (name.to_owned(), Value::from(value)))
            .collect();
        json!({
            "store": store,
            "location": problem.location.to_string(),
            "place": place,
            "problem": problem.damage.to_string(),
            "repairable": problem.is_repairable,
            "advice": problem.advice(),
        })
    };
    let list = |select: fn(&StoreResult) -> &Vec<Problem>| -> Vec<Value> {
        let all = results.iter().flat_map(|result| {
            let problems = select(result).iter();
            problems.map(|problem| describe(&result.store, problem))
        });
        all.collect()
    };
    let stores: Vec<&str> = results.iter().map(|result| result.store.as_str()).collect();
    json!({
        "stores": stores,
        "problems": list(|result| &result.problems),
        "repaired": list(|result| &result.repaired),
    })
}
