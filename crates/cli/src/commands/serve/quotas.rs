//! How much the stores may hold, from the settings.

use retain::store::Usage;

use super::settings::PartialSettings;
use crate::commands::services::StoreLimits;

impl PartialSettings {
    /// Returns the quotas and the minimum of free space.
    pub(super) fn store_limits(&self) -> StoreLimits {
        StoreLimits {
            user: self.user_quota(),
            app: self.app_quota(),
            min_free_space: self.min_free_space,
        }
    }

    fn user_quota(&self) -> Usage {
        let memories = match self.max_memories_per_user {
            // In `Quotas`, zero keeps the default limit of the memory service.
            Some(0) => u64::MAX,
            limit => limit.unwrap_or_default(),
        };
        Usage::default()
            .with_sessions(self.max_sessions_per_user.unwrap_or_default())
            .with_events(self.max_events_per_user.unwrap_or_default())
            .with_event_bytes(self.max_event_bytes_per_user.unwrap_or_default())
            .with_artifact_bytes(self.max_artifact_bytes_per_user.unwrap_or_default())
            .with_memories(memories)
    }

    fn app_quota(&self) -> Usage {
        Usage::default()
            .with_sessions(self.max_sessions_per_app.unwrap_or_default())
            .with_events(self.max_events_per_app.unwrap_or_default())
            .with_event_bytes(self.max_event_bytes_per_app.unwrap_or_default())
            .with_artifact_bytes(self.max_artifact_bytes_per_app.unwrap_or_default())
            .with_memories(self.max_memories_per_app.unwrap_or_default())
    }
}
