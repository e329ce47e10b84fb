//! Migrates artifacts with all their versions, with one version in memory at a time.
//!
//! The two stores may interpret names differently, so an address of one store is always converted
//! to the address in the other.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use futures_util::{TryStreamExt as _, future::try_join, stream::BoxStream};

use super::{
    Section, Side,
    compare::{HashPair, RecordField, json_text},
    outcome::{MigrationCounts, MigrationError, Result, failed},
    steps::{PAGE, StorePair, pages},
    survey::SideSurvey,
};
use crate::{
    artifacts::{
        ArtifactAddress, ArtifactError, ArtifactKey, ArtifactNaming, ArtifactStore,
        ArtifactVersion, NewArtifact, USER_ARTIFACT_PREFIX, to_stored_part,
    },
    content::Part,
    session::SessionKey,
    transfer_store::TransferStore,
};

#[derive(Debug)]
pub(super) struct Artifacts {
    stores: StorePair<dyn ArtifactStore>,
    /// The sessions that determine when their artifacts expire.
    sessions: Option<Arc<dyn TransferStore>>,
}

/// An artifact in both stores.
struct ArtifactPair {
    what: String,
    from: ArtifactAddress,
    to: ArtifactAddress,
}

impl ArtifactPair {
    fn at(&self, side: Side) -> &ArtifactAddress {
        match side {
            Side::Source => &self.from,
            Side::Target => &self.to,
        }
    }
}

impl Artifacts {
    pub(super) fn new(
        stores: StorePair<dyn ArtifactStore>,
        sessions: Option<Arc<dyn TransferStore>>,
    ) -> Artifacts {
        Artifacts { stores, sessions }
    }

    fn addresses(&self, side: Side) -> BoxStream<'_, Result<Vec<ArtifactAddress>>> {
        pages(move |after: Option<ArtifactAddress>| {
            Box::pin(async move {
                let addresses = self.stores.at(side).addresses(after.as_ref(), PAGE).await;
                addresses.map_err(failed("the list of artifacts"))
            })
        })
    }

    /// Pairs the artifact at `address` of one side with its address on the other.
    fn pair(&self, side: Side, address: ArtifactAddress) -> Result<ArtifactPair> {
        let what = name_of(&address);
        let rejected = |error: ArtifactError| MigrationError::Rejected {
            what: what.clone(),
            reason: error.to_string(),
        };
        Ok(match side {
            Side::Source => {
                let to = convert_address(&address, self.stores.to.naming()).map_err(rejected)?;
                ArtifactPair {
                    what,
                    from: address,
                    to,
                }
            }
            Side::Target => {
                let from =
                    convert_address(&address, self.stores.from.naming()).map_err(rejected)?;
                ArtifactPair {
                    what,
                    from,
                    to: address,
                }
            }
        })
    }

    async fn versions(&self, side: Side, pair: &ArtifactPair) -> Result<Vec<ArtifactVersion>> {
        let versions = self.stores.at(side).versions(pair.at(side)).await;
        versions.map_err(failed(pair.what.as_str()))
    }

    async fn both_versions(
        &self,
        pair: &ArtifactPair,
    ) -> Result<(Vec<ArtifactVersion>, Vec<ArtifactVersion>)> {
        let from = self.versions(Side::Source, pair);
        try_join(from, self.versions(Side::Target, pair)).await
    }

    async fn load_part(&self, side: Side, pair: &ArtifactPair, version: u64) -> Result<Part> {
        let found = self.stores.at(side).get(pair.at(side), Some(version)).await;
        let found = found.map_err(failed(pair.what.as_str()))?;
        let deleted = || failed(pair.what.as_str())(format!("version {version} no longer exists"));
        found.map(|found| found.part).ok_or_else(deleted)
    }

    /// Returns a version as a field for comparison.
    async fn version_field(
        &self,
        side: Side,
        pair: &ArtifactPair,
        version: &ArtifactVersion,
    ) -> Result<RecordField> {
        let part = self.load_part(side, pair, version.version).await?;
        let is_text = part.text.is_some();
        let part = part.to_json().map_err(failed(pair.what.as_str()))?;
        let metadata = json_text(&pair.what, &version.custom_metadata)?;
        // A file store records no media type for text; a database records text/plain.
        let mime_type = version.mime_type.as_ref();
        let mime_type = mime_type.filter(|_| self.is_same_kind() || !is_text);
        let properties = format!("{} {mime_type:?}", version.create_time.to_bits());
        let text = [properties, metadata, part].join("\n");
        Ok(RecordField::new(
            format!("version {}", version.version),
            text,
        ))
    }

    /// Compares the versions that both sides have, and returns the first difference.
    async fn difference(
        &self,
        pair: &ArtifactPair,
        from: &[ArtifactVersion],
        to: &[ArtifactVersion],
        both: &mut HashPair,
    ) -> Result<Option<String>> {
        for (from, to) in from.iter().zip(to) {
            let (from, to) = try_join(
                self.version_field(Side::Source, pair, from),
                self.version_field(Side::Target, pair, to),
            )
            .await?;
            let difference = both.compare(&[from], &[to]);
            if difference.is_some() {
                return Ok(difference);
            }
        }
        Ok(None)
    }

    async fn copy_one(&self, pair: &ArtifactPair) -> Result<u64> {
        let (from, to) = self.both_versions(pair).await?;
        check_dense(pair, &from)?;
        let mut count = 0;
        for version in from.iter().skip(to.len()) {
            let number = version.version;
            let part = self.load_part(Side::Source, pair, number).await?;
            let (part, mime_type) = self.convert_for_target(pair, version, part)?;
            let new = NewArtifact {
                part,
                mime_type,
                custom_metadata: version.custom_metadata.clone(),
                create_time: version.create_time,
            };
            let put = self.stores.to.put_at(&pair.to, number, new).await;
            put.map_err(failed(pair.what.as_str()))?;
            count += 1;
            self.stores.observer.advance(1);
        }
        Ok(count)
    }

    /// Returns the part and its media type, converted if the target is another kind of store.
    fn convert_for_target(
        &self,
        pair: &ArtifactPair,
        version: &ArtifactVersion,
        part: Part,
    ) -> Result<(Part, Option<String>)> {
        if self.is_same_kind() {
            return Ok((part, version.mime_type.clone()));
        }
        let rejected = |reason: String| MigrationError::Rejected {
            what: format!("version {} of {}", version.version, pair.what),
            reason,
        };
        let naming = self.stores.to.naming();
        let stored = to_stored_part(naming, &artifact_key(&pair.to), &pair.to, part.clone());
        let (stored, mime_type) = stored.map_err(|error| rejected(error.to_string()))?;
        if stored != part {
            let reason = "the target stores only bytes with a media type and a display name, or text; \
                          other fields would be lost";
            return Err(rejected(reason.to_owned()));
        }
        Ok((stored, mime_type))
    }

    fn is_same_kind(&self) -> bool {
        self.stores.from.naming() == self.stores.to.naming()
    }

    /// Fails before the first write if the target cannot store an artifact unchanged.
    async fn check_fit(&self) -> Result<()> {
        let mut target_addresses = HashMap::new();
        let mut pages = self.addresses(Side::Source);
        while let Some(page) = pages.try_next().await? {
            for address in page {
                let pair = self.pair(Side::Source, address)?;
                let versions = self.versions(Side::Source, &pair).await?;
                check_dense(&pair, &versions)?;
                // Stores of the same kind accept the same artifacts.
                if self.is_same_kind() {
                    continue;
                }
                for version in &versions {
                    let part = self.load_part(Side::Source, &pair, version.version).await?;
                    self.convert_for_target(&pair, version, part)?;
                }
                let ArtifactPair { what, to, .. } = pair;
                let to = (to.app, to.user, to.session, to.name);
                if let Some(other) = target_addresses.insert(to, what.clone()) {
                    let reason =
                        format!("the target would store it at the same address as {other}");
                    return Err(MigrationError::Rejected { what, reason });
                }
            }
        }
        Ok(())
    }

    /// Returns when the session of an artifact expires.
    async fn expires_us(&self, address: &ArtifactAddress) -> Result<Option<i64>> {
        let (Some(sessions), Some(id)) = (&self.sessions, &address.session) else {
            return Ok(None);
        };
        let key = SessionKey::new(&address.app, &address.user, id);
        let header = sessions.log_header(&key).await;
        let header = header.map_err(failed(name_of(address)))?;
        Ok(header.and_then(|header| header.head.expires_us))
    }
}

/// Rejects versions with gaps, because the target numbers versions consecutively.
fn check_dense(pair: &ArtifactPair, versions: &[ArtifactVersion]) -> Result<()> {
    let missing = (0..)
        .zip(versions)
        .find(|(n, version)| version.version != *n);
    let Some((number, _)) = missing else {
        return Ok(());
    };
    Err(MigrationError::Rejected {
        what: pair.what.clone(),
        reason: format!("its version {number} is missing in the source"),
    })
}

fn name_of(address: &ArtifactAddress) -> String {
    let (file, user, app) = (&address.filename, &address.user, &address.app);
    match &address.session {
        Some(session) => {
            format!("artifact {file:?} of session {session:?} of user {user:?} of app {app:?}")
        }
        None => format!("artifact {file:?} of user {user:?} of app {app:?}"),
    }
}

/// Converts an address to a store that interprets names differently.
fn convert_address(
    address: &ArtifactAddress,
    naming: ArtifactNaming,
) -> Result<ArtifactAddress, ArtifactError> {
    ArtifactAddress::from_key(&artifact_key(address), naming)
}

/// Returns the key with which a caller would address the artifact.
pub(crate) fn artifact_key(address: &ArtifactAddress) -> ArtifactKey {
    let has_prefix = address.filename.starts_with(USER_ARTIFACT_PREFIX);
    let filename = match address.session.is_none() && !has_prefix {
        true => format!("{USER_ARTIFACT_PREFIX}{}", address.filename),
        false => address.filename.clone(),
    };
    ArtifactKey {
        app_name: address.app.clone(),
        user_id: address.user.clone(),
        session_id: address.session.clone(),
        filename,
    }
}

#[async_trait]
impl Section for Artifacts {
    fn name(&self) -> &'static str {
        "artifacts"
    }

    async fn survey(&self, side: Side) -> Result<SideSurvey> {
        let mut survey = SideSurvey::default();
        let mut pages = self.addresses(side);
        while let Some(page) = pages.try_next().await? {
            for address in page {
                let versions = self.stores.at(side).versions(&address).await;
                let versions = versions.map_err(failed(name_of(&address)))?;
                survey.counts.artifact_versions += versions.len() as u64;
                let times: Vec<_> = versions
                    .iter()
                    .map(|it| (it.version, it.create_time))
                    .collect();
                let expires_us = self.expires_us(&address).await?;
                survey.add(
                    &[
                        name_of(&address).as_bytes(),
                        format!("{times:?}").as_bytes(),
                    ],
                    expires_us,
                );
            }
        }
        Ok(survey)
    }

    async fn count_present(&self) -> Result<MigrationCounts> {
        self.check_fit().await?;
        let mut counts = MigrationCounts::default();
        let mut pages = self.addresses(Side::Target);
        while let Some(page) = pages.try_next().await? {
            for address in page {
                let pair = self.pair(Side::Target, address)?;
                let (from, to) = self.both_versions(&pair).await?;
                if from.is_empty() {
                    return Err(MigrationError::Extra { what: pair.what });
                }
                let mut both = HashPair::default();
                let difference = self.difference(&pair, &from, &to, &mut both).await?;
                let more = to.get(from.len());
                let more = more.map(|it| format!("version {} is in the target only", it.version));
                if let Some(difference) = difference.or(more) {
                    return Err(MigrationError::differs(pair.what, difference));
                }
                counts.artifact_versions += to.len() as u64;
            }
        }
        Ok(counts)
    }

    async fn copy(&self) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.addresses(Side::Source);
        while let Some(page) = pages.try_next().await? {
            for address in page {
                let pair = self.pair(Side::Source, address)?;
                counts.artifact_versions += self.copy_one(&pair).await?;
            }
        }
        Ok(counts)
    }

    async fn verify(&self, both: &mut HashPair) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.addresses(Side::Source);
        while let Some(page) = pages.try_next().await? {
            for address in page {
                let pair = self.pair(Side::Source, address)?;
                let (from, to) = self.both_versions(&pair).await?;
                let difference = match from.len() == to.len() {
                    true => self.difference(&pair, &from, &to, both).await?,
                    false => Some(format!(
                        "the source has {} versions, the target {}",
                        from.len(),
                        to.len()
                    )),
                };
                if let Some(difference) = difference {
                    return Err(MigrationError::mismatch(pair.what, difference));
                }
                counts.artifact_versions += from.len() as u64;
                self.stores.observer.advance(from.len() as u64);
            }
        }
        let mut pages = self.addresses(Side::Target);
        while let Some(page) = pages.try_next().await? {
            for address in page {
                let pair = self.pair(Side::Target, address)?;
                if self.versions(Side::Source, &pair).await?.is_empty() {
                    let difference = "it is in the target only";
                    return Err(MigrationError::mismatch(pair.what, difference));
                }
            }
        }
        Ok(counts)
    }
}
