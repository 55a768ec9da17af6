//! The chart and its generated manifests: rendering, acceptance by a real API server, and permissions of the exporter.

/// A fixture: a cluster with the chart installed.
mod fixture;
/// A real API server accepts every object, in a namespace that enforces the restricted Pod Security Standard.
mod install;
/// Values that the chart refuses.
mod invalid_values;
/// Linters for the Dockerfile and the workflows.
mod linters;
/// The generated manifests are current.
mod manifests;
/// The exporter with all permissions of the chart, and without each of them.
mod permissions;
/// The rendered objects.
mod render;
/// The permissions that the chart grants for given settings.
mod rendered_permissions;
/// Reviews and Events with the permissions of the chart.
mod write_permissions;
