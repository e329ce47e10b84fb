//! Options of `adk api_server` and `adk web` that this server does not have. The server accepts the
//! flags that need no effect here, so that existing command lines work. It rejects the other
//! options and names an alternative for each.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// Spellings of an option: first ADK's, then ours.
type Spellings = &'static [&'static str];

/// Flags without effect: Retain loads no Python code, URIs select the stores, and `--ui-dir` turns
/// the web UI on.
const WITHOUT_EFFECT: [Spellings; 5] = [
    &["reload"],
    &["no-reload", "no_reload"],
    &["with_ui", "with-ui"],
    &["use_local_storage", "use-local-storage"],
    &["no_use_local_storage", "no-use-local-storage"],
];

/// An unsupported option with its alternative.
#[derive(Debug)]
struct Unsupported {
    spellings: Spellings,
    takes_value: bool,
    instead: &'static str,
}

const fn flag(spellings: Spellings, instead: &'static str) -> Unsupported {
    Unsupported {
        spellings,
        takes_value: false,
        instead,
    }
}

const fn value(spellings: Spellings, instead: &'static str) -> Unsupported {
    Unsupported {
        takes_value: true,
        ..flag(spellings, instead)
    }
}

const COLLECTOR: &str = "name a collector in OTEL_EXPORTER_OTLP_ENDPOINT (docs/telemetry.md)";
const TRIGGERS: &str = "post triggers to /run from the program that receives them";
const FEATURES: &str = "omit it: it configures ADK's Python code";
const PAGES: &str = "omit it, or edit the pages in the --ui-dir folder";
const ENTERPRISE: &str = "omit it: Retain does not register agents with Gemini Enterprise";

const UNSUPPORTED: [Unsupported; 17] = [
    flag(&["a2a"], "call the agents with /run or /run_sse"),
    flag(&["trace_to_cloud", "trace-to-cloud"], COLLECTOR),
    flag(&["otel_to_cloud", "otel-to-cloud"], COLLECTOR),
    value(
        &["url_prefix", "url-prefix"],
        "strip the prefix in the proxy",
    ),
    value(
        &["extra_plugins", "extra-plugins"],
        "write a program with the crate retain that adds the plugins",
    ),
    value(
        &["eval_storage_uri", "eval-storage-uri"],
        "run evaluations with `adk eval`",
    ),
    value(&["trigger_sources", "trigger-sources"], TRIGGERS),
    value(
        &["trigger_oidc_audience", "trigger-oidc-audience"],
        TRIGGERS,
    ),
    value(
        &[
            "trigger_oidc_service_accounts",
            "trigger-oidc-service-accounts",
        ],
        TRIGGERS,
    ),
    value(
        &["avatar_config", "avatar-config"],
        "omit it: avatars need /run_live, which Retain does not serve",
    ),
    value(
        &["default_llm_model", "default-llm-model"],
        "name the model in the root_agent.yaml of each agent",
    ),
    value(&["logo-text", "logo_text"], PAGES),
    value(&["logo-image-url", "logo_image_url"], PAGES),
    value(&["enable_features", "enable-features"], FEATURES),
    value(&["disable_features", "disable-features"], FEATURES),
    value(
        &["gemini_enterprise_app_name", "gemini-enterprise-app-name"],
        ENTERPRISE,
    ),
    flag(&["express_mode", "express-mode"], ENTERPRISE),
];

/// The unsupported options of ADK on the command line.
#[derive(Debug, Default)]
pub(super) struct AdkOptions {
    unsupported: Vec<&'static Unsupported>,
}

impl Unsupported {
    /// Returns the option in ADK's spelling.
    fn option(&self) -> &'static str {
        self.spellings[0]
    }
}

impl AdkOptions {
    /// Fails with one line for each unsupported option.
    pub(super) fn refuse(&self) -> anyhow::Result<()> {
        let line = |unsupported: &&Unsupported| {
            let (option, instead) = (unsupported.option(), unsupported.instead);
            format!(
                "--{option} is an option of ADK's server that Retain does not support: {instead}"
            )
        };
        let lines: Vec<String> = self.unsupported.iter().map(line).collect();
        anyhow::ensure!(lines.is_empty(), lines.join("\n"));
        Ok(())
    }
}

/// Creates an option that the help does not show.
fn hidden(spellings: Spellings) -> Arg {
    Arg::new(spellings[0])
        .long(spellings[0])
        .aliases(spellings[1..].iter().copied())
        .hide(true)
}

impl Args for AdkOptions {
    fn augment_args(command: Command) -> Command {
        let without_effect = WITHOUT_EFFECT.map(|flag| hidden(flag).action(ArgAction::Count));
        let unsupported = UNSUPPORTED.iter().map(|unsupported| {
            let takes = match unsupported.takes_value {
                true => ArgAction::Append,
                false => ArgAction::Count,
            };
            hidden(unsupported.spellings).action(takes)
        });
        command.args(without_effect).args(unsupported)
    }

    fn augment_args_for_update(command: Command) -> Command {
        AdkOptions::augment_args(command)
    }
}

impl FromArgMatches for AdkOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<AdkOptions, clap::Error> {
        let is_given = |unsupported: &&Unsupported| match unsupported.takes_value {
            true => matches.contains_id(unsupported.option()),
            false => matches.get_count(unsupported.option()) > 0,
        };
        Ok(AdkOptions {
            unsupported: UNSUPPORTED.iter().filter(is_given).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = AdkOptions::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        adk_options: AdkOptions,
    }

    fn refused(words: &[&str]) -> Option<String> {
        let line = Line::try_parse_from([&["retain"][..], words].concat()).unwrap();
        line.adk_options
            .refuse()
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn options_without_effect_are_accepted_in_both_spellings_and_hidden() {
        for option in WITHOUT_EFFECT.concat() {
            let option = format!("--{option}");
            assert_eq!(refused(&[&option, &option]), None, "{option}");
        }
        let help = <Line as clap::CommandFactory>::command().render_long_help();
        assert!(!help.to_string().contains("local"), "{help}");
    }

    #[test]
    fn unsupported_options_are_refused_with_an_alternative() {
        for unsupported in &UNSUPPORTED {
            for option in unsupported.spellings {
                let option = format!("--{option}");
                let words = match unsupported.takes_value {
                    true => vec![option.as_str(), "a", &option, "b"],
                    false => vec![option.as_str()],
                };
                let message = refused(&words).unwrap();
                assert!(
                    message.starts_with(&format!("--{} ", unsupported.option())),
                    "{message}"
                );
                assert!(message.ends_with(unsupported.instead), "{message}");
                assert!(!message.contains('\n'), "{message}");
            }
        }
        let both = refused(&["--url_prefix=/x", "--reload", "--a2a"]).unwrap();
        assert_eq!(both.lines().count(), 2, "{both}");
    }

    #[test]
    fn every_adk_option_is_documented() {
        let documented = include_str!("../../../../../docs/server.md");
        let without_effect = WITHOUT_EFFECT.iter().map(|spellings| spellings[0]);
        for option in without_effect.chain(UNSUPPORTED.iter().map(Unsupported::option)) {
            assert!(documented.contains(&format!("`--{option}`")), "{option}");
        }
    }
}
