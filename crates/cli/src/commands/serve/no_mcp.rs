//! MCP servers in configurations, in a build without the feature `mcp`.

use retain::agent::ConfigRegistry;

use crate::commands::missing_feature;

/// Makes a configuration that names an MCP server fail with an error that names the missing
/// feature.
pub(super) fn register(registry: ConfigRegistry) -> ConfigRegistry {
    registry.with_mcp_toolset_from_args(|_| Err(missing_feature("MCP", "mcp").into()))
}

#[cfg(test)]
mod tests {
    use retain::agent::AgentConfig;

    use super::*;

    #[test]
    fn error_for_an_mcp_server_names_the_missing_feature() {
        let folder = retain_testkit::scratch::folder();
        let file = folder.path().join("root_agent.yaml");
        let yaml = "name: a\nmodel: offline\ninstruction: Hi\ntools:\n  - name: McpToolset\n    \
                    args: {stdio_connection_params: {server_params: {command: x}}}\n";
        std::fs::write(&file, yaml).unwrap();
        let loaded = AgentConfig::load(&file, &register(ConfigRegistry::new()));
        let error = loaded.unwrap_err().to_string();
        let expected = "this build has no MCP support: install a package, or build with \
                        --features mcp";
        assert!(error.contains(expected), "{error}");
    }
}
