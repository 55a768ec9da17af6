//! States and published baselines on a real API server, with permission to list and watch only.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Instant,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_exporter::{
    config::{RuntimeConfig, Settings, StateLocations},
    event::Event,
    sources::{
        DecodeSlots, KindRequirements, SourceContext,
        terraform::{random_key, run},
    },
    types::{
        Baseline, BaselineOrigin, Clock, GroupKind, RedactionKey, Scope, Source, SyncHealth,
        TrustedNamespaces, WatchMode,
    },
    watch::{ClusterConnection, client_from},
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::support::{
    cluster::{Cluster, User},
    parts::program,
    wait::completes,
};

fn pipe(command: &mut Command, input: &str) -> String {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn kubectl(kubeconfig: &Path, arguments: &[&str], input: &str) -> String {
    let kubectl = program("kube-apiserver", "kubectl");
    pipe(Command::new(kubectl).args(arguments).arg("--kubeconfig").arg(kubeconfig), input)
}

/// A state of about this many KiB when compressed.
fn state(serial: u64, kibibytes: usize) -> String {
    let mut random = fastrand::Rng::with_seed(7);
    let resources = (0..kibibytes).map(|at| {
        let noise: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(1024).collect();
        // Values under `data` would become digests.
        let labels = json!({"noise": STANDARD.encode(noise)});
        let metadata = json!([{"name": format!("c{at}"), "namespace": "shop", "labels": labels}]);
        let attributes = json!({"metadata": metadata, "data": {"a": "b"}});
        json!({"mode": "managed", "type": "kubernetes_config_map", "name": format!("c{at}"),
            "instances": [{"attributes": attributes, "sensitive_attributes": [[{"type": "get_attr", "value": "data"}]]}]})
    });
    json!({"version": 4, "serial": serial, "lineage": "l", "resources": resources.collect::<Vec<_>>()})
        .to_string()
}

fn secret(serial: u64) -> Value {
    let labels = json!({"tfstate": "true", "tfstateWorkspace": "default", "tfstateSecretSuffix": "shop"});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tfstate-default-shop", "namespace": "terraform", "labels": labels},
        "data": {"tfstate": STANDARD.encode(state(serial, 3))}})
}

fn lease(operation: Option<&str>) -> Value {
    let info = json!({"Operation": operation, "Who": "ci", "Created": "2099-01-01T00:00:00Z"}).to_string();
    let (holder, annotations) = match operation {
        Some(_) => (json!("1"), json!({"app.terraform.io/lock-info": info})),
        None => (Value::Null, json!({})),
    };
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": holder},
        "metadata": {"name": "lock-tfstate-default-shop", "namespace": "terraform", "labels": {"tfstate": "true"}, "annotations": annotations}})
}

async fn next(changes: &mut mpsc::Receiver<Event>) -> Event {
    loop {
        let change = completes("a change", changes.recv()).await.unwrap();
        if !matches!(change, Event::BaselinesRead(_)) {
            return change;
        }
    }
}

async fn baseline(changes: &mut mpsc::Receiver<Event>) -> Arc<Baseline> {
    let change = next(changes).await;
    let Event::Baseline(baseline) = &change else { unreachable!("{change:?}") };
    baseline.clone()
}

#[test]
fn states_and_published_baselines_need_only_list_and_watch() {
    let cluster = Cluster::start();
    let admin = cluster.kubeconfig(User::Admin);
    let apply = |input: &str| kubectl(&admin, &["apply", "-n", "terraform", "-f", "-"], input);
    kubectl(&admin, &["create", "namespace", "terraform"], "");
    let mut role = String::from(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: states}\nrules:\n",
    );
    for (group, resource) in [("", "secrets"), ("coordination.k8s.io", "leases")] {
        writeln!(role, "- {{apiGroups: ['{group}'], resources: [{resource}], verbs: [list, watch]}}")
            .unwrap();
    }
    apply(&role);
    kubectl(
        &admin,
        &["create", "rolebinding", "states", "-n", "terraform", "--role=states", "--user=exporter"],
        "",
    );
    // Two parts, as kubectl applies them.
    let program = env!("CARGO_BIN_EXE_drift-exporter");
    let manifests = pipe(Command::new(program).args(["baseline", "--name", "shop-prod"]), &state(3, 250));
    assert_eq!(apply(&manifests).lines().count(), 2);
    apply(&secret(7).to_string());

    let connection =
        ClusterConnection { kubeconfig: Some(cluster.kubeconfig(User::Exporter)), context: None };
    let client = cluster.block_on(client_from(&connection)).unwrap();
    let key = RedactionKey::new(random_key().unwrap());
    let scope = Scope::new(["terraform"], []);
    let trusted_namespaces = TrustedNamespaces::new(["terraform"]);
    let terraform = StateLocations { scope, trusted_namespaces, ..StateLocations::default() };
    let settings = Settings { sources: vec![Source::Terraform], terraform, ..Settings::default() };
    let (_config, config) = watch::channel(Arc::new(RuntimeConfig::new(settings)));
    let (sender, mut changes) = mpsc::channel(16);
    let (declares, mut read) = watch::channel(Arc::default());
    let own_key = key.clone();
    let inputs = SourceContext {
        client,
        config,
        events: sender,
        declarations: declares,
        clock: Clock::system(),
        watch_mode: WatchMode::Continuous,
        decode_slots: DecodeSlots::default(),
        key,
    };
    cluster.block_on(async {
        tokio::spawn(run(inputs));
        // The server may deliver them in either order.
        let mut baselines = [baseline(&mut changes).await, baseline(&mut changes).await];
        baselines.sort_by_key(|baseline| baseline.origin);
        let [one, two] = baselines;
        assert_eq!((&*one.name, one.objects.len(), one.fault.as_ref()), ("terraform/default/shop", 3, None));
        assert!(one.version.as_ref().unwrap().written.is_some());
        assert_eq!(
            (&*two.name, two.origin, two.objects.len()),
            ("shop-prod", BaselineOrigin::Published, 250)
        );
        assert!(matches!(next(&mut changes).await, Event::SourceHealth(_, SyncHealth::Up)));
        read.changed().await.unwrap();
        let requirements = KindRequirements::from_declarations(&own_key, [&**read.borrow()].into_iter());
        let redaction = requirements.documents[&GroupKind::new("", "ConfigMap").into_owned()].clone();
        assert_eq!(redaction.fields("v1", "shop", "c0"), ["data"]);
        assert_eq!(redaction.keys().len(), 2, "the key of the process and the key of the baseline");
    });
    apply(&lease(Some("OperationTypeApply")).to_string());
    assert_eq!(&*cluster.block_on(baseline(&mut changes)).lock.as_ref().unwrap().who, "ci");
    apply(&secret(8).to_string());
    let started = Instant::now();
    let serial = |baseline: &Baseline| baseline.version.as_ref().unwrap().serial;
    assert_eq!(serial(&cluster.block_on(baseline(&mut changes))), 8);
    println!("a changed state was published {:?} after kubectl ended", started.elapsed());
    apply(&lease(None).to_string());
    let released = cluster.block_on(baseline(&mut changes));
    assert_eq!((&released.lock.as_ref().unwrap().operation, serial(&released)), (&None, 8));
    assert_eq!(cluster.block_on(baseline(&mut changes)).lock, None);
    let requests: BTreeSet<(String, String)> = cluster.requests_by(User::Exporter).into_iter().collect();
    let allowed = |(verb, resource): &(String, String)| {
        ["list", "watch"].contains(&verb.as_str()) && ["secrets", "leases"].contains(&resource.as_str())
    };
    assert!(requests.iter().all(allowed), "{requests:?}");
}
