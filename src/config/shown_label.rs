//! Labels of objects that become labels of series.

/// A label of objects, and how the series call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownLabel {
    /// The label's name on the object.
    pub key: Box<str>,
    /// The label's name on the series.
    pub name: Box<str>,
}

/// Names that the series have themselves, or that Prometheus gives them.
const TAKEN: [&str; 14] = [
    "group",
    "kind",
    "namespace",
    "name",
    "source",
    "severity",
    "expectation",
    "actor",
    "field",
    "address",
    "state",
    "health",
    "job",
    "instance",
];

impl ShownLabel {
    /// Reads the name of a label, `team` or `example.com/team`. The error says what is wrong.
    pub(super) fn parse(key: &str) -> Result<Self, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        if key.is_empty() || key.len() > 317 || !key.chars().all(allowed) {
            return Err(format!("`{key}` is no name of a label"));
        }
        let name: String = key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if name.starts_with("__") || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!("`{key}` would be called `{name}`, which no label of a series can be"));
        }
        if TAKEN.contains(&name.as_str()) {
            return Err(format!(
                "`{key}` would be called `{name}`, and that is what another label of the series is called"
            ));
        }
        Ok(Self { key: key.into(), name: name.into() })
    }
}
