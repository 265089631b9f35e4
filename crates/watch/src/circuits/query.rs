// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queries of circuits: the part of the URL after `?`.

use crate::web::query::{LONGEST_QUERY, decoded};

/// The longest name of a device, site or circuit in bytes.
const LONGEST_NAME: usize = 60;
/// The largest number of rows that can be skipped.
const MOST_SKIPPED: usize = 10_000;

/// The order of rows, the largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CircuitsOrder {
    /// Bytes sent since the previous look.
    #[default]
    Rate,
    /// Packets sent since the previous look.
    Packets,
    /// Packets dropped since the previous look.
    Dropped,
    /// Packets marked since the previous look.
    Marked,
    /// Bytes queued.
    Queued,
    /// The time that the queued bytes take at the ceiling.
    Delay,
    /// The part of the ceiling that was used since the previous look.
    Use,
}

const ORDERS: [(&str, CircuitsOrder); 7] = [
    ("rate", CircuitsOrder::Rate),
    ("packets", CircuitsOrder::Packets),
    ("dropped", CircuitsOrder::Dropped),
    ("marked", CircuitsOrder::Marked),
    ("queued", CircuitsOrder::Queued),
    ("delay", CircuitsOrder::Delay),
    ("use", CircuitsOrder::Use),
];

/// A query of a device's circuits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CircuitsQuery {
    /// The device; if empty, the first one.
    pub device: String,
    /// The text to search for; empty for none.
    pub search: String,
    /// A single site or circuit; for a site, its children are listed.
    pub name: String,
    /// The order of the rows.
    pub order: CircuitsOrder,
    /// How many circuits to skip.
    pub from: usize,
    /// How many sites to skip.
    pub sites_from: usize,
}

impl CircuitsQuery {
    /// Parses `device`, `q`, `name`, `order`, `from` and `sites_from`. An error describes the
    /// problem.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST_QUERY {
            return Err(format!("the query has more than {LONGEST_QUERY} bytes"));
        }
        let mut query = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let text = || decoded(name, value, LONGEST_NAME);
            let number = || {
                let number = value.parse().ok().filter(|number| *number <= MOST_SKIPPED);
                number.ok_or_else(|| format!("`{name}` takes a number of at most {MOST_SKIPPED}"))
            };
            match name {
                "device" => query.device = text()?,
                "q" => text()?.trim().clone_into(&mut query.search),
                "name" => query.name = text()?,
                "order" => query.order = order(value)?,
                "from" => query.from = number()?,
                "sites_from" => query.sites_from = number()?,
                _ => {
                    return Err(String::from(
                        "a query has device, q, name, order, from and sites_from",
                    ));
                }
            }
        }
        Ok(query)
    }
}

fn order(value: &str) -> Result<CircuitsOrder, String> {
    let known = ORDERS.iter().find(|(word, _)| *word == value);
    let words = || ORDERS.map(|(word, _)| word).join(", ");
    known
        .map(|(_, order)| *order)
        .ok_or_else(|| format!("`order` is one of {}", words()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn queries_are_read_or_refused() {
        let text = "device=eth0&q=+AP%207%26&name=1042&order=delay&from=50&sites_from=100";
        let query = CircuitsQuery::parse(text).unwrap();
        let expected = CircuitsQuery {
            device: String::from("eth0"),
            search: String::from("AP 7&"),
            name: String::from("1042"),
            order: CircuitsOrder::Delay,
            from: 50,
            sites_from: 100,
        };
        assert_eq!(query, expected);
        assert_eq!(CircuitsQuery::parse(""), Ok(CircuitsQuery::default()));
        for wrong in [
            "order=name",
            "from=-1",
            "from=10001",
            "sites_from=x",
            "q=%ff",
            "q=%4",
            "delete=1",
            "series=a",
        ] {
            CircuitsQuery::parse(wrong).unwrap_err();
        }
        CircuitsQuery::parse(&format!("q={}", "x".repeat(LONGEST_NAME + 1))).unwrap_err();
        CircuitsQuery::parse(&"&".repeat(LONGEST_QUERY + 1)).unwrap_err();
    }

    proptest! {
        #[test]
        fn any_query_does_no_harm(text in "\\PC{0,200}") {
            let _ = CircuitsQuery::parse(&text);
        }
    }
}
