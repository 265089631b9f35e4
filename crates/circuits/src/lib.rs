// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The circuits of a provider as data: which packets belong to which subscriber, at which rate,
//! below which site.
//!
//! The crate reads four kinds of file, in any number and order. It recognises the kind by the
//! content.
//!
//! * `ShapedDevices.csv` of LibreQoS: a line for each device of a circuit.
//! * `network.json` of LibreQoS: the tree of sites, with their rates.
//! * Plans: a CSV file whose first column is `Plan`. A circuit that names a plan needs no rates
//!   of its own.
//! * `lqos_overrides.json` of LibreQoS: additional devices, and changes to devices, circuits and
//!   sites.
//!
//! One run reports all errors of all files, each with its line and column. A [`List`] results
//! only from files without errors. [`rows`] converts it to the rows that the engine reads, so
//! that nodes keep their row numbers from one list to the next.
//!
//! ```
//! use weirgate_circuits::{File, read};
//!
//! let devices = "\
//! Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,\
//! Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment
//! 1,Main St. 1,1,router,,,100.64.0.1,2001:db8:0:100::/56,25,5,155,20,
//! 2,Main St. 2,2,router,,,100.64.0.300,,25,5,105,fast,
//! ";
//! let reading = read(&[File { name: "ShapedDevices.csv", text: devices }]);
//! assert!(reading.list.is_none());
//! let reports: Vec<String> = reading.problems.iter().map(ToString::to_string).collect();
//! assert!(reports[0].starts_with("ShapedDevices.csv:3:1: warning[L202]"), "{reports:?}");
//! assert!(reports[1].starts_with("ShapedDevices.csv:3:25: error[L005]"), "{reports:?}");
//! assert!(reports[2].starts_with("ShapedDevices.csv:3:48: error[L006]"), "{reports:?}");
//! ```

mod check;
mod codes;
mod divided;
mod files;
mod hash;
pub mod kept;
mod keys;
mod label;
mod model;
mod one;
pub mod queues;
mod request;
pub mod rows;
mod terms;

pub use codes::CODES;
pub use divided::{Listed, Several, Share, read_several};
pub use files::rate::of_device as rate_of_device;
pub use files::{File, Located};
pub use hash::{Known, Mixed};
pub use keys::{Key, KeyKind, Mac, Prefix, Session, Vlan};
pub use model::{Circuit, List, Pair, Plan, Quota, SUSPENDED, Site, Terms, Times};
pub use one::{Asked, One};
pub use request::{Named, Request, Switch, Wanted};
pub use terms::{Month, TermsContext, holds};
pub use weirgate_units::Direction;

use files::collect::collected;
use files::located::Mistakes;
use weirgate_document::Severity;

/// The result of reading the files of one list.
#[derive(Debug)]
pub struct Reading {
    /// The list; `None` if any problem is an error.
    pub list: Option<List>,
    /// All problems, sorted by file and line.
    pub problems: Vec<Located>,
}

/// Reads the files of one list.
pub fn read(files: &[File<'_>]) -> Reading {
    let mistakes = Mistakes::new(files);
    let all: Vec<usize> = (0..files.len()).collect();
    let list = check::check(collected(files, &all, &mistakes), &mistakes);
    let problems = mistakes.located();
    Reading {
        list: Some(list).filter(|_| !any_wrong(&problems)),
        problems,
    }
}

fn any_wrong(problems: &[Located]) -> bool {
    let mut severities = problems.iter().map(|one| one.problem.severity);
    severities.any(|severity| severity == Severity::Error)
}
