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
use tokio::io::{AsyncRead, AsyncWrite};
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

    /// Opens a connection.
    pub(super) async fn connect(&self) -> io::Result<Connection> {
        let connecting = async {
            match self {
                Self::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?) as Connection),
                Self::Tls { host, port, name, connector } => {
                    let stream = TcpStream::connect((host.as_str(), *port)).await?;
                    stream.set_nodelay(true)?;
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
