//! A folder of agents: as in ADK's server, each subfolder with a `root_agent.yaml` is an app.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    error::ConfigError,
    files::{FileStamp, unreadable},
    loader,
    nearest::did_you_mean,
    registry::ConfigRegistry,
};
use crate::agents::Agent;

const ROOT_AGENT: &str = "root_agent.yaml";

/// The agents in a folder, by the names of its subfolders.
///
/// An agent is loaded once and cached. [`reload`](AgentsDir::reload) loads it again if its files
/// have changed. Nothing watches the files.
#[derive(Debug)]
pub struct AgentsDir {
    root: PathBuf,
    registry: ConfigRegistry,
    cache: Mutex<BTreeMap<String, CachedAgent>>,
}

#[derive(Debug, Clone)]
struct CachedAgent {
    agent: Arc<dyn Agent>,
    stamps: Vec<FileStamp>,
}

/// The result of [`AgentsDir::reload`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReloadedAgent {
    /// The agent, as its files describe it now.
    pub agent: Arc<dyn Agent>,
    /// Whether the agent was loaded again.
    pub changed: bool,
}

impl AgentsDir {
    /// Opens the folder `root`. Agents are loaded on demand.
    pub fn open(
        root: impl Into<PathBuf>,
        registry: ConfigRegistry,
    ) -> Result<AgentsDir, ConfigError> {
        let dir = AgentsDir {
            root: root.into(),
            registry,
            cache: Mutex::default(),
        };
        dir.apps()?;
        Ok(dir)
    }

    /// Returns the path of the folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the names of the current apps, sorted.
    pub fn apps(&self) -> Result<Vec<String>, ConfigError> {
        let of_root = |error| ConfigError::for_file(&self.root, unreadable(error));
        let mut apps = Vec::new();
        for entry in fs::read_dir(&self.root).map_err(of_root)? {
            let name = entry.map_err(of_root)?.file_name();
            let Some(name) = name.to_str().filter(|name| is_app_name(name)) else {
                continue;
            };
            if self.root.join(name).join(ROOT_AGENT).is_file() {
                apps.push(name.to_owned());
            }
        }
        apps.sort();
        Ok(apps)
    }

    /// Returns the agent of an app, from the cache or from its files.
    pub fn load(&self, app: &str) -> Result<Arc<dyn Agent>, ConfigError> {
        match self.cache().get(app) {
            Some(cached) => return Ok(Arc::clone(&cached.agent)),
            None => self.check_app(app)?,
        }
        self.load_and_cache(app)
    }

    /// Returns the agent of an app, after loading it again if one of its files has changed. If
    /// loading fails, [`load`](AgentsDir::load) still returns the previous agent.
    pub fn reload(&self, app: &str) -> Result<ReloadedAgent, ConfigError> {
        let cached = self.cache().get(app).cloned();
        if let Some(CachedAgent { agent, stamps }) = cached
            && stamps.iter().all(FileStamp::is_current)
        {
            return Ok(ReloadedAgent {
                agent,
                changed: false,
            });
        }
        self.check_app(app)?;
        Ok(ReloadedAgent {
            agent: self.load_and_cache(app)?,
            changed: true,
        })
    }

    fn load_and_cache(&self, app: &str) -> Result<Arc<dyn Agent>, ConfigError> {
        let file = self.root.join(app).join(ROOT_AGENT);
        let (agent, stamps) = loader::load(&file, &self.registry)?;
        let cached = CachedAgent {
            agent: Arc::clone(&agent),
            stamps,
        };
        self.cache().insert(app.to_owned(), cached);
        Ok(agent)
    }

    /// Checks that the app exists. The name must be in the list of apps, so that it cannot lead
    /// outside the folder.
    fn check_app(&self, app: &str) -> Result<(), ConfigError> {
        let apps = self.apps()?;
        if apps.iter().any(|known| known == app) {
            return Ok(());
        }
        let hint = did_you_mean(app, apps.iter().map(String::as_str), "apps in this folder");
        let problem = format!("app {app:?} not found; {hint}");
        Err(ConfigError::for_file(&self.root, problem))
    }

    fn cache(&self) -> MutexGuard<'_, BTreeMap<String, CachedAgent>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a name is a valid app name, as in ADK: letters, digits and underscores, without two
/// leading underscores.
fn is_app_name(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && !name.starts_with("__") && name.chars().all(is_word)
}
