//! Several `retain serve` processes on one store, which can be killed and restarted one by one.

use std::sync::{Mutex, RwLock};

use rustix::process::Signal;
use tempfile::TempDir;

use super::http::{self, Answer};
use crate::{
    serve::process::{Server, serve},
    upgrade::NEXT_SCHEMA,
};

/// An address without a listener: another process may have the port of a killed server by now.
const NO_LISTENER: &str = "127.0.0.1:1";

/// The replicas and their addresses.
pub(super) struct Cluster {
    folder: TempDir,
    store: String,
    servers: Vec<Mutex<Option<Server>>>,
    addresses: RwLock<Vec<String>>,
}

impl Cluster {
    /// Starts all servers concurrently, so that they also race to create the tables.
    pub(super) fn start(store: &str, replicas: usize) -> Cluster {
        let cluster = Cluster {
            folder: retain_testkit::scratch::folder(),
            store: store.to_owned(),
            servers: (0..replicas).map(|_| Mutex::new(None)).collect(),
            addresses: RwLock::new(vec![NO_LISTENER.to_owned(); replicas]),
        };
        std::thread::scope(|scope| {
            for number in 0..replicas {
                let cluster = &cluster;
                scope.spawn(move || cluster.restart(number));
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
        // Change the address before another process can get the port.
        NO_LISTENER.clone_into(&mut self.addresses.write().unwrap()[number]);
        server.signal(Signal::KILL);
        server.wait();
    }

    /// Restarts a replica at a new address.
    pub(super) fn restart(&self, number: usize) {
        self.start_replica(number, &[]);
    }

    /// Restarts a replica as a program with one more migration.
    pub(super) fn restart_upgraded(&self, number: usize) {
        self.start_replica(number, &[NEXT_SCHEMA]);
    }

    fn start_replica(&self, number: usize, variables: &[(&str, &str)]) {
        let arguments = [
            "--session-service-uri",
            &self.store,
            "--requests-per-key",
            "1000000",
            "--log-level",
            "warning",
        ];
        let mut command = serve(self.folder.path(), &arguments);
        command.envs(variables.iter().copied());
        let server = Server::start(command);
        self.addresses.write().unwrap()[number] = server.address.clone();
        *self.servers[number].lock().unwrap() = Some(server);
    }

    /// Returns the address of a replica; an address without a listener if it was killed. Numbers
    /// wrap around.
    pub(super) fn address(&self, number: usize) -> String {
        self.addresses.read().unwrap()[number % self.replicas()].clone()
    }

    /// Sends a request to a replica that must answer.
    pub(super) fn get(&self, number: usize, path: &str) -> Answer {
        http::ask(&self.address(number), "GET", path, "").unwrap()
    }

    /// Stops the replicas and returns their logs.
    pub(super) fn stop(self) -> String {
        let servers = self.servers.into_iter().map(|server| server.into_inner());
        let running = servers.filter_map(|server| server.unwrap());
        running.map(|server| server.stop().stderr).collect()
    }
}
