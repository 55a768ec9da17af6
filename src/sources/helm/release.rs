//! A release as Helm stores it: JSON, usually gzipped, in base64.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde::Deserialize;

use crate::{
    sources::inflate::{Broken, Text, inflate_limit},
    types::{BaselineFault, BaselineVersion, Chart},
};

/// The most that a release may inflate to. It is held whole while it is read, and Helm stores no more than a MiB.
const LARGEST: u64 = 64 << 20;

/// What is read of a release: all but values, templates, files, notes and hooks.
#[derive(Deserialize)]
pub struct Release {
    /// What it is called.
    pub name: Box<str>,
    /// Where it is installed.
    #[serde(default)]
    pub namespace: Box<str>,
    /// Its revision.
    #[serde(rename = "version", default)]
    revision: u64,
    #[serde(default)]
    info: Info,
    #[serde(default)]
    chart: Option<ChartEntry>,
    /// The rendered objects. Hooks are no part of it, nor are the definitions in `crds/`.
    #[serde(default)]
    pub manifest: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Info {
    first_deployed: Box<str>,
    last_deployed: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ChartEntry {
    metadata: Option<Metadata>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Box<str>,
    version: Box<str>,
    app_version: Box<str>,
}

/// Tells which one it is and nothing that it declares.
impl fmt::Debug for Release {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Release({}/{} v{})", self.namespace, self.name, self.revision)
    }
}

/// Reads a release as it stands under the key `release`.
pub fn decode(stored: &[u8]) -> Result<Release, BaselineFault> {
    let packed = STANDARD.decode(stored.trim_ascii()).map_err(|_| BaselineFault::Unreadable)?;
    let limit = inflate_limit(packed.len() as u64).min(LARGEST);
    let text = Text::new(&*packed, limit).and_then(Text::whole).map_err(|broken| match broken {
        Broken::Fault(fault) => fault,
        Broken::System(_) => BaselineFault::Unreadable,
    })?;
    // What is known by its name may not be told by its place.
    if text.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
        return Err(BaselineFault::Unreadable);
    }
    serde_json::from_slice(&text)
        .map_err(|error| if error.is_eof() { BaselineFault::Truncated } else { BaselineFault::Unreadable })
}

impl Release {
    /// Which version it is. A release that was uninstalled and installed again is another one.
    pub fn version(&self) -> BaselineVersion {
        let metadata = self.chart.as_ref().and_then(|chart| chart.metadata.as_ref());
        let chart = metadata.map(|own| Chart {
            name: own.name.clone(),
            version: own.version.clone(),
            app_version: own.app_version.clone(),
        });
        BaselineVersion {
            serial: self.revision,
            lineage: format!("{} {}", self.name, self.info.first_deployed).into(),
            tool_version: Box::default(),
            written: self.info.last_deployed.parse::<Timestamp>().ok(),
            chart,
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use proptest::prelude::*;
    use serde_json::json;

    use super::{BaselineFault, decode};
    use crate::sources::inflate::tests::gzip;

    fn release() -> Vec<u8> {
        let text = json!({
            "name": "web", "info": {"first_deployed": "2026-01-01T00:00:00.5+01:00", "last_deployed": "2026-01-02T00:00:00Z", "status": "deployed", "notes": "canary"},
            "chart": {"metadata": {"name": "shop", "version": "1.2.0", "appVersion": "7", "home": "canary"}, "templates": [{"data": "canary"}], "values": {"a": "canary"}},
            "config": {"password": "canary"}, "manifest": "---\n", "hooks": [{"manifest": "canary"}], "version": 3, "namespace": "shop",
        });
        text.to_string().into_bytes()
    }

    #[test]
    fn packed_and_not_it_is_the_same_release() {
        for stored in [gzip(&release()), release()].map(|packed| STANDARD.encode(packed)) {
            let release = decode(stored.as_bytes()).unwrap();
            let version = release.version();
            assert_eq!((version.serial, &*version.lineage), (3, "web 2026-01-01T00:00:00.5+01:00"));
            assert_eq!(version.chart.unwrap().to_string(), "shop-1.2.0");
            assert!(!format!("{release:?}{}", release.manifest).contains("canary"));
        }
    }

    #[test]
    fn what_is_no_release_says_why() {
        let whole = gzip(&release());
        let mut damaged = whole.clone();
        let at = damaged.len() - 6;
        damaged[at] ^= 1;
        let bomb = gzip(&vec![b' '; 70 << 20]);
        for (packed, fault) in [
            (&whole[..whole.len() - 9], BaselineFault::Truncated),
            (&damaged[..], BaselineFault::Unreadable),
            (&bomb[..], BaselineFault::TooLarge),
            (&gzip(b"{\"name\": \"web\", \"info\""), BaselineFault::Truncated),
            (&gzip(b"[]"), BaselineFault::Unreadable),
            (b"", BaselineFault::Truncated),
        ] {
            assert_eq!(decode(STANDARD.encode(packed).as_bytes()).map(|_| ()), Err(fault));
        }
        assert_eq!(decode(b"{not base64}").map(|_| ()), Err(BaselineFault::Unreadable));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
            let _ = decode(STANDARD.encode(&bytes).as_bytes());
            let _ = decode(STANDARD.encode(gzip(&bytes)).as_bytes());
        }
    }
}
