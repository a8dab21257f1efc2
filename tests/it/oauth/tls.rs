//! A web server on this machine with a certificate that only the test believes: it counts who connects and who asks.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use hotdesk::http::guarded::{Names, Trust};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The name in the certificate.
pub const HOST: &str = "client.test";

/// What the server says to a path: it writes the whole answer, as slowly and as wrongly as it likes.
pub type Play = fn(path: &str, port: u16, out: &mut dyn Write) -> std::io::Result<()>;

pub struct Server {
    pub port: u16,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    authority: reqwest::Certificate,
}

impl Server {
    /// Serves on a free port, until the test's process ends.
    pub fn start(play: Play) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = Arc::new(certified(folder.path()));
        let authority = std::fs::read(folder.path().join("authority.pem")).expect("a certificate");
        let authority = reqwest::Certificate::from_pem(&authority).expect("a certificate");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (connections, requests) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (connected, asked) = (Arc::clone(&connections), Arc::clone(&requests));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                connected.fetch_add(1, Ordering::SeqCst);
                let (config, asked) = (Arc::clone(&config), Arc::clone(&asked));
                // What goes wrong is the client's: it hangs up where it must.
                std::thread::spawn(move || drop(answer(stream, config, &asked, play, port)));
            }
        });
        Self { port, connections, requests, authority }
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://{HOST}:{}{path}", self.port)
    }

    /// Who believes this server and thinks that its name stands for this machine, which may be reached.
    pub fn trusted(&self) -> Trust {
        Trust {
            names: Arc::new(Always(vec![Ipv4Addr::LOCALHOST.into()])),
            may_reach: |address| address.is_loopback(),
            authority: Some(self.authority.clone()),
        }
    }
}

/// Every name stands for the same.
pub struct Always(pub Vec<IpAddr>);

#[async_trait]
impl Names for Always {
    async fn addresses(&self, _host: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(self.0.clone())
    }
}

fn answer(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    asked: &AtomicUsize,
    play: Play,
    port: u16,
) -> std::io::Result<()> {
    let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap_or_default();
    asked.fetch_add(1, Ordering::SeqCst);
    play(path, port, &mut stream)?;
    stream.flush()?;
    stream.conn.send_close_notify();
    stream.flush()
}

fn certified(folder: &Path) -> ServerConfig {
    let openssl = |line: &str| {
        let ran =
            Command::new("openssl").args(line.split(' ')).current_dir(folder).output().expect("openssl");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!("req -x509 {key} -days 2 -subj /CN=authority -keyout authority.key -out authority.pem"));
    openssl(&format!(
        "req {key} -subj /CN={HOST} -addext subjectAltName=DNS:{HOST} -keyout key.pem -out wanted.pem"
    ));
    openssl(
        "x509 -req -days 2 -copy_extensions copy -in wanted.pem -CA authority.pem -CAkey authority.key -CAcreateserial -out own.pem",
    );
    let own = CertificateDer::from_pem_file(folder.join("own.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(folder.join("key.pem")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    config
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![own], key)
        .expect("they belong together")
}
