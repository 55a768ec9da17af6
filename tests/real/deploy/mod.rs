//! The chart and what is generated from it: what Helm renders, what a real API server takes, and what the exporter can do with its rights.

/// Manifests for those without Helm are current.
mod current;
/// A real API server takes everything, in a namespace that enforces what is restricted.
mod install;
/// Dockerfile and workflows, by the word of their linters.
mod linters;
/// Values that the chart does not take.
mod refused;
/// What Helm makes of the chart.
mod render;
/// Which rights the chart gives for which settings.
mod rendered_rights;
/// The exporter with the rights of the chart, all of them and all but one.
mod rights;
/// Reviews and Events with the rights of the chart.
mod rights_to_write;
/// A cluster with the chart installed.
mod world;
