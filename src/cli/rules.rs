//! `drift-exporter rules`.

use std::{fs, io::Write, path::Path};

use super::{
    Outcome,
    args::{RulesArgs, RulesCommand, RulesTestArgs},
    rule_cases::Cases,
    settings_file::load_settings,
};
use crate::{
    config::{Overrides, read_yaml},
    rules::{Rule, RuleOrigin, RuleSet},
    types::Clock,
};

/// Lists rules, or tries them on cases.
pub(super) fn run(
    arguments: &RulesArgs,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<Outcome, String> {
    match &arguments.command {
        RulesCommand::List(list) => {
            match load_settings(list.config.config_file.as_deref(), &Overrides::default(), stderr)? {
                Some(settings) => print_rules(&settings.rules, stdout).map(|()| Outcome::Fine),
                None => Ok(Outcome::Negative),
            }
        }
        RulesCommand::Test(test) => {
            match load_settings(test.config.config_file.as_deref(), &Overrides::default(), stderr)? {
                Some(settings) => try_cases(test, &settings.rules, stdout),
                None => Ok(Outcome::Negative),
            }
        }
    }
}

fn print_rules(rules: &RuleSet, stdout: &mut dyn Write) -> Result<(), String> {
    let rows: Vec<[String; 5]> = rules.rules().iter().map(row).collect();
    let head = ["NAME", "FROM", "EFFECT", "EXPIRES", "OWNER"].map(str::to_owned);
    let all = || std::iter::once(&head).chain(&rows);
    let widths: [usize; 5] =
        std::array::from_fn(|column| all().map(|row| row[column].chars().count()).max().unwrap_or(0));
    for row in all() {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(stdout, "{}", cells.join("  ").trim_end())
            .map_err(|error| format!("cannot write: {error}"))?;
    }
    Ok(())
}

fn row(rule: &Rule) -> [String; 5] {
    let from = match rule.origin() {
        RuleOrigin::BuiltIn => "built-in".to_owned(),
        RuleOrigin::Settings => "settings".to_owned(),
        RuleOrigin::Team { namespace } => format!("namespace {namespace}"),
    };
    let expires = rule.expires().map(|expires| expires.to_string()).unwrap_or_default();
    let spec = rule.spec();
    [rule.name().to_string(), from, spec.effect.to_string(), expires, spec.owner.clone().unwrap_or_default()]
}

fn try_cases(arguments: &RulesTestArgs, rules: &RuleSet, stdout: &mut dyn Write) -> Result<Outcome, String> {
    let now = Clock::system().now();
    let (mut passed, mut failed) = (0, 0);
    for file in &arguments.files {
        for case in read_cases(file)?.cases {
            let wrong = case
                .check(rules, now)
                .map_err(|why| format!("{}: case {}: {why}", file.display(), case.name))?;
            let line = if wrong.is_empty() {
                passed += 1;
                format!("ok      {}", case.name)
            } else {
                failed += 1;
                format!("FAILED  {}: {}", case.name, wrong.join("; "))
            };
            writeln!(stdout, "{line}").map_err(|error| format!("cannot write: {error}"))?;
        }
    }
    writeln!(stdout, "{passed} passed, {failed} failed").map_err(|error| format!("cannot write: {error}"))?;
    Ok(if failed == 0 { Outcome::Fine } else { Outcome::Negative })
}

fn read_cases(file: &Path) -> Result<Cases, String> {
    let text =
        fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let cases: Cases = read_yaml(&text).map_err(|problem| format!("{}: {problem}", file.display()))?;
    if cases.cases.is_empty() {
        // Else a test of nothing would pass for ever.
        return Err(format!("{} has no cases", file.display()));
    }
    Ok(cases)
}
