//! The format of a stored release: JSON, usually gzip, in base64.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde::Deserialize;
use zeroize::{Zeroize as _, Zeroizing};

use crate::{
    config::BaselineLimits,
    sources::inflate::{InflateReader, ReadError, json_fault},
    types::{BaselineFault, BaselineVersion, Chart, shorten},
};

/// A release without values, templates, files, notes and hooks.
#[derive(Deserialize)]
pub struct Release {
    pub name: Box<str>,
    #[serde(default)]
    pub namespace: Box<str>,
    #[serde(rename = "version", default)]
    revision: u64,
    #[serde(default)]
    info: ReleaseInfo,
    #[serde(default)]
    chart: Option<StoredChart>,
    /// The rendered objects, without hooks and the definitions in `crds/`.
    #[serde(default)]
    pub manifest: String,
}

/// The manifest may declare Secrets.
impl Drop for Release {
    fn drop(&mut self) {
        self.manifest.zeroize();
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReleaseInfo {
    first_deployed: Box<str>,
    last_deployed: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredChart {
    metadata: Option<ChartMetadata>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ChartMetadata {
    name: Box<str>,
    version: Box<str>,
    app_version: Option<Box<str>>,
}

/// Omits the manifest.
impl fmt::Debug for Release {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Release({}/{} v{})", self.namespace, self.name, self.revision)
    }
}

/// Decodes the value of the key `release`.
pub fn decode(stored: &[u8], limits: &BaselineLimits) -> Result<Release, ReadError> {
    let compressed = STANDARD.decode(stored.trim_ascii()).map_err(|_| BaselineFault::Unreadable)?;
    let compressed = Zeroizing::new(compressed);
    let text = InflateReader::of_text(&**compressed, compressed.len() as u64, limits)?.read_to_end()?;
    // serde would decode an array by position.
    if text.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
        return Err(BaselineFault::Unreadable.into());
    }
    serde_json::from_slice(&text).map_err(|error| json_fault(&error).into())
}

impl Release {
    /// A release that was uninstalled and installed again has another lineage.
    pub fn version(&self) -> BaselineVersion {
        let metadata = self.chart.as_ref().and_then(|chart| chart.metadata.as_ref());
        let chart = metadata.map(|metadata| Chart {
            name: shorten(&metadata.name).into(),
            version: shorten(&metadata.version).into(),
            app_version: metadata
                .app_version
                .as_deref()
                .filter(|version| !version.is_empty())
                .map(|version| shorten(version).into()),
        });
        BaselineVersion {
            serial: self.revision,
            lineage: format!("{} {}", self.name, shorten(&self.info.first_deployed)).into(),
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

    use super::{BaselineFault, BaselineLimits, Release};
    use crate::sources::inflate::tests::gzip;

    fn decode(stored: &[u8]) -> Result<Release, BaselineFault> {
        super::decode(stored, &BaselineLimits::default()).map_err(Into::into)
    }

    fn release() -> Vec<u8> {
        let text = json!({
            "name": "web", "info": {"first_deployed": "2026-01-01T00:00:00.5+01:00", "last_deployed": "2026-01-02T00:00:00Z", "status": "deployed", "notes": "canary"},
            "chart": {"metadata": {"name": "shop", "version": "1.2.0", "appVersion": "7", "home": "canary"}, "templates": [{"data": "canary"}], "values": {"a": "canary"}},
            "config": {"password": "canary"}, "manifest": "---\n", "hooks": [{"manifest": "canary"}], "version": 3, "namespace": "shop",
        });
        text.to_string().into_bytes()
    }

    #[test]
    fn gzip_and_plain_json_decode_to_the_same_release() {
        for stored in [gzip(&release()), release()].map(|bytes| STANDARD.encode(bytes)) {
            let release = decode(stored.as_bytes()).unwrap();
            let version = release.version();
            assert_eq!((version.serial, &*version.lineage), (3, "web 2026-01-01T00:00:00.5+01:00"));
            assert_eq!(version.chart.unwrap().to_string(), "shop-1.2.0");
            assert!(!format!("{release:?}{}", release.manifest).contains("canary"));
        }
    }

    #[test]
    fn invalid_releases_are_classified() {
        let whole = gzip(&release());
        let mut damaged = whole.clone();
        let at = damaged.len() - 6;
        damaged[at] ^= 1;
        let bomb = gzip(&vec![b' '; 70 << 20]);
        for (bytes, fault) in [
            (&whole[..whole.len() - 9], BaselineFault::Truncated),
            (&damaged[..], BaselineFault::Unreadable),
            (&bomb[..], BaselineFault::TooLarge),
            (&gzip(b"{\"name\": \"web\", \"info\""), BaselineFault::Truncated),
            (&gzip(b"[]"), BaselineFault::Unreadable),
            (b"", BaselineFault::Truncated),
        ] {
            assert_eq!(decode(STANDARD.encode(bytes).as_bytes()).map(|_| ()), Err(fault));
        }
        assert_eq!(decode(b"{not base64}").map(|_| ()), Err(BaselineFault::Unreadable));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
            let _ = decode(STANDARD.encode(&bytes).as_bytes());
            let _ = decode(STANDARD.encode(gzip(&bytes)).as_bytes());
        }
    }
}
