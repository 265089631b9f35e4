// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When a zone's clock has which offset from UTC, by the tz database that came
//! with this version.

use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;
use std::collections::BTreeMap;
use weirgate_document::nearest;

/// Before this moment a zone counts as it does then: 1 January 2026, UTC.
const FROM: i64 = 1_767_225_600;
/// From here on it stays as it is then: 1 January 2051, UTC. Nobody knows the
/// laws of that time, and each year costs a list two numbers.
const TO: i64 = 2_556_144_000;
/// Later than any moment that a kernel's clock says: about the year 2255.
const ALWAYS: u64 = 9_000_000_000;

/// Seconds east of Greenwich, and when a zone has them: moments from and to.
type Offset = (i64, Vec<(u64, u64)>);

/// Seconds ahead of UTC, each with the moments at which it is so, in seconds
/// since 1970 from..=to; none where it is always. The last second of one is the
/// first of the next.
///
/// # Errors
///
/// The most similar name, if one is, where no zone has this name.
pub(crate) fn offsets(zone: &str) -> Result<Vec<Offset>, Option<String>> {
    let all = TimeZoneDatabase::bundled();
    let (Ok(found), Ok(start)) = (all.get(zone), Timestamp::from_second(FROM)) else {
        let names: Vec<String> = all.available().map(|name| name.to_string()).collect();
        return Err(nearest(zone, names.iter().map(String::as_str)).map(str::to_owned));
    };
    let mut seasons: BTreeMap<i64, Vec<(u64, u64)>> = BTreeMap::new();
    let mut ahead = i64::from(found.to_offset(start).seconds());
    let mut since = 0;
    for change in found.following(start) {
        let at = change.timestamp().as_second();
        if at >= TO {
            break;
        }
        let next = i64::from(change.offset().seconds());
        if next != ahead {
            let at = at.unsigned_abs();
            seasons.entry(ahead).or_default().push((since, at));
            (ahead, since) = (next, at);
        }
    }
    if since == 0 {
        return Ok(vec![(ahead, Vec::new())]);
    }
    seasons.entry(ahead).or_default().push((since, ALWAYS));
    Ok(seasons.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summer_time_begins_and_ends_when_the_law_says() {
        let found = offsets("Europe/Copenhagen").unwrap();
        let ahead: Vec<i64> = found.iter().map(|(ahead, _)| *ahead).collect();
        assert_eq!(ahead, [3600, 7200]);
        // 29 March and 25 October 2026, 01:00 UTC.
        assert_eq!(found[0].1[0], (0, 1_774_746_000));
        assert_eq!(found[1].1[0], (1_774_746_000, 1_792_890_000));
        // Winter comes first and last, 25 summers between.
        assert_eq!((found[0].1.len(), found[1].1.len()), (26, 25));
        assert_eq!(found[0].1[25].1, ALWAYS);
        // Southern summers, half an hour.
        let island = offsets("Australia/Lord_Howe").unwrap();
        assert_eq!((island[0].0, island[1].0), (37_800, 39_600));
    }

    #[test]
    fn a_zone_without_summer_time_is_one_offset() {
        assert_eq!(offsets("Asia/Tokyo"), Ok(vec![(32_400, Vec::new())]));
        assert_eq!(
            offsets("Europe/Copenhage"),
            Err(Some("Europe/Copenhagen".to_owned()))
        );
        assert_eq!(offsets("Moon"), Err(None));
    }
}
