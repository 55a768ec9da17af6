//! Encryption, certificates of clients, and what becomes of both while the server runs.

use std::{sync::Arc, time::Duration};

use drift_exporter::server::{Auth, Peer, ServerLimits, router, serve};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore, SupportedProtocolVersion,
        crypto::ring::default_provider,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
        version::{TLS12, TLS13},
    },
};
use tokio_util::sync::CancellationToken;

use super::{WebFile, ann, shop};
use crate::{
    command_line::run,
    programs::wait::completes,
    server::{UNLIMITED, is_silent},
};

/// A certificate that vouches for itself, and its key, in PEM.
pub(super) fn certificate(names: &[&str]) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let own = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    (own.pem(), key.serialize_pem())
}

/// Somebody who vouches for others.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut own = CertificateParams::default();
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(own, KeyPair::generate().unwrap()).unwrap())
    }

    fn vouch(&self, names: Vec<SanType>) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut own = CertificateParams::default();
        own.subject_alt_names = names;
        (own.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

/// A server that answers what it knows of whoever asks.
struct Server {
    address: std::net::SocketAddr,
    file: WebFile,
    _stop: tokio_util::sync::DropGuard,
}

impl Server {
    async fn start(file: WebFile, limits: ServerLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let who = async |peer: axum::Extension<Peer>| format!("certified: {}", peer.certified);
        let app = axum::Router::new().route("/", axum::routing::get(who));
        let (access, stop) = (Auth::new(Some(file.open()), None), CancellationToken::new());
        tokio::spawn(serve(listener, app, limits, access, stop.clone()));
        Self { address, file, _stop: stop.drop_guard() }
    }

    /// Asks as somebody who trusts this certificate, has a certificate or none, and speaks these versions.
    async fn ask(
        &self,
        trusted: &str,
        own: Option<&(String, String)>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Result<String, String> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_protocol_versions(versions).unwrap().with_root_certificates(roots);
        let config = match own {
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        let tcp = TcpStream::connect(self.address).await.map_err(|error| error.to_string())?;
        let name = ServerName::try_from("localhost").unwrap();
        let told = |error: std::io::Error| error.to_string();
        let mut tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.map_err(told)?;
        tls.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .await
            .map_err(told)?;
        let mut answer = String::new();
        tls.read_to_string(&mut answer).await.map_err(told)?;
        Ok(answer.rsplit("\r\n").next().unwrap_or_default().to_owned())
    }
}

const BOTH: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];
const OWN: &str = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n";

/// A server with a certificate of its own and more settings about encryption.
async fn server(more: &str) -> (Server, String) {
    limited_server(more, UNLIMITED).await
}

async fn limited_server(more: &str, limits: ServerLimits) -> (Server, String) {
    let (own, key) = certificate(&["localhost"]);
    let file = WebFile::new("");
    file.write("cert.pem", &own);
    file.write("key.pem", &key);
    file.write("web.yml", &format!("{OWN}{more}"));
    (Server::start(file, limits).await, own)
}

#[tokio::test]
async fn only_versions_that_are_wanted_are_spoken_and_plain_text_is_refused_in_words() {
    for (more, wanted) in [
        ("", [true, true]),
        ("  min_version: TLS10\n", [true, true]),
        ("  min_version: TLS13\n", [false, true]),
        ("  max_version: TLS12\n", [true, false]),
        (
            "  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]\n  curve_preferences: [CurveP384, CurveP521]\n",
            [true, true],
        ),
        ("  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA]\n", [false, true]),
    ] {
        let (server, trusted) = server(more).await;
        for (version, spoken) in [&TLS12, &TLS13].into_iter().zip(wanted) {
            let answer = server.ask(&trusted, None, &[version]).await;
            assert_eq!(
                answer.as_deref().ok(),
                spoken.then_some("certified: false"),
                "{more} {version:?} {answer:?}"
            );
        }
        let mut plain = TcpStream::connect(server.address).await.unwrap();
        plain.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        plain.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("use https://"), "{answer}");
    }
}

#[tokio::test]
async fn a_client_that_does_not_agree_on_anything_is_cut_off() {
    let (unlimited, _) = server("").await;
    let (limited, _) =
        limited_server("", ServerLimits { handshake: Duration::from_secs(1), ..UNLIMITED }).await;
    let waits = TcpStream::connect(unlimited.address).await.unwrap();
    let mut cut_off = TcpStream::connect(limited.address).await.unwrap();
    let _ = completes("cut off", cut_off.read_to_end(&mut Vec::new())).await;
    assert!(is_silent(waits), "only the limit cuts a client off");
}

#[tokio::test]
async fn clients_are_let_in_as_the_policy_says() {
    let (right, wrong) = (Authority::new(), Authority::new());
    let host = |name: &str| SanType::DnsName(name.try_into().unwrap());
    let good = right.vouch(vec![host("prometheus")]);
    let bad = wrong.vouch(vec![host("prometheus")]);
    for (policy, [without, with_bad, with_good]) in [
        ("NoClientCert", [Some(false), Some(false), Some(false)]),
        ("RequestClientCert", [Some(false), Some(false), Some(false)]),
        ("RequireAnyClientCert", [None, Some(false), Some(false)]),
        ("RequireClientCert", [None, Some(false), Some(false)]),
        ("VerifyClientCertIfGiven", [Some(false), None, Some(true)]),
        ("RequireAndVerifyClientCert", [None, None, Some(true)]),
    ] {
        let authorities = if policy == "NoClientCert" { "" } else { "  client_ca_file: ca.pem\n" };
        let (server, trusted) = server("").await;
        server.file.write("ca.pem", &right.0.pem());
        server.file.write("web.yml", &format!("{OWN}  client_auth_type: {policy}\n{authorities}"));
        for (own, wanted) in [(None, without), (Some(&bad), with_bad), (Some(&good), with_good)] {
            for version in BOTH {
                let answer = server.ask(&trusted, own, &[version]).await;
                let wanted = wanted.map(|certified| format!("certified: {certified}"));
                assert_eq!(answer.as_ref().ok(), wanted.as_ref(), "{policy} {} {answer:?}", own.is_some());
            }
        }
    }
}

#[tokio::test]
async fn only_clients_with_a_name_that_is_allowed_are_let_in() {
    let authority = Authority::new();
    let text = |text: &str| text.try_into().unwrap();
    let (server, trusted) = server("").await;
    server.file.write("ca.pem", &authority.0.pem());
    let names = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n  client_allowed_sans: [scraper, 10.0.0.9, '::1', a@example.com, 'spiffe://x/y']\n";
    server.file.write("web.yml", &format!("{OWN}{names}"));
    for (name, allowed) in [
        (SanType::DnsName(text("scraper")), true),
        (SanType::DnsName(text("scraper.example")), false),
        (SanType::IpAddress("10.0.0.9".parse().unwrap()), true),
        (SanType::IpAddress("10.0.0.8".parse().unwrap()), false),
        (SanType::IpAddress("::1".parse().unwrap()), true),
        (SanType::Rfc822Name(text("a@example.com")), true),
        (SanType::URI(text("spiffe://x/y")), true),
        (SanType::URI(text("spiffe://x/y/z")), false),
    ] {
        let own = authority.vouch(vec![name.clone()]);
        let answer = server.ask(&trusted, Some(&own), BOTH).await;
        assert_eq!(answer.is_ok(), allowed, "{name:?} {answer:?}");
    }
    let nameless = authority.vouch(Vec::new());
    assert!(server.ask(&trusted, Some(&nameless), BOTH).await.is_err());
}

#[tokio::test]
async fn a_new_certificate_is_served_and_a_broken_one_leaves_the_last_good_one() {
    let (server, first) = server("").await;
    assert!(server.ask(&first, None, BOTH).await.is_ok());
    let (second, key) = certificate(&["localhost"]);
    // Between the two writes they do not belong together.
    server.file.write("cert.pem", &second);
    assert!(server.ask(&first, None, BOTH).await.is_ok(), "the last good one stays");
    server.file.write("key.pem", &key);
    assert!(server.ask(&second, None, BOTH).await.is_ok());
    assert!(server.ask(&first, None, BOTH).await.is_err());
    server.file.write("key.pem", "nothing");
    server.file.write("web.yml", "tls_server_config: [");
    assert!(server.ask(&second, None, BOTH).await.is_ok(), "probes are still answered");
    // It never becomes plain text by itself.
    server.file.write("web.yml", "");
    assert!(server.ask(&second, None, BOTH).await.is_ok());
}

#[tokio::test]
async fn another_authority_counts_from_the_next_connection_on() {
    let (old, new) = (Authority::new(), Authority::new());
    let (of_old, of_new) = (old.vouch(Vec::new()), new.vouch(Vec::new()));
    let (server, trusted) = server("").await;
    server.file.write("ca.pem", &old.0.pem());
    server.file.write(
        "web.yml",
        &format!("{OWN}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n"),
    );
    let may = async |own| server.ask(&trusted, Some(own), BOTH).await.is_ok();
    assert!(may(&of_old).await && !may(&of_new).await);
    server.file.write("ca.pem", &new.0.pem());
    assert!(!may(&of_old).await && may(&of_new).await);
}

#[tokio::test]
async fn certificates_of_clients_stay_required_where_a_file_is_cut_off() {
    let (authority, (server, trusted)) = (Authority::new(), server("").await);
    let own = authority.vouch(Vec::new());
    server.file.write("ca.pem", &authority.0.pem());
    let whole = format!("{OWN}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n");
    server.file.write("web.yml", &whole);
    for cut in [&whole, "", OWN] {
        std::fs::write(server.file.path(), cut).unwrap();
        assert!(server.ask(&trusted, None, BOTH).await.is_err(), "{cut}");
        let answer = server.ask(&trusted, Some(&own), BOTH).await;
        assert_eq!(answer.as_deref(), Ok("certified: true"), "{cut}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_asks_only_whom_its_authority_vouches_for() {
    let (own, key) = certificate(&["localhost"]);
    let (other, _) = certificate(&["localhost"]);
    let file = WebFile::new("");
    for (name, text) in
        [("cert.pem", &*own), ("key.pem", &key), ("other.pem", &other), ("basic", "ann:secret\n")]
    {
        file.write(name, text);
    }
    file.write("web.yml", &format!("{OWN}{}", ann()));
    let access = Auth::new(Some(file.open()), None);
    let world = shop(access.clone()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    tokio::spawn(serve(listener, router(world.exposed.clone()), UNLIMITED, access, stop));
    let path = |name: &str| file.folder.path().join(name).display().to_string();
    let (right, wrong, basic) = (path("cert.pem"), path("other.pem"), path("basic"));
    for (flags, code, told) in [
        (vec!["--ca-file", &right, "--basic-auth-file", &basic], 1, "deployment.apps/web"),
        (vec!["--ca-file", &right], 2, "401 Unauthorized"),
        (vec!["--ca-file", &wrong, "--basic-auth-file", &basic], 2, "certificate"),
        (vec!["--basic-auth-file", &basic], 2, "unknown authority; use --ca-file"),
    ] {
        let arguments = [&["get", "-A", "-o", "name", "--server", &server][..], &flags].concat();
        let ended = tokio::task::block_in_place(|| run(&arguments, "", &[]));
        assert_eq!(ended.code, Some(code), "{flags:?}: {}{}", ended.stdout, ended.stderr);
        assert!(format!("{}{}", ended.stdout, ended.stderr).contains(told), "{flags:?}: {}", ended.stderr);
    }
    // One that wants a certificate of whoever asks.
    let authority = Authority::new();
    let (of_client, key_of_client) = authority.vouch(Vec::new());
    file.write("client.pem", &of_client);
    file.write("client-key.pem", &key_of_client);
    file.write("ca.pem", &authority.0.pem());
    let wants = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n";
    file.write("web.yml", &format!("{OWN}{wants}{}", ann()));
    let (of_client, key_of_client) = (path("client.pem"), path("client-key.pem"));
    let known =
        ["get", "-A", "-o", "name", "--server", &server, "--ca-file", &right, "--basic-auth-file", &basic];
    let with = [&known[..], &["--cert-file", &of_client, "--key-file", &key_of_client]].concat();
    for (arguments, code, told) in [(with, 1, "deployment.apps/web"), (known.to_vec(), 2, "--cert-file")] {
        let ended = tokio::task::block_in_place(|| run(&arguments, "", &[]));
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}{}", ended.stdout, ended.stderr);
        assert!(format!("{}{}", ended.stdout, ended.stderr).contains(told), "{}", ended.stderr);
    }
}
