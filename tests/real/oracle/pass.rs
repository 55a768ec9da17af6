//! One configuration, applied with one provider.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use drift_exporter::{
    sources::terraform::decode,
    types::{DeclaredObject, RedactionKey},
};

use super::{
    attributes::changed_attributes,
    cluster::Objects,
    edits::{Edit, batches},
    exporter::RunningExporter,
    matrix::{EditResult, Matrix},
};
use crate::support::{
    cluster::{Cluster, User},
    diff::diff,
    terraform::{Provider, Terraform},
};

/// A configuration, and the objects that it declares.
pub(super) struct Pass<'a> {
    pub(super) terraform: Terraform,
    objects: Objects<'a>,
    declared: BTreeMap<String, Arc<DeclaredObject>>,
    serial: u64,
    cluster: &'a Cluster,
    exporter: Option<RunningExporter>,
}

impl<'a> Pass<'a> {
    /// Uses the configuration in a folder next to this file.
    pub(super) fn start(
        cluster: &'a Cluster,
        configuration: &str,
        provider: Provider,
        copies: &BTreeMap<&str, usize>,
    ) -> Self {
        let objects = Objects::new(cluster, matches!(provider, Provider::Old));
        objects.create_partly_owned(copies);
        objects.create_crds();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/oracle").join(configuration);
        let mut terraform = Terraform::init(&folder, provider, &cluster.kubeconfig(User::Admin));
        terraform.set("copies", serde_json::to_string(copies).unwrap());
        Self { terraform, objects, declared: BTreeMap::new(), serial: 0, cluster, exporter: None }
    }

    /// Applies the configuration and reads the state.
    pub(super) fn apply(&mut self) {
        let terraform = &self.terraform;
        self.objects.run_as_controller(|| terraform.apply());
        let state = decode(&self.terraform.state(), &RedactionKey::new([7; 32])).unwrap();
        assert_eq!(state.skipped, []);
        self.serial = state.serial;
        if self.exporter.is_none() {
            self.exporter = Some(RunningExporter::start(
                self.cluster,
                &self.terraform.folder().join("terraform.tfstate"),
            ));
        }
        self.declared =
            state.objects.into_iter().map(|object| (object.address.to_string(), object)).collect();
    }

    /// Neither Terraform nor the exporter reports drift.
    pub(super) fn check_unedited(&self, when: &str, matrix: &mut Matrix) {
        let of_terraform = self.changes();
        let of_terraform =
            of_terraform.into_iter().map(|(address, changed)| format!("{address}: {changed:?}"));
        let of_exporter = self.running_exporter().wait_for_problems(self.serial);
        let found = self.declared.iter().flat_map(|(address, object)| {
            let findings = diff(object, &self.objects.get(object)).findings.into_iter();
            findings.map(move |finding| format!("{address}: {finding:?}"))
        });
        let found = found.chain(of_exporter).collect();
        matrix.record_unedited(when, &self.declared, of_terraform.collect(), found);
    }

    /// Makes all edits, one per object at a time, and restores the objects.
    pub(super) fn check_edits(&self, edits: &[Edit], plans: usize, matrix: &mut Matrix) {
        for batch in batches(edits, plans) {
            let made: Vec<_> = batch
                .iter()
                .filter_map(|(address, edit)| {
                    let original = self.objects.get(&self.declared[address]);
                    self.make_edit(address, edit, matrix).map(|edited| (address, edit, original, edited))
                })
                .collect();
            let drift = self.changes();
            for (address, edit, original, edited) in made {
                let object = &self.declared[address];
                let comparison = diff(object, &edited);
                let drifted = self.running_exporter().drifted(object, &edited["metadata"]["resourceVersion"]);
                matrix.record(EditResult {
                    running_exporter: drifted,
                    resource: edit.resource,
                    edit: format!("{address} {}", edit.patch),
                    terraform: drift.get(address).cloned().unwrap_or_default(),
                    exporter: comparison.attributes.iter().map(ToString::to_string).collect(),
                    blind: comparison.blind.len(),
                });
                self.objects.restore(object, &original, &edited);
            }
        }
    }

    /// Makes edits that all must be drift, and keeps them.
    pub(super) fn edit_all(&self, edits: &[Edit], matrix: &mut Matrix) {
        for edit in edits {
            let address = format!("{}[0]", edit.resource);
            if let Some(edited) = self.make_edit(&address, edit, matrix) {
                let seen = !diff(&self.declared[&address], &edited).findings.is_empty();
                assert!(seen, "{address} {} is not seen", edit.patch);
            }
        }
    }

    fn running_exporter(&self) -> &RunningExporter {
        self.exporter.as_ref().expect("the exporter is running")
    }

    fn make_edit(&self, address: &str, edit: &Edit, matrix: &mut Matrix) -> Option<serde_json::Value> {
        let edited = self.objects.patch(&self.declared[address], &edit.patch);
        edited.map_err(|reason| matrix.rejected(format!("{address} {}: {reason}", edit.patch))).ok()
    }

    /// The attributes that a refresh would change, by address.
    fn changes(&self) -> BTreeMap<String, BTreeSet<String>> {
        let changed = self.terraform.drift().into_iter().map(|drifted| {
            let changed = changed_attributes(&drifted.address, &drifted.before, &drifted.after);
            (drifted.address, changed)
        });
        changed.filter(|(_, changed)| !changed.is_empty()).collect()
    }
}
