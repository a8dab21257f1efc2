//! HTTPS server with a certificate of a test authority; it counts connections and requests.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use hotdesk::http::guarded_fetch::{Resolver, Trust};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The name in the certificate.
pub const HOST: &str = "client.test";

/// Writes the complete response to a path, however slow or malformed.
pub type Respond = fn(path: &str, port: u16, out: &mut dyn Write) -> std::io::Result<()>;

pub struct Server {
    pub port: u16,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    authority: reqwest::Certificate,
}

impl Server {
    /// Serves on a free port until the test process ends.
    pub fn start(respond: Respond) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = Arc::new(make_certificates(folder.path()));
        let authority = std::fs::read(folder.path().join("authority.pem")).expect("a certificate");
        let authority = reqwest::Certificate::from_pem(&authority).expect("a certificate");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (connections, requests) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (connected, requested) = (Arc::clone(&connections), Arc::clone(&requests));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                connected.fetch_add(1, Ordering::SeqCst);
                let (config, requested) = (Arc::clone(&config), Arc::clone(&requested));
                // Errors are ignored: clients may close the connection.
                std::thread::spawn(move || drop(answer(stream, config, &requested, respond, port)));
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

    /// Trust settings that accept this server's certificate, resolve its name to this machine, and allow that
    /// address.
    pub fn trusted(&self) -> Trust {
        Trust {
            names: Arc::new(FixedResolver(vec![Ipv4Addr::LOCALHOST.into()])),
            may_reach: |address| address.is_loopback(),
            authority: Some(self.authority.clone()),
        }
    }
}

/// A resolver that returns the same addresses for every name.
pub struct FixedResolver(pub Vec<IpAddr>);

#[async_trait]
impl Resolver for FixedResolver {
    async fn addresses(&self, _host: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(self.0.clone())
    }
}

fn answer(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    requested: &AtomicUsize,
    respond: Respond,
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
    requested.fetch_add(1, Ordering::SeqCst);
    respond(path, port, &mut stream)?;
    stream.flush()?;
    stream.conn.send_close_notify();
    stream.flush()
}

fn make_certificates(folder: &Path) -> ServerConfig {
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
    config.expect("versions").with_no_client_auth().with_single_cert(vec![own], key).expect("a matching key")
}
