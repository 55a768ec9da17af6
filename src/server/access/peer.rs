//! Who is at the other end of a connection.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, header::HOST};

/// Headers that only somebody adds who asks for somebody else.
const FORWARDED: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

/// The other end of a connection; every request that comes through it has it as an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether a certificate has proven who it is.
    pub certified: bool,
}

impl Peer {
    /// Whether somebody on this machine asks for himself. Not so where a proxy hands something on, nor where a browser was made to
    /// believe that a foreign name is here.
    pub(super) fn is_here(&self, headers: &HeaderMap) -> bool {
        self.address.ip().to_canonical().is_loopback()
            && !FORWARDED.iter().any(|name| headers.contains_key(*name))
            && headers.get_all(HOST).iter().all(|host| host.to_str().is_ok_and(is_here))
    }
}

/// Whether a host, with or without a port, is this machine.
fn is_here(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|own| own.is_loopback())
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::Peer;

    #[test]
    fn only_somebody_here_who_asks_for_himself_is_here() {
        for (address, headers, here) in [
            ("127.0.0.1:9", &[][..], true),
            ("127.0.0.1:9", &[("host", "localhost:10374")], true),
            ("127.8.0.1:9", &[("host", "127.0.0.1")], true),
            ("[::1]:9", &[("host", "[::1]:10374")], true),
            ("[::ffff:127.0.0.1]:9", &[("host", "LOCALHOST")], true),
            ("10.0.0.1:9", &[("host", "localhost")], false),
            ("127.0.0.1:9", &[("x-forwarded-for", "10.0.0.1")], false),
            ("127.0.0.1:9", &[("forwarded", "for=127.0.0.1")], false),
            ("127.0.0.1:9", &[("x-real-ip", "127.0.0.1")], false),
            ("127.0.0.1:9", &[("host", "evil.example")], false),
            ("127.0.0.1:9", &[("host", "localhost.evil.example")], false),
            ("127.0.0.1:9", &[("host", "localhost"), ("host", "evil.example")], false),
            ("127.0.0.1:9", &[("host", "")], false),
        ] {
            let peer = Peer { address: address.parse().unwrap(), certified: false };
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            assert_eq!(peer.is_here(&map), here, "{address} {headers:?}");
        }
    }
}
