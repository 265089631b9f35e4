// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The disciplines of `aqm/` as qdiscs of the running kernel: the only crate
//! that loads programs.
//!
//! [`Qdisc::load`] puts a discipline into the kernel as a kind of qdisc, named
//! `weir_` and its name, which netlink and tc then know like any other. It is a
//! kind for a device's root (or under mq), and has no options: parameters, the
//! link and the rate go by [`Qdisc::set`], for a [`Place`], before or after a
//! qdisc is there; [`Qdisc::instances`] reads state and statistics by name.
//!
//! It attaches nothing to a device, which only crate kernel does, but the program
//! that makes a qdisc's marks ([`Qdisc::mark`]): that belongs to the qdisc's pins.
//!
//! [`Payload`] is no qdisc but a filter that looks for signatures in payloads,
//! [`Filter`] one that holds what arrives to a rate, [`WindowControl`] two that
//! choose which receive windows leave, [`UdpControl`] one that holds streams of
//! datagrams, [`Condition`] a traffic conditioner, [`Order`] two that keep connections
//! in order that change their class. [`Passive`] looks at what passes, and changes nothing.
//!
//! Start reading at `bpf/qdisc/qdisc.bpf.h`.

mod bench;
mod condition;
mod error;
mod filter;
mod ingress;
mod instance;
mod log;
mod marks;
mod object;
mod order;
mod packets;
mod passive;
mod payload;
mod place;
mod programs;
mod qdisc;
mod recorder;
mod round_trip;
mod shaper;
mod spread;
mod store;
mod survey;
mod tcx;
mod udp;
mod verifier;
mod watch;
mod window;

pub use bench::{Copies, Least, Sender, Spent, Timed};
pub use condition::{
    CONDITION_CLASSES, CONDITION_NAME, CONDITION_NETS, CONDITION_PORTS, CONDITIONERS, Condition,
    ConditionAction, ConditionCount, ConditionMaps, ConditionRecord, ConditionRule,
};
pub use error::BpfError;
pub use filter::{Filter, FilterFlow, FilterMaps, FilterSetup, FilterState};
pub use ingress::IngressPlace;
pub use instance::Instance;
pub use marks::{MarkCount, Marks};
pub use order::{Order, OrderTotals};
pub use passive::{Host, PASSIVE_DEVICES, Passive, PassiveDevice, SpreadOf, Way};
pub use payload::Payload;
pub use place::Place;
pub use programs::{kit_number, programs, source_number, sources};
pub use qdisc::{Qdisc, Setup};
pub use recorder::Recorder;
pub use round_trip::{RoundTrip, RoundTrips};
pub use shaper::{CLASSES, Class, Classes, Shaper, ShaperInstance};
pub use spread::Spread;
pub use store::Store;
pub use survey::{SIZE_STEP, Survey, SurveyCount, SurveyLink, SurveyService, SurveyWay};
pub use tcx::Attached;
pub use udp::{UdpControl, UdpMaps, UdpSetup, UdpStream};
pub use verifier::{Cost, Refused, verify};
pub use watch::{Seen, SeenKind, Watch, Watched};
pub use window::{WindowConnection, WindowControl, WindowMaps, WindowSetup, WindowTotals};
