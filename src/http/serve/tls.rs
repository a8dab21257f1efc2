//! TLS of the server, with a certificate in files that may be renewed while it runs (docs/operating.md#tls).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Interval at which the files are checked for a change.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Longest time of a handshake (T13, docs/security.md): two round trips, also over a slow network.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// PEM files of the server's certificate.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The certificate, followed by those of intermediate authorities.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl CertificateFiles {
    /// Reads and checks the files.
    fn read(&self, provider: &CryptoProvider) -> io::Result<CertifiedKey> {
        let chain = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| invalid(&self.certificate, error))?;
        if chain.is_empty() {
            return Err(invalid(&self.certificate, "no certificate in it"));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| invalid(&self.key, error))?;
        CertifiedKey::from_der(chain, key, provider)
            .map_err(|error| invalid(&self.key, format!("it does not fit the certificate: {error}")))
    }

    /// The times of the last changes.
    fn changed(&self) -> io::Result<[SystemTime; 2]> {
        let time = |path: &Path| path.metadata().and_then(|data| data.modified());
        Ok([time(&self.certificate)?, time(&self.key)?])
    }
}

fn invalid(path: &Path, what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()))
}

/// The present certificate of the files.
#[derive(Debug)]
struct Certificate(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// TLS 1.2 and 1.3 for the connections of a listener.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    certificate: Arc<Certificate>,
    files: CertificateFiles,
}

impl Tls {
    /// Reads the certificate.
    ///
    /// # Errors
    /// When a file cannot be read or is not PEM, or the key is not that of the certificate; the text names the file.
    pub fn new(files: CertificateFiles) -> io::Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let certificate = Arc::new(Certificate(RwLock::new(Arc::new(files.read(&provider)?))));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&certificate) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificate, files })
    }

    /// Uses renewed files for new connections, until the future is dropped. Invalid files are logged, and the certificate
    /// stays as it was.
    pub async fn follow_renewals(&self) {
        let mut seen = self.files.changed().ok();
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let changed = self.files.changed().ok();
            if changed == seen {
                continue;
            }
            seen = changed;
            match self.files.read(self.acceptor.config().crypto_provider()) {
                Ok(fresh) => {
                    *self.certificate.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
                    tracing::info!("the renewed TLS certificate is in use");
                }
                Err(error) => {
                    tracing::error!(%error, "the renewed TLS certificate cannot be used; the earlier one stays in use");
                }
            }
        }
    }

    /// Performs the handshake of a connection.
    ///
    /// # Errors
    /// When the client speaks no TLS, agrees to nothing that the server offers, or takes longer than
    /// [`HANDSHAKE_TIMEOUT`].
    pub(super) async fn accept<T: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: T,
    ) -> io::Result<TlsStream<T>> {
        tokio::time::timeout(HANDSHAKE_TIMEOUT, self.acceptor.accept(stream)).await?
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}
