//! Settings: the settings file, the web configuration file, and their validation.

mod file;
mod file_watch;
mod limits;
mod load;
mod settings;
mod web;
mod yaml;

pub use file::{LogLevel, Prices, SettingsFile, ShownResources, ShownValues};
pub use file_watch::{FileVersion, FileWatch, read_small_file};
pub use limits::{BaselineLimits, LimitExceeded, Limits, MAX_INFLATE_RATIO, NamespaceLimits};
pub use load::{LoadedSettings, load};
pub use settings::{
    ManifestLocations, Overrides, ReleaseLocations, ReloadStatus, RuntimeConfig, Settings, ShownLabel,
    StateLocations, TeamRulesSettings,
};
pub use web::{ClientCertificates, Pem, RateLimit, TlsSettings, WebSettings, load_web};
pub use yaml::{ConfigProblem, Position, describe_yaml_error, read_yaml, with_positions};
