//! Until when a rule applies.

use jiff::{Timestamp, ToSpan as _, civil::Date, tz::TimeZone};

/// The first moment at which a rule no longer applies. A date counts until its day is over in UTC.
pub(super) fn parse(text: &str) -> Result<Timestamp, &'static str> {
    const WRONG: &str = "neither a date (2027-01-31) nor an RFC 3339 time (2027-01-31T12:00:00Z)";
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    // Jiff would read the date out of a time without an offset, and so move it.
    if text.len() != "2027-01-31".len() {
        return Err(WRONG);
    }
    let day = text.parse::<Date>().map_err(|_| WRONG)?;
    let next = day.checked_add(1.day()).and_then(|next| next.to_zoned(TimeZone::UTC));
    next.map(|next| next.timestamp()).map_err(|_| WRONG)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_date_counts_until_its_day_is_over() {
        assert_eq!(parse("2027-01-01").unwrap().to_string(), "2027-01-02T00:00:00Z");
        assert_eq!(parse("2027-01-01T12:00:00+01:00").unwrap().to_string(), "2027-01-01T11:00:00Z");
        for text in ["", "soon", "2027-02-30", "2027-01-01T12:00:00", "9999-12-31T"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
