//! Web configuration files, checked with promtool, which uses the exporter-toolkit.

use std::{fs, path::Path, process::Command};

use drift_exporter::server::WebConfig;

use crate::support::parts::program;

/// The examples of the guide, with certificates next to them.
fn examples() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples");
    for entry in fs::read_dir(examples).expect("the examples") {
        let path = entry.expect("an example").path();
        fs::copy(&path, folder.path().join(path.file_name().expect("a name"))).expect("a copy");
    }
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = certificate.self_signed(&key).expect("a certificate");
    for (name, text) in [
        ("tls.crt", certificate.pem()),
        ("client-ca.crt", certificate.pem()),
        ("tls.key", key.serialize_pem()),
    ] {
        fs::write(folder.path().join(name), text).expect("written");
    }
    folder
}

/// Whether promtool and the exporter accept a file.
fn accepted_by(path: &Path) -> (bool, bool) {
    let promtool =
        Command::new(program("prometheus", "promtool")).args(["check", "web-config"]).arg(path).output();
    let promtool = promtool.expect("promtool can be run");
    (promtool.status.success(), WebConfig::open(path, false).is_ok())
}

#[test]
fn exporter_and_promtool_agree_on_web_config_files() {
    let folder = examples();
    let mut seen = 0;
    for entry in fs::read_dir(folder.path()).expect("the examples") {
        let path = entry.expect("an example").path();
        if path.extension().is_some_and(|extension| extension == "yml") {
            assert_eq!(accepted_by(&path), (true, true), "{}", path.display());
            seen += 1;
        }
    }
    assert_eq!(seen, 3);
    let tls = "tls_server_config: {cert_file: tls.crt, key_file: tls.key";
    for (text, expected) in [
        (String::new(), true),
        (format!("{tls}}}\n"), true),
        (format!("{tls}, min_version: TLS11, cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA]}}\n"), true),
        (format!("{tls}, client_auth_type: RequireClientCert}}\n"), true),
        ("rate_limit: {interval: 0}\nhttp_server_config: {http2: false, headers: {X-XSS-Protection: '0'}}\n".to_owned(), true),
        (format!("{tls}, client_auth_type: Nonsense}}\n"), false),
        (format!("{tls}, client_ca_file: tls.crt}}\n"), false),
        (format!("{tls}, cipher_suites: [NONSENSE]}}\n"), false),
        (format!("{tls}, curve_preferences: [NONSENSE]}}\n"), false),
        (format!("{tls}, nonsense: 1}}\n"), false),
        ("tls_server_config: {cert_file: tls.crt}\n".to_owned(), false),
        ("tls_server_config: {cert_file: tls.key, key_file: tls.crt}\n".to_owned(), false),
        ("tls_server_config: {cert_file: missing, key_file: missing}\n".to_owned(), false),
        ("basic_auth_users: {ann: secret}\n".to_owned(), false),
        ("http_server_config: {headers: {Server: me}}\n".to_owned(), false),
        ("http_server_config: {headers: {X-Frame-Options: never}}\n".to_owned(), false),
        ("nonsense: {}\n".to_owned(), false),
    ] {
        let path = folder.path().join("case.yml");
        fs::write(&path, &text).expect("written");
        assert_eq!(accepted_by(&path), (expected, expected), "{text}");
    }
}
