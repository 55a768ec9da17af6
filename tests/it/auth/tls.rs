//! TLS and client certificates, and how both reload while the server runs.

use std::{sync::Arc, time::Duration};

use drift_exporter::{
    server::{Auth, Peer, ServerLimits, router, serve},
    watch::{ClusterConnection, client_from},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use rustix::fs::{FileType, Mode};
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

use super::{WebFile, ann, drifted_shop};
use crate::{
    cli_flags::run,
    server::{UNLIMITED, is_silent},
    support::wait::completes,
};

/// A self-signed certificate and its key, in PEM.
pub(super) fn certificate(names: &[&str]) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

struct CertificateAuthority(CertifiedIssuer<'static, KeyPair>);

impl CertificateAuthority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn sign(&self, names: Vec<SanType>) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = names;
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

/// A TLS server that returns whether the client presented a verified certificate.
struct Server {
    address: std::net::SocketAddr,
    file: WebFile,
    _stop: tokio_util::sync::DropGuard,
}

impl Server {
    async fn start(file: WebFile, limits: ServerLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let handler = async |peer: axum::Extension<Peer>| format!("certified: {}", peer.certified);
        let app = axum::Router::new().route("/", axum::routing::get(handler));
        let (access, stop) = (Auth::new(Some(file.open()), None), CancellationToken::new());
        tokio::spawn(serve(listener, app, limits, access, stop.clone()));
        Self { address, file, _stop: stop.drop_guard() }
    }

    /// Sends a request as a client that trusts one certificate and supports these TLS versions.
    async fn request(
        &self,
        trusted: &str,
        client_certificate: Option<&(String, String)>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Result<String, String> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_protocol_versions(versions).unwrap().with_root_certificates(roots);
        let config = match client_certificate {
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        let tcp = TcpStream::connect(self.address).await.map_err(|error| error.to_string())?;
        let name = ServerName::try_from("localhost").unwrap();
        let message = |error: std::io::Error| error.to_string();
        let mut tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.map_err(message)?;
        tls.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .await
            .map_err(message)?;
        let mut answer = String::new();
        tls.read_to_string(&mut answer).await.map_err(message)?;
        Ok(answer.rsplit("\r\n").next().unwrap_or_default().to_owned())
    }
}

const BOTH: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];
const SERVER_CERTIFICATE: &str = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n";

/// A server with a self-signed certificate and additional `tls_server_config` fields.
async fn server(more: &str) -> (Server, String) {
    limited_server(more, UNLIMITED).await
}

async fn limited_server(more: &str, limits: ServerLimits) -> (Server, String) {
    let (certificate, key) = certificate(&["localhost"]);
    let file = WebFile::new("");
    file.write("cert.pem", &certificate);
    file.write("key.pem", &key);
    file.write("web.yml", &format!("{SERVER_CERTIFICATE}{more}"));
    (Server::start(file, limits).await, certificate)
}

#[tokio::test]
async fn server_negotiates_configured_tls_versions_and_rejects_plain_http() {
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
        for (version, accepted) in [&TLS12, &TLS13].into_iter().zip(wanted) {
            let answer = server.request(&trusted, None, &[version]).await;
            assert_eq!(
                answer.as_deref().ok(),
                accepted.then_some("certified: false"),
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
async fn connection_closes_after_handshake_timeout() {
    let (unlimited, _) = server("").await;
    let (limited, _) =
        limited_server("", ServerLimits { handshake: Duration::from_secs(1), ..UNLIMITED }).await;
    let waits = TcpStream::connect(unlimited.address).await.unwrap();
    let mut cut_off = TcpStream::connect(limited.address).await.unwrap();
    let _ = completes("cut off", cut_off.read_to_end(&mut Vec::new())).await;
    assert!(is_silent(waits), "without the limit the connection stays open");
}

#[tokio::test]
async fn client_auth_type_decides_which_client_certificates_are_accepted() {
    let (right, wrong) = (CertificateAuthority::new(), CertificateAuthority::new());
    let host = |name: &str| SanType::DnsName(name.try_into().unwrap());
    let good = right.sign(vec![host("prometheus")]);
    let bad = wrong.sign(vec![host("prometheus")]);
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
        server
            .file
            .write("web.yml", &format!("{SERVER_CERTIFICATE}  client_auth_type: {policy}\n{authorities}"));
        for (client_certificate, wanted) in
            [(None, without), (Some(&bad), with_bad), (Some(&good), with_good)]
        {
            for version in BOTH {
                let answer = server.request(&trusted, client_certificate, &[version]).await;
                let wanted = wanted.map(|certified| format!("certified: {certified}"));
                assert_eq!(
                    answer.as_ref().ok(),
                    wanted.as_ref(),
                    "{policy} {} {answer:?}",
                    client_certificate.is_some()
                );
            }
        }
    }
}

#[tokio::test]
async fn client_allowed_sans_limits_client_certificates() {
    let authority = CertificateAuthority::new();
    let text = |text: &str| text.try_into().unwrap();
    let (server, trusted) = server("").await;
    server.file.write("ca.pem", &authority.0.pem());
    let names = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n  client_allowed_sans: [scraper, 10.0.0.9, '::1', a@example.com, 'spiffe://x/y']\n";
    server.file.write("web.yml", &format!("{SERVER_CERTIFICATE}{names}"));
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
        let client_certificate = authority.sign(vec![name.clone()]);
        let answer = server.request(&trusted, Some(&client_certificate), BOTH).await;
        assert_eq!(answer.is_ok(), allowed, "{name:?} {answer:?}");
    }
    let nameless = authority.sign(Vec::new());
    assert!(server.request(&trusted, Some(&nameless), BOTH).await.is_err());
}

#[tokio::test]
async fn server_reloads_certificate_and_keeps_last_valid_one() {
    let (server, first) = server("").await;
    assert!(server.request(&first, None, BOTH).await.is_ok());
    let (second, key) = certificate(&["localhost"]);
    // Between the two writes, certificate and key do not match.
    server.file.write("cert.pem", &second);
    assert!(server.request(&first, None, BOTH).await.is_ok(), "the last valid certificate stays in use");
    server.file.write("key.pem", &key);
    assert!(server.request(&second, None, BOTH).await.is_ok());
    assert!(server.request(&first, None, BOTH).await.is_err());
    server.file.write("key.pem", "nothing");
    server.file.write("web.yml", "tls_server_config: [");
    assert!(server.request(&second, None, BOTH).await.is_ok(), "the server still accepts connections");
    // A reload never turns TLS off.
    server.file.write("web.yml", "");
    assert!(server.request(&second, None, BOTH).await.is_ok());
}

#[tokio::test]
async fn api_client_follows_rotated_ca_and_client_certificate() {
    let (old, new) = (CertificateAuthority::new(), CertificateAuthority::new());
    let (server, first) = server("").await;
    let require = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n";
    server.file.write("ca.pem", &old.0.pem());
    server.file.write("web.yml", &format!("{SERVER_CERTIFICATE}{require}"));
    let user = |authority: &CertificateAuthority| {
        let (certificate, key) = authority.sign(Vec::new());
        server.file.write("user.pem", &certificate);
        server.file.write("user-key.pem", &key);
    };
    user(&old);
    server.file.write("server-ca.pem", &first);
    let address = format!("https://localhost:{}", server.address.port());
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{address}', certificate-authority: server-ca.pem}}}}]\n\
         users: [{{name: u, user: {{client-certificate: user.pem, client-key: user-key.pem}}}}]\n"
    );
    server.file.write("kubeconfig", &kubeconfig);
    let path = server.file.path().with_file_name("kubeconfig");
    let connection = ClusterConnection { kubeconfig: Some(path), context: None };
    let client = client_from(&connection).await.unwrap();
    let request = async || {
        let request = http::Request::get("/").header("connection", "close");
        client.send(request.body(kube::client::Body::empty()).unwrap()).await.map(|answer| answer.status())
    };
    assert_eq!(request().await.unwrap(), 200);

    let (second, key) = certificate(&["localhost"]);
    server.file.write("cert.pem", &second);
    server.file.write("key.pem", &key);
    server.file.write("ca.pem", &new.0.pem());
    assert!(request().await.is_err(), "the server is another one for this client");
    server.file.write("server-ca.pem", &second);
    user(&new);
    completes("a request with the new certificates", async {
        while request().await.is_err() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    })
    .await;

    // Another server in the same file is another cluster. Its objects must not mix with the objects of this cluster.
    let path = server.file.path().with_file_name("kubeconfig");
    let other = kubeconfig.replace(&address, "https://localhost:1");
    std::fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    // A write to a pipe ends only when the client has opened it to read it.
    let written = std::thread::spawn(move || std::fs::write(path, other));
    completes("the client reads the kubeconfig again", async {
        while !written.is_finished() {
            assert_eq!(request().await.unwrap(), 200);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    })
    .await;
    written.join().unwrap().unwrap();
    assert_eq!(request().await.unwrap(), 200, "the client stays with its server");
}

#[tokio::test]
async fn changed_client_ca_applies_to_next_connection() {
    let (old, new) = (CertificateAuthority::new(), CertificateAuthority::new());
    let (signed_by_old, signed_by_new) = (old.sign(Vec::new()), new.sign(Vec::new()));
    let (server, trusted) = server("").await;
    server.file.write("ca.pem", &old.0.pem());
    server.file.write(
        "web.yml",
        &format!(
            "{SERVER_CERTIFICATE}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n"
        ),
    );
    let is_accepted =
        async |client_certificate| server.request(&trusted, Some(client_certificate), BOTH).await.is_ok();
    assert!(is_accepted(&signed_by_old).await && !is_accepted(&signed_by_new).await);
    server.file.write("ca.pem", &new.0.pem());
    assert!(!is_accepted(&signed_by_old).await && is_accepted(&signed_by_new).await);
}

#[tokio::test]
async fn truncated_web_config_keeps_client_certificates_required() {
    let (authority, (server, trusted)) = (CertificateAuthority::new(), server("").await);
    let client_certificate = authority.sign(Vec::new());
    server.file.write("ca.pem", &authority.0.pem());
    let complete = format!(
        "{SERVER_CERTIFICATE}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n"
    );
    server.file.write("web.yml", &complete);
    for truncated in [&complete, "", SERVER_CERTIFICATE] {
        std::fs::write(server.file.path(), truncated).unwrap();
        assert!(server.request(&trusted, None, BOTH).await.is_err(), "{truncated}");
        let answer = server.request(&trusted, Some(&client_certificate), BOTH).await;
        assert_eq!(answer.as_deref(), Ok("certified: true"), "{truncated}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_line_trusts_only_servers_signed_by_its_ca() {
    let (certificate_pem, key) = certificate(&["localhost"]);
    let (other, _) = certificate(&["localhost"]);
    let file = WebFile::new("");
    for (name, text) in
        [("cert.pem", &*certificate_pem), ("key.pem", &key), ("other.pem", &other), ("basic", "ann:secret\n")]
    {
        file.write(name, text);
    }
    file.write("web.yml", &format!("{SERVER_CERTIFICATE}{}", ann()));
    let access = Auth::new(Some(file.open()), None);
    let exporter = drifted_shop(access.clone()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    tokio::spawn(serve(listener, router(exporter.exposed.clone()), UNLIMITED, access, stop));
    let path = |name: &str| file.folder.path().join(name).display().to_string();
    let (right, wrong, basic) = (path("cert.pem"), path("other.pem"), path("basic"));
    for (flags, code, expected) in [
        (vec!["--ca-file", &right, "--basic-auth-file", &basic], 1, "deployment.apps/web"),
        (vec!["--ca-file", &right], 2, "401 Unauthorized"),
        (vec!["--ca-file", &wrong, "--basic-auth-file", &basic], 2, "certificate"),
        (vec!["--basic-auth-file", &basic], 2, "unknown authority; use --ca-file"),
    ] {
        let arguments = [&["get", "-A", "-o", "name", "--server", &server][..], &flags].concat();
        let ended = tokio::task::block_in_place(|| run(&arguments, "", &[]));
        assert_eq!(ended.code, Some(code), "{flags:?}: {}{}", ended.stdout, ended.stderr);
        assert!(
            format!("{}{}", ended.stdout, ended.stderr).contains(expected),
            "{flags:?}: {}",
            ended.stderr
        );
    }
    // A server that requires client certificates.
    let authority = CertificateAuthority::new();
    let (client_certificate, client_key) = authority.sign(Vec::new());
    file.write("client.pem", &client_certificate);
    file.write("client-key.pem", &client_key);
    file.write("ca.pem", &authority.0.pem());
    let client_auth = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n";
    file.write("web.yml", &format!("{SERVER_CERTIFICATE}{client_auth}{}", ann()));
    let (client_certificate, client_key) = (path("client.pem"), path("client-key.pem"));
    let without =
        ["get", "-A", "-o", "name", "--server", &server, "--ca-file", &right, "--basic-auth-file", &basic];
    let with = [&without[..], &["--cert-file", &client_certificate, "--key-file", &client_key]].concat();
    for (arguments, code, expected) in
        [(with, 1, "deployment.apps/web"), (without.to_vec(), 2, "--cert-file")]
    {
        let ended = tokio::task::block_in_place(|| run(&arguments, "", &[]));
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}{}", ended.stdout, ended.stderr);
        assert!(format!("{}{}", ended.stdout, ended.stderr).contains(expected), "{}", ended.stderr);
    }
}
