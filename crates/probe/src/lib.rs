// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures a real link from its ends.
//!
//! * [`infer`](infer()) derives a link layer from times.
//! * [`Server`] is the cooperating end, [`Client`] talks to it, and [`measure`]
//!   (measure()) measures a direction with it.
//! * [`remote`](remote()) measures with hosts that only reply: a [`Reflector`]
//!   (ICMP, irtt) tells round trips, a [`Load`] (iperf3, a file of a web server)
//!   fills the line.
//! * [`play`](play()) plays a [`Sequence`] of transfers and echoes towards a
//!   [`BulkServer`].
//!
//! Only the address that the caller names is contacted. Data of a peer are read once, with bounds
//! for each number ([`OutOfRange`]). Start reading at `infer`; `message` has everything that a
//! [`Client`] exchanges over the network.
//!
//! ```
//! use weirgate_probe::{Cut, Timed, Timing, infer, sizes};
//!
//! // A line of 1 Mbit/s that sends ATM cells, with 28 bytes of overhead.
//! let times: Vec<Timed> = sizes()
//!     .map(|size| Timed {
//!         size,
//!         time: f64::from((size + 28).div_ceil(48) * 53) * 8.0 / 1e6,
//!         error: 1e-6,
//!     })
//!     .collect();
//! let found = infer(&times, Timing::Busy);
//! assert_eq!(found.cut, Some(Cut::Cells));
//! assert_eq!(found.overhead(), Some(28));
//! ```

mod bound;
mod datagrams;
mod infer;
mod patient;
mod remote;
mod sequence;
mod source_limit;
mod train;

pub use bound::OutOfRange;
pub use datagrams::Datagrams;
pub use infer::{Cut, Fit, Inference, Timed, Timing, infer, sizes};
pub use patient::Talk;
pub use remote::bulk::Bulk;
pub use remote::capture::Capture;
pub use remote::echo::{Answer, Echo, Icmp, Reflector, Sent};
pub use remote::error::RemoteError;
pub use remote::iperf3::{IPERF3_PORT, Results, converse};
pub use remote::irtt::{IRTT_PORT, Irtt, granted};
pub use remote::path::{Mtu, largest_packet};
pub use remote::transfer::Transfer;
pub use remote::{Echoes, Load, Loaded, Remote, Stage, remote};
pub use sequence::datagram::{DatagramReport, Delays, Received};
pub use sequence::outcome::{Counted, Pinged, Played, Transferred};
pub use sequence::plan::{Doing, Ping, Play, Sequence, Short};
pub use sequence::play;
pub use sequence::serve::BulkServer;
pub use sequence::serve::ports::PORTS_BESIDE;
pub use sequence::stop::Stop;
pub use sequence::wanted::{Exchange, Manner, Stream, Wanted};
pub use train::client::{Client, ProbeError};
pub use train::measure::{FULL, MeasuredLine, Progress, measure};
pub use train::message::{COOKIE, GREETING, Message, SHORTEST, Seen, Train};
pub use train::serve::Server;
pub use train::{Arrival, Arrivals, seen};
pub use weirgate_units::Direction;
