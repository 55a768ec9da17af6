//! The rules that are part of the program.

use std::sync::LazyLock;

use super::RuleSpec;

/// The rules that are part of the program, in order, as they are written.
pub fn built_in_rules() -> &'static [RuleSpec] {
    &RULES
}

static RULES: LazyLock<Vec<RuleSpec>> = LazyLock::new(|| {
    serde_saphyr::from_str(include_str!("built_in.yaml")).expect("a test reads the built-in rules")
});
