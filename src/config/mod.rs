//! Settings: the settings file, the web configuration file, and their validation.

mod file;
mod file_watch;
mod load;
mod settings;
mod web;
mod yaml;

pub use file::{LogLevel, SettingsFile, ShownResources, ShownValues};
pub use file_watch::{FileVersion, FileWatch, read_settings, stamp};
pub use load::{Loaded, is_namespace, load};
pub use settings::{
    HelmFrom, ManifestFrom, Overrides, Prices, ReloadStatus, Settings, ShownLabel, TeamRulesFrom,
    TerraformFrom,
};
pub use web::{ClientCertificates, Pem, RateLimit, TlsSettings, WebSettings, load_web, placed};
pub use yaml::{Place, Problem, read_yaml};
