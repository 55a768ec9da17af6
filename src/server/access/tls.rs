//! From settings about encryption to what a connection is encrypted with.

use std::sync::Arc;

use tokio_rustls::rustls::{
    NamedGroup, ServerConfig, SupportedCipherSuite,
    crypto::{CryptoProvider, ring::default_provider},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::{CertifiedKey, SingleCertAndKey},
    version::{TLS12, TLS13},
};

use super::client_certificates::client_verifier;
use crate::config::{Pem, Problem, TlsSettings, read_settings};

/// Something that cannot be used: the key it is about, and why.
pub(super) struct Fault {
    key: &'static str,
    message: String,
}

impl Fault {
    pub(super) fn new(key: &'static str, message: impl Into<String>) -> Self {
        Self { key, message: message.into() }
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self { key: format!("tls_server_config.{}", fault.key).into(), ..Self::whole(fault.message) }
    }
}

/// What stands in PEM.
pub(super) fn text_of(key: &'static str, pem: &Pem) -> Result<String, Fault> {
    match pem {
        Pem::Text(text) => Ok(text.to_string()),
        Pem::File(path) => {
            let wrong = |error| Fault::new(key, format!("cannot read {}: {error}", path.display()));
            read_settings(path).map_err(wrong)
        }
    }
}

/// The certificates that stand in PEM, at least one.
pub(super) fn certificates(key: &'static str, pem: &Pem) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let text = text_of(key, pem)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let found = found.map_err(|error| Fault::new(key, format!("this is no PEM: {error}")))?;
    if found.is_empty() {
        return Err(Fault::new(key, "there is no certificate in it; want a block BEGIN CERTIFICATE"));
    }
    Ok(found)
}

/// Who we are: the certificate and its key, which belong together.
pub(super) fn identity(settings: &TlsSettings) -> Result<Arc<CertifiedKey>, Fault> {
    let chain = certificates("cert_file", &settings.certificate)?;
    let text = text_of("key_file", &settings.key)?;
    // What is wrong is not told in the words of the parser, which might quote the key.
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| {
        Fault::new("key_file", "there is no private key in it; want a block BEGIN PRIVATE KEY")
    })?;
    let wrong = |error| Fault::new("key_file", format!("certificate and key cannot be used: {error}"));
    CertifiedKey::from_der(chain, key, &default_provider()).map(Arc::new).map_err(wrong)
}

/// What connections are encrypted with, under this identity.
pub(super) fn server_config(settings: &TlsSettings, identity: &CertifiedKey) -> Result<ServerConfig, Fault> {
    let provider = Arc::new(provider(settings)?);
    let versions = [(settings.tls12, &TLS12), (settings.tls13, &TLS13)];
    let versions: Vec<_> = versions.into_iter().filter(|(spoken, _)| *spoken).map(|(_, own)| own).collect();
    let wrong = |error| Fault::new("cipher_suites", format!("nothing of that can be spoken: {error}"));
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

/// The suites and curves that are wanted, of those that are good. Suites of TLS 1.3 are always there, as in Go.
fn provider(settings: &TlsSettings) -> Result<CryptoProvider, Fault> {
    let mut provider = default_provider();
    if !settings.cipher_suites.is_empty() {
        let is_new = |suite: &&SupportedCipherSuite| matches!(suite, SupportedCipherSuite::Tls13(_));
        let named = |name: &str| {
            let mut suites = provider.cipher_suites.iter().filter(|own| !is_new(own));
            suites.find(|own| own.suite().as_str() == Some(name)).copied()
        };
        let older: Vec<_> = settings.cipher_suites.iter().filter_map(|name| named(name)).collect();
        if older.is_empty() && !settings.tls13 {
            return Err(Fault::new(
                "cipher_suites",
                "none of these is good enough; want one with GCM or CHACHA20",
            ));
        }
        let newer = provider.cipher_suites.iter().filter(is_new).copied();
        provider.cipher_suites = newer.chain(older).collect();
    }
    if !settings.curves.is_empty() {
        let group = |name: &str| match name {
            "CurveP256" => Some(NamedGroup::secp256r1),
            "CurveP384" => Some(NamedGroup::secp384r1),
            "X25519" => Some(NamedGroup::X25519),
            _ => None,
        };
        let known = |name: &str| {
            let group = group(name)?;
            provider.kx_groups.iter().find(|own| own.name() == group).copied()
        };
        let wanted: Vec<_> = settings.curves.iter().filter_map(|name| known(name)).collect();
        if wanted.is_empty() {
            return Err(Fault::new(
                "curve_preferences",
                "none of these is there; want X25519, CurveP256 or CurveP384",
            ));
        }
        provider.kx_groups = wanted;
    }
    Ok(provider)
}
