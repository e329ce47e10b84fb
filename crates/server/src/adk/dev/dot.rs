//! Graphs of agents in Graphviz's DOT language. The web UI identifies nodes by the names of agents
//! and tools.

use std::fmt::Write as _;

use retain_runtime::Agent;

use super::graph::tool_names;

/// Writes indented DOT text.
#[derive(Default)]
struct Drawing {
    lines: String,
    depth: usize,
}

impl Drawing {
    fn line(&mut self, text: impl std::fmt::Display) {
        let indent = "\t".repeat(self.depth);
        // Writing to a string does not fail.
        let _ = writeln!(self.lines, "{indent}{text}");
    }

    fn open(&mut self, text: impl std::fmt::Display) {
        self.line(format_args!("{text} {{"));
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }
}

/// Quotes a string for Graphviz.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' | '\r' => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Escapes text inside an HTML label.
fn escape_html(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// The color scheme of a tree.
struct Colors {
    background: &'static str,
    node: &'static str,
    border: &'static str,
    text: &'static str,
    edge: &'static str,
}

const DARK: Colors = Colors {
    background: "#0F172A",
    node: "#1E293B",
    border: "#475569",
    text: "#F8FAFC",
    edge: "#94A3B8",
};

const LIGHT: Colors = Colors {
    background: "#F8FAFC",
    node: "#FFFFFF",
    border: "#94A3B8",
    text: "#0F172A",
    edge: "#64748B",
};

/// Draws an agent, its sub-agents and their tools as a tree, from top to bottom.
pub(super) fn tree(agent: &dyn Agent, dark: bool) -> String {
    let colors = if dark { DARK } else { LIGHT };
    let mut drawing = Drawing::default();
    drawing.open("digraph");
    let Colors {
        background,
        node,
        border,
        text,
        edge,
    } = &colors;
    drawing.line(format_args!(
        "graph [bgcolor=\"{background}\" fontname=Helvetica nodesep=0.5 pad=0.5 ranksep=0.8]"
    ));
    drawing.line(format_args!(
        "node [color=\"{border}\" fillcolor=\"{node}\" fontcolor=\"{text}\" fontname=Helvetica \
         fontsize=12 margin=\"0.25,0.15\" shape=rect style=\"rounded,filled\"]"
    ));
    drawing.line(format_args!(
        "edge [arrowhead=vee arrowsize=0.7 color=\"{edge}\"]"
    ));
    let mut tools = Vec::new();
    draw_branch(agent, &mut drawing, &mut tools);
    for (agent, tool) in &tools {
        let (from, to) = (quote(agent), quote(tool));
        let label = icon_label("🔧", "#6B7280", tool);
        drawing.line(format_args!(
            "{to} [label={label} style=\"rounded,filled,dashed\" tooltip=Tool]"
        ));
        drawing.line(format_args!("{from} -> {to} [style=dashed]"));
    }
    drawing.close();
    drawing.lines
}

fn draw_branch(agent: &dyn Agent, drawing: &mut Drawing, tools: &mut Vec<(String, String)>) {
    let name = quote(agent.name());
    let label = icon_label("✦", "#42A5F5", agent.name());
    drawing.line(format_args!("{name} [label={label} tooltip=Agent]"));
    for below in agent.sub_agents() {
        draw_branch(&**below, drawing, tools);
        drawing.line(format_args!("{name} -> {}", quote(below.name())));
    }
    if let Some(agent) = agent.as_llm_agent() {
        let named = tool_names(agent).into_iter();
        tools.extend(named.map(|tool| (agent.name().to_owned(), tool)));
    }
}

fn icon_label(icon: &str, color: &str, name: &str) -> String {
    let name = escape_html(name);
    format!("<<FONT COLOR=\"{color}\" POINT-SIZE=\"14\">{icon}</FONT> {name}>")
}

const GRAY: &str = "#cccccc";
const GREEN: &str = "#0F5223";
const BRIGHT_GREEN: &str = "#69CB87";

/// Draws a graph from left to right. Workflow agents are frames around their sub-agents. `marked`
/// lists the edges to highlight.
pub(super) fn graph(agent: &dyn Agent, marked: &[(String, String)], dark: bool) -> String {
    let background = if dark { "#333537" } else { "#ffffff" };
    let mut graph = Graph {
        drawing: Drawing::default(),
        marked,
    };
    graph.drawing.open("strict digraph");
    let settings = format!("graph [bgcolor=\"{background}\" rankdir=LR]");
    graph.drawing.line(settings);
    graph.agent(agent, None);
    graph.drawing.close();
    graph.drawing.lines
}

struct Graph<'a> {
    drawing: Drawing,
    marked: &'a [(String, String)],
}

impl Graph<'_> {
    fn agent(&mut self, agent: &dyn Agent, parent: Option<&str>) {
        if is_frame(agent) {
            return self.frame(agent, parent);
        }
        self.node(agent.name(), "🤖", "ellipse");
        if let Some(parent) = parent {
            self.edge(parent, agent.name(), false);
        }
        for below in agent.sub_agents() {
            self.agent(&**below, Some(agent.name()));
        }
        let tools = agent.as_llm_agent().map(tool_names).unwrap_or_default();
        for tool in &tools {
            self.node(tool, "🔧", "box");
            self.edge(agent.name(), tool, false);
        }
    }

    /// Draws a workflow agent as a frame around its sub-agents, with edges in the order of
    /// execution.
    fn frame(&mut self, agent: &dyn Agent, parent: Option<&str>) {
        let title = format!("{} ({})", agent.name(), agent.kind());
        let id = quote(&format!("cluster_{title}"));
        self.drawing.open(format_args!("subgraph {id}"));
        for below in agent.sub_agents() {
            self.agent(&**below, None);
        }
        let style = format!("label={} style=rounded fontcolor=\"{GRAY}\"", quote(&title));
        self.drawing.line(style);
        self.drawing.close();
        let names: Vec<&str> = agent.sub_agents().iter().map(|it| it.name()).collect();
        let is_sequential = agent.kind() != "ParallelAgent";
        let entry_count = if is_sequential { 1 } else { names.len() };
        for name in names.iter().take(entry_count) {
            if let Some(parent) = parent {
                self.edge(parent, name, true);
            }
        }
        if is_sequential {
            for pair in names.windows(2) {
                self.edge(pair[0], pair[1], true);
            }
        }
        if let ("LoopAgent", [first, .., last]) = (agent.kind(), names.as_slice()) {
            self.edge(last, first, true);
        }
    }

    fn node(&mut self, name: &str, icon: &str, shape: &str) {
        let is_marked = self.marked.iter().any(|(a, b)| a == name || b == name);
        let style = match is_marked {
            true => format!("style=\"filled,rounded\" fillcolor=\"{GREEN}\" color=\"{GREEN}\""),
            false => format!("style=rounded color=\"{GRAY}\""),
        };
        let label = quote(&format!("{icon} {name}"));
        let name = quote(name);
        let look = format!("shape={shape} fontcolor=\"{GRAY}\" {style}");
        self.drawing
            .line(format_args!("{name} [label={label} {look}]"));
    }

    fn edge(&mut self, from: &str, to: &str, has_head: bool) {
        let marked = self.marked.iter();
        let is = |a: &str, b: &str| marked.clone().any(|(from, to)| from == a && to == b);
        let look = match (is(from, to), is(to, from), has_head) {
            (true, _, _) => format!("color=\"{BRIGHT_GREEN}\""),
            (_, true, _) => format!("color=\"{BRIGHT_GREEN}\" dir=back"),
            (_, _, true) => format!("color=\"{GRAY}\""),
            (_, _, false) => format!("arrowhead=none color=\"{GRAY}\""),
        };
        let (from, to) = (quote(from), quote(to));
        self.drawing.line(format_args!("{from} -> {to} [{look}]"));
    }
}

fn is_frame(agent: &dyn Agent) -> bool {
    matches!(
        agent.kind(),
        "SequentialAgent" | "LoopAgent" | "ParallelAgent"
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use retain_runtime::{LlmAgent, LoopAgent, OfflineModel, load_memory_tool};

    use super::*;

    fn agent(name: &str) -> LlmAgent {
        let agent = LlmAgent::builder(name).model(OfflineModel::new());
        agent.tool(load_memory_tool()).build().unwrap()
    }

    #[test]
    fn loop_is_drawn_as_a_frame_with_a_back_edge() {
        let writer: Arc<dyn Agent> = Arc::new(agent("writer"));
        let critic: Arc<dyn Agent> = Arc::new(agent("critic"));
        let loop_agent = LoopAgent::builder("refine");
        let loop_agent = loop_agent
            .sub_agent(writer)
            .sub_agent(critic)
            .build()
            .unwrap();
        let marked = [("critic".to_owned(), "load_memory".to_owned())];
        let drawn = graph(&loop_agent, &marked, true);
        for line in [
            "subgraph \"cluster_refine (LoopAgent)\" {",
            "\"writer\" -> \"critic\" [color=\"#cccccc\"]",
            "\"critic\" -> \"writer\" [color=\"#cccccc\"]",
            "\"critic\" -> \"load_memory\" [color=\"#69CB87\"]",
            "\"writer\" -> \"load_memory\" [arrowhead=none color=\"#cccccc\"]",
        ] {
            assert!(drawn.contains(line), "{line} is not in:\n{drawn}");
        }
        assert_eq!(drawn.matches('{').count(), drawn.matches('}').count());
    }

    #[test]
    fn quotes_in_names_are_escaped() {
        assert_eq!(quote("a\"] -> b\\\n"), "\"a\\\"] -> b\\\\ \"");
        assert_eq!(escape_html("<b>&\""), "&lt;b&gt;&amp;&quot;");
    }
}
