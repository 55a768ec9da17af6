//! `docs/settings.md`: every key of the settings file, generated from the schema.

use std::{fmt::Write as _, fs, path::Path};

use serde_json::{Map, Value};

const INTRODUCTION: &str = "\
# Every setting

Generated from the [JSON Schema](settings.schema.json) of the settings file, which `drift-exporter check --schema` prints; `make schema` updates this page. `[]` means each
element of a list. [Configuration](configuration.md#the-settings-file) describes how keys interact.
";

/// Renders the keys of a schema as rows of a table.
struct SchemaWalker<'a> {
    definitions: &'a Map<String, Value>,
    rows: String,
}

impl<'a> SchemaWalker<'a> {
    fn keys_of(&mut self, object: &'a Value, prefix: &str) {
        let required = object["required"].as_array().map_or(&[][..], Vec::as_slice);
        for (name, property) in object["properties"].as_object().into_iter().flatten() {
            let key = format!("{prefix}{name}");
            let needed = if required.iter().any(|required| required == name) { ", required" } else { "" };
            self.row(&key, property, needed);
            self.keys_below(&key, property);
        }
    }

    fn row(&mut self, key: &str, property: &'a Value, needed: &str) {
        let meaning = self.description(property).replace('\n', " ").replace('|', "\\|");
        writeln!(self.rows, "| `{key}` | {}{needed} | {meaning} |", self.type_name(property)).unwrap();
    }

    /// The description of a key, or else of its value.
    fn description(&self, property: &'a Value) -> &'a str {
        let description = property["description"].as_str();
        description.or_else(|| self.choices(property).first()?["description"].as_str()).unwrap_or_default()
    }

    fn keys_below(&mut self, key: &str, property: &'a Value) {
        for choice in self.choices(property) {
            match choice.get("items") {
                Some(items) => self.keys_below(&format!("{key}[]"), items),
                None => self.keys_of(choice, &format!("{key}.")),
            }
        }
    }

    /// The schemas that a value may have, without null.
    fn choices(&self, schema: &'a Value) -> Vec<&'a Value> {
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            return self.choices(&self.definitions[name]);
        }
        let several = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array);
        let Some(several) = several else { return vec![schema] };
        several
            .iter()
            .filter(|choice| choice["type"] != "null")
            .flat_map(|choice| self.choices(choice))
            .collect()
    }

    fn type_name(&self, schema: &'a Value) -> String {
        let mut words: Vec<String> =
            self.choices(schema).iter().map(|choice| self.type_name_of_one(choice)).collect();
        words.dedup();
        words.join(" or ")
    }

    fn type_name_of_one(&self, schema: &'a Value) -> String {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if let Some(values) = schema["enum"].as_array() {
            let shown =
                values.iter().filter(|value| !value.is_null()).map(|value| format!("`{}`", text(value)));
            return shown.collect::<Vec<_>>().join(" ");
        }
        if let Some(value) = schema.get("const") {
            return format!("`{}`", text(value));
        }
        let type_name = schema["type"].as_str().or_else(|| {
            schema["type"].as_array()?.iter().filter_map(Value::as_str).find(|name| *name != "null")
        });
        match type_name {
            Some("array") => format!("list of {}", self.type_name(&schema["items"])),
            Some("object") => "keys".to_owned(),
            Some("integer") => "whole number".to_owned(),
            Some("number") => "number".to_owned(),
            Some("boolean") => "true or false".to_owned(),
            Some("string") => "text".to_owned(),
            other => panic!("unknown type {other:?}: {schema}"),
        }
    }
}

fn render(schema: &Value) -> String {
    let mut page = INTRODUCTION.to_owned();
    for (name, property) in schema["properties"].as_object().unwrap() {
        let mut walker =
            SchemaWalker { definitions: schema["$defs"].as_object().unwrap(), rows: String::new() };
        walker.row(name, property, "");
        walker.keys_below(name, property);
        write!(page, "\n## `{name}`\n\n| key | takes | meaning |\n|---|---|---|\n{}", walker.rows).unwrap();
    }
    page
}

#[test]
fn settings_reference_equals_schema() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let file = docs.join("settings.md");
    let schema = fs::read_to_string(docs.join("settings.schema.json")).unwrap();
    let page = render(&serde_json::from_str(&schema).unwrap());
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        fs::write(&file, &page).unwrap();
    }
    assert!(
        fs::read_to_string(&file).unwrap_or_default() == page,
        "`make schema` updates {}",
        file.display()
    );
    for key in [
        "`sources.terraform.lock_max_age`",
        "`rules[].match.paths`",
        "`api.prices.currency` | text, required",
    ] {
        assert!(page.contains(key), "{key} is not in {page}");
    }
}
