// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernel traffic-control state as plain values.
//!
//! The same types hold what a policy wants (desired) and what a kernel has
//! (observed), so that a plan is a comparison of two values. Nothing here
//! talks to a kernel. Start reading at [`State`].
//!
//! ```
//! use weirgate_state::{Device, DeviceName, Origin, State};
//!
//! let wan = DeviceName::new("wan").expect("a name that Linux takes");
//! let device = Device {
//!     owned_ifb: false,
//!     offloads: None,
//!     root: None,
//!     origin: Origin::new(4, "the link's device"),
//! };
//! let state = State {
//!     devices: [(wan, device)].into(),
//!     ..State::default()
//! };
//! // Where a thing comes from never makes two states differ.
//! let mut observed = state.clone();
//! observed.devices.values_mut().for_each(|seen| seen.origin = Origin::default());
//! assert_eq!(observed, state);
//! ```

mod acks;
mod capabilities;
mod classify;
mod device;
mod hooks;
mod kit;
mod listed;
mod machine;
mod network;
mod qdisc;
mod routing;
mod rows;
mod shared;
mod wire;

pub use acks::CakeAckFilter;
pub use capabilities::Capabilities;
pub use classify::change::TableChange;
pub use classify::facts::SenderWord;
pub use classify::field::{Field, ICMP, ICMPV6, TCP, Variant};
pub use classify::frame::{Frame, PPPOE_SESSION, SESSION_HEADER};
pub use classify::value::{Header, HeaderBytes, IpVersion, Key};
pub use classify::{
    Chain, Content, Count, EXTENSION_HEADERS, EXTENSIONS, Effect, Hook, Match, Meter,
    PORT_PROTOCOLS, PROTOCOLS_WITH_PORTS, Refreshed, Rule, RuleVerdict, Set, Table, Values,
    extension_headers, port_protocols, switch_name,
};
pub use device::{Device, DeviceName, Offloads};
pub use hooks::conditioner::{
    ColourAction, ColourMeter, Conditioner, Conditioning, EgressConditioners, IngressConditioners,
};
pub use hooks::datagrams::{Datagrams, UDP};
pub use hooks::measured::{Measured, SparedMark};
pub use hooks::order::Order;
pub use hooks::payload::Payload;
pub use hooks::program::{Clause, ClsactHook, HookProgram, ProgramFilter, ProgramRow};
pub use hooks::virtual_queue::VirtualQueueFilter;
pub use hooks::window::{WindowAlgorithm, Windows};
pub use hooks::{HookPrograms, InHooks, Program, ProgramChange};
pub use kit::{Kit, KitClass, KitProgram, KitSetting};
pub use listed::{Listed, ListedKind, ListedObject};
pub use machine::{
    Ability, Conntrack, Flowtable, Interface, Machine, Presence, Privileges, Remain, Setting,
    Timers,
};
pub use network::{DefaultRoute, Network};
pub use qdisc::{
    Bfifo, Cake, CakeFlowMode, CakeTins, CakeWire, Fq, FqCodel, Htb, HtbClass, Pfifo, Qdisc,
    QdiscKind, Red, Sfq, Stab,
};
pub use routing::{
    Choice, END_PRIORITY, FIRST_PRIORITY, FIRST_TABLE, LinkPath, LinkRoute, MARKS_TABLE,
    MOST_LINKS, MarkChain, MarkRule, Marking, PROTOCOL, Routing, RoutingRule, Selector, Transport,
};
pub use rows::{HostAddress, Rows, RowsNode, RowsRole};
pub use shared::Shared;
pub use wire::{CakeFraming, KitWire};

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::iter;
use weirgate_units::Inserted as _;

/// Everything that weirgate owns in one network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct State {
    /// Devices by name: those a policy shapes, and those it creates (IFB).
    pub devices: BTreeMap<DeviceName, Device>,
    /// The classification tables (nftables), by family and name.
    pub tables: Vec<Table>,
    /// weirgate's programs at the ingress and egress hooks, by device. A device without an entry
    /// has no `clsact` qdisc, or should have none. Stored states call this `arriving`.
    #[serde(
        default,
        rename = "arriving",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub hooks: BTreeMap<DeviceName, HookPrograms>,
}

impl State {
    /// Returns a state with only this device.
    #[must_use]
    pub fn of_device(name: DeviceName, device: Device) -> Self {
        Self {
            devices: iter::once((name, device)).inserted(),
            ..Self::default()
        }
    }

    /// Returns the sets that are filled by look-ups or by following objects, with their tables.
    pub fn refreshed_sets(&self) -> impl Iterator<Item = (&Table, &Set)> {
        let tables = self.tables.iter();
        tables
            .flat_map(|table| table.sets.iter().map(move |set| (table, set)))
            .filter(|(_, set)| matches!(set.content, Content::Refreshed(_)))
    }
}

/// Why a desired object exists: the policy text that requires it.
///
/// Origins never take part in comparison: observed objects have none.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Origin {
    /// The line of the policy file, from 1; 0 if no single line is the cause.
    pub line: u32,
    /// The purpose of the object, in a few words.
    pub reason: String,
    /// The service whose packets a classifying rule takes; the rule may take others as well.
    /// It is not stored.
    #[serde(skip)]
    pub service: Option<String>,
}

impl Origin {
    /// Returns an origin at a policy line.
    pub fn new(line: u32, reason: impl Into<String>) -> Self {
        Self {
            line,
            reason: reason.into(),
            service: None,
        }
    }
}

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Origin {}

impl PartialOrd for Origin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Origin {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.reason),
            line => write!(f, "line {line}: {}", self.reason),
        }
    }
}
