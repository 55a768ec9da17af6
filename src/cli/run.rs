//! `drift-exporter run`.

use std::{collections::BTreeSet, io};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    Outcome,
    args::{ListenAddress, Resources, RunArgs},
    signals,
};
use crate::{
    app::{self, Parts, telemetry},
    model::Clock,
    settings::Settings,
    watch::{Timing, client_from},
};

/// Runs the exporter until a signal ends it.
pub(super) fn run(arguments: RunArgs) -> Result<Outcome, String> {
    telemetry::start(arguments.log.level, arguments.log.format)?;
    let runtime = signals::http_runtime()?;
    let ended = runtime.block_on(serve(arguments));
    runtime.shutdown_background();
    ended
}

async fn serve(arguments: RunArgs) -> Result<Outcome, String> {
    let client = client_from(&arguments.cluster.connection()).await.map_err(|error| error.to_string())?;
    let listener = bind(&arguments.listen).await?;
    let stop = CancellationToken::new();
    let parts = Parts {
        client,
        settings: settings(&arguments),
        clock: Clock::system(),
        timing: Timing::default(),
        events: arguments.events,
        history_file: arguments.history_file,
        stop: stop.clone(),
    };
    signals::until_signal(app::run(parts, listener), &stop).await
}

fn settings(arguments: &RunArgs) -> Settings {
    Settings {
        namespaces: namespaces(&arguments.namespaces),
        sources: arguments.sources.clone(),
        max_series: arguments.max_series,
        only_drifted: arguments.resources == Resources::Drifted,
        health_series: arguments.health,
        ..Settings::default()
    }
}

/// Each name once; empty ones, which templates leave behind, are none.
fn namespaces(names: &[String]) -> Vec<Box<str>> {
    let names: BTreeSet<&str> = names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    names.into_iter().map(Into::into).collect()
}

pub(super) async fn bind(address: &ListenAddress) -> Result<TcpListener, String> {
    let mut wrong = "the name has no address".to_owned();
    for candidate in &address.candidates {
        match TcpListener::bind(candidate).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Err(format!(
                    "{candidate} is in use; choose another address with --web.listen-address"
                ));
            }
            Err(error) => wrong = format!("{candidate}: {error}"),
        }
    }
    Err(format!("cannot listen on {wrong}; choose another address with --web.listen-address"))
}

#[cfg(test)]
mod tests {
    use super::namespaces;

    #[test]
    fn each_namespace_is_watched_once_and_an_empty_name_is_none() {
        let names = ["shop", "ops", "", "shop"].map(str::to_owned);
        assert_eq!(namespaces(&names), ["ops".into(), "shop".into()]);
        assert!(namespaces(&[String::new()]).is_empty());
    }
}
