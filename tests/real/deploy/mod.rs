//! The chart and its generated manifests: rendering, acceptance by a real API server, and permissions of the exporter.

/// The generated manifests are current.
mod current;
/// A real API server accepts every object, in a namespace that enforces the restricted Pod Security Standard.
mod install;
/// Linters for the Dockerfile and the workflows.
mod linters;
/// Values that the chart refuses.
mod refused;
/// The rendered objects.
mod render;
/// The permissions that the chart grants for given settings.
mod rendered_rights;
/// The exporter with all permissions of the chart, and without each of them.
mod rights;
/// Reviews and Events with the permissions of the chart.
mod rights_to_write;
/// A fixture: a cluster with the chart installed.
mod world;
