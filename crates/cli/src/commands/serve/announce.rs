//! The lines that the server prints at startup: address, data, model or apps, and commands to try.

use std::net::SocketAddr;

use crate::{commands::ServiceSet, output::say};

use super::{BUILT_IN_APP, models::BuiltInModel, settings::Settings};

/// The lines that the server prints at startup.
pub(super) struct Announcement<'a> {
    pub(super) settings: &'a Settings,
    pub(super) services: &'a ServiceSet,
    pub(super) apps: &'a [String],
    pub(super) model: &'a BuiltInModel,
    pub(super) needs_key: bool,
    /// Whether a valid API key exists.
    pub(super) has_key: bool,
    pub(super) address: SocketAddr,
}

impl Announcement<'_> {
    /// Prints the lines. Programs parse the first one.
    pub(super) fn print(&self) -> anyhow::Result<()> {
        say!("Retain listens on http://{}", self.address);
        say!("  data   {}", self.services.describe());
        match self.settings.agents_dir {
            Some(_) => say!("  apps   {}", self.app_names()),
            None => say!("  model  {}", self.built_in_model()),
        }
        match (self.needs_key, self.has_key) {
            (false, _) => {}
            (true, true) => {
                say!("  keys   required: Authorization: Bearer KEY (see retain keys --help)");
            }
            (true, false) => say!(
                "  keys   required, but none is valid: all have expired or were revoked. Create one with\n    \
                 retain keys create --store {} --name first --scopes admin",
                self.services.keys_uri()
            ),
        }
        if self.settings.agents_dir.is_none() {
            self.print_example_requests()?;
        }
        Ok(())
    }

    fn built_in_model(&self) -> String {
        let name = &self.model.name;
        match self.model.selected_by {
            Some(variable) => {
                format!("{name}, because {variable} is set (use --model NAME for another)")
            }
            None if self.model.is_offline() => {
                "offline: answers by quoting what it was told; needs no key and no network".into()
            }
            None => name.clone(),
        }
    }

    fn app_names(&self) -> String {
        match self.apps {
            [] => "none: no subfolder has a root_agent.yaml".to_owned(),
            apps => apps.join(", "),
        }
    }

    fn print_example_requests(&self) -> anyhow::Result<()> {
        let key = match self.needs_key {
            true => " -H \"Authorization: Bearer $KEY\"",
            false => "",
        };
        say!("  tell it something, then ask in another session:");
        for (session, text) in [
            ("monday", "My favorite tea is Earl Grey."),
            ("friday", "What is my favorite tea?"),
        ] {
            say!(
                "    curl -s http://{}/run -H 'Content-Type: application/json'{key} -d \
                 '{{\"appName\":\"{BUILT_IN_APP}\",\"userId\":\"ada\",\"sessionId\":\"{session}\",\
                 \"newMessage\":{{\"role\":\"user\",\"parts\":[{{\"text\":\"{text}\"}}]}}}}'",
                self.address
            );
        }
        Ok(())
    }
}
