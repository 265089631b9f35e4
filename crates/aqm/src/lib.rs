// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The queueing disciplines of `aqm/`, compiled for this machine: the native host, one of two.
//!
//! The same C code runs in the kernel, into which crate bpf loads it. Here it is a library for
//! tests, simulations and replays, without its own clock, random numbers or packets. The caller
//! of [`Queue`] supplies time and random numbers, so that the same calls always give the same
//! verdicts.
//!
//! [`Discipline`] also has the names, units, defaults and ranges of all parameters and statistics,
//! for both hosts.
//!
//! Start reading at `aqm/include/aqm.h` and `aqm/droptail.c`.
//!
//! ```
//! use weirgate_aqm::{Action, Discipline, Link, Packet, Queue, Settings};
//!
//! let droptail = Discipline::named("droptail").expect("one of the kit");
//! let settings = Settings::new(droptail).with("limit_packets", 2)?;
//! let link = Link { rate_bytes_s: 1_250_000, mtu_bytes: 1500, ..Link::default() };
//! let mut queue = Queue::new(&settings, &link);
//! for (name, action) in [("a", Action::Pass), ("b", Action::Pass), ("c", Action::Drop)] {
//!     let packet = Packet { len: 1500, wire: link.wire_bytes(1500), ..Packet::default() };
//!     assert_eq!(queue.arrive(&packet, 0, name).verdict.action, action);
//! }
//! let (_, _, first) = queue.depart(1_000_000).sent.expect("two packets wait");
//! assert_eq!(first, "a");
//! # Ok::<(), weirgate_aqm::SettingsError>(())
//! ```

mod acks;
mod chance;
mod discipline;
mod engine;
mod ffi;
mod file;
mod follow;
mod inbound;
mod installed;
mod meter;
mod mirror;
mod own;
mod presets;
mod queue;
mod record;
mod replay;
mod seal;
mod settings;
mod shaper;
mod text;

pub use acks::{AckFlow, AckSegment, AckStep, AcksKept};
pub use chance::Chance;
pub use discipline::{BYTES, Discipline, FlowInput, Layout, Row, WIRE_BYTES, reasons};
pub use engine::{
    CREDIT_NS, Engine, EngineArrival, EngineDeparture, EngineError, EngineLine, EngineMirror,
    EngineRecord, EngineSize, EngineTaken, IDLE_CREDIT_NS, LEAST_QUANTUM, MEMBERS, NodeCounts,
    NodeRow, NodeRule, ROUND_NS, SLOW_TICKS, TICK_NS, late_ns,
};
pub use ffi::{Link, Packet, SLOT_BYTES};
pub use file::{About, FileError, Recording, Writer};
pub use inbound::share::{ShareMember, ShareSum, WHOLE_SHARE};
pub use inbound::udp::{Udp, UdpRule, UdpState, UdpVerdict};
pub use inbound::virtual_queue::VirtualQueue;
pub use inbound::window::{Window, WindowAlgorithm, WindowRule};
pub use installed::{INSTALLED, scan};
pub use meter::{Colour, Meter, MeterError, MeterKind, MeterParams};
pub use mirror::{Mirror, MirrorError, Taken};
pub use own::{OpenError, shaper_number};
pub use presets::{PRESET, PRESETS, Preset};
pub use queue::{Action, Arrival, Departure, Queue, Verdict};
pub use record::{EventKind, RECORD_BYTES, Record};
pub use replay::{Event, Outcome, What, replay};
pub use seal::{SealError, check as check_seal, seal};
pub use settings::{ONLY_MARKS, Settings, SettingsError};
pub use shaper::{Shaper, ShaperDeparture, ShaperRule};

/// The arithmetic that all disciplines share, exposed for tests.
#[doc(hidden)]
pub mod arithmetic;
