// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the kernel's counters every second, stores their history, and serves both to browsers and
//! monitoring systems. It changes nothing.
//!
//! Start at [`serve`]. A [`Looker`] turns the kernel's answers into
//! [`Object`]s; a [`Differ`] turns those into changes since the last second; the changes go to the
//! history (crate `history`), to the page and to OpenMetrics. The caller supplies the names of
//! classes and their promises ([`Legend`]), which the kernel does not know.
//!
//! Counters of devices, qdiscs and classes need no privilege. Those of rules and
//! connections need CAP_NET_ADMIN (nfnetlink_rcv, net/netfilter/nfnetlink.c).
//! Measuring passing packets needs CAP_BPF and CAP_PERFMON. Counters that are not permitted are
//! left out.
//!
//! ```
//! use weirgate_watch::{Differ, Number, Object, Sort, openmetrics};
//!
//! let class = |bytes| Object {
//!     sort: Sort::Class,
//!     identity: "1".to_owned(),
//!     begins: false,
//!     labels: vec![("class", "voice".to_owned())],
//!     numbers: vec![(Number::ClassSentBytes, bytes)],
//! };
//! let mut differ = Differ::default();
//! // One look alone says nothing about a counter.
//! assert_eq!(differ.step(vec![class(1000)])[0].value(Number::ClassSentBytes), None);
//! let changes = differ.step(vec![class(1500)]);
//! assert_eq!(changes[0].value(Number::ClassSentBytes), Some(500));
//! let text = openmetrics(&changes, &[]);
//! assert!(text.contains("weirgate_class_sent_bytes_total{class=\"voice\"} 1500\n"));
//! ```

mod channel;
mod circuits;
mod error;
mod export;
mod file;
mod legend;
mod lock;
mod look;
mod object;
mod serve;
mod settings;
mod sorter;
mod sources;
mod step;
mod storage;
mod stream;
mod tls;
mod web;

pub use circuits::CircuitsLook;
pub use circuits::json::{called, delay_ms, node_json};
pub use circuits::query::{CircuitsOrder, CircuitsQuery};
pub use error::WatchError;
pub use export::openmetrics::{Own, openmetrics};
pub use export::post::{Failed, deliver};
pub use export::push::Sending;
pub use export::receiver::{Kind, Receiver};
pub use file::read_text;
pub use legend::{ClassLegend, Legend, RuleLegend};
pub use look::Looker;
pub use look::behaviour::HostAlert;
pub use look::connections::Flow;
pub use look::link::LineNow;
pub use look::probe::{Target, target};
pub use look::site_links::SiteLink;
pub use object::{METRICS, Metric, Number, Object, Sort};
pub use serve::config::{Config, EndWeb, Listen};
pub use serve::serve;
pub use sorter::{ByPolicy, Sorted, Sorter};
pub use sources::Sources;
pub use step::diff::{Change, Differ};
pub use step::now::now;
pub use step::promise::{By, JudgedPromise, Promise, Wait, judge};
pub use step::{Step, Steps};
pub use storage::FileStorage;
pub use tls::Tls;
pub use web::access::{Access, password, token};
pub use web::query::Query;
pub use web::web;
