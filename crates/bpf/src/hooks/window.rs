// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs that choose the receive window of what leaves
//! (`bpf/inbound/window.bpf.c`).

use crate::error::BpfError;
use crate::programs;
use crate::programs::packet::{Given, PacketPrograms, TUPLE, ends, half, maps_of, word};
use crate::qdisc::kind::{SETTINGS, failed, sized};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;
use weirgate_aqm::{Window, WindowRule};

/// Its file, and the programs in it.
const NAME: &str = "window";
const IN: &str = "window_in";
const OUT: &str = "window_out";

/// Its maps.
const TOTALS: &str = "totals";
const CONNECTIONS: &str = "connections";
const ANNOUNCED: &str = "announced";

/// Classes that may have a rate of their own (`WINDOW_CLASSES`), and all slots.
const CLASSES: usize = 15;
const SLOTS: usize = CLASSES + 1;

/// Bytes of `struct window_class` and `struct window_slot`.
const CLASS_BYTES: usize = 16;
const SLOT_BYTES: usize = 72;

/// Bytes of `struct window_settings`, and where in it what is.
const RULE_BYTES: usize = size_of::<WindowRule>();
const COUNT_AT: usize = RULE_BYTES + 20;
const CLASSES_AT: usize = COUNT_AT + 20;
const SETTINGS_BYTES: usize = CLASSES_AT + CLASSES * CLASS_BYTES;

/// A whole share (`WINDOW_ONE`).
const SHARE: u64 = 65_536;

/// Bytes of `struct window_totals`, and of `struct window_connection` behind the
/// connection's own.
const TOTALS_BYTES: usize = SLOTS * SLOT_BYTES + 32;
const OWN_BYTES: usize = 80;

/// Bytes of `struct announced`.
const ANNOUNCED_BYTES: usize = 16;

/// How windows are to be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowSetup {
    /// The algorithm and its numbers.
    pub rule: WindowRule,
    /// What all limited connections of other classes may have together, in bytes
    /// of payload a second; 0 for no limit.
    pub rate_bytes_s: u64,
    /// Connections with packets of this mark under this mask, coming or going,
    /// are not limited; a mask of 0 spares none.
    pub spared: (u32, u32),
    /// The class of bare acknowledgements, which says nothing of the
    /// connection's; 0 for none.
    pub ack_class: u32,
    /// Classes, as they stand in the priority of what leaves, and what their
    /// connections may have together; 0 for no limit. At most
    /// [`WindowSetup::MOST_CLASSES`].
    pub classes: Vec<(u32, u64)>,
    /// While a session is announced: the largest segment that new connections
    /// ask for, in bytes, 0 for what they would ask for anyway.
    pub announced_segment: u16,
    /// While a session is announced: whether older connections that have
    /// received much are reset.
    pub announced_resets: bool,
    /// New connections ask for segments of what they may have in a round trip,
    /// which is so many nanoseconds to an end of whom none is known; 0 for what
    /// they would ask for anyway.
    pub round_trip_ns: u64,
}

impl WindowSetup {
    /// Classes that can have a rate of their own.
    pub const MOST_CLASSES: usize = CLASSES;

    /// One rate for all connections.
    pub const fn new(rule: WindowRule, rate_bytes_s: u64) -> Self {
        Self {
            rule,
            rate_bytes_s,
            spared: (0, 0),
            ack_class: 0,
            classes: Vec::new(),
            announced_segment: 0,
            announced_resets: false,
            round_trip_ns: 0,
        }
    }

    /// `struct window_settings`.
    fn encode(&self) -> Vec<u8> {
        let words = self.rule.words().into_iter().chain([self.rate_bytes_s]);
        let mut bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        let (mark, under) = self.spared;
        let classes = self.classes.get(..CLASSES).unwrap_or(&self.classes);
        let halves = [under, mark, self.ack_class, classes.len() as u32];
        bytes.extend(halves.map(u32::to_ne_bytes).as_flattened());
        let announced = [self.announced_segment.into(), self.announced_resets.into()];
        bytes.extend(announced.map(u32::to_ne_bytes).as_flattened());
        bytes.extend(self.round_trip_ns.to_ne_bytes());
        for (class, rate) in classes {
            bytes.extend([*class, 0].map(u32::to_ne_bytes).as_flattened());
            bytes.extend(rate.to_ne_bytes());
        }
        bytes.resize(SETTINGS_BYTES, 0);
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        let words: [u64; RULE_BYTES / 8] = std::array::from_fn(|index| word(bytes, 8 * index));
        let count = half(bytes, COUNT_AT) as usize;
        let class = |index: usize| {
            let at = CLASSES_AT + index * CLASS_BYTES;
            (half(bytes, at), word(bytes, at + 8))
        };
        Self {
            rule: WindowRule::from_words(&words),
            rate_bytes_s: word(bytes, RULE_BYTES),
            spared: (half(bytes, RULE_BYTES + 12), half(bytes, RULE_BYTES + 8)),
            ack_class: half(bytes, RULE_BYTES + 16),
            classes: (0..count.min(CLASSES)).map(class).collect(),
            announced_segment: half(bytes, COUNT_AT + 4) as u16,
            announced_resets: half(bytes, COUNT_AT + 8) != 0,
            round_trip_ns: word(bytes, COUNT_AT + 12),
        }
    }
}

/// Both programs, loaded. They are gone when this is dropped, unless a device
/// has them by then.
#[derive(Debug)]
pub struct WindowControl(PacketPrograms);

/// What the programs did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowTotals {
    /// Shares that limited connections used in the last whole second, each of
    /// them at most two; rounded.
    pub active: u64,
    /// Packets whose window was changed.
    pub rewritten: u64,
    /// Acknowledgements that were given a later time to leave.
    pub held: u64,
    /// Packets of connections whose handshake was not seen.
    pub unknown: u64,
    /// Packets let go because another processor was at their connection for too
    /// long.
    pub missed: u64,
}

/// A connection that the programs know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowConnection {
    /// Who receives here: the end whose windows are chosen.
    pub receiver: SocketAddr,
    /// Who sends from there.
    pub sender: SocketAddr,
    /// Bytes of payload that came.
    pub bytes: u64,
    /// The rate measured, in bytes of payload a second.
    pub rate_bytes_s: u64,
    /// The window last offered, in bytes; 0 for none yet.
    pub window: u32,
    /// What the receiver itself offered then.
    pub offered: u32,
    /// The class by which it was found; 0 for none.
    pub class: u32,
    /// Whether a mark says that it is not to be limited.
    pub spared: bool,
    /// Whether its whole handshake was seen; nothing is done without.
    pub known: bool,
}

/// A loaded program's maps, by which it is told and read.
#[derive(Debug)]
pub struct WindowMaps {
    settings: MapHandle,
    totals: MapHandle,
    connections: MapHandle,
    announced: MapHandle,
}

impl WindowControl {
    /// Loads both. Needs CAP_BPF and CAP_NET_ADMIN.
    pub fn load(setup: &WindowSetup) -> Result<Self, BpfError> {
        let control = Self(PacketPrograms::load(NAME, NAME, None)?);
        control.maps()?.set(setup)?;
        Ok(control)
    }

    /// Its maps.
    pub fn maps(&self) -> Result<WindowMaps, BpfError> {
        WindowMaps::of(|name| self.0.handle(name))
    }

    /// States how windows are to be chosen from the next packet on.
    pub fn set(&self, setup: &WindowSetup) -> Result<(), BpfError> {
        self.maps()?.set(setup)
    }

    /// What they did so far.
    pub fn totals(&self) -> Result<WindowTotals, BpfError> {
        self.maps()?.totals()
    }

    /// How many connections are known.
    pub fn connections(&self) -> Result<usize, BpfError> {
        Ok(self.maps()?.connections.keys().count())
    }

    /// The program for arriving packets (`arriving`), or for those that leave,
    /// for a filter that acts by itself.
    pub fn program(&self, arriving: bool) -> Result<OwnedFd, BpfError> {
        self.0.program(named(arriving))
    }

    /// Pins the programs in a folder of a BPF file system, by their names
    /// `window_in` and `window_out`: for tc, which takes programs from there.
    pub fn pin(&mut self, folder: &Path) -> Result<(), BpfError> {
        self.0.pin(folder)
    }

    /// Runs one of the programs once on an Ethernet frame: the frame afterwards.
    pub fn run(&self, arriving: bool, frame: &[u8]) -> Result<Vec<u8>, BpfError> {
        self.run_as(arriving, frame, (0, 0))
    }

    /// The same on a frame with this mark and of this class.
    pub fn run_as(
        &self,
        arriving: bool,
        frame: &[u8],
        (mark, class): (u32, u32),
    ) -> Result<Vec<u8>, BpfError> {
        let given = Given {
            mark,
            priority: class,
            ..Given::default()
        };
        Ok(self.0.run_as(named(arriving), frame, given)?.frame)
    }

    /// The same on a packet that so many segments, each of so many bytes of
    /// payload, were made.
    pub fn run_merged(
        &self,
        arriving: bool,
        frame: &[u8],
        merged: (u32, u32),
    ) -> Result<Vec<u8>, BpfError> {
        let given = Given {
            merged,
            ..Given::default()
        };
        Ok(self.0.run_as(named(arriving), frame, given)?.frame)
    }

    /// What tells this version of the programs from others.
    pub fn digest() -> u32 {
        static DIGEST: OnceLock<u32> = OnceLock::new();
        *DIGEST.get_or_init(|| programs::digest(NAME))
    }
}

impl WindowMaps {
    /// Those of the loaded program of this number; `None` where there is no such
    /// program, or it is none of this kind.
    pub fn of_program(id: u32) -> Option<Self> {
        Self::of(maps_of(id)?).ok()
    }

    fn of(mut map: impl FnMut(&str) -> Option<MapHandle>) -> Result<Self, BpfError> {
        let mut named = |name, bytes| sized(NAME, name, bytes, map(name));
        Ok(Self {
            settings: named(SETTINGS, SETTINGS_BYTES)?,
            totals: named(TOTALS, TOTALS_BYTES)?,
            connections: named(CONNECTIONS, Window::bytes() + OWN_BYTES)?,
            announced: named(ANNOUNCED, ANNOUNCED_BYTES)?,
        })
    }

    /// Whether another program has the very same maps.
    pub fn are(&self, other: &Self) -> bool {
        let number = |map: &MapHandle| map.info().ok().map(|info| info.info.id);
        let own = number(&self.connections);
        own.is_some() && own == number(&other.connections)
    }

    /// States how windows are to be chosen from the next packet on. No
    /// connection is forgotten.
    pub fn set(&self, setup: &WindowSetup) -> Result<(), BpfError> {
        self.settings
            .update(&[0; 4], &setup.encode(), MapFlags::ANY)
            .map_err(failed(NAME, SETTINGS, "written"))
    }

    /// A session of high priority goes on for so long from now, unless this is
    /// said again: since when it does is when it was first said. No time ends it.
    pub fn announce(&self, lease: Duration) -> Result<(), BpfError> {
        let found = self.announced.lookup(&[0; 4], MapFlags::ANY);
        let found = found.map_err(failed(NAME, ANNOUNCED, "read"))?;
        let found = found.unwrap_or_default();
        let now = monotonic();
        let since = match (word(&found, 0), word(&found, 8)) {
            (since, until) if now < until => since,
            _ => now,
        };
        let lease = u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX);
        let until = if lease == 0 {
            0
        } else {
            now.saturating_add(lease)
        };
        let value = [since, until].map(u64::to_ne_bytes);
        self.announced
            .update(&[0; 4], value.as_flattened(), MapFlags::ANY)
            .map_err(failed(NAME, ANNOUNCED, "written"))
    }

    /// What they were told.
    pub fn setup(&self) -> Result<WindowSetup, BpfError> {
        let found = self.settings.lookup(&[0; 4], MapFlags::ANY);
        let found = found.map_err(failed(NAME, SETTINGS, "read"))?;
        Ok(WindowSetup::decode(&found.unwrap_or_default()))
    }

    /// What they did so far.
    pub fn totals(&self) -> Result<WindowTotals, BpfError> {
        let found = self.totals.lookup(&[0; 4], MapFlags::ANY);
        let found = found.map_err(failed(NAME, TOTALS, "read"))?;
        let found = found.unwrap_or_default();
        let rest = SLOTS * SLOT_BYTES;
        Ok(WindowTotals {
            active: (0..SLOTS)
                .map(|slot| word(&found, slot * SLOT_BYTES + 8).cast_signed())
                .map(|active| active.max(0).cast_unsigned())
                .sum::<u64>()
                .saturating_add(SHARE / 2)
                / SHARE,
            rewritten: word(&found, rest),
            held: word(&found, rest + 8),
            unknown: word(&found, rest + 16),
            missed: word(&found, rest + 24),
        })
    }

    /// The connections that they know, in no order.
    pub fn connections(&self) -> Result<Vec<WindowConnection>, BpfError> {
        let mut all = Vec::new();
        for key in self.connections.keys() {
            let found = self.connections.lookup(&key, MapFlags::ANY);
            let found = found.map_err(failed(NAME, CONNECTIONS, "read"))?;
            all.extend(found.and_then(|bytes| connection(&key, &bytes)));
        }
        Ok(all)
    }
}

/// What is said of a connection; `None` where it is none of this kind.
fn connection(key: &[u8], bytes: &[u8]) -> Option<WindowConnection> {
    /// `OWN_SYN | PEER_SYN`.
    const HANDSHAKE: u8 = 1 | 4;
    let (receiver, sender) = ends(key.get(..TUPLE)?)?;
    let own = bytes.get(Window::bytes()..)?;
    let [_, seen, spared, _] = *own.get(32..)?.first_chunk()?;
    Some(WindowConnection {
        receiver,
        sender,
        bytes: word(own, 16),
        rate_bytes_s: Window::rate_of(bytes),
        window: half(own, 24),
        offered: half(own, 28),
        class: half(own, 36),
        spared: spared != 0,
        known: seen & HANDSHAKE == HANDSHAKE,
    })
}

/// The clock of programs, `bpf_ktime_get_ns()`: nanoseconds.
fn monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn named(arriving: bool) -> &'static str {
    if arriving { IN } else { OUT }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_aqm::WindowAlgorithm;

    #[test]
    fn what_is_written_is_read() {
        let setup = WindowSetup {
            spared: (0x100, 0x300),
            ack_class: 0x2_0010,
            classes: vec![(0x2_4a6b, 62_500), (0x2_1234, 0)],
            announced_segment: 536,
            announced_resets: true,
            round_trip_ns: 20_000_000,
            ..WindowSetup::new(WindowRule::new(WindowAlgorithm::Mss), 125_000)
        };
        let bytes = setup.encode();
        assert_eq!(bytes.len(), SETTINGS_BYTES);
        assert_eq!(WindowSetup::decode(&bytes), setup);
    }
}
