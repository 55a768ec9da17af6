//! The hash that opr8r records of what it has applied.

use serde::Deserialize;

use super::views::{Pairs, Text, or_default};
use crate::types::Digest;

/// `spec` of a `SimpleResource`, as opr8r's typed client reads it.
#[derive(Default, Deserialize)]
#[serde(expecting = "spec must be an object")]
struct SimpleResource<'a> {
    #[serde(default, deserialize_with = "or_default")]
    length: i64,
    #[serde(borrow, default)]
    prefix: Text<'a>,
    #[serde(borrow, default)]
    vars: Pairs<'a, Text<'a>>,
}

/// `opr8r-v1` of the JSON text of a spec: `<length>:<prefix>`, then `<key>=<value>` by keys, with nothing between them.
pub(super) fn opr8r(spec: &str) -> Result<Digest, serde_json::Error> {
    let spec: Option<SimpleResource<'_>> = serde_json::from_str(spec)?;
    let SimpleResource { length, prefix, vars } = spec.unwrap_or_default();
    let mut text = format!("{length}:{}", prefix.0);
    for (key, value) in &vars.0 {
        text.extend([&*key.0, "=", &*value.0]);
    }
    Ok(Digest::of(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::opr8r;

    /// The digests are those of the texts on the right, by `printf %s TEXT | sha256sum`.
    #[test]
    fn the_hash_is_that_of_a_text_that_can_be_written_by_hand() {
        for (spec, digest) in [
            // 16:testspecial=trueupper=true
            (
                r#"{"length": 16, "prefix": "test", "vars": {"upper": "true", "special": "true"}}"#,
                "d524c7dccfac7a9fd92f621a20c70bb526568aeb2c8df09d39443242521fe0dd",
            ),
            // 8:
            (r#"{"length": 8}"#, "077cf0b106d350cc021b33349b552f3bbbdd8aefc9f0ca17deb245db05f05f5c"),
            (
                r#"{"length": 8, "prefix": null, "vars": null}"#,
                "077cf0b106d350cc021b33349b552f3bbbdd8aefc9f0ca17deb245db05f05f5c",
            ),
            (
                r#"{"length": 8, "prefix": "", "vars": {}}"#,
                "077cf0b106d350cc021b33349b552f3bbbdd8aefc9f0ca17deb245db05f05f5c",
            ),
            // 0:
            ("{}", "ba768b331fd86cec803be04e56ab2b3d4c0e98ef4ee4fcd4e72ad7cce61a1d1f"),
            ("null", "ba768b331fd86cec803be04e56ab2b3d4c0e98ef4ee4fcd4e72ad7cce61a1d1f"),
            // 3:ümlautA=1B=a=
            (
                r#"{"length": 3, "prefix": "ümlaut", "vars": {"a": null, "B": "", "A": "1"}}"#,
                "6fd44081e273e2d77ce22f8629150c5a7db312bafc1acdcc875d547ae30b0937",
            ),
        ] {
            assert_eq!(opr8r(spec).unwrap().to_string(), digest, "{spec}");
        }
    }

    #[test]
    fn what_opr8r_itself_could_not_read_has_no_hash() {
        for spec in [
            r#"{"length": "16"}"#,
            r#"{"length": 1.5}"#,
            r#"{"length": 1e400}"#,
            r#"{"length": 99999999999999999999}"#,
            r#"{"prefix": 7}"#,
            r#"{"vars": {"a": 1}}"#,
            r#"{"vars": {"a": true}}"#,
            r#"{"vars": {"a": {"b": "c"}}}"#,
            r#"{"vars": ["a"]}"#,
            r#""text""#,
        ] {
            assert!(opr8r(spec).is_err(), "{spec}");
        }
    }
}
