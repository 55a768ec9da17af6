//! Whom we let connect by the certificate that they have.

use std::{net::IpAddr, sync::Arc};

use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, UnixTime},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use x509_parser::{extensions::GeneralName, parse_x509_certificate};

use super::tls::{Fault, certificates};
use crate::config::{ClientCertificates, TlsSettings};

/// What looks at the certificates of clients; none where nobody is asked for one.
pub(super) fn client_verifier(
    settings: &TlsSettings,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, Fault> {
    let asked = settings.client_certificates;
    if asked == ClientCertificates::NotAsked {
        return Ok(None);
    }
    let authorities = match &settings.client_authorities {
        Some(pem) if asked.is_verified() => {
            let wrong = |error: &dyn std::fmt::Display| {
                Fault::new("client_ca_file", format!("it cannot vouch for anybody: {error}"))
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
    Ok(Some(Arc::new(Verifier {
        authorities,
        // Where names are asked for, somebody without a certificate has none of them.
        required: asked.is_required() || !settings.client_names.is_empty(),
        names: settings.client_names.clone(),
        provider: provider.clone(),
    })))
}

#[derive(Debug)]
struct Verifier {
    /// Who vouches for clients; none where any certificate will do.
    authorities: Option<Arc<dyn ClientCertVerifier>>,
    required: bool,
    /// The names of which one has to be in the certificate; empty for any.
    names: Vec<Box<str>>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for Verifier {
    fn client_auth_mandatory(&self) -> bool {
        self.required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.authorities.as_ref().map_or(&[], |own| own.root_hint_subjects())
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
        if !self.names.is_empty() && !names_of(end_entity).iter().any(|own| self.names.contains(own)) {
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

/// The alternative names of a certificate: hosts, e-mail addresses, IP addresses, URIs. None where it cannot be read.
fn names_of(certificate: &CertificateDer<'_>) -> Vec<Box<str>> {
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
