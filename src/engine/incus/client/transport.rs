//! Connections to an Incus server: a unix socket, or TLS with a client certificate and a pinned server certificate.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::incus::settings::{Address, IncusSettings};
use crate::{EngineError, EngineResult};
use hotdesk_base::hex::unhex;

const STEP: &str = "set up the connection to Incus";
/// Timeout of a connection with its handshake: two round trips, also over a slow network.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection of either kind.
pub(in crate::incus) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection to the server.
pub(in crate::incus) type Connection = Box<dyn Duplex>;

/// The way to the server.
pub(super) enum Transport {
    Unix(PathBuf),
    Tls { host: String, port: u16, name: ServerName<'static>, connector: TlsConnector },
}

impl Transport {
    /// Reads the certificate of checked settings.
    pub(super) fn open(settings: &IncusSettings) -> EngineResult<Self> {
        match settings.address().map_err(|why| EngineError::failed(STEP, why))? {
            Address::Unix(path) => Ok(Self::Unix(path)),
            Address::Tls(host, port) => {
                let failed = |error: &dyn fmt::Display| EngineError::failed(STEP, error);
                let name = ServerName::try_from(host.clone()).map_err(|error| failed(&error))?;
                let config = client_config(settings)?;
                Ok(Self::Tls { host, port, name, connector: TlsConnector::from(Arc::new(config)) })
            }
        }
    }

    /// The way to another member of the same cluster, by the address that the server has for it. `None` over a unix socket,
    /// and for the member to which this transport leads.
    pub(super) fn to_member(&self, url: &str) -> Option<Self> {
        let Self::Tls { host: own_host, port: own_port, connector, .. } = self else { return None };
        let Some(Address::Tls(host, port)) = Address::parse(url) else { return None };
        if (&host, port) == (own_host, *own_port) {
            return None;
        }
        let name = ServerName::try_from(host.clone()).ok()?;
        Some(Self::Tls { host, port, name, connector: connector.clone() })
    }

    /// Whether connections are encrypted; others lead to a server on this host.
    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls { .. })
    }

    /// Opens a connection. One read of the kernel takes up to `read_buffer` bytes: the TLS library asks for 4 KiB at a time.
    pub(super) async fn connect(&self, read_buffer: usize) -> io::Result<Connection> {
        let connecting = async {
            match self {
                Self::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?) as Connection),
                Self::Tls { host, port, name, connector } => {
                    let stream = TcpStream::connect((host.as_str(), *port)).await?;
                    stream.set_nodelay(true)?;
                    let stream = BufReader::with_capacity(read_buffer, stream);
                    Ok(Box::new(connector.connect(name.clone(), stream).await?) as Connection)
                }
            }
        };
        tokio::time::timeout(CONNECT_TIMEOUT, connecting)
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tls { host, port, .. } => write!(f, "https://{host}:{port}"),
        }
    }
}

fn client_config(settings: &IncusSettings) -> EngineResult<ClientConfig> {
    let at = |file: &Path, error: &dyn fmt::Display| {
        EngineError::failed(STEP, format!("{}: {error}", file.display()))
    };
    let (certificate, key) = (&settings.certificate_file, &settings.key_file);
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| at(certificate, &error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| at(key, &error))?;
    let fingerprint = unhex(settings.fingerprint.as_bytes())
        .ok_or_else(|| EngineError::failed(STEP, "engines.incus.fingerprint has no hexadecimal digits"))?;
    let provider = Arc::new(ring::default_provider());
    let pinned = PinnedCertificate { fingerprint, provider: Arc::clone(&provider) };
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| EngineError::failed(STEP, error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_client_auth_cert(chain, private)
        .map_err(|error| at(key, &error))
}

/// Accepts the server's own certificate, whoever signed it, and no other: those of Incus are signed by themselves, and
/// the members of a cluster share one.
#[derive(Debug)]
struct PinnedCertificate {
    fingerprint: Vec<u8>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if Sha256::digest(&end_entity[..])[..] == self.fingerprint[..] {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_member_is_reached_with_the_same_certificates() {
        let provider = Arc::new(ring::default_provider());
        let pinned = PinnedCertificate { fingerprint: Vec::new(), provider: Arc::clone(&provider) };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(pinned))
            .with_no_client_auth();
        let own = Transport::Tls {
            host: "10.0.0.1".to_owned(),
            port: 8443,
            name: ServerName::try_from("10.0.0.1").unwrap(),
            connector: TlsConnector::from(Arc::new(config)),
        };
        let found = |transport: &Transport, url: &str| {
            transport.to_member(url).map(|transport| format!("{transport:?}"))
        };
        for (url, expected) in [
            ("https://10.0.0.2:8443", Some("https://10.0.0.2:8443")),
            ("https://10.0.0.1:8444", Some("https://10.0.0.1:8444")),
            ("https://10.0.0.1:8443", None),
            ("/run/incus/unix.socket", None),
            ("", None),
        ] {
            assert_eq!(found(&own, url).as_deref(), expected, "{url}");
        }
        assert_eq!(found(&Transport::Unix("/run/socket".into()), "https://10.0.0.2:8443"), None);
    }

    #[test]
    fn only_the_pinned_certificate_is_accepted() {
        let provider = Arc::new(ring::default_provider());
        let fingerprint = Sha256::digest(b"one").to_vec();
        let pinned = PinnedCertificate { fingerprint, provider };
        let name = ServerName::try_from("incus.example").unwrap();
        let verify = |bytes: &'static [u8]| {
            let now = UnixTime::since_unix_epoch(Duration::ZERO);
            pinned.verify_server_cert(&CertificateDer::from(bytes), &[], &name, &[], now).is_ok()
        };
        assert!(verify(b"one") && !verify(b"two"));
    }
}
