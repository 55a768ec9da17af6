//! What the caller wants: format and encoding.

use http::{
    HeaderMap,
    header::{ACCEPT, ACCEPT_ENCODING, HeaderName},
};

use super::text::Format;

/// The format that the caller likes best, text 0.0.4 where it does not say.
pub(super) fn format(headers: &HeaderMap) -> Format {
    let mut best = (Format::Text, 0.0);
    for (range, parameters, quality) in ranges(headers, ACCEPT) {
        let version = parameters.iter().find_map(|parameter| parameter.strip_prefix("version="));
        let format = match (range.as_str(), version) {
            ("application/openmetrics-text", None | Some("1.0.0" | "0.0.1")) => Format::OpenMetrics,
            ("text/plain", None | Some("0.0.4")) | ("text/*" | "*/*", _) => Format::Text,
            _ => continue,
        };
        if quality > best.1 {
            best = (format, quality);
        }
    }
    best.0
}

/// Whether the caller takes gzip; what it says of gzip itself beats what it says of everything.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let wanted = |name| ranges(headers, ACCEPT_ENCODING).find(|(encoding, ..)| encoding == name);
    wanted("gzip").or_else(|| wanted("*")).is_some_and(|(_, _, quality)| quality > 0.0)
}

/// The comma-separated members of a header: what, with which parameters, how much wanted.
fn ranges(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = (String, Vec<String>, f32)> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|member| {
        let mut parts = member.split(';').map(|part| part.trim().to_ascii_lowercase());
        let range = parts.next().unwrap_or_default();
        let (quality, parameters): (Vec<_>, Vec<_>) = parts.partition(|part| part.starts_with("q="));
        let quality = quality.first().map_or(Some(1.0), |quality| quality[2..].parse().ok()).unwrap_or(0.0);
        (range, parameters, quality)
    })
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::{Format, format, takes_gzip};

    #[track_caller]
    fn check(accept: &str, wanted: Format) {
        let headers = HeaderMap::from_iter([(http::header::ACCEPT, HeaderValue::from_str(accept).unwrap())]);
        assert_eq!(format(&headers), wanted, "{accept}");
    }

    #[test]
    fn the_format_follows_the_callers_wishes() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.7,\
            application/openmetrics-text;version=0.0.1;q=0.6,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5,\
            text/plain;version=0.0.4;q=0.4,*/*;q=0.3";
        check(prometheus, Format::OpenMetrics);
        check("*/*", Format::Text);
        check("text/html,*/*;q=0.1", Format::Text);
        check("text/plain;version=0.0.4;q=0.9,application/openmetrics-text;q=0.5", Format::Text);
        check("application/openmetrics-text;version=2.0.0", Format::Text);
        check("application/openmetrics-text;q=0", Format::Text);
        check("nonsense;;;q=x", Format::Text);
        assert_eq!(format(&HeaderMap::new()), Format::Text);
    }

    #[test]
    fn gzip_is_sent_only_when_it_is_taken() {
        for (encoding, takes) in [
            ("gzip", true),
            ("br, gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("br", false),
            ("*", true),
            ("gzip;q=0, *", false),
            ("GZIP", true),
        ] {
            let headers =
                HeaderMap::from_iter([(http::header::ACCEPT_ENCODING, HeaderValue::from_static(encoding))]);
            assert_eq!(takes_gzip(&headers), takes, "{encoding}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
