//! The flags of the commands that run until they are told to stop.

use std::path::PathBuf;

use clap::Args;

use super::common::{ClusterArgs, ConfigArgs, LogArgs, ReachArgs};
use crate::{
    cli::values::{ListenAddress, Switch, speed, switch},
    config::{Overrides, ShownResources},
    types::Source,
};

#[derive(Debug, Args)]
pub(in crate::cli) struct RunArgs {
    #[command(flatten)]
    pub(in crate::cli) cluster: ClusterArgs,
    #[command(flatten)]
    pub(in crate::cli) reach: ReachArgs,
    #[command(flatten)]
    pub(in crate::cli) config: ConfigArgs,
    /// Address to serve on; without a host: every address of this machine.
    #[arg(
        long = "web.listen-address", value_name = "[HOST]:PORT", env = "DRIFT_WEB_LISTEN_ADDRESS",
        default_value = ":10374", value_parser = ListenAddress::parse
    )]
    pub(in crate::cli) listen: ListenAddress,
    /// Where baselines are read from [default: annotation].
    #[arg(long, value_name = "NAME,…", env = "DRIFT_SOURCES", value_delimiter = ',')]
    pub(in crate::cli) sources: Option<Vec<Source>>,
    /// Objects that have series of their own: all that take part, or only those that drift [default: tracked].
    #[arg(long = "metrics.resources", env = "DRIFT_METRICS_RESOURCES")]
    pub(in crate::cli) resources: Option<ShownResources>,
    /// Most series of single objects; those of drifted objects come first [default: 200000].
    #[arg(long = "metrics.max-series", value_name = "N", env = "DRIFT_METRICS_MAX_SERIES")]
    pub(in crate::cli) max_series: Option<usize>,
    /// Expose `drift_resource_health`; `=false` where the settings file says true and is not to be heard.
    #[arg(
        long = "metrics.health", value_name = "BOOL", env = "DRIFT_METRICS_HEALTH", value_parser = Switch::parse,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    health: Option<Switch>,
    /// Keep the history of verdicts in this file across restarts.
    #[arg(long = "history.file", value_name = "FILE", env = "DRIFT_HISTORY_FILE")]
    pub(in crate::cli) history_file: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) log: LogArgs,
}

impl RunArgs {
    /// What was said at the command line or in the environment, which stands above the settings file.
    pub(in crate::cli) fn overrides(&self) -> Overrides {
        Overrides {
            namespaces: self.reach.namespaces(),
            sources: self.sources.clone(),
            resources: self.resources,
            max_series: self.max_series,
            health: self.health.and_then(|switch| switch.0),
            log_level: self.log.level,
        }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DemoArgs {
    /// Address to serve the page and /metrics on.
    #[arg(
        long = "web.listen-address", value_name = "[HOST]:PORT", env = "DRIFT_WEB_LISTEN_ADDRESS",
        default_value = "127.0.0.1:10374", value_parser = ListenAddress::parse
    )]
    pub(in crate::cli) listen: ListenAddress,
    /// Nothing happens in the shop but what you do yourself.
    #[arg(long, env = "DRIFT_NO_STORY", value_parser = switch)]
    pub(in crate::cli) no_story: bool,
    /// Play the story so many times as fast, from 0.1 to 100.
    #[arg(long, value_name = "FACTOR", env = "DRIFT_SPEED", default_value = "1", value_parser = speed)]
    pub(in crate::cli) speed: f32,
    #[command(flatten)]
    pub(in crate::cli) log: LogArgs,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use crate::{
        cli::args::{Arguments, Command},
        config::{Overrides, load},
    };

    fn overrides(flags: &[&str]) -> Overrides {
        match Arguments::try_parse_from([&["drift-exporter", "run"], flags].concat()).unwrap().command {
            Command::Run(run) => run.overrides(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_flag_that_says_no_beats_a_file_that_says_yes() {
        for (flags, in_file, wanted) in [
            (&[][..], true, true),
            (&[], false, false),
            (&["--metrics.health"], false, true),
            (&["--metrics.health=true"], false, true),
            (&["--metrics.health=false"], true, false),
            (&["--metrics.health="], true, true),
        ] {
            let file = format!("metrics: {{health: {in_file}}}\n");
            let settings = load(&file, &overrides(flags)).unwrap().settings;
            assert_eq!(settings.health_series, wanted, "{flags:?} {in_file}");
        }
    }

    #[test]
    fn each_namespace_is_watched_once_and_an_empty_name_is_none() {
        let named = |names| overrides(&["--namespaces", names]).namespaces;
        assert_eq!(named("shop,ops,,shop"), Some(vec!["ops".into(), "shop".into()]));
        assert_eq!(named(""), None);
    }

    #[test]
    fn the_flags_fit_together() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_flag_that_can_be_set_in_the_environment_is_named_after_itself() {
        let command = Arguments::command();
        let run = command.find_subcommand("run").unwrap();
        for argument in
            run.get_arguments().filter(|argument| !["help", "version"].contains(&argument.get_id().as_str()))
        {
            let flag = argument.get_long().unwrap();
            let variable = format!("DRIFT_{}", flag.to_uppercase().replace(['.', '-'], "_"));
            assert_eq!(
                argument.get_env().and_then(|name| name.to_str()),
                Some(variable.as_str()),
                "--{flag}"
            );
        }
    }
}
