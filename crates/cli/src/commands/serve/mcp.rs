//! MCP servers in agent configurations.

use retain::{
    agent::ConfigRegistry,
    tool::mcp::{self, ChildProcesses},
};

/// ADK's switch. It is off there unless it is set; here it is on.
const SWITCH: &str = "ADK_ALLOW_CONFIG_STDIO_MCP_SERVERS";

/// Lets configurations name MCP servers, also such that are programs to be started: the folder of
/// agents is the operator's own, and no request writes to it. Whoever does not trust it so far sets
/// the switch to 0.
pub(super) fn register(registry: ConfigRegistry) -> ConfigRegistry {
    let switch = std::env::var(SWITCH).ok();
    mcp::register(registry, processes(switch.as_deref()))
}

fn processes(switch: Option<&str>) -> ChildProcesses {
    let is_on = |switch: &str| ["1", "true"].contains(&switch.to_ascii_lowercase().as_str());
    match switch.is_none_or(is_on) {
        true => ChildProcesses::Allowed,
        false => ChildProcesses::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_started_unless_the_switch_is_off() {
        for switch in [None, Some("1"), Some("True")] {
            assert_eq!(processes(switch), ChildProcesses::Allowed);
        }
        for switch in ["0", "false", ""] {
            assert_eq!(processes(Some(switch)), ChildProcesses::Refused);
        }
    }
}
