//! How the last reading of the settings file went.

use std::path::PathBuf;

use jiff::Timestamp;

use super::Problem;

/// What is known about the settings in use.
#[derive(Clone, Debug)]
pub struct ReloadStatus {
    /// The file they come from; none where there is none.
    pub file: Option<PathBuf>,
    /// When settings were last taken over.
    pub last_success: Timestamp,
    /// What is wrong with the file as it is now: while there is anything, the last good settings are in use.
    pub problems: Vec<Problem>,
    /// What looks wrong in the settings in use.
    pub warnings: Vec<Problem>,
}

impl ReloadStatus {
    /// Whether the file as it is now is what is in use.
    pub fn is_successful(&self) -> bool {
        self.problems.is_empty()
    }
}
