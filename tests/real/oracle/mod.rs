//! Terraform is the oracle: a refresh of the real provider and our comparison get the same edits.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "it prints its matrix, and fails by panicking"
)]

mod attributes;
pub(crate) mod cluster;
mod edits;
mod exporter;
mod matrix;
mod pass;

use serde_json::Value;

use self::{edits::read, matrix::Matrix, pass::Pass};
use crate::support::{cluster::Cluster, terraform::Provider};

/// The number of plans for all edits: more plans need fewer copies of each resource.
const PLANS: usize = 4;

#[test]
fn exporter_agrees_with_refresh() {
    let cluster = Cluster::start();
    let edits = read(include_str!("current/edits.txt"));
    let mut pass = Pass::start(&cluster, "current", Provider::Current, &edits::copies(&edits, PLANS));
    let mut matrix = Matrix::new("the provider 3.2.1");
    pass.apply();
    pass.check_unedited("after the first apply", &mut matrix);
    pass.check_edits(&edits, PLANS, &mut matrix);

    // The edits of others match the changed configuration, and include undeclared fields.
    pass.edit_all(&read(include_str!("current/absorbed.txt")), &mut matrix);
    pass.terraform.set("changed", "true".to_owned());
    pass.apply();
    pass.check_unedited("after the changed configuration was applied", &mut matrix);
    pass.edit_all(&read(include_str!("current/reverted.txt")), &mut matrix);
    pass.apply();
    pass.check_unedited("after the same configuration was applied again", &mut matrix);
    matrix.finish();
}

#[test]
fn exporter_agrees_with_refresh_of_the_old_provider() {
    let cluster = Cluster::start();
    let edits = read(include_str!("old/edits.txt"));
    let mut pass = Pass::start(&cluster, "old", Provider::Old, &edits::copies(&edits, PLANS));
    let mut matrix = Matrix::new("the provider 1.13.4");
    pass.apply();
    pass.check_unedited("after the first apply", &mut matrix);
    pass.check_edits(&edits, PLANS, &mut matrix);
    matrix.finish();
}

/// Gets a nested value by a path of names.
fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |value, name| &value[*name])
}
