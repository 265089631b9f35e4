// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any bytes as requests to `weirgate watch` and `weirgate probe --serve`, and as values of
//! their options: the first byte selects one.
//!
//! Besides "no panic", this must hold: a query is bounded, a request does not change when it is
//! written and read again, and an accepted URL names a host.

use weirgate_probe::{Bulk, Wanted};
use weirgate_watch::{Access, CircuitsQuery, Kind, Query, Receiver, target};

pub fn run(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(rest) else {
        return;
    };
    match first {
        b'q' => {
            if let Ok(query) = Query::parse(text) {
                planted(&query);
                assert!(query.series.len() <= 64 && query.from <= query.to);
                assert!(
                    query
                        .series
                        .iter()
                        .all(|name| name.len() <= weirgate_history::MAX_NAME)
                );
            }
        }
        b'c' => {
            if let Ok(query) = CircuitsQuery::parse(text) {
                let texts = [&query.device, &query.search, &query.name];
                assert!(texts.iter().all(|text| text.len() <= 60));
                assert!(query.from <= 10_000 && query.sites_from <= 10_000);
            }
        }
        b'w' => {
            if let Ok(wanted) = Wanted::read(text) {
                let again = Wanted::read(&wanted.to_string());
                assert_eq!(again.as_ref(), Ok(&wanted), "{wanted}");
            }
        }
        b'a' => {
            if let Err(wrong) = Access::parse(text) {
                assert!(!wrong.is_empty());
            }
        }
        b'b' => {
            if let Ok(bulk) = Bulk::parse(text) {
                assert!(!bulk.host().is_empty());
            }
        }
        b'r' => {
            let _ = Receiver::parse(Kind::RemoteWrite, text);
        }
        b't' => {
            if let Ok(target) = target(text) {
                assert!(target.dscp < 64 && !target.name.is_empty());
            }
        }
        _ => {}
    }
}

/// The planted mistake: a step with a last digit that no seed has.
#[cfg(feature = "planted")]
fn planted(query: &Query) {
    assert!(
        query.step % 10 != 7,
        "the planted mistake: a step that ends in 7"
    );
}

#[cfg(not(feature = "planted"))]
fn planted(_: &Query) {}
