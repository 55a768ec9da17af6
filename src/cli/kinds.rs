//! What people call kinds.

/// Short names that every cluster has, as `kubectl api-resources` lists them. A running exporter does not know them.
const SHORT: &[(&str, &str)] = &[
    ("cj", "cronjob"),
    ("cm", "configmap"),
    ("crd", "customresourcedefinition"),
    ("deploy", "deployment"),
    ("ds", "daemonset"),
    ("hpa", "horizontalpodautoscaler"),
    ("ing", "ingress"),
    ("limits", "limitrange"),
    ("netpol", "networkpolicy"),
    ("ns", "namespace"),
    ("pc", "priorityclass"),
    ("pdb", "poddisruptionbudget"),
    ("po", "pod"),
    ("pv", "persistentvolume"),
    ("pvc", "persistentvolumeclaim"),
    ("quota", "resourcequota"),
    ("rc", "replicationcontroller"),
    ("rs", "replicaset"),
    ("sa", "serviceaccount"),
    ("sc", "storageclass"),
    ("sts", "statefulset"),
    ("svc", "service"),
];

/// A word this near to another one is likely meant to be it.
const NEAR: f64 = 0.75;

/// What a short name stands for; other names as they are.
pub(super) fn full_name(kind: &str) -> String {
    let found = SHORT.iter().find(|(short, _)| short.eq_ignore_ascii_case(kind));
    found.map_or(kind, |(_, full)| full).to_owned()
}

/// What to say about a kind that there is not: `whose` has none, and the nearest that there is.
pub(super) fn unknown_kind<'a>(whose: &str, kind: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let wanted = kind.split('.').next().unwrap_or(kind).to_lowercase();
    let names = known.into_iter().map(str::to_lowercase);
    let near = names.map(|name| {
        let as_one = strsim::jaro_winkler(&wanted, &name);
        let as_many = strsim::jaro_winkler(wanted.trim_end_matches('s'), &name);
        (as_one.max(as_many), name)
    });
    let best = near.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(nearness, _)| *nearness >= NEAR);
    let hint = match best {
        Some((_, name)) => format!("; did you mean `{name}`?"),
        None => "; `kubectl api-resources` lists what there is".to_owned(),
    };
    format!("{whose} no kind `{kind}`{hint}")
}

#[cfg(test)]
mod tests {
    use super::{full_name, unknown_kind};

    #[test]
    fn the_nearest_kind_is_named() {
        let known = ["Deployment", "Service", "DaemonSet", "Ingress"];
        for (typed, meant) in
            [("deploymnt", "`deployment`"), ("Servics", "`service`"), ("daemonset.appz", "`daemonset`")]
        {
            let told = unknown_kind("the cluster has", typed, known);
            assert!(told.ends_with(&format!("did you mean {meant}?")), "{told}");
        }
        assert!(unknown_kind("the cluster has", "zzz", known).contains("api-resources"));
    }

    #[test]
    fn short_names_are_those_of_kubectl() {
        assert_eq!(full_name("Deploy"), "deployment");
        assert_eq!(full_name("widgets.example.com"), "widgets.example.com");
    }
}
