//! Quantities in the notations of Kubernetes.

use drift_exporter::diff::Quantity;

#[track_caller]
fn check(written: &str, canonical: &str) {
    assert_eq!(Quantity::parse(written).map(|q| q.to_string()).as_deref(), Ok(canonical), "{written}");
}

#[test]
fn quantities_have_the_canonical_form_of_the_server() {
    for (written, canonical) in include_str!("../../vectors/quantities.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .filter(|(_, canonical)| *canonical != "error")
    {
        check(written, canonical);
    }
}

#[test]
fn quantities_that_the_server_rejects_are_invalid() {
    for text in
        include_str!("../../vectors/quantities.txt").lines().filter_map(|line| line.strip_suffix(" error"))
    {
        assert!(Quantity::parse(text).is_err(), "{text}");
    }
    assert!(Quantity::parse("").is_err());
}

#[test]
fn extreme_exponents_do_not_overflow() {
    for text in ["1.5e-2147483648", "1e2147483647", "1e-2147483648", "0.1e2147483647", "1e99999999999"] {
        let _ = Quantity::parse(text);
    }
    assert_eq!(Quantity::parse("1000E").map(|q| q.millis()), Ok(u64::MAX));
}

#[test]
fn resource_quantities_are_compared_in_thousandths() {
    for (one, other, same) in [
        ("0.0001", "1m", true),
        ("1Gi", "1024Mi", true),
        ("1m", "2m", false),
        ("4Ei", "5Ei", false),
        ("x", "x", false),
    ] {
        assert_eq!(Quantity::are_same_in_thousandths(one, other), same, "{one} {other}");
    }
}

#[test]
fn millis_and_units_are_rounded_up() {
    assert_eq!(Quantity::parse("250m").map(|q| q.millis()), Ok(250));
    assert_eq!(Quantity::parse("0.1m").map(|q| q.millis()), Ok(1));
    assert_eq!(Quantity::parse("1.5Gi").map(|q| q.units()), Ok(1_610_612_736));
    assert_eq!(Quantity::parse("-1").map(|q| q.units()), Ok(0));
}
