//! Options of `adk api_server` and `adk web` that this server does not have. Those that would change
//! nothing are taken, so that the command lines that people have go on working; those that would do
//! something that is not done here are refused with what to do instead.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// An option as ADK spells it, and then as this program would.
type Spellings = &'static [&'static str];

/// Flags without effect: there is no code to reload, what is stored where is said by addresses, and
/// the web UI is served where `--ui-dir` says where it is.
const WITHOUT_EFFECT: [Spellings; 5] = [
    &["reload"],
    &["no-reload", "no_reload"],
    &["with_ui", "with-ui"],
    &["use_local_storage", "use-local-storage"],
    &["no_use_local_storage", "no-use-local-storage"],
];

/// What cannot be done here.
#[derive(Debug)]
struct NotDone {
    spellings: Spellings,
    takes_value: bool,
    instead: &'static str,
}

const fn flag(spellings: Spellings, instead: &'static str) -> NotDone {
    NotDone {
        spellings,
        takes_value: false,
        instead,
    }
}

const fn value(spellings: Spellings, instead: &'static str) -> NotDone {
    NotDone {
        takes_value: true,
        ..flag(spellings, instead)
    }
}

const COLLECTOR: &str = "name a collector in OTEL_EXPORTER_OTLP_ENDPOINT (docs/telemetry.md)";
const TRIGGERS: &str = "let what receives the triggers post them to /run";
const FEATURES: &str = "leave it out: the features of ADK's Python code cannot be switched here";
const PAGES: &str = "leave it out, or change the pages in the folder of --ui-dir";
const ENTERPRISE: &str = "leave it out: agents are not registered with Gemini Enterprise";

const NOT_DONE: [NotDone; 17] = [
    flag(&["a2a"], "call the agents by /run or /run_sse"),
    flag(&["trace_to_cloud", "trace-to-cloud"], COLLECTOR),
    flag(&["otel_to_cloud", "otel-to-cloud"], COLLECTOR),
    value(
        &["url_prefix", "url-prefix"],
        "let the proxy take the prefix off the path before it passes a request on",
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
        "leave it out: /run_live is not served, and avatars are for it alone",
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

/// Which of ADK's options were given that cannot be followed.
#[derive(Debug, Default)]
pub(super) struct OptionsOfAdk {
    not_done: Vec<&'static NotDone>,
}

impl NotDone {
    /// As ADK spells it.
    fn option(&self) -> &'static str {
        self.spellings[0]
    }
}

impl OptionsOfAdk {
    /// An error with a line for each option that cannot be followed, if there is one.
    pub(super) fn refuse(&self) -> anyhow::Result<()> {
        let line = |not_done: &&NotDone| {
            let (option, instead) = (not_done.option(), not_done.instead);
            format!("--{option} of ADK's server cannot be followed here: {instead}")
        };
        let lines: Vec<String> = self.not_done.iter().map(line).collect();
        anyhow::ensure!(lines.is_empty(), lines.join("\n"));
        Ok(())
    }
}

/// An option that the help does not show.
fn hidden(spellings: Spellings) -> Arg {
    Arg::new(spellings[0])
        .long(spellings[0])
        .aliases(spellings[1..].iter().copied())
        .hide(true)
}

impl Args for OptionsOfAdk {
    fn augment_args(command: Command) -> Command {
        let without_effect = WITHOUT_EFFECT.map(|flag| hidden(flag).action(ArgAction::Count));
        let not_done = NOT_DONE.iter().map(|not_done| {
            let takes = match not_done.takes_value {
                true => ArgAction::Append,
                false => ArgAction::Count,
            };
            hidden(not_done.spellings).action(takes)
        });
        command.args(without_effect).args(not_done)
    }

    fn augment_args_for_update(command: Command) -> Command {
        OptionsOfAdk::augment_args(command)
    }
}

impl FromArgMatches for OptionsOfAdk {
    fn from_arg_matches(matches: &ArgMatches) -> Result<OptionsOfAdk, clap::Error> {
        let is_given = |not_done: &&NotDone| match not_done.takes_value {
            true => matches.contains_id(not_done.option()),
            false => matches.get_count(not_done.option()) > 0,
        };
        Ok(OptionsOfAdk {
            not_done: NOT_DONE.iter().filter(is_given).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = OptionsOfAdk::from_arg_matches(matches)?;
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
        of_adk: OptionsOfAdk,
    }

    fn refused(words: &[&str]) -> Option<String> {
        let line = Line::try_parse_from([&["retain"][..], words].concat()).unwrap();
        line.of_adk.refuse().err().map(|error| error.to_string())
    }

    #[test]
    fn what_changes_nothing_is_taken_in_both_spellings_and_not_shown() {
        for option in WITHOUT_EFFECT.concat() {
            let option = format!("--{option}");
            assert_eq!(refused(&[&option, &option]), None, "{option}");
        }
        let help = <Line as clap::CommandFactory>::command().render_long_help();
        assert!(!help.to_string().contains("local"), "{help}");
    }

    #[test]
    fn what_is_not_done_here_is_refused_by_name_and_with_a_way_out() {
        for not_done in &NOT_DONE {
            for option in not_done.spellings {
                let option = format!("--{option}");
                let words = match not_done.takes_value {
                    true => vec![option.as_str(), "a", &option, "b"],
                    false => vec![option.as_str()],
                };
                let told = refused(&words).unwrap();
                assert!(
                    told.starts_with(&format!("--{} ", not_done.option())),
                    "{told}"
                );
                assert!(told.ends_with(not_done.instead), "{told}");
                assert!(!told.contains('\n'), "{told}");
            }
        }
        let both = refused(&["--url_prefix=/x", "--reload", "--a2a"]).unwrap();
        assert_eq!(both.lines().count(), 2, "{both}");
    }

    /// The documentation names all of them.
    #[test]
    fn every_option_is_documented() {
        let documented = include_str!("../../../../../docs/server.md");
        let without_effect = WITHOUT_EFFECT.iter().map(|spellings| spellings[0]);
        for option in without_effect.chain(NOT_DONE.iter().map(NotDone::option)) {
            assert!(documented.contains(&format!("`--{option}`")), "{option}");
        }
    }
}
