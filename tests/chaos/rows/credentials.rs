//! Tokens, authorities and client certificates change while the exporter runs. The old ones are invalid at once.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tokio_rustls::rustls::{
    RootCertStore, ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};

use crate::{
    Run,
    proxy::CloseMode,
    report::Outcome,
    world::{World, kubeconfig_text},
};

const GAP: Duration = Duration::from_secs(60);

pub(super) fn token(run: &Run) -> Outcome {
    let mut world = World::fake(run.options());
    let file = world.folder().join("token");
    let user = format!("tokenFile: {}", file.display());
    fs::write(&world.kubeconfig, kubeconfig_text("http", world.proxy.port, "", &user)).expect("a kubeconfig");
    fs::write(&file, "one").expect("the token can be written");
    world.proxy.require_token("one");
    world.restart();
    world.churn(10);
    fs::write(&file, "two").expect("the token can be written");
    world.proxy.require_token("two");
    recovered(&mut world)
}

/// The certificate of the API server is signed by another authority.
pub(super) fn authority(run: &Run) -> Outcome {
    let (one, two) = (Authority::new("one"), Authority::new("two"));
    let mut options = run.options();
    options.tls = Some(server_config(&one, None));
    let mut world = World::fake(options);
    let file = world.folder().join("ca.pem");
    let cluster = format!(", certificate-authority: {}", file.display());
    let text = kubeconfig_text("https", world.proxy.port, &cluster, "token: exporter-token");
    fs::write(&world.kubeconfig, text).expect("a kubeconfig");
    fs::write(&file, one.pem()).expect("the authority can be written");
    world.restart();
    world.churn(10);
    fs::write(&file, two.pem()).expect("the authority can be written");
    world.proxy.set_tls(server_config(&two, None));
    recovered(&mut world)
}

/// The API server requires client certificates of another authority.
pub(super) fn client_certificate(run: &Run) -> Outcome {
    let [server, one, two] = ["server", "one", "two"].map(Authority::new);
    let mut options = run.options();
    options.tls = Some(server_config(&server, Some(&one)));
    let mut world = World::fake(options);
    let file = |name: &str| world.folder().join(name);
    let [authority, certificate, key] = ["ca.pem", "client.pem", "client.key"].map(file);
    let cluster = format!(", certificate-authority: {}", authority.display());
    let user = format!("client-certificate: {}, client-key: {}", certificate.display(), key.display());
    let text = kubeconfig_text("https", world.proxy.port, &cluster, &user);
    fs::write(&world.kubeconfig, text).expect("a kubeconfig");
    fs::write(&authority, server.pem()).expect("the authority can be written");
    let write_client = |issuer: &Authority| {
        let (client, client_key) = issuer.sign("exporter");
        fs::write(&certificate, client.pem()).expect("the certificate can be written");
        fs::write(&key, client_key.serialize_pem()).expect("the key can be written");
    };
    write_client(&one);
    world.restart();
    world.churn(10);
    write_client(&two);
    world.proxy.set_tls(server_config(&server, Some(&two)));
    recovered(&mut world)
}

/// Closes all connections with the old credentials. The bound counts from now.
fn recovered(world: &mut World) -> Outcome {
    let rotated = Instant::now();
    world.proxy.close_connections(CloseMode::Orderly);
    world.churn_for(Duration::from_secs(5));
    let bounds = vec![world.checker.converged(rotated, GAP)];
    world.outcome(bounds)
}

struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        let certificate = parameters.self_signed(&key).expect("a certificate");
        Self { certificate, issuer: Issuer::new(parameters, key) }
    }

    fn pem(&self) -> String {
        self.certificate.pem()
    }

    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a valid name");
        parameters.distinguished_name.push(DnType::CommonName, name);
        (parameters.signed_by(&key, &self.issuer).expect("a certificate"), key)
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).expect("a certificate");
        Arc::new(roots)
    }
}

/// TLS with a certificate of an authority, and for clients of another one only.
fn server_config(authority: &Authority, clients: Option<&Authority>) -> Arc<ServerConfig> {
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().expect("TLS 1.2 and 1.3");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(clients.roots(), provider);
            builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
        }
    };
    let (certificate, key) = authority.sign("apiserver");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
    Arc::new(builder.with_single_cert(chain, key).expect("a certificate with its key"))
}
