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

mod beside;
mod bulk;
mod bulk_serve;
mod capture;
mod client;
mod connected;
mod datagram;
mod datagram_serve;
mod echo;
mod infer;
mod iperf3;
mod irtt;
mod measure;
mod message;
mod pace;
mod pinger;
mod remote;
mod runner;
mod sequence;
mod serve;
mod train;
mod wanted;

pub use beside::PORTS_BESIDE;
pub use bulk::Bulk;
pub use bulk_serve::BulkServer;
pub use capture::Capture;
pub use client::{Client, ProbeError, Way};
pub use datagram::{Delays, Received};
pub use echo::{Echo, Icmp, Reflector};
pub use infer::{Cut, Fit, Inference, Timed, Timing, infer, sizes};
pub use iperf3::IPERF3_PORT;
pub use irtt::{IRTT_PORT, Irtt};
pub use measure::{Direction, FULL, Progress, measure};
pub use message::{COOKIE, GREETING, Message, SHORTEST, Seen, Train};
pub use remote::{
    Echoes, Load, Loaded, Mtu, Remote, RemoteError, Stage, Transfer, largest_packet, remote,
};
pub use sequence::{
    Counted, Doing, Ping, Pinged, Play, Played, Sequence, Short, Stop, Transferred, play,
};
pub use serve::Server;
pub use train::{Arrival, seen};
pub use wanted::{Exchange, Manner, Stream, Wanted};
