//! MCP servers in agent configurations.

use retain::{
    agent::ConfigRegistry,
    tool::mcp::{self, ChildProcesses},
};

/// ADK's switch for MCP servers that are child processes. It is off by default in ADK and on here.
const SWITCH: &str = "ADK_ALLOW_CONFIG_STDIO_MCP_SERVERS";

/// Lets agent configurations use MCP servers and start them as child processes: only the operator
/// writes to the folder of agents. An operator who does not trust the folder sets the switch to 0.
pub(super) fn register(registry: ConfigRegistry) -> ConfigRegistry {
    let switch = std::env::var(SWITCH).ok();
    mcp::register(registry, child_processes(switch.as_deref()))
}

fn child_processes(switch: Option<&str>) -> ChildProcesses {
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
    fn child_processes_are_allowed_unless_the_variable_disables_them() {
        for switch in [None, Some("1"), Some("True")] {
            assert_eq!(child_processes(switch), ChildProcesses::Allowed);
        }
        for switch in ["0", "false", ""] {
            assert_eq!(child_processes(Some(switch)), ChildProcesses::Refused);
        }
    }
}
