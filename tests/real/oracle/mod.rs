//! Terraform itself says what is drift: the same edits are shown to a refresh of the real provider and to our comparison.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "it prints its matrix, and fails by panicking"
)]

mod asked;
mod attributes;
pub(crate) mod cluster;
mod edits;
mod matrix;
mod pass;

use serde_json::Value;

use self::{edits::read, matrix::Matrix, pass::Pass};
use crate::support::{cluster::Cluster, terraform::Provider};

/// In how many plans all edits are made: the more, the fewer copies of each resource there are.
const PLANS: usize = 4;

#[test]
fn the_exporter_says_what_a_refresh_says() {
    let cluster = Cluster::start();
    let edits = read(include_str!("current/edits.txt"));
    let mut pass = Pass::start(&cluster, "current", Provider::Current, &edits::copies(&edits, PLANS));
    let mut matrix = Matrix::new("the provider 3.2.1");
    pass.apply();
    pass.at_rest("after the first apply", &mut matrix);
    pass.ask_all(&edits, PLANS, &mut matrix);

    // What others made of the objects is what the changed configuration declares, and more than it declares.
    pass.edit_all(&read(include_str!("current/absorbed.txt")), &mut matrix);
    pass.terraform.set("changed", "true".to_owned());
    pass.apply();
    pass.at_rest("after the changed configuration was applied", &mut matrix);
    pass.edit_all(&read(include_str!("current/reverted.txt")), &mut matrix);
    pass.apply();
    pass.at_rest("after the same configuration was applied again", &mut matrix);
    matrix.finish();
}

#[test]
fn the_exporter_says_what_a_refresh_of_the_old_provider_says() {
    let cluster = Cluster::start();
    let edits = read(include_str!("old/edits.txt"));
    let mut pass = Pass::start(&cluster, "old", Provider::Old, &edits::copies(&edits, PLANS));
    let mut matrix = Matrix::new("the provider 1.13.4");
    pass.apply();
    pass.at_rest("after the first apply", &mut matrix);
    pass.ask_all(&edits, PLANS, &mut matrix);
    matrix.finish();
}

/// Follows a path of names.
fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |value, name| &value[*name])
}
