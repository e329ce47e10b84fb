//! Checks the artifacts of any store through its port.

use super::{Damage, Location, Problem, Problems};
use crate::artifacts::{ArtifactAddress, ArtifactError, ArtifactStore};

/// Number of artifacts listed at a time.
const PAGE: usize = 256;

/// Reads every version of every artifact, and reports each that cannot be read.
pub async fn check_artifacts(store: &dyn ArtifactStore) -> Result<Vec<Problem>, ArtifactError> {
    let mut problems = Problems::default();
    let mut after: Option<ArtifactAddress> = None;
    loop {
        let page = store.addresses(after.as_ref(), PAGE).await?;
        for address in &page {
            check_artifact(store, address, &mut problems).await?;
        }
        match page.into_iter().last() {
            Some(last) => after = Some(last),
            None => return Ok(problems.into_vec()),
        }
    }
}

async fn check_artifact(
    store: &dyn ArtifactStore,
    address: &ArtifactAddress,
    problems: &mut Problems,
) -> Result<(), ArtifactError> {
    let numbers: Vec<u64> = match store.versions(address).await {
        Ok(versions) => versions.iter().map(|version| version.version).collect(),
        Err(ArtifactError::Corrupt {
            version, source, ..
        }) => {
            problems.push(Problem::unreadable(
                location(address, Some(version)),
                source,
            ));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for version in numbers {
        match store.get(address, Some(version)).await {
            Ok(Some(_)) => {}
            Ok(None) => {
                let what = "its content".to_owned();
                let location = location(address, Some(version));
                problems.push(Problem::permanent(location, Damage::Missing { what }));
            }
            Err(ArtifactError::Corrupt { source, .. }) => {
                let location = location(address, Some(version));
                problems.push(Problem::unreadable(location, source));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn location(address: &ArtifactAddress, version: Option<u64>) -> Location {
    Location::Artifact {
        address: Box::new(address.clone()),
        version,
    }
}
