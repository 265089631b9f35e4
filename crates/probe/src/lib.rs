// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measuring a real link from its ends.
//!
//! * [`infer`](infer()) says what times tell of a link layer.
//! * [`Server`] is the cooperating end, [`Client`] talks to it, [`measure`]
//!   (measure()) measures a direction with it.
//!
//! * [`remote`](remote()) measures with hosts that merely answer: a
//!   [`Reflector`] (ICMP, irtt) tells round trips, a [`Load`] (iperf3, a file of
//!   a web server) fills the line.
//!
//! * [`play`](play()) plays a [`Sequence`] of transfers and echoes towards a
//!   [`BulkServer`].
//!
//! Nobody is contacted but the address that the caller names. Start reading at
//! `infer`; `message` is all that crosses the network.

mod infer;
mod remote;
mod sequence;
mod train;

pub use infer::{Cut, Fit, Inference, Timed, Timing, infer, sizes};
pub use remote::bulk::Bulk;
pub use remote::capture::Capture;
pub use remote::echo::{Echo, Icmp, Reflector};
pub use remote::iperf3::IPERF3_PORT;
pub use remote::irtt::{IRTT_PORT, Irtt};
pub use remote::{
    Echoes, Load, Loaded, Mtu, Remote, RemoteError, Stage, Transfer, largest_packet, remote,
};
pub use sequence::datagram::{Delays, Received};
pub use sequence::serve::BulkServer;
pub use sequence::serve::ports::PORTS_BESIDE;
pub use sequence::wanted::{Exchange, Manner, Stream, Wanted};
pub use sequence::{
    Counted, Doing, Ping, Pinged, Play, Played, Sequence, Short, Stop, Transferred, play,
};
pub use train::client::{Client, ProbeError, Way};
pub use train::measure::{Direction, FULL, Progress, measure};
pub use train::message::{COOKIE, GREETING, Message, SHORTEST, Seen, Train};
pub use train::serve::Server;
pub use train::{Arrival, seen};
