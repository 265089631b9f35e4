// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The readers know exactly the fields that the registry declares.

use std::collections::BTreeSet;
use weirgate_domain::{TABLES, parse};

/// Every table once, in the order of [`TABLES`], each with an unknown field.
const EVERY_TABLE: &str = r#"
qqqqqqqq = 1
version = 1
[circuits]
qqqqqqqq = 1
files = ["a.csv"]
[router.west]
qqqqqqqq = 1
role = "boundary"
[router.west.circuits]
qqqqqqqq = 1
sites = ["Hill"]
access = "access0"
[[link]]
qqqqqqqq = 1
between = ["west", "west"]
devices = ["a0", "b0"]
rate = "10mbit"
[class.rest]
qqqqqqqq = 1
behaviour = "DF"
share = "60%"
[customer.alfa]
qqqqqqqq = 1
router = "west"
device = "alfa0"
rate = "10mbit"
[[service]]
qqqqqqqq = 1
name = "books"
from = "alfa"
to = "alfa"
class = "rest"
rate = "1mbit"
"#;

#[test]
fn readers_know_what_is_declared() {
    let (_, problems) = parse(EVERY_TABLE);
    let found = weirgate_testing::known_fields(EVERY_TABLE, &problems);
    assert_eq!(found.len(), TABLES.len());
    for (known, table) in found.iter().zip(TABLES) {
        let rows = table.rows().into_iter();
        let declared: BTreeSet<String> = rows.map(|row| row.name.to_owned()).collect();
        assert_eq!(known, &declared, "{}", table.name);
    }
}
