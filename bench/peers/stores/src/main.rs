//! Sessions on PostgreSQL, one service per variant: "raw" (the floor), "retain", "adk-rs",
//! "adk-rust". Other peers receive a folder; this peer receives the URL of an empty database.
//! `windows` has the timed work, which is the same for all services.

mod adk_rs;
mod adk_rust;
mod raw;
mod retain;
mod windows;

use bench_common::{Failure, Opened, Peer, Res, Store, run};
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;
use windows::{Service, ServiceStore};

/// Number of connections of the floor, equal to Retain's default.
const CONNECTIONS: usize = 20;

struct Stores {
    runtime: Arc<Runtime>,
    version: String,
}

impl Stores {
    fn store<S: Service>(&mut self, version: &str, service: S) -> Box<dyn Store> {
        self.version = version.into();
        Box::new(ServiceStore::new(self.runtime.clone(), service))
    }
}

impl Peer for Stores {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn open(&mut self, dir: &Path, variant: &str) -> Res<Opened> {
        let url = dir.to_str().ok_or("the database URL is not valid UTF-8")?;
        let runtime = self.runtime.clone();
        let store = match variant {
            "raw" => {
                let raw = runtime.block_on(raw::Raw::connect(url, CONNECTIONS))?;
                self.store("tokio-postgres", raw)
            }
            "retain" => {
                let service = runtime.block_on(retain::Retain::connect(url))?;
                self.store("this tree", service)
            }
            "adk-rs" => {
                let service = runtime.block_on(adk_rs::AdkRs::connect(url))?;
                self.store("0.6.0", service)
            }
            "adk-rust" => {
                let service = runtime.block_on(adk_rust::AdkRust::connect(url))?;
                self.store("2.3.0", service)
            }
            other => return Err(Failure::Unsupported(format!("unknown variant {other:?}"))),
        };
        // The driver reports the server's settings.
        let durability = String::new();
        Ok(Opened { store, durability })
    }
}

fn main() {
    run(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.enable_all().build().expect("tokio runtime");
        Stores {
            runtime: Arc::new(runtime),
            version: String::new(),
        }
    });
}
