// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What flows and hosts are, judged by their traffic and not by their ports.
//!
//! [`FlowJudge`] gets the counters of one flow at successive times, and says its [`Kind`].
//! [`Flows`] has one such judge for each flow of a table. [`Hosts`] gets the connections that inside
//! hosts opened, and says which host scans, or opens far more connections than programs do.
//! Everything has bounded memory, because strangers choose how many connections there are.
//!
//! Counters do not have the times of packets. So "steady" means that one reading is like the next
//! one, and nothing is known of gaps that are shorter than the time between two readings.
//!
//! ```
//! use weirgate_behaviour::{Counted, FlowJudge, Kind};
//!
//! // G.711 has 50 packets a second of 200 bytes each way.
//! let mut judge = FlowJudge::default();
//! for second in 0..20 {
//!     let carried = Counted { packets: 50 * second, bytes: 200 * 50 * second };
//!     judge.read(1000 * second, [carried, carried]);
//! }
//! assert_eq!(judge.kind(), Some(Kind::Call));
//! ```

mod counting;
mod flow;
mod flows;
mod host;
mod hosts;

pub use flow::{Counted, FlowJudge, Kind};
pub use flows::Flows;
pub use host::Alert;
pub use hosts::{Alarm, Attempt, Hosts, Turn};
