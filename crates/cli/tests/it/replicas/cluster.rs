//! Several `retain serve` on one store, which can be killed and started again one by one.

use std::sync::{Mutex, RwLock};

use rustix::process::Signal;
use tempfile::TempDir;

use super::http::{self, Answer};
use crate::serve::process::{Server, serve};

/// Where nobody listens: the port of a server that is gone may be another's by now.
const NOBODY: &str = "127.0.0.1:1";

/// The replicas, and where they listen.
pub(super) struct Cluster {
    folder: TempDir,
    store: String,
    servers: Vec<Mutex<Option<Server>>>,
    addresses: RwLock<Vec<String>>,
}

impl Cluster {
    /// Starts all of them at once, so that they also meet while tables are made.
    pub(super) fn start(store: &str, replicas: usize) -> Cluster {
        let cluster = Cluster {
            folder: retain_testkit::scratch::folder(),
            store: store.to_owned(),
            servers: (0..replicas).map(|_| Mutex::new(None)).collect(),
            addresses: RwLock::new(vec![NOBODY.to_owned(); replicas]),
        };
        std::thread::scope(|scope| {
            for number in 0..replicas {
                let cluster = &cluster;
                scope.spawn(move || cluster.revive(number));
            }
        });
        cluster
    }

    pub(super) fn replicas(&self) -> usize {
        self.servers.len()
    }

    /// Kills a replica with SIGKILL.
    pub(super) fn kill(&self, number: usize) {
        let server = self.servers[number].lock().unwrap().take().unwrap();
        // Before its port is free.
        NOBODY.clone_into(&mut self.addresses.write().unwrap()[number]);
        server.signal(Signal::KILL);
        server.wait();
    }

    /// Starts a replica, at an address of its own.
    pub(super) fn revive(&self, number: usize) {
        let arguments = [
            "--session-service-uri",
            &self.store,
            "--requests-per-key",
            "1000000",
            "--log-level",
            "warning",
        ];
        let server = Server::start(serve(self.folder.path(), &arguments));
        self.addresses.write().unwrap()[number] = server.address.clone();
        *self.servers[number].lock().unwrap() = Some(server);
    }

    /// Where a replica listens, or nobody; numbers go round.
    pub(super) fn address(&self, number: usize) -> String {
        self.addresses.read().unwrap()[number % self.replicas()].clone()
    }

    /// Asks a replica that must answer.
    pub(super) fn get(&self, number: usize, path: &str) -> Answer {
        http::ask(&self.address(number), "GET", path, "").unwrap()
    }

    /// What the replicas have written to their logs, once they were told to stop.
    pub(super) fn stop(self) -> String {
        let servers = self.servers.into_iter().map(|server| server.into_inner());
        let running = servers.filter_map(|server| server.unwrap());
        running.map(|server| server.stop().stderr).collect()
    }
}
