//! Errors in web configuration files and their positions.

use drift_exporter::server::WebConfig;

use super::{WebFile, ann, web_config_errors};

#[track_caller]
fn check(text: &str, wanted: &[&str]) {
    let file = WebFile::new(text);
    assert_eq!(web_config_errors(&file.path()), wanted, "{text}");
}

#[test]
fn errors_have_line_and_column() {
    check(
        "tls_server_confi: {}\n",
        &[
            "line 1, column 1: unknown field `tls_server_confi`; valid fields: tls_server_config, http_server_config, basic_auth_users, rate_limit; did you mean `tls_server_config`?",
        ],
    );
    check(
        "basic_auth_users:\n  ann: secret\n",
        &[
            "line 2, column 8: basic_auth_users.ann: invalid bcrypt hash; create one with `htpasswd -nBC 10 NAME`",
        ],
    );
    check(
        "tls_server_config:\n  cert_file: a.pem\n",
        &["line 2, column 3: tls_server_config: the private key is missing; want `key_file` or `key`"],
    );
    check(
        "tls_server_config:\n  cert: x\n  key: x\n  client_auth_type: RequireAndVerify\n",
        &[
            "line 4, column 21: tls_server_config.client_auth_type: unknown value `RequireAndVerify`; want one of NoClientCert, RequestClientCert, RequireAnyClientCert, RequireClientCert, VerifyClientCertIfGiven, RequireAndVerifyClientCert",
        ],
    );
    check(
        "tls_server_config:\n  cert: x\n  key: x\n  client_ca: x\n",
        &[
            "line 2, column 3: tls_server_config: without `client_auth_type` the client CA has no effect; want RequireAndVerifyClientCert",
        ],
    );
    check(
        "tls_server_config:\n  cert: x\n  key: x\n  client_auth_type: RequireAndVerifyClientCert\n",
        &[
            "line 4, column 21: tls_server_config.client_auth_type: the client CA is missing; want `client_ca_file` or `client_ca`",
        ],
    );
    check(
        "tls_server_config:\n  cert: x\n  key: x\n  max_version: TLS11\n",
        &["line 4, column 16: tls_server_config.max_version: versions before TLS12 are not supported"],
    );
    check(
        "tls_server_config:\n  cert: x\n  key: x\n  cipher_suites: [TLS_RSA_WITH_RC4_128_SHA, X]\n  curve_preferences: [P256]\n",
        &[
            "line 4, column 19: tls_server_config.cipher_suites[0]: unknown value `TLS_RSA_WITH_RC4_128_SHA`; want one of TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256, TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA, TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "line 4, column 45: tls_server_config.cipher_suites[1]: unknown value `X`; want one of TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256, TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA, TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "line 5, column 23: tls_server_config.curve_preferences[0]: unknown value `P256`; want one of CurveP256, CurveP384, CurveP521, X25519",
        ],
    );
}

#[test]
fn header_and_rate_limit_errors_have_line_and_column() {
    check(
        "http_server_config:\n  headers: {X-Frame-Options: never, Server: me}\n",
        &[
            "line 2, column 30: http_server_config.headers.X-Frame-Options: unknown value `never`; want one of deny, sameorigin",
            "line 2, column 45: http_server_config.headers.Server: unknown value `Server`; want one of Strict-Transport-Security, X-Content-Type-Options, X-Frame-Options, X-XSS-Protection, Content-Security-Policy",
        ],
    );
    check(
        "rate_limit: {interval: soon}\n",
        &["line 1, column 24: rate_limit.interval: invalid duration `soon`; want for example 100ms or 1s"],
    );
    check(
        "rate_limit: {interval: 9000000000000000000s, burst: 1}\n",
        &["line 1, column 24: rate_limit.interval: `9000000000000000000s` is too long; want at most 24h"],
    );
    check(
        "rate_limit: {interval: 1s}\n",
        &[
            "line 1, column 13: rate_limit: with a `burst` of 0 every request would be rejected; want at least 1",
        ],
    );
}

#[test]
fn invalid_certificate_files_are_reported_without_key_material() {
    let file = WebFile::new("tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n");
    file.write("cert.pem", "hello");
    let errors = web_config_errors(&file.path());
    assert_eq!(
        errors,
        [
            "line 2, column 14: tls_server_config.cert_file: contains no certificate; add a BEGIN CERTIFICATE block"
        ]
    );
    let (certificate, _) = super::tls::certificate(&["localhost"]);
    file.write("cert.pem", &certificate);
    file.write("key.pem", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0IGtleQ==\n-----END PRIVATE KEY-----\n");
    let errors = web_config_errors(&file.path()).join("");
    assert!(
        errors.starts_with("line 3, column 13: tls_server_config.key_file: ") && !errors.contains("c2Vj"),
        "{errors}"
    );
}

#[test]
fn basic_auth_conflicts_with_kubernetes_auth() {
    let file = WebFile::new(&ann());
    let problems = WebConfig::open(&file.path(), true).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "line 2, column 3: basic_auth_users: cannot be combined with --web.auth kubernetes; remove one of them"
    );
}

#[test]
fn empty_config_is_valid() {
    for text in [
        "",
        "{}\n",
        "tls_server_config: {}\n",
        "tls_server_config:\nbasic_auth_users:\n",
        "rate_limit: {interval: 0, burst: 0}\n",
        "http_server_config: {http2: false}\n",
    ] {
        WebFile::new(text).open();
    }
}
