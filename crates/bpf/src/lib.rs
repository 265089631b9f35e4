// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads the disciplines of `aqm/` into the running kernel as qdiscs. No other crate loads BPF
//! programs.
//!
//! [`Qdisc::load`] registers a discipline as the qdisc kind `weir_NAME`, which netlink and tc
//! then accept like any other. It can be the root of a device or a child of mq, and it has no
//! netlink options. [`Qdisc::set`] sets parameters, link and rate for an [`AttachPoint`], before
//! or after a qdisc exists there. [`Qdisc::instances`] reads state and statistics by name.
//!
//! Crate `kernel` attaches filters to a device's hook qdisc, by netlink. This crate attaches
//! programs by tcx, most of which a pin holds:
//! - Those of a qdisc find inside hosts and circuits, and make marks ([`Qdisc::mark`]).
//! - A discipline at ingress works on a virtual queue.
//! - Filters are attached by tcx if the hook qdisc belongs to another program.
//! - A program of TCP Prague turns its packets into ECT(1) ([`Prague::attach`]).
//!
//! The programs of a device's hooks, and of tracepoints, are:
//! - [`Payload`] looks for signatures in payloads.
//! - [`Filter`] polices arriving packets to a rate.
//! - [`WindowControl`] sets the receive windows of leaving segments.
//! - [`UdpControl`] polices streams of datagrams.
//! - [`Condition`] is a traffic conditioner.
//! - [`Order`] keeps a connection's packets in order when it changes class.
//! - [`Passive`] measures passing packets, and changes nothing.
//!
//! [`Prague`] is a congestion control of TCP.
//!
//! Loading a program needs root and a kernel with `CONFIG_NET_SCH_BPF`, so this example
//! is compiled but not run:
//!
//! ```no_run
//! use weirgate_aqm::{Discipline, Link, Settings};
//! use weirgate_bpf::{AttachPoint, Qdisc, Setup};
//!
//! let codel = Discipline::named("codel").expect("one of the kit");
//! let qdisc = Qdisc::load(codel)?;
//! assert_eq!(qdisc.kind(), "weir_codel");
//! let setup = Setup {
//!     settings: Settings::new(codel).with("ecn", 1)?,
//!     link: Link::default(),
//!     gate_bytes_s: 0,
//! };
//! // The device of number 2, whether it has such a qdisc already or not.
//! qdisc.set(AttachPoint::root(2)?, &setup)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The compiled programs are part of this crate, and anyone may list them:
//!
//! ```
//! let mut programs = weirgate_bpf::programs();
//! assert!(programs.any(|(name, object)| name == "codel" && object.starts_with(b"\x7fELF")));
//! ```
//!
//! Start reading at `bpf/qdisc/qdisc.bpf.h`.

mod bench;
mod error;
mod hooks;
mod layout;
mod line;
mod maps;
mod middlebox;
mod prague;
mod present;
mod programs;
mod qdisc;
mod trace;

pub use bench::{Circuits, Copies, Least, Sender, Spent, Timed};
pub use error::BpfError;
pub use hooks::condition::{Condition, ConditionCount, ConditionMaps, ConditionRecord};
pub use hooks::datagrams::{UdpControl, UdpMaps, UdpStream};
pub use hooks::order::{Order, OrderTotals};
pub use hooks::payload::Payload;
pub use hooks::virtual_queue::{Filter, FilterFlow, FilterMaps, FilterSetup, FilterState};
pub use hooks::window::{WindowConnection, WindowControl, WindowMaps, WindowTotals};
pub use hooks::{
    FoundFilter, IngressAttachment, Loader, TcxProgram, filter_name, hold as retain_program,
    read as read_program, readdress as readdress_program, update as update_program,
};
pub use line::{LineEmulator, LineFraming, LineImpairments, LineRate, LineRecord, LineSide};
pub use middlebox::{Middlebox, MiddleboxCount};
pub use prague::{Prague, PragueState};
pub use present::{HAS_PROGRAMS, most_capabilities};
pub use programs::{
    Attached, Cost, Object, Objects, Refused, Registered, kit_number, objects, programs, register,
    source_number, sources, verify,
};
pub use qdisc::attach_point::AttachPoint;
pub use qdisc::circuits::{
    CircuitReader, CircuitTree, CircuitsChange, CircuitsError, CircuitsNode, CircuitsRow,
    CircuitsSize,
};
pub use qdisc::discipline::{Qdisc, Setup};
pub use qdisc::engine::{Engine, EngineRecorder, EngineSetup};
pub use qdisc::instance::Instance;
pub use qdisc::kind::Kind;
pub use qdisc::marks::{MarkCount, Marks};
pub use qdisc::pins::Pins;
pub use qdisc::recorder::Recorder;
pub use qdisc::rows::{RowCounts, RowTree};
pub use qdisc::shaper::own::own_of;
pub use qdisc::shaper::{CLASSES, Class, Classes, Shaper, ShaperInstance};
pub use qdisc::store::Store;
pub use trace::passive::{
    Host, PASSIVE_DEVICES, Passive, PassiveDevice, PassiveQuantity, SpreadOf,
};
pub use trace::reference::{QdiscTrace, Seen, SeenKind, Watched};
pub use trace::round_trip::{RoundTrip, RoundTrips};
pub use trace::spread::Spread;
pub use trace::survey::{
    SIZE_STEP, Survey, SurveyCount, SurveyDirection, SurveyLink, SurveyService,
};
/// The largest number of a device's queues that can share its rate.
pub use weirgate_aqm::MEMBERS as MOST_QUEUES;
