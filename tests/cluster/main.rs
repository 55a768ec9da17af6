//! Tests on a real kube-apiserver with a real etcd.

#![expect(
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests fail by panicking, and they change the cluster"
)]

#[path = "../support/mod.rs"]
mod support;

mod spine;
