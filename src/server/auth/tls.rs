//! rustls configuration from the `tls_server_config` section, client certificates included.

use std::{fmt::Display, net::IpAddr, sync::Arc};

use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, NamedGroup, RootCertStore,
    ServerConfig, SignatureScheme, SupportedCipherSuite,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, ring::default_provider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject as _},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::{CertifiedKey, SingleCertAndKey},
    version::{TLS12, TLS13},
};
use x509_parser::{extensions::GeneralName, parse_x509_certificate};

use crate::config::{ClientCertificates, ConfigProblem, Pem, TlsSettings, read_small_file};

/// A problem of a key of `tls_server_config`.
fn invalid(key: &str, message: impl Display) -> ConfigProblem {
    ConfigProblem { key: format!("tls_server_config.{key}").into(), ..ConfigProblem::whole(message) }
}

fn read_pem(key: &'static str, pem: &Pem) -> Result<String, ConfigProblem> {
    match pem {
        Pem::Text(text) => Ok(text.to_string()),
        Pem::File(path) => {
            let wrong = |error| invalid(key, format!("cannot read {}: {error}", path.display()));
            read_small_file(path).map_err(wrong)
        }
    }
}

/// At least one certificate.
fn certificates(key: &'static str, pem: &Pem) -> Result<Vec<CertificateDer<'static>>, ConfigProblem> {
    let text = read_pem(key, pem)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let found = found.map_err(|error| invalid(key, format!("not valid PEM: {error}")))?;
    if found.is_empty() {
        return Err(invalid(key, "contains no certificate; add a BEGIN CERTIFICATE block"));
    }
    Ok(found)
}

/// The server certificate with its private key.
pub(super) fn identity(settings: &TlsSettings) -> Result<Arc<CertifiedKey>, ConfigProblem> {
    let chain = certificates("cert_file", &settings.certificate)?;
    let text = read_pem("key_file", &settings.key)?;
    // Without the parser's message, which might quote the key.
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes())
        .map_err(|_| invalid("key_file", "contains no private key; add a BEGIN PRIVATE KEY block"))?;
    let wrong = |error| invalid("key_file", format!("certificate and key do not match: {error}"));
    CertifiedKey::from_der(chain, key, &default_provider()).map(Arc::new).map_err(wrong)
}

pub(super) fn server_config(
    settings: &TlsSettings,
    identity: &CertifiedKey,
) -> Result<ServerConfig, ConfigProblem> {
    let provider = Arc::new(provider(settings)?);
    let versions = [(settings.tls12, &TLS12), (settings.tls13, &TLS13)];
    let versions: Vec<_> =
        versions.into_iter().filter(|(enabled, _)| *enabled).map(|(_, version)| version).collect();
    let wrong = |error| {
        invalid("cipher_suites", format!("no usable combination of versions and cipher suites: {error}"))
    };
    let verifier = client_verifier(settings, &provider)?;
    let builder =
        ServerConfig::builder_with_provider(provider).with_protocol_versions(&versions).map_err(wrong)?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let key = identity.clone();
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
    config.ignore_client_order = settings.own_order;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The configured cipher suites and curves that rustls supports. TLS 1.3 suites are always enabled, as in Go.
fn provider(settings: &TlsSettings) -> Result<CryptoProvider, ConfigProblem> {
    let mut provider = default_provider();
    if !settings.cipher_suites.is_empty() {
        let is_tls13 = |suite: &&SupportedCipherSuite| matches!(suite, SupportedCipherSuite::Tls13(_));
        let named = |name: &str| {
            let mut suites = provider.cipher_suites.iter().filter(|suite| !is_tls13(suite));
            suites.find(|suite| suite.suite().as_str() == Some(name)).copied()
        };
        let tls12: Vec<_> = settings.cipher_suites.iter().filter_map(|name| named(name)).collect();
        if tls12.is_empty() && !settings.tls13 {
            return Err(invalid("cipher_suites", "no supported cipher suite; add one with GCM or CHACHA20"));
        }
        let tls13 = provider.cipher_suites.iter().filter(is_tls13).copied();
        provider.cipher_suites = tls13.chain(tls12).collect();
    }
    if !settings.curves.is_empty() {
        let group = |name: &str| match name {
            "CurveP256" => Some(NamedGroup::secp256r1),
            "CurveP384" => Some(NamedGroup::secp384r1),
            "X25519" => Some(NamedGroup::X25519),
            _ => None,
        };
        let supported = |name: &str| {
            let group = group(name)?;
            provider.kx_groups.iter().find(|supported| supported.name() == group).copied()
        };
        let groups: Vec<_> = settings.curves.iter().filter_map(|name| supported(name)).collect();
        if groups.is_empty() {
            return Err(invalid(
                "curve_preferences",
                "no supported curve; use X25519, CurveP256 or CurveP384",
            ));
        }
        provider.kx_groups = groups;
    }
    Ok(provider)
}

/// None if no client certificate is requested.
fn client_verifier(
    settings: &TlsSettings,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, ConfigProblem> {
    let mode = settings.client_certificates;
    if mode == ClientCertificates::NotRequested {
        return Ok(None);
    }
    let authorities = match &settings.client_authorities {
        Some(pem) if mode.is_verified() => {
            let wrong = |error: &dyn std::fmt::Display| {
                invalid("client_ca_file", format!("not usable as a certificate authority: {error}"))
            };
            let mut roots = RootCertStore::empty();
            for certificate in certificates("client_ca_file", pem)? {
                roots.add(certificate).map_err(|error| wrong(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
            Some(verifier.build().map_err(|error| wrong(&error))?)
        }
        Some(_) | None => None,
    };
    Ok(Some(Arc::new(ClientVerifier {
        authorities,
        // A client without a certificate has none of the required names.
        required: mode.is_required() || !settings.client_names.is_empty(),
        names: settings.client_names.clone(),
        provider: provider.clone(),
    })))
}

#[derive(Debug)]
struct ClientVerifier {
    /// None if any certificate is accepted.
    authorities: Option<Arc<dyn ClientCertVerifier>>,
    required: bool,
    /// Subject alternative names of which the certificate needs one; empty accepts any.
    names: Vec<Box<str>>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.authorities.as_ref().map_or(&[], |verifier| verifier.root_hint_subjects())
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if let Some(authorities) = &self.authorities {
            authorities.verify_client_cert(end_entity, intermediates, now)?;
        }
        if !self.names.is_empty()
            && !alternative_names(end_entity).iter().any(|name| self.names.contains(name))
        {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// DNS names, e-mail addresses, IP addresses and URIs; none of a certificate that cannot be parsed.
fn alternative_names(certificate: &CertificateDer<'_>) -> Vec<Box<str>> {
    let Ok((_, certificate)) = parse_x509_certificate(certificate) else { return Vec::new() };
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return Vec::new() };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(text) | GeneralName::RFC822Name(text) | GeneralName::URI(text) => {
            Some((*text).into())
        }
        GeneralName::IPAddress(bytes) => {
            let four = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let address = four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from)).ok()?;
            Some(address.to_canonical().to_string().into())
        }
        _ => None,
    };
    extension.value.general_names.iter().filter_map(name).collect()
}
