//! Loads a configuration and the files it refers to. A file may refer only to files in or below its
//! own folder.

use std::{
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use retain_core::adk::table;

use super::{
    composed, custom_agent,
    custom_agent::AgentFactory,
    error::ConfigError,
    files,
    files::FileStamp,
    llm_agent,
    nearest::did_you_mean,
    registry::{ConfigRegistry, NameTable},
    value::ConfigValue,
    yaml,
};
use crate::agents::{Agent, AgentTree};

type Result<T> = std::result::Result<T, ConfigError>;

/// Maximum nesting of files. Cycles are detected separately; this limit is for chains without a
/// cycle.
const DEPTH_MAX: usize = 64;
const FILES_MAX: usize = 10_000;

/// Loads a file's agent. Also returns stamps of all files that the agent was built from.
pub(super) fn load(
    file: &Path,
    registry: &ConfigRegistry,
) -> Result<(Arc<dyn Agent>, Vec<FileStamp>)> {
    let of_file = |problem: String| ConfigError::for_file(file, problem);
    let real = file.canonicalize().map_err(files::unreadable);
    let real = real.map_err(of_file)?;
    let mut loader = Loader {
        registry,
        open: Vec::new(),
        stamps: Vec::new(),
    };
    let agent = loader.load_file(file, real, of_file)?;
    AgentTree::new(Arc::clone(&agent)).map_err(|error| of_file(error.to_string()))?;
    Ok((agent, loader.stamps))
}

/// Loads an agent from its files.
pub(super) struct Loader<'r> {
    pub(super) registry: &'r ConfigRegistry,
    /// The chain of files from the root file to the one being read.
    open: Vec<PathBuf>,
    stamps: Vec<FileStamp>,
}

/// The class of the agent that a file describes.
#[derive(Debug, Clone, Copy)]
enum AgentClass {
    Llm,
    Workflow(WorkflowClass),
}

/// Classes of workflow agents.
#[derive(Debug, Clone, Copy)]
pub(super) enum WorkflowClass {
    Sequential,
    Loop,
    Parallel,
}

/// Class names, the ADK modules that define them, and the classes they map to.
#[rustfmt::skip]
const CLASSES: [(&str, &str, AgentClass); 5] = [
    ("LlmAgent", "llm_agent", AgentClass::Llm),
    ("Agent", "llm_agent", AgentClass::Llm),
    ("SequentialAgent", "sequential_agent", AgentClass::Workflow(WorkflowClass::Sequential)),
    ("LoopAgent", "loop_agent", AgentClass::Workflow(WorkflowClass::Loop)),
    ("ParallelAgent", "parallel_agent", AgentClass::Workflow(WorkflowClass::Parallel)),
];

impl Loader<'_> {
    /// Loads a file's agent. If the file cannot be read, `unreadable` builds the error, with the
    /// location of the reference to the file.
    fn load_file(
        &mut self,
        file: &Path,
        real: PathBuf,
        unreadable: impl Fn(String) -> ConfigError,
    ) -> Result<Arc<dyn Agent>> {
        if self.stamps.len() >= FILES_MAX {
            return Err(unreadable(format!(
                "cannot be loaded: an agent may refer to at most {FILES_MAX} files"
            )));
        }
        let (text, stamp) = files::read(&real).map_err(unreadable)?;
        self.stamps.push(stamp);
        self.open.push(real);
        let node = yaml::parse(file, &text)?;
        let agent = self.agent(&ConfigValue::root(file, &node))?;
        self.open.pop();
        Ok(agent)
    }

    fn agent(&mut self, place: &ConfigValue<'_>) -> Result<Arc<dyn Agent>> {
        let keys = place.pairs("an agent")?;
        let class = keys.iter().find(|(key, _)| *key == "agent_class");
        if let Some((_, class)) = class
            && let Some(make) = self.registry.agent_classes.get(class.text()?)
        {
            return custom_agent::build(self, make, place);
        }
        let own = &self.registry.agent_classes;
        match class.map_or(Ok(AgentClass::Llm), |(_, place)| read_class(place, own))? {
            AgentClass::Llm => llm_agent::build(self, place),
            AgentClass::Workflow(class) => composed::build(self, class, place),
        }
    }

    /// Resolves an agent reference: `config_path` or `code`.
    pub(super) fn resolve_reference(&mut self, place: &ConfigValue<'_>) -> Result<Arc<dyn Agent>> {
        let fields = place.fields("an agent reference", &table::AGENT_REF_CONFIG)?;
        match (fields.get("config_path"), fields.get("code")) {
            (Some(path), None) => self.config_path(path),
            (None, Some(code)) => self.registry.agents.find(code).map(Arc::clone),
            (Some(_), Some(_)) => {
                Err(place.error("has both `config_path` and `code`; set only one"))
            }
            (None, None) => Err(place.error("expected `config_path` or `code`, found neither")),
        }
    }

    fn config_path(&mut self, place: &ConfigValue<'_>) -> Result<Arc<dyn Agent>> {
        let path = place.name()?;
        let folder = place.file().parent().unwrap_or(Path::new(""));
        if Path::new(path).is_absolute() {
            return Err(place.error(format!("{path:?} is absolute; {INSIDE}")));
        }
        if leaves_folder(Path::new(path)) {
            return Err(place.error(format!("{path:?} leaves the folder; {INSIDE}")));
        }
        let file = folder.join(path);
        let unreadable = |problem: String| place.error(format!("{path:?} {problem}"));
        let real = file.canonicalize().map_err(files::unreadable);
        let real = real.map_err(unreadable)?;
        // A symbolic link may point outside the folder.
        let open_folder = self.open.last().and_then(|open| open.parent());
        if open_folder.is_some_and(|folder| !real.starts_with(folder)) {
            return Err(place.error(format!("{path:?} leaves the folder; {INSIDE}")));
        }
        self.check_cycle(place, &real)?;
        self.load_file(&file, real, unreadable)
    }

    fn check_cycle(&self, place: &ConfigValue<'_>, real: &Path) -> Result<()> {
        if self.open.len() >= DEPTH_MAX {
            return Err(place.error(format!("agents are nested deeper than {DEPTH_MAX} files")));
        }
        let Some(first) = self.open.iter().position(|open| open == real) else {
            return Ok(());
        };
        let cycle = self.open[first..]
            .iter()
            .map(PathBuf::as_path)
            .chain([real]);
        let cycle: Vec<_> = cycle.filter_map(Path::file_name).collect();
        let cycle: Vec<_> = cycle.iter().map(|name| name.to_string_lossy()).collect();
        let cycle = cycle.join(" → ");
        Err(place.error(format!("the files form a reference cycle: {cycle}")))
    }
}

const INSIDE: &str = "expected a path in or below the folder of this file";

fn leaves_folder(path: &Path) -> bool {
    let mut depth = 0_i32;
    path.components().any(|component| {
        match component {
            Component::Normal(_) => depth += 1,
            Component::ParentDir => depth -= 1,
            _ => {}
        }
        depth < 0
    })
}

fn read_class(place: &ConfigValue<'_>, own: &NameTable<AgentFactory>) -> Result<AgentClass> {
    // As in ADK, an empty class means `LlmAgent`.
    let name = match place.text()? {
        "" => return Ok(AgentClass::Llm),
        name => name,
    };
    let bare = match name.strip_prefix("google.adk.agents.") {
        Some(rest) => CLASSES
            .iter()
            .find(|(class, module, _)| rest == *class || rest == format!("{module}.{class}"))
            .map(|(class, ..)| *class),
        None => Some(name),
    };
    let class = CLASSES.iter().find(|(class, ..)| bare == Some(class));
    class.map(|(.., class)| *class).ok_or_else(|| {
        let known = CLASSES.iter().map(|(class, ..)| *class).chain(own.names());
        let hint = did_you_mean(name, known, "classes");
        place.error(format!("{name:?} is not an agent class; {hint}"))
    })
}
