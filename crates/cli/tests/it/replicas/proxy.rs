//! Stands between a server and its PostgreSQL and cuts connections at the worst moments: before a
//! write reaches the database, in the midst of it, and after the commit, before its answer.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// When the next connection is cut that writes an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// What is written does not get to the database.
    Before,
    /// Half of it does.
    Within,
    /// All of it does, and the answer does not come back.
    After,
}

/// The database answers sooner than this, or has nothing more to say.
const ANSWER: Duration = Duration::from_millis(500);

/// The proxy. Its threads end with the process.
pub(super) struct Proxy {
    pub(super) port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    /// What a write is known by.
    mark: Vec<u8>,
    next: Mutex<Option<Cut>>,
    cuts: AtomicUsize,
    /// Cuts after which the database was found to have committed.
    committed: AtomicUsize,
}

impl Proxy {
    /// Listens for connections to the database at `port`.
    pub(super) fn start(port: u16, mark: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Arc::new(Shared {
            mark: mark.as_bytes().to_vec(),
            next: Mutex::new(None),
            cuts: AtomicUsize::new(0),
            committed: AtomicUsize::new(0),
        });
        let proxy = Proxy {
            port: listener.local_addr().unwrap().port(),
            shared: Arc::clone(&shared),
        };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if let Ok(database) = TcpStream::connect(("127.0.0.1", port)) {
                    pass_on(client, database, &shared);
                }
            }
        });
        proxy
    }

    /// Cuts the next connection that writes an event.
    pub(super) fn cut(&self, cut: Cut) {
        *self.shared.next.lock().unwrap() = Some(cut);
    }

    /// How many connections were cut, and in how many of them a commit had happened unheard.
    pub(super) fn cuts(&self) -> (usize, usize) {
        let shared = &self.shared;
        let committed = shared.committed.load(Ordering::SeqCst);
        (shared.cuts.load(Ordering::SeqCst), committed)
    }
}

/// A thread for each direction.
fn pass_on(client: TcpStream, database: TcpStream, shared: &Arc<Shared>) {
    let _ = (client.set_nodelay(true), database.set_nodelay(true));
    let swallow = Arc::new(AtomicBool::new(false));
    let (from, to) = (client.try_clone().unwrap(), database.try_clone().unwrap());
    let (both, deaf) = (Arc::clone(shared), Arc::clone(&swallow));
    std::thread::spawn(move || requests(from, to, &both, &deaf));
    let shared = Arc::clone(shared);
    std::thread::spawn(move || answers(database, client, &shared, &swallow));
}

fn end(one: &TcpStream, other: &TcpStream) {
    let _ = (one.shutdown(Shutdown::Both), other.shutdown(Shutdown::Both));
}

fn requests(mut client: TcpStream, mut database: TcpStream, shared: &Shared, deaf: &AtomicBool) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        let bytes = &buffer[..count];
        let writes = bytes
            .windows(shared.mark.len())
            .any(|found| found == shared.mark);
        let cut = match writes {
            true => shared.next.lock().unwrap().take(),
            false => None,
        };
        let passed = match cut {
            None => bytes,
            Some(Cut::Before) => &[],
            Some(Cut::Within) => &bytes[..count / 2],
            Some(Cut::After) => {
                deaf.store(true, Ordering::SeqCst);
                bytes
            }
        };
        if database.write_all(passed).is_err() {
            break;
        }
        match cut {
            None => {}
            // The other thread ends it, when the answer has come.
            Some(Cut::After) => return,
            Some(Cut::Before | Cut::Within) => {
                shared.cuts.fetch_add(1, Ordering::SeqCst);
                break;
            }
        }
    }
    end(&client, &database);
}

fn answers(mut database: TcpStream, mut client: TcpStream, shared: &Shared, deaf: &AtomicBool) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(count @ 1..) = database.read(&mut buffer) {
        if deaf.load(Ordering::SeqCst) {
            let mut answer = buffer[..count].to_vec();
            database.set_read_timeout(Some(ANSWER)).unwrap();
            while !is_idle(&answer)
                && let Ok(count @ 1..) = database.read(&mut buffer)
            {
                answer.extend_from_slice(&buffer[..count]);
            }
            shared.cuts.fetch_add(1, Ordering::SeqCst);
            let committed = usize::from(is_idle(&answer));
            shared.committed.fetch_add(committed, Ordering::SeqCst);
            break;
        }
        if client.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    end(&client, &database);
}

/// Whether an answer ends with ReadyForQuery outside any transaction: what was asked is done.
fn is_idle(answer: &[u8]) -> bool {
    answer.ends_with(b"Z\0\0\0\x05I")
}
