// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the table of time zones from the tz database of jiff's release: the names, and when
//! the clocks of each change. The database itself would take ten times as much of a router's
//! program, for years that no schedule asks about.

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::error::Error;
use std::fmt::Write as _;
use std::{env, fs, path::PathBuf};

/// Before this time a zone counts as it does then: 1 January 2026, UTC.
const FROM: i64 = 1_767_225_600;
/// From here on it stays as it is then: 1 January 2051, UTC. Nobody knows the
/// laws of that time, and each year costs a list two numbers.
const TO: i64 = 2_556_144_000;

/// The times in seconds since 1970 at which the zone's offset changes, each
/// with the seconds ahead of UTC from then on. The first is that of before.
fn changes(zone: &TimeZone) -> Result<Vec<(i64, i32)>, jiff::Error> {
    let start = Timestamp::from_second(FROM)?;
    let mut ahead = zone.to_offset(start).seconds();
    let mut all = vec![(0, ahead)];
    for change in zone.following(start) {
        let (at, next) = (change.timestamp().as_second(), change.offset().seconds());
        if at >= TO {
            break;
        }
        if next != ahead {
            all.push((at, next));
            ahead = next;
        }
    }
    Ok(all)
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let database = TimeZoneDatabase::bundled();
    let mut laws = Vec::new();
    let mut zones = String::new();
    for name in database.available() {
        let law = changes(&database.get(name.as_str())?)?;
        let index = laws.iter().position(|known| *known == law);
        let index = index.unwrap_or_else(|| {
            laws.push(law);
            laws.len() - 1
        });
        writeln!(zones, "    ({:?}, {index}),", name.as_str())?;
    }
    let mut text = format!("pub(super) static ZONES: &[(&str, u8)] = &[\n{zones}];\n\n");
    text.push_str("pub(super) static LAWS: &[&[(u32, i32)]] = &[\n");
    for law in laws {
        writeln!(text, "    &{law:?},")?;
    }
    text.push_str("];\n");
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("zones.rs"), text)?;
    Ok(())
}
