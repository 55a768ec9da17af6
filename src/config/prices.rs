//! What things cost, by a sheet of prices that somebody wrote.

use super::{file::PricesEntry, load::wrong, problem::Problem};

/// What things cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices {
    /// What the prices are in.
    pub currency: Box<str>,
    /// One CPU core for an hour.
    pub cpu_core_hour: f64,
    /// One GiB of memory for an hour.
    pub memory_gib_hour: f64,
    /// One GiB of storage for a month.
    pub storage_gib_month: f64,
    /// One load balancer for an hour.
    pub load_balancer_hour: f64,
}

/// Checks a sheet of prices. What has none counts nothing.
pub(super) fn prices(entry: &PricesEntry, problems: &mut Vec<Problem>) -> Prices {
    let currency = entry.currency.as_str();
    if !(1..=8).contains(&currency.len()) || !currency.chars().all(|c| c.is_ascii_alphabetic()) {
        let message = format!("`{currency}` is no currency; want letters such as EUR");
        problems.push(wrong("api.prices.currency", message));
    }
    let given =
        [entry.cpu_core_hour, entry.memory_gib_hour, entry.storage_gib_month, entry.load_balancer_hour];
    if given.iter().all(Option::is_none) {
        let message = "there is no price; want at least one, such as cpu_core_hour".to_owned();
        problems.push(wrong("api.prices", message));
    }
    let mut price = |key: &str, given: Option<f64>| {
        if let Some(price) = given.filter(|price| !price.is_finite() || *price < 0.0) {
            let message = format!("`{price}` is no price; want a number that is not negative");
            problems.push(wrong(&format!("api.prices.{key}"), message));
        }
        given.unwrap_or(0.0)
    };
    Prices {
        currency: currency.into(),
        cpu_core_hour: price("cpu_core_hour", entry.cpu_core_hour),
        memory_gib_hour: price("memory_gib_hour", entry.memory_gib_hour),
        storage_gib_month: price("storage_gib_month", entry.storage_gib_month),
        load_balancer_hour: price("load_balancer_hour", entry.load_balancer_hour),
    }
}
