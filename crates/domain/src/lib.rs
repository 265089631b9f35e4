// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A DiffServ domain: boundary and interior routers, the links between them, and the promises to
//! customers (RFC 2475).
//!
//! * [`parse`] reads a domain file; all problems come in one run.
//! * [`Domain::paths`] gives the path of each service's packets.
//! * [`policy_text`] writes the policy of one port of a router,
//!   [`router_policies`] each router's.
//! * [`check`] adds up the promises on every port, and derives the worst case of
//!   delay and its variation for each service.
//! * [`Verification`] compares measurements with the promises.
//! * [`History`] keeps what verifications found, and judges a month.
//!
//! This crate accesses neither files nor kernels. Crates `policy` and `compile` process the
//! policies that it writes like any other, so that a domain promises exactly what its routers
//! do.
//!
//! ```
//! let text = r#"
//!     version = 1
//!     [router.hall]
//!     role = "boundary"
//!     [class.voice]
//!     behaviour = "EF"
//!     share = "20%"
//!     [class.rest]
//!     behaviour = "DF"
//!     share = "80%"
//!     [customer.office]
//!     router = "hall"
//!     device = "office0"
//!     rate = "10mbit"
//!     [customer.exchange]
//!     router = "hall"
//!     device = "exchange0"
//!     rate = "10mbit"
//!     [[service]]
//!     name = "telephones"
//!     from = "office"
//!     to = "exchange"
//!     class = "voice"
//!     rate = "3mbit"
//! "#;
//! let (domain, problems) = weirgate_domain::parse(text);
//! assert!(problems.is_empty(), "{problems:?}");
//! let check = weirgate_domain::check(&domain.expect("it is right"));
//! // A class of 20 % of 10 Mbit/s does not carry 3 Mbit/s.
//! assert!(check.findings[0].what.contains("promised in `voice`"));
//! ```

mod audit;
mod behaviour;
mod calculus;
mod check;
mod codes;
mod contract;
mod edge;
mod finding;
mod mend;
mod model;
mod node;
mod parse;
mod report;
mod route;
mod scope;
mod together;
mod verified;
mod verify;

pub use audit::{Audit, Break, Condition, HOLD, History, Judgement, MOST_RUNS, Run};
pub use behaviour::Behaviour;
pub use calculus::{Delay, Hop};
pub use check::{Check, Outcome, check};
pub use codes::CODES;
pub use contract::{Contract, contracts};
pub use edge::conditioners;
pub use finding::{Finding, Load};
pub use model::{
    Circuits, CircuitsOf, Class, Customer, Domain, Link, Position, Role, Router, Select, Service,
};
pub use node::{NodeError, policy_text};
pub use parse::{TABLES, parse};
pub use report::Report;
pub use route::{Path, Port, PortId};
pub use together::{DIVIDER, divide, router_policies, together};
pub use verify::{
    Comparison, Fate, Found, Measured, Quantity, Since, State, Verification, code_point,
    comparisons,
};
