//! Opens connections: tries each host in turn, with a time limit for each.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::Duration,
};

use deadpool_postgres::Connect;
use futures_util::future::BoxFuture;
use tokio::{task::JoinHandle, time::timeout};
use tokio_postgres::{
    Client, Config, Error,
    config::{Host, LoadBalanceHosts},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::PostgresOptions;

/// Default time limit for one address of a host.
pub(super) const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Number of addresses per host that the time limit allows for; the driver tries each in turn.
const ADDRESSES: u32 = 3;

/// The hosts of a URI. Connects to the first that answers.
///
/// The driver's own timeout covers only the TCP connection: a host that accepts and then hangs would
/// block forever, and the next hosts would never be tried.
pub(super) struct HostList {
    tls: MakeRustlsConnect,
    /// One configuration for each host.
    configs: Vec<Config>,
    limit: Duration,
    is_shuffled: bool,
}

impl HostList {
    pub(super) fn new(options: &PostgresOptions, tls: MakeRustlsConnect) -> HostList {
        let config = &options.config;
        let limit = config.get_connect_timeout().copied();
        HostList {
            tls,
            configs: split_hosts(config),
            limit: limit.unwrap_or(CONNECT_MAX),
            is_shuffled: config.get_load_balance_hosts() == LoadBalanceHosts::Random,
        }
    }

    /// Returns the time limit for one host with all its addresses.
    fn host_limit(&self) -> Duration {
        self.limit * ADDRESSES
    }

    /// Returns the time limit for all hosts together.
    pub(super) fn total_limit(&self) -> Duration {
        self.host_limit() * self.configs.len() as u32 + Duration::from_secs(1)
    }

    /// Returns the hosts in the order in which they are tried.
    fn ordered(&self) -> Vec<&Config> {
        let mut hosts: Vec<&Config> = self.configs.iter().collect();
        if self.is_shuffled {
            let random = RandomState::new();
            hosts.sort_by_cached_key(|host| random.hash_one(std::ptr::from_ref(*host)));
        }
        hosts
    }

    /// Opens a connection outside the pool.
    pub(super) async fn open(&self) -> Result<(Client, JoinHandle<()>), Error> {
        let hosts = self.ordered();
        let (last, first) = hosts.split_last().expect("a configuration has a host");
        for host in first {
            if let Ok(Ok(opened)) = timeout(self.host_limit(), open(host, &self.tls)).await {
                return Ok(opened);
            }
        }
        // The caller limits the time for the last host.
        open(last, &self.tls).await
    }
}

/// Lets the pool open connections with a [`HostList`].
pub(super) struct SharedHostList(pub(super) Arc<HostList>);

impl Connect for SharedHostList {
    fn connect(&self, _: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        Box::pin(self.0.open())
    }
}

async fn open(config: &Config, tls: &MakeRustlsConnect) -> Result<(Client, JoinHandle<()>), Error> {
    let (client, connection) = config.connect(tls.clone()).await?;
    let driver = tokio::spawn(async move {
        // The task that waits for a response gets the error too, so this needs no warning.
        if let Err(error) = connection.await {
            tracing::debug!("lost a connection to PostgreSQL: {error}");
        }
    });
    Ok((client, driver))
}

/// Splits a configuration into one for each host.
fn split_hosts(config: &Config) -> Vec<Config> {
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
    let ports = config.get_ports();
    let count = hosts.len().max(addresses.len());
    let fits = |length: usize| length == 0 || length == count;
    // If the numbers of hosts, addresses and ports do not match, the driver returns a clear error.
    if count <= 1
        || !fits(hosts.len())
        || !fits(addresses.len())
        || ports.len() > 1 && !fits(ports.len())
    {
        return vec![config.clone()];
    }
    let one = |at: usize| {
        let mut one = without_hosts(config);
        match hosts.get(at) {
            Some(Host::Tcp(name)) => one.host(name),
            #[cfg(unix)]
            Some(Host::Unix(path)) => one.host_path(path),
            None => &mut one,
        };
        if let Some(address) = addresses.get(at) {
            one.hostaddr(*address);
        }
        if let Some(port) = ports.get(at).or(ports.first()) {
            one.port(*port);
        }
        one
    };
    (0..count).map(one).collect()
}

/// Copies everything of a configuration except hosts and ports.
fn without_hosts(config: &Config) -> Config {
    let mut one = Config::new();
    one.ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding())
        .load_balance_hosts(config.get_load_balance_hosts());
    macro_rules! copy {
        ($($given:expr => $set:ident,)*) => {
            $(if let Some(given) = $given {
                one.$set(given);
            })*
        };
    }
    copy! {
        config.get_user() => user,
        config.get_password() => password,
        config.get_dbname() => dbname,
        config.get_options() => options,
        config.get_application_name() => application_name,
        config.get_connect_timeout().copied() => connect_timeout,
        config.get_tcp_user_timeout().copied() => tcp_user_timeout,
        config.get_keepalives_interval() => keepalives_interval,
        config.get_keepalives_retries() => keepalives_retries,
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "user=ada password=hunter2 dbname=d options='-c a=b' application_name=x \
                       sslmode=require sslnegotiation=direct connect_timeout=3 tcp_user_timeout=4 \
                       keepalives=0 keepalives_idle=5 keepalives_interval=6 keepalives_retries=7 \
                       target_session_attrs=read-write channel_binding=require \
                       load_balance_hosts=random";

    #[test]
    fn split_hosts_copies_every_parameter() {
        let parse = |hosts: &str| format!("{ALL} {hosts}").parse::<Config>().unwrap();
        let configs = split_hosts(&parse(
            "host=a,/b,c hostaddr=127.0.0.1,127.0.0.2,127.0.0.3 port=1,2,3",
        ));
        let expected = [
            "host=a hostaddr=127.0.0.1 port=1",
            "host=/b hostaddr=127.0.0.2 port=2",
            "host=c hostaddr=127.0.0.3 port=3",
        ];
        assert_eq!(configs, expected.map(parse));
        assert_eq!(
            split_hosts(&parse("host=a,b port=7")),
            ["host=a port=7", "host=b port=7"].map(parse)
        );
        let mismatched = parse("host=a,b port=1,2,3");
        assert_eq!(split_hosts(&mismatched), [mismatched]);
    }
}
