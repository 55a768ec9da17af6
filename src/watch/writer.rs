//! Who may have made an object differ from its recorded hash, from its `managedFields`.

use jiff::Timestamp;
use serde_json::Value;

use crate::types::FieldManager;

/// Those who may have made an object differ from the hash in `annotation`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Suspects {
    /// Who wrote what is hashed since the hash was recorded.
    pub(super) writer: Option<FieldManager>,
    /// Who recorded the hash.
    pub(super) recorder: Option<FieldManager>,
}

/// Finds the suspects. Ordinarily the writer is the newest owner of content. Writes through `scale` carry no time, though,
/// so a manager without a time is taken to be newer than the hash unless somebody else is known to be.
/// `covers_key` says which labels and annotations belong to what is hashed.
pub(super) fn suspects(
    managed_fields: &str,
    annotation: &str,
    covers_key: &dyn Fn(&str) -> bool,
) -> Suspects {
    let Ok(entries) = serde_json::from_str::<Vec<Value>>(managed_fields) else { return Suspects::default() };
    let entries: Vec<Entry> =
        entries.iter().map(|entry| Entry::read(entry, annotation, covers_key)).collect();
    let newest = |wanted: &dyn Fn(&Entry) -> bool| {
        entries.iter().filter(|entry| wanted(entry)).max_by_key(|entry| entry.writer.time)
    };
    let stamped = newest(&|entry| entry.stamp).and_then(|entry| entry.writer.time);
    let writer = newest(&|entry| entry.content && entry.writer.time > stamped)
        .or_else(|| newest(&|entry| entry.content && entry.writer.time.is_none()));
    let recorder = newest(&|entry| entry.content || entry.stamp);
    Suspects {
        writer: writer.map(|entry| entry.writer.clone()),
        recorder: recorder.map(|entry| entry.writer.clone()),
    }
}

/// Whether nobody owns the replicas. Somebody has then set them to 0 through `scale`, which leaves no name.
pub(super) fn replicas_are_nobodys(managed_fields: &str) -> bool {
    let entries: Vec<Value> = serde_json::from_str(managed_fields).unwrap_or_default();
    let owns_fields = entries
        .iter()
        .any(|entry| entry["fieldsV1"]["f:spec"].as_object().is_some_and(|spec| !spec.is_empty()));
    owns_fields && entries.iter().all(|entry| entry["fieldsV1"]["f:spec"]["f:replicas"].is_null())
}

/// The API version in which the hash in `annotation` was written, such as `apps/v1`.
pub(super) fn stamped_version(managed_fields: &str, annotation: &str) -> Option<String> {
    let entries: Vec<Value> = serde_json::from_str(managed_fields).ok()?;
    let key = format!("f:{annotation}");
    let stamp =
        entries.iter().find(|entry| !entry["fieldsV1"]["f:metadata"]["f:annotations"][&key].is_null())?;
    stamp["apiVersion"].as_str().map(str::to_owned)
}

struct Entry {
    writer: FieldManager,
    /// It owns something that is hashed.
    content: bool,
    /// It owns the recorded hash.
    stamp: bool,
}

impl Entry {
    fn read(entry: &Value, annotation: &str, covers_key: &dyn Fn(&str) -> bool) -> Self {
        let text = |name: &str| entry[name].as_str().unwrap_or("");
        let fields = &entry["fieldsV1"];
        let keys =
            |owned: &Value| owned.as_object().map_or_else(Vec::new, |owned| owned.keys().cloned().collect());
        let declared =
            ["f:labels", "f:annotations"].iter().flat_map(|part| keys(&fields["f:metadata"][*part]));
        let owns_declared =
            declared.filter_map(|key| key.strip_prefix("f:").map(str::to_owned)).any(|key| covers_key(&key));
        Self {
            writer: FieldManager {
                manager: text("manager").into(),
                subresource: text("subresource").into(),
                time: text("time").parse::<Timestamp>().ok(),
            },
            content: owns_declared
                || keys(fields).iter().any(|key| !matches!(key.as_str(), "f:metadata" | "f:status" | ".")),
            stamp: !fields["f:metadata"]["f:annotations"][format!("f:{annotation}")].is_null(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Suspects, replicas_are_nobodys, suspects};

    const HASH: &str = "tfdrift.jin.dev/spec-hash";

    fn entry(manager: &str, day: u32, fields: &Value) -> Value {
        json!({"manager": manager, "operation": "Update", "time": format!("2026-01-{day:02}T00:00:00Z"), "fieldsV1": fields})
    }

    fn scaled(manager: &str) -> Value {
        json!({"manager": manager, "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}})
    }

    fn spec() -> Value {
        json!({"f:metadata": {"f:labels": {}}, "f:spec": {"f:replicas": {}}})
    }

    fn stamp() -> Value {
        json!({"f:metadata": {"f:annotations": {"f:tfdrift.jin.dev/spec-hash": {}}}})
    }

    fn asked(entries: &[Value], covers_key: &dyn Fn(&str) -> bool) -> Suspects {
        suspects(&Value::from(entries).to_string(), HASH, covers_key)
    }

    #[track_caller]
    fn check(entries: &[Value], manager: &str, day: Option<i8>) {
        let writer = asked(entries, &|_| false).writer.unwrap();
        let written = writer.time.map(|time| time.to_zoned(jiff::tz::TimeZone::UTC).day());
        assert_eq!((&*writer.manager, written), (manager, day));
    }

    #[test]
    fn the_newest_owner_of_content_is_the_writer() {
        let status = json!({"f:status": {}});
        check(
            &[
                entry("HashiCorp", 1, &spec()),
                entry("kubectl-annotate", 2, &stamp()),
                entry("kubectl-edit", 3, &spec()),
                entry("kubectl-label", 4, &json!({"f:metadata": {}})),
                entry("kube-controller-manager", 5, &status),
            ],
            "kubectl-edit",
            Some(3),
        );
    }

    #[test]
    fn a_scale_without_a_time_is_newer_than_the_stamp_unless_another_is() {
        let created =
            [entry("HashiCorp", 1, &spec()), entry("kubectl-annotate", 2, &stamp()), scaled("kubectl")];
        check(&created, "kubectl", None);
        let edited: Vec<Value> = created.iter().cloned().chain([entry("kubectl-edit", 3, &spec())]).collect();
        check(&edited, "kubectl-edit", Some(3));
    }

    #[test]
    fn where_nobody_wrote_content_since_only_the_recorder_is_known() {
        let found =
            asked(&[entry("HashiCorp", 1, &spec()), entry("kubectl-annotate", 2, &stamp())], &|_| false);
        assert_eq!(found.writer, None);
        assert_eq!(&*found.recorder.unwrap().manager, "kubectl-annotate");
    }

    #[test]
    fn replicas_that_others_fields_leave_out_are_nobodys() {
        let others = json!({"f:spec": {"f:selector": {}}});
        for (entries, nobodys) in [
            (vec![entry("HashiCorp", 1, &others), entry("kubectl-annotate", 2, &stamp())], true),
            (vec![entry("HashiCorp", 1, &spec())], false),
            (vec![entry("HashiCorp", 1, &others), scaled("kubectl")], false),
            // Nothing is known about who owns what.
            (vec![entry("HashiCorp", 1, &json!({"f:spec": {}}))], false),
            (vec![], false),
        ] {
            assert_eq!(
                replicas_are_nobodys(&Value::from(entries.clone()).to_string()),
                nobodys,
                "{entries:?}"
            );
        }
    }

    #[test]
    fn who_set_a_label_is_the_writer_where_labels_are_hashed() {
        let labelled = json!({"f:metadata": {"f:labels": {"f:team": {}, "f:a.kubernetes.io/b": {}}}});
        let entries = [
            entry("HashiCorp", 1, &spec()),
            entry("kubectl-annotate", 2, &stamp()),
            entry("kubectl-label", 3, &labelled),
        ];
        assert_eq!(&*asked(&entries, &|key| key == "team").writer.unwrap().manager, "kubectl-label");
        assert_eq!(asked(&entries, &|_| false).writer, None);
    }

    #[test]
    fn nobody_is_the_writer_of_what_nobody_owns() {
        for entries in ["[]", "null", "not json", r#"[{"manager":"a","fieldsV1":null}]"#, "[1, null, []]"] {
            assert_eq!(suspects(entries, HASH, &|_| true), Suspects::default(), "{entries}");
        }
    }
}
