//! Artifacts with all their versions, one version in memory at a time.
//!
//! The two stores may interpret names differently, so an address of one store is always converted
//! to the address in the other.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use futures_util::{TryStreamExt as _, future::try_join, stream::BoxStream};

use super::{
    End, Section,
    compare::{Both, Line, json_text},
    outcome::{MigrationCounts, MigrationError, Result, failed},
    rest::Look,
    steps::{Ends, PAGE, pages},
};
use crate::{
    artifacts::{
        ArtifactError, ArtifactKey, ArtifactNames, ArtifactPlace, ArtifactStore, ArtifactVersion,
        NewArtifact, USER_ARTIFACT_PREFIX, as_kept,
    },
    content::Part,
    session::SessionKey,
    transfer_store::TransferStore,
};

#[derive(Debug)]
pub(super) struct Artifacts {
    ends: Ends<dyn ArtifactStore>,
    /// Tells when a session expires, because its artifacts expire with it.
    sessions: Option<Arc<dyn TransferStore>>,
}

/// An artifact in both stores.
struct Pair {
    what: String,
    from: ArtifactPlace,
    to: ArtifactPlace,
}

impl Pair {
    fn at(&self, end: End) -> &ArtifactPlace {
        match end {
            End::Source => &self.from,
            End::Target => &self.to,
        }
    }
}

impl Artifacts {
    pub(super) fn new(
        ends: Ends<dyn ArtifactStore>,
        sessions: Option<Arc<dyn TransferStore>>,
    ) -> Artifacts {
        Artifacts { ends, sessions }
    }

    fn places(&self, end: End) -> BoxStream<'_, Result<Vec<ArtifactPlace>>> {
        pages(move |after: Option<ArtifactPlace>| {
            Box::pin(async move {
                let places = self.ends.at(end).places(after.as_ref(), PAGE).await;
                places.map_err(failed("the list of artifacts"))
            })
        })
    }

    /// Pairs the artifact at `place` of one side with its address on the other.
    fn pair(&self, end: End, place: ArtifactPlace) -> Result<Pair> {
        let what = name_of(&place);
        let refused = |error: ArtifactError| MigrationError::Refused {
            what: what.clone(),
            reason: error.to_string(),
        };
        Ok(match end {
            End::Source => {
                let to = place_in(&place, self.ends.to.names()).map_err(refused)?;
                Pair {
                    what,
                    from: place,
                    to,
                }
            }
            End::Target => {
                let from = place_in(&place, self.ends.from.names()).map_err(refused)?;
                Pair {
                    what,
                    from,
                    to: place,
                }
            }
        })
    }

    async fn versions(&self, end: End, pair: &Pair) -> Result<Vec<ArtifactVersion>> {
        let versions = self.ends.at(end).versions(pair.at(end)).await;
        versions.map_err(failed(pair.what.as_str()))
    }

    async fn both_versions(
        &self,
        pair: &Pair,
    ) -> Result<(Vec<ArtifactVersion>, Vec<ArtifactVersion>)> {
        let from = self.versions(End::Source, pair);
        try_join(from, self.versions(End::Target, pair)).await
    }

    async fn part(&self, end: End, pair: &Pair, version: u64) -> Result<Part> {
        let found = self.ends.at(end).get(pair.at(end), Some(version)).await;
        let found = found.map_err(failed(pair.what.as_str()))?;
        let gone = || failed(pair.what.as_str())(format!("version {version} is gone"));
        found.map(|found| found.part).ok_or_else(gone)
    }

    async fn line(&self, end: End, pair: &Pair, about: &ArtifactVersion) -> Result<Line> {
        let part = self.part(end, pair, about.version).await?;
        let is_text = part.text.is_some();
        let part = part.to_json().map_err(failed(pair.what.as_str()))?;
        let notes = json_text(&pair.what, &about.custom_metadata)?;
        // A file store has no media type for texts; a database uses text/plain.
        let mime_type = about.mime_type.as_ref();
        let mime_type = mime_type.filter(|_| self.is_same_kind() || !is_text);
        let told = format!("{} {mime_type:?}", about.create_time.to_bits());
        let text = [told, notes, part].join("\n");
        Ok(Line::new(format!("version {}", about.version), text))
    }

    /// Compares the first versions, up to the number that both sides have.
    async fn difference(
        &self,
        pair: &Pair,
        from: &[ArtifactVersion],
        to: &[ArtifactVersion],
        both: &mut Both,
    ) -> Result<Option<String>> {
        for (from, to) in from.iter().zip(to) {
            let (from, to) = try_join(
                self.line(End::Source, pair, from),
                self.line(End::Target, pair, to),
            )
            .await?;
            let difference = both.compare(&[from], &[to]);
            if difference.is_some() {
                return Ok(difference);
            }
        }
        Ok(None)
    }

    async fn copy_one(&self, pair: &Pair) -> Result<u64> {
        let (from, to) = self.both_versions(pair).await?;
        check_dense(pair, &from)?;
        let mut count = 0;
        for about in from.iter().skip(to.len()) {
            let number = about.version;
            let part = self.part(End::Source, pair, number).await?;
            let (part, mime_type) = self.as_target_keeps(pair, about, part)?;
            let new = NewArtifact {
                part,
                mime_type,
                custom_metadata: about.custom_metadata.clone(),
                create_time: about.create_time,
            };
            let put = self.ends.to.put_at(&pair.to, number, new).await;
            put.map_err(failed(pair.what.as_str()))?;
            count += 1;
            self.ends.watch.advance(1);
        }
        Ok(count)
    }

    /// Returns the part and its media type, converted if the target is another kind of store.
    fn as_target_keeps(
        &self,
        pair: &Pair,
        about: &ArtifactVersion,
        part: Part,
    ) -> Result<(Part, Option<String>)> {
        if self.is_same_kind() {
            return Ok((part, about.mime_type.clone()));
        }
        let refused = |reason: String| MigrationError::Refused {
            what: format!("version {} of {}", about.version, pair.what),
            reason,
        };
        let names = self.ends.to.names();
        let kept = as_kept(names, &key_of(&pair.to), &pair.to, part.clone());
        let (kept, mime_type) = kept.map_err(|error| refused(error.to_string()))?;
        if kept != part {
            let reason = "the target keeps bytes with a media type and a display name, or text, and \
                          would lose what else there is";
            return Err(refused(reason.to_owned()));
        }
        Ok((kept, mime_type))
    }

    fn is_same_kind(&self) -> bool {
        self.ends.from.names() == self.ends.to.names()
    }

    /// Fails before the first write if the target cannot store an artifact unchanged.
    async fn check_fit(&self) -> Result<()> {
        let mut taken = HashMap::new();
        let mut pages = self.places(End::Source);
        while let Some(page) = pages.try_next().await? {
            for place in page {
                let pair = self.pair(End::Source, place)?;
                let versions = self.versions(End::Source, &pair).await?;
                check_dense(&pair, &versions)?;
                // Stores of the same kind accept the same artifacts.
                if self.is_same_kind() {
                    continue;
                }
                for about in &versions {
                    let part = self.part(End::Source, &pair, about.version).await?;
                    self.as_target_keeps(&pair, about, part)?;
                }
                let Pair { what, to, .. } = pair;
                let to = (to.app, to.user, to.session, to.name);
                if let Some(other) = taken.insert(to, what.clone()) {
                    let reason = format!("in the target it would be one with {other}");
                    return Err(MigrationError::Refused { what, reason });
                }
            }
        }
        Ok(())
    }

    /// Returns when the session of an artifact expires.
    async fn expires_us(&self, place: &ArtifactPlace) -> Result<Option<i64>> {
        let (Some(sessions), Some(id)) = (&self.sessions, &place.session) else {
            return Ok(None);
        };
        let key = SessionKey::new(&place.app, &place.user, id);
        let header = sessions.log_header(&key).await;
        let header = header.map_err(failed(name_of(place)))?;
        Ok(header.and_then(|header| header.head.expires_us))
    }
}

/// The target numbers versions consecutively, so a list with gaps cannot be copied.
fn check_dense(pair: &Pair, versions: &[ArtifactVersion]) -> Result<()> {
    let missing = (0..).zip(versions).find(|(n, about)| about.version != *n);
    let Some((number, _)) = missing else {
        return Ok(());
    };
    Err(MigrationError::Refused {
        what: pair.what.clone(),
        reason: format!("its version {number} is missing in the source"),
    })
}

fn name_of(place: &ArtifactPlace) -> String {
    let (file, user, app) = (&place.filename, &place.user, &place.app);
    match &place.session {
        Some(session) => {
            format!("artifact {file:?} of session {session:?} of user {user:?} of app {app:?}")
        }
        None => format!("artifact {file:?} of user {user:?} of app {app:?}"),
    }
}

/// Converts an address to a store that interprets names differently.
fn place_in(place: &ArtifactPlace, names: ArtifactNames) -> Result<ArtifactPlace, ArtifactError> {
    ArtifactPlace::of(&key_of(place), names)
}

/// Returns the key with which a caller would address the artifact.
fn key_of(place: &ArtifactPlace) -> ArtifactKey {
    let is_named = place.filename.starts_with(USER_ARTIFACT_PREFIX);
    let filename = match place.session.is_none() && !is_named {
        true => format!("{USER_ARTIFACT_PREFIX}{}", place.filename),
        false => place.filename.clone(),
    };
    ArtifactKey {
        app_name: place.app.clone(),
        user_id: place.user.clone(),
        session_id: place.session.clone(),
        filename,
    }
}

#[async_trait]
impl Section for Artifacts {
    fn name(&self) -> &'static str {
        "artifacts"
    }

    async fn look(&self, end: End) -> Result<Look> {
        let mut look = Look::default();
        let mut pages = self.places(end);
        while let Some(page) = pages.try_next().await? {
            for place in page {
                let versions = self.ends.at(end).versions(&place).await;
                let versions = versions.map_err(failed(name_of(&place)))?;
                look.counts.artifact_versions += versions.len() as u64;
                let times: Vec<_> = versions
                    .iter()
                    .map(|it| (it.version, it.create_time))
                    .collect();
                let expires_us = self.expires_us(&place).await?;
                look.add(
                    &[name_of(&place).as_bytes(), format!("{times:?}").as_bytes()],
                    expires_us,
                );
            }
        }
        Ok(look)
    }

    async fn there(&self) -> Result<MigrationCounts> {
        self.check_fit().await?;
        let mut counts = MigrationCounts::default();
        let mut pages = self.places(End::Target);
        while let Some(page) = pages.try_next().await? {
            for place in page {
                let pair = self.pair(End::Target, place)?;
                let (from, to) = self.both_versions(&pair).await?;
                if from.is_empty() {
                    return Err(MigrationError::Extra { what: pair.what });
                }
                let mut both = Both::default();
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
        let mut pages = self.places(End::Source);
        while let Some(page) = pages.try_next().await? {
            for place in page {
                let pair = self.pair(End::Source, place)?;
                counts.artifact_versions += self.copy_one(&pair).await?;
            }
        }
        Ok(counts)
    }

    async fn verify(&self, both: &mut Both) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.places(End::Source);
        while let Some(page) = pages.try_next().await? {
            for place in page {
                let pair = self.pair(End::Source, place)?;
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
                self.ends.watch.advance(from.len() as u64);
            }
        }
        let mut pages = self.places(End::Target);
        while let Some(page) = pages.try_next().await? {
            for place in page {
                let pair = self.pair(End::Target, place)?;
                if self.versions(End::Source, &pair).await?.is_empty() {
                    let difference = "it is in the target only";
                    return Err(MigrationError::mismatch(pair.what, difference));
                }
            }
        }
        Ok(counts)
    }
}
