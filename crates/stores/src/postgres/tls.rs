//! TLS to the database: rustls, and how much of the server's certificate is believed.

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

/// What of a server's certificate is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TlsMode {
    /// Nothing: the connection is encrypted, the server is not verified. `prefer` and `require`.
    Unverified,
    /// That a trusted authority has signed it. `verify-ca`.
    Chain,
    /// That, and that it is made out to the host that was asked for. `verify-full`.
    Full,
}

/// A way to make TLS connections. `roots`: a file of certificates; without one, the system's count.
pub(super) fn connector(
    mode: TlsMode,
    roots: Option<&Path>,
) -> Result<MakeRustlsConnect, BoxError> {
    let provider = Arc::new(ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let config = match mode {
        TlsMode::Full => builder.with_root_certificates(trusted(roots)?),
        TlsMode::Chain => {
            let inner = chain_verifier(trusted(roots)?, provider)?;
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyName { inner }))
        }
        TlsMode::Unverified => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody { algorithms })),
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

/// The trusted roots: the certificates in `file`, or those of the system.
fn trusted(file: Option<&Path>) -> Result<RootCertStore, BoxError> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            let describe = |cause: rustls::pki_types::pem::Error| -> BoxError {
                format!("sslrootcert {}: {cause}", file.display()).into()
            };
            for certificate in CertificateDer::pem_file_iter(file).map_err(describe)? {
                roots.add(certificate.map_err(describe)?)?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            // One that is not readable takes nothing from the others.
            roots.add_parsable_certificates(found.certs);
        }
    }
    match roots.is_empty() {
        true => Err("there is no certificate to trust; give sslrootcert=FILE".into()),
        false => Ok(roots),
    }
}

/// Accepts a certificate that a trusted authority has signed, for any host name.
#[derive(Debug)]
struct AnyName {
    inner: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for AnyName {
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
            // The chain is checked before the name is: it was good.
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

/// Believes every certificate, as libpq does where nobody asked for more than encryption.
#[derive(Debug)]
struct Anybody {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Anybody {
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
