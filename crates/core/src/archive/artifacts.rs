//! Artifacts as lines: one for each version, with its bytes. One version is in memory at a time.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{Fields, VERSION, encode_line, failed, owner_of, session_of};
use crate::{
    artifacts::{
        ArtifactAddress, ArtifactError, ArtifactKey, ArtifactNaming, ArtifactStore,
        ArtifactVersion, NewArtifact, to_stored_part,
    },
    content::Part,
    error::Result,
    json::{Json, JsonMap},
    migrate::artifact_key,
    service::{ExportScope, LineStream},
};

/// Number of addresses per page.
const PAGE: usize = 256;

type Outcome<T> = Result<T, ArtifactError>;

/// Exports the artifacts of a scope.
pub(super) fn export(store: Arc<dyn ArtifactStore>, scope: ExportScope) -> LineStream {
    let (app, user) = owner_of(&scope);
    let session = session_of(&scope).map(str::to_owned);
    let addresses = list_addresses(Arc::clone(&store), app, user);
    let selected = addresses.try_filter(move |address| {
        let is_selected = session.is_none() || address.session == session;
        std::future::ready(is_selected)
    });
    let lines = selected.map_ok(move |address| version_lines(Arc::clone(&store), address));
    Box::pin(
        lines
            .try_flatten()
            .map_err(|e| failed("artifacts")(e.into())),
    )
}

/// Lists the artifacts of an app, or of one user.
fn list_addresses(
    store: Arc<dyn ArtifactStore>,
    app: String,
    user: Option<String>,
) -> stream::BoxStream<'static, Outcome<ArtifactAddress>> {
    // Sorts before all artifacts of the owner, because no artifact has an empty name.
    let first = ArtifactAddress {
        app,
        user: user.clone().unwrap_or_default(),
        session: None,
        name: String::new(),
        filename: String::new(),
    };
    let pages = stream::try_unfold((store, user, first), |(store, user, after)| async move {
        let mut page = store.addresses(Some(&after), PAGE).await?;
        let is_of_owner = |address: &ArtifactAddress| {
            address.app == after.app && user.as_ref().is_none_or(|user| address.user == *user)
        };
        page.retain(is_of_owner);
        let last = page.last().cloned();
        Ok::<_, ArtifactError>(
            last.map(|last| (stream::iter(page.into_iter().map(Ok)), (store, user, last))),
        )
    });
    pages.try_flatten().boxed()
}

fn version_lines(
    store: Arc<dyn ArtifactStore>,
    address: ArtifactAddress,
) -> stream::BoxStream<'static, Outcome<String>> {
    let lines = stream::once(async move {
        let versions = store.versions(&address).await?;
        let lines = stream::iter(versions).then(move |version| {
            let (store, address) = (Arc::clone(&store), address.clone());
            async move { version_line(&*store, &address, &version).await }
        });
        // A version that was deleted meanwhile has no line.
        Ok::<_, ArtifactError>(lines.try_filter_map(|line| std::future::ready(Ok(line))))
    });
    lines.try_flatten().boxed()
}

async fn version_line(
    store: &dyn ArtifactStore,
    address: &ArtifactAddress,
    version: &ArtifactVersion,
) -> Outcome<Option<String>> {
    let Some(found) = store.get(address, Some(version.version)).await? else {
        return Ok(None);
    };
    let corrupt = |source: String| ArtifactError::Corrupt {
        address: address.filename.clone(),
        version: version.version,
        source: source.into(),
    };
    let key = artifact_key(address);
    let mut line = JsonMap::from([
        ("retain", Json::from("artifact")),
        ("version", VERSION.into()),
        ("appName", key.app_name.into()),
        ("userId", key.user_id.into()),
        ("filename", key.filename.into()),
        ("number", version.version.into()),
        ("createTime", version.create_time.into()),
    ]);
    if let Some(session) = key.session_id {
        line.insert("sessionId", session);
    }
    if let Some(mime_type) = &version.mime_type {
        line.insert("mimeType", mime_type.as_str());
    }
    if !version.custom_metadata.is_empty() {
        line.insert("customMetadata", version.custom_metadata.clone());
    }
    let part = found.part.to_json().map_err(|e| corrupt(e.to_string()))?;
    encode_line(line, ("part", &part))
        .map(Some)
        .map_err(corrupt)
}

/// Imports one version. It must be the next one of its artifact.
pub(super) async fn import(store: &dyn ArtifactStore, line: &JsonMap) -> Result<(), String> {
    let fields = Fields(line);
    let part = fields.required("part", |value| value.to_json().ok())?;
    let part = Part::from_json(&part).map_err(|error| error.to_string())?;
    let key = ArtifactKey {
        app_name: fields.text("appName")?,
        user_id: fields.text("userId")?,
        session_id: fields.optional_text("sessionId")?,
        filename: fields.text("filename")?,
    };
    let number = fields.required("number", Json::as_u64)?;
    let naming = store.naming();
    let stored = || -> Outcome<_> {
        let address = ArtifactAddress::from_key(&key, naming)?;
        let (stored, mime_type) = to_stored_part(naming, &key, &address, part.clone())?;
        Ok((address, stored, mime_type))
    };
    let rejected = |error: ArtifactError| format!("artifact {key}, version {number}: {error}");
    let (address, stored, mime_type) = stored().map_err(rejected)?;
    if stored != part {
        return Err(format!(
            "artifact {key}, version {number}: the artifact store keeps only bytes with a media type and \
             a display name, or text; other fields would be lost"
        ));
    }
    let exported = fields.optional_text("mimeType")?;
    let new = NewArtifact {
        part,
        mime_type: match naming {
            ArtifactNaming::Exact => exported.or(mime_type),
            ArtifactNaming::Paths => mime_type,
        },
        custom_metadata: fields.object("customMetadata")?,
        create_time: fields.required("createTime", Json::as_f64)?,
    };
    let put = store.put_at(&address, number, new).await;
    put.map_err(rejected)
}
