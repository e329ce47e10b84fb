//! TLS connections to the database, and how the server's certificate is verified.

use std::{path::Path, sync::Arc};

use retain_core::BoxError;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How the server's certificate is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TlsMode {
    /// `prefer`, `require`: do not verify it; the connection is only encrypted.
    Unverified,
    /// `verify-ca`: a trusted CA must have signed it.
    Chain,
    /// `verify-full`: a trusted CA must have signed it for the host name.
    Full,
}

/// Creates the TLS connector. `roots` is a file of trusted CA certificates; `None` means those of
/// the system.
pub(super) fn connector(
    mode: TlsMode,
    roots: Option<&Path>,
) -> Result<MakeRustlsConnect, BoxError> {
    let provider = Arc::new(ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let config = match mode {
        TlsMode::Full => builder.with_root_certificates(load_roots(roots)?),
        TlsMode::Chain => {
            let inner = chain_verifier(load_roots(roots)?, provider)?;
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(ChainOnlyVerifier { inner }))
        }
        TlsMode::Unverified => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(NoVerifier { algorithms })),
    };
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

fn chain_verifier(
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, BoxError> {
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    Ok(builder.build()?)
}

/// Loads the trusted CA certificates from `file`, or those of the system.
fn load_roots(file: Option<&Path>) -> Result<RootCertStore, BoxError> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            let describe = |cause: rustls::pki_types::pem::Error| -> BoxError {
                format!("cannot read sslrootcert {}: {cause}", file.display()).into()
            };
            for certificate in CertificateDer::pem_file_iter(file).map_err(describe)? {
                roots.add(certificate.map_err(describe)?)?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            // Skip unreadable certificates and use the others.
            roots.add_parsable_certificates(found.certs);
        }
    }
    if roots.is_empty() {
        Err("no trusted CA certificate found; set sslrootcert=FILE".into())
    } else {
        Ok(roots)
    }
}

/// Accepts a certificate that a trusted CA has signed, for any host name.
#[derive(Debug)]
struct ChainOnlyVerifier {
    inner: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for ChainOnlyVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // Only the name differs: the verifier checks the chain before the name.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Accepts any certificate, as libpq does if only encryption is requested.
#[derive(Debug)]
struct NoVerifier {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for NoVerifier {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
