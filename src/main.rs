//! The command line of drift-exporter.

use std::process::ExitCode;

fn main() -> ExitCode {
    drift_exporter::cli::main(std::env::args_os()).into()
}
