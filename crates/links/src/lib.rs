// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several links of one site: the file that says how they are used together, the state machine that
//! decides from replies and traffic which are up, and the routing that follows.
//!
//! Nothing here touches a kernel or a clock. Each link's own policy says what it carries and
//! promises; this file only says who uses which link.
//!
//! ```
//! use std::collections::BTreeMap;
//! use weirgate_links::{parse, routing};
//! use weirgate_state::{IpVersion, LinkPath};
//!
//! let text = r#"
//! version = 1
//!
//! [[link]]
//! device = "wan0"
//! gateway = "192.0.2.1"
//!
//! [[link]]
//! device = "wan1"
//! gateway = "198.51.100.1"
//! "#;
//! let links = parse(text).0.expect("no mistake");
//! let path = |link: &weirgate_links::Link| LinkPath {
//!     up: true,
//!     hops: BTreeMap::from([(IpVersion::V4, link.gateways.first().copied())]),
//!     ..LinkPath::default()
//! };
//! let paths: Vec<LinkPath> = links.links.iter().map(path).collect();
//! // The first is given up: the second has all.
//! let wanted = routing(&links, &[false, true], &paths);
//! let last = wanted.rules.last().expect("rules of IPv4");
//! assert_eq!(last.table, links.table(1));
//! ```

mod codes;
mod health;
mod model;
mod parse;
mod traffic;
mod wanted;

pub use codes::CODES;
pub use health::{Health, Timing};
pub use model::{Link, Links, Rule, Use};
pub use parse::parse;
pub use traffic::{Counted, Sign, Traffic};
pub use wanted::routing;
