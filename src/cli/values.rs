//! What can stand after a flag, and how it is read.

use std::{fmt, net::SocketAddr};

use clap::{ValueEnum, builder::PossibleValue};
use jiff::SignedDuration;

use crate::{
    config::{LogLevel, ShownResources, is_namespace},
    diff::Algorithm,
    types::{Selector, Source},
};

impl ValueEnum for ShownResources {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Tracked, Self::Drifted]
    }
    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self {
            Self::Tracked => "tracked",
            Self::Drifted => "drifted",
        }))
    }
}

impl ValueEnum for LogLevel {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace]
    }
    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }))
    }
}

/// The sources that people can switch on.
impl ValueEnum for Source {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Annotation, Self::Terraform, Self::Helm, Self::LastApplied, Self::Manifest, Self::StatusHash]
    }
    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.as_str()))
    }
}

impl ValueEnum for Algorithm {
    fn value_variants<'a>() -> &'a [Self] {
        Self::ALL
    }
    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

/// A namespace that can exist. Empty is none: that is what templates leave behind.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    let name = text.trim();
    if name == "*" {
        return Err("leave the flag out to watch all namespaces".to_owned());
    }
    if !name.is_empty() && !is_namespace(name) {
        return Err("a namespace has lower-case letters, digits and `-` only".to_owned());
    }
    Ok(name.to_owned())
}

/// A namespace that can exist, or `-` for objects without one. Empty is none.
pub(super) fn place(text: &str) -> Result<String, String> {
    match text {
        "-" => Ok(text.to_owned()),
        "*" => Err("-A looks in all namespaces".to_owned()),
        name => namespace(name),
    }
}

/// A label selector that says something.
pub(super) fn selector(text: &str) -> Result<Selector, String> {
    let selector = Selector::parse(text)?;
    if selector.is_empty() { Err("want something like app=web".to_owned()) } else { Ok(selector) }
}

/// What a baseline can be called: a DNS label that does not look like a part of another one.
pub(super) fn baseline_name(text: &str) -> Result<String, String> {
    if !is_namespace(text) {
        return Err("want at most 63 lower-case letters, digits and `-`, and no `-` at an end".to_owned());
    }
    if text.rsplit_once("-part-").is_some_and(|(_, number)| number.chars().all(|c| c.is_ascii_digit())) {
        return Err(
            "a name that ends in -part-1 and the like is that of a part of another baseline".to_owned()
        );
    }
    Ok(text.to_owned())
}

/// What labels can begin with: a DNS name.
pub(super) fn prefix(text: &str) -> Result<String, String> {
    let is_name = text.len() <= 253 && text.split('.').all(is_namespace);
    if is_name { Ok(text.to_owned()) } else { Err("want a DNS name such as tfdrift.jin.dev".to_owned()) }
}

/// Reads a switch from the environment. Empty is off: that is what templates leave behind.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "" | "0" | "false" | "no" | "off" => Ok(false),
        "1" | "true" | "yes" | "on" => Ok(true),
        _ => Err("want true or false".to_owned()),
    }
}

/// A switch that may leave things as they are: so does an empty one, which is what templates leave behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch(pub(super) Option<bool>);

impl Switch {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() { Ok(Self(None)) } else { switch(text).map(|on| Self(Some(on))) }
    }
}

/// A text that says something.
pub(super) fn words(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() { Err("want a text that is not empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// `14d`, `12h`, `2w`: in the future.
pub(super) fn period(text: &str) -> Result<SignedDuration, String> {
    let wrong = || format!("`{text}` is no time; want something like 14d, 12h or 2w");
    let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let number: i64 = digits.parse().map_err(|_| wrong())?;
    let hours = match unit {
        "h" => Some(number),
        "d" => number.checked_mul(24),
        "w" => number.checked_mul(24 * 7),
        _ => None,
    };
    let longest = 24 * 366 * 10;
    match hours {
        Some(hours) if (1..=longest).contains(&hours) => Ok(SignedDuration::from_hours(hours)),
        Some(_) => Err("want at least an hour and at most ten years".to_owned()),
        None => Err(wrong()),
    }
}

pub(super) fn speed(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(speed) if (0.1..=100.0).contains(&speed) => Ok(speed),
        Ok(_) | Err(_) => Err("want a number from 0.1 to 100".to_owned()),
    }
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListenAddress {
    /// Tried in order; a machine may have no IPv6.
    pub(super) candidates: Vec<SocketAddr>,
}

impl ListenAddress {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(port) = text.strip_prefix(':') {
            let port: u16 = port.parse().map_err(|_| format!("`{port}` is no port number"))?;
            return Ok(Self { candidates: vec![([0_u16; 8], port).into(), ([0_u8; 4], port).into()] });
        }
        let resolved: Vec<SocketAddr> = std::net::ToSocketAddrs::to_socket_addrs(text)
            .map_err(|error| format!("want HOST:PORT or :PORT ({error})"))?
            .collect();
        Ok(Self { candidates: resolved })
    }
}

/// `KIND/NAME` or `KIND.GROUP/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectRef {
    pub(super) kind: String,
    pub(super) name: String,
}

impl ObjectRef {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { kind: kind.to_owned(), name: name.to_owned() })
            }
            _ => Err("want KIND/NAME, such as deployment/web".to_owned()),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.kind, self.name)
    }
}

/// A kind, or one object of it: `KIND`, `KIND.GROUP` or `KIND/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) kind: String,
    pub(super) name: Option<String>,
}

impl Wish {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return ObjectRef::parse(text).map(Self::from);
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        if text.is_empty() || !text.chars().all(allowed) {
            return Err("want KIND or KIND/NAME, such as deployments or deployment/web".to_owned());
        }
        Ok(Self { kind: text.to_owned(), name: None })
    }

    /// The same with the name that stands after it, as kubectl takes it too: `KIND NAME`.
    pub(super) fn followed_by(&self, name: Option<&str>) -> Result<Self, String> {
        match (&self.name, name) {
            (_, None) => Ok(self.clone()),
            (None, Some(name)) => ObjectRef::parse(&format!("{}/{name}", self.kind)).map(Self::from),
            (Some(named), Some(name)) => {
                Err(format!("{}/{named} is one object already, and `{name}` comes after it", self.kind))
            }
        }
    }
}

impl From<ObjectRef> for Wish {
    fn from(ObjectRef { kind, name }: ObjectRef) -> Self {
        Self { kind, name: Some(name) }
    }
}

#[cfg(test)]
mod tests {
    use super::{ListenAddress, Wish, period};

    #[test]
    fn a_wish_is_a_kind_or_an_object() {
        for (text, kind, name) in [
            ("deploy", "deploy", None),
            ("widgets.example.com", "widgets.example.com", None),
            ("svc/web", "svc", Some("web")),
        ] {
            let wanted = Wish { kind: kind.to_owned(), name: name.map(str::to_owned) };
            assert_eq!(Wish::parse(text), Ok(wanted));
        }
        for wrong in ["", "/", "deploy/", "/web", "a/b/c", "deploy web", "deploy,svc", "Dep\u{1b}"] {
            assert!(Wish::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_port_alone_means_every_address() {
        let address = ListenAddress::parse(":10374").unwrap();
        assert_eq!(address.candidates[0].to_string(), "[::]:10374");
        assert_eq!(ListenAddress::parse("127.0.0.1:0").unwrap().candidates[0].to_string(), "127.0.0.1:0");
        assert!(ListenAddress::parse(":http").is_err());
        assert!(ListenAddress::parse("nonsense").is_err());
    }

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        assert_eq!(period("2w"), period("14d"));
        assert_eq!(period("1d"), period("24h"));
        for wrong in ["", "d", "14", "-1d", "0h", "1y", "9999w", "14 d", "1.5d", "14ü"] {
            assert!(period(wrong).is_err(), "{wrong}");
        }
    }
}
