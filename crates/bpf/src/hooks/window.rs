// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that set the receive window in leaving TCP segments (`bpf/inbound/window.bpf.c`).

use super::attach::{Attach, FoundFilter, Loader};
use crate::error::BpfError;
use crate::layout::{
    SHARE_ONE, WINDOW_CLASSES, WINDOW_EDGE, WINDOW_MSS, WINDOW_STEPS, announced, tuple,
    window_class, window_connection, window_rule, window_settings, window_totals,
};
use crate::maps::{Find, Map};
use crate::programs::packet::{Given, PacketPrograms, maps_of};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;
use weirgate_state::{SparedMark, WindowAlgorithm, Windows};
use weirgate_units::{Handle, Rate, Size, Span};
use zerocopy::FromZeros;

/// The object file and its programs.
const FILE: &str = "window";
/// The object file of the variant that identifies hosts behind address translation; it needs the
/// kernel's BTF.
const TRANSLATED: &str = "window_translated";
const IN: &str = "window_in";
const OUT: &str = "window_out";

/// Both loaded programs. They are unloaded when this is dropped, unless they are attached to a
/// device.
#[derive(Debug)]
pub struct WindowControl(PacketPrograms);

/// The counters of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowTotals {
    /// The number of whole shares that limited connections used in the last full second,
    /// rounded; each connection counts for at most two. If connections are grouped by host,
    /// hosts are counted instead.
    pub active: u64,
    /// Packets whose window was changed.
    pub rewritten: u64,
    /// Acknowledgements that were delayed.
    pub held: u64,
    /// Packets of connections whose handshake was not seen.
    pub unknown: u64,
    /// Packets that passed without processing, because another processor worked on their
    /// connection for too long.
    pub missed: u64,
}

/// A connection in the map of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowConnection {
    /// The local end, which receives the data and whose window is set.
    pub receiver: SocketAddr,
    /// The remote end, which sends the data.
    pub sender: SocketAddr,
    /// Bytes of payload that arrived.
    pub bytes: u64,
    /// The measured rate, in bytes of payload a second.
    pub rate_bytes_s: u64,
    /// The window last advertised, in bytes; 0 for none yet.
    pub window: u32,
    /// The receiver's own window at that time.
    pub offered: u32,
    /// The class that was found for it; 0 for none.
    pub class: u32,
    /// Whether its mark exempts it from the limit.
    pub spared: bool,
}

/// The maps of a loaded program, through which it is configured and read.
#[derive(Debug)]
pub struct WindowMaps {
    settings: Map<u32, window_settings>,
    totals: Map<u32, window_totals>,
    connections: Map<tuple, window_connection>,
    announced: Map<u32, announced>,
}

impl WindowControl {
    /// Loads both programs. Uses the variant that identifies hosts behind address translation,
    /// if the kernel accepts it. Needs CAP_BPF and CAP_NET_ADMIN.
    pub fn load(wanted: &Windows) -> Result<Self, BpfError> {
        let translated = || PacketPrograms::load(TRANSLATED, FILE, None);
        let plain = || PacketPrograms::load(FILE, FILE, None);
        let control = Self(translated().or_else(|_| plain())?);
        control.maps()?.set(wanted)?;
        Ok(control)
    }

    /// Returns their maps.
    pub fn maps(&self) -> Result<WindowMaps, BpfError> {
        WindowMaps::of(|name: &str| self.0.handle(name))
    }

    /// Changes the settings, from the next packet on.
    pub fn set(&self, wanted: &Windows) -> Result<(), BpfError> {
        self.maps()?.set(wanted)
    }

    /// Returns the counters so far.
    pub fn totals(&self) -> Result<WindowTotals, BpfError> {
        self.maps()?.totals()
    }

    /// Returns the number of known connections.
    pub fn connections(&self) -> Result<usize, BpfError> {
        Ok(self.maps()?.connections.keys().count())
    }

    /// Returns the program at ingress or at egress, for a filter in `direct-action` mode.
    pub fn program(&self, ingress: bool) -> Result<OwnedFd, BpfError> {
        self.0.program(named(ingress))
    }

    /// Pins the programs in a folder of a BPF file system as `window_in` and `window_out`, from
    /// where tc can load them.
    pub fn pin(&mut self, folder: &Path) -> Result<(), BpfError> {
        self.0.pin(folder)
    }

    /// Runs one of the programs once on an Ethernet frame. Returns the frame after the run.
    pub fn run(&self, ingress: bool, frame: &[u8]) -> Result<Vec<u8>, BpfError> {
        self.run_as(ingress, frame, (0, 0))
    }

    /// Runs one of the programs on a frame with this mark and of this class.
    pub fn run_as(
        &self,
        ingress: bool,
        frame: &[u8],
        (mark, class): (u32, u32),
    ) -> Result<Vec<u8>, BpfError> {
        let given = Given {
            mark,
            priority: class,
            ..Given::default()
        };
        Ok(self.0.run_as(named(ingress), frame, given)?.frame)
    }

    /// Runs one of the programs on a packet into which segments were merged: their number, and
    /// the payload bytes of each.
    pub fn run_merged(
        &self,
        ingress: bool,
        frame: &[u8],
        merged: (u32, u32),
    ) -> Result<Vec<u8>, BpfError> {
        let given = Given {
            merged,
            ..Given::default()
        };
        Ok(self.0.run_as(named(ingress), frame, given)?.frame)
    }
}

impl WindowMaps {
    /// Opens the maps of the loaded program with this identifier. Returns `None` if there is no
    /// such program, or if it is of another kind.
    pub fn of_program(id: u32) -> Option<Self> {
        Self::of(maps_of(id)?).ok()
    }

    fn of(mut find: impl Find) -> Result<Self, BpfError> {
        Ok(Self {
            settings: Map::find(FILE, "settings", &mut find)?,
            totals: Map::find(FILE, "totals", &mut find)?,
            connections: Map::find(FILE, "connections", &mut find)?,
            announced: Map::find(FILE, "announced", &mut find)?,
        })
    }

    /// Returns whether another program uses exactly the same maps.
    pub fn are(&self, other: &Self) -> bool {
        let own = self.connections.id();
        own.is_some() && own == other.connections.id()
    }

    /// Changes the settings, from the next packet on. The state of connections stays.
    pub fn set(&self, wanted: &Windows) -> Result<(), BpfError> {
        self.settings.set_first(&encode(wanted))
    }

    /// Announces a session of high priority, which starts with the first call and lasts for
    /// `lease` after the last one. A `lease` of zero ends it.
    pub fn announce(&self, lease: Duration) -> Result<(), BpfError> {
        let there = self.announced.first()?;
        let now = monotonic();
        let since_ns = if now < there.until_ns {
            there.since_ns
        } else {
            now
        };
        let lease = u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = if lease == 0 {
            0
        } else {
            now.saturating_add(lease)
        };
        self.announced.set_first(&announced { since_ns, until_ns })
    }

    /// Returns the settings.
    pub fn settings(&self) -> Result<Windows, BpfError> {
        Ok(decode(&self.settings.first()?))
    }

    /// Returns the counters so far.
    pub fn totals(&self) -> Result<WindowTotals, BpfError> {
        let all = self.totals.first()?;
        let used = all.slots.iter().map(|slot| slot.members.all.before);
        let used: u64 = used.map(|used| used.max(0).cast_unsigned()).sum();
        let share = u64::from(SHARE_ONE);
        Ok(WindowTotals {
            active: used.saturating_add(share / 2) / share,
            rewritten: all.rewritten,
            held: all.held,
            unknown: all.unknown,
            missed: all.missed,
        })
    }

    /// Returns the known connections, in no particular order.
    pub fn connections(&self) -> Result<Vec<WindowConnection>, BpfError> {
        let connection = |(key, one): (tuple, window_connection)| {
            let (receiver, sender) = key.ends()?;
            Some(WindowConnection {
                receiver,
                sender,
                bytes: one.bytes,
                rate_bytes_s: one.flow.meter.rate_bytes_s,
                window: one.window,
                offered: one.offered,
                class: one.receiver.class,
                spared: one.receiver.spared != 0,
            })
        };
        let all = self.connections.entries()?;
        Ok(all.into_iter().filter_map(connection).collect())
    }
}

/// Converts the settings to the form of the map. Classes beyond its size are ignored.
fn encode(wanted: &Windows) -> window_settings {
    let mut settings = window_settings {
        rule: window_rule {
            algorithm: u64::from(match wanted.algorithm {
                WindowAlgorithm::Edge => WINDOW_EDGE,
                WindowAlgorithm::Steps => WINDOW_STEPS,
                WindowAlgorithm::Segments => WINDOW_MSS,
            }),
            fixed_bytes: wanted.fixed.as_bytes(),
            horizon_ns: wanted.horizon.as_nanos(),
            hold_ns: wanted.hold.as_nanos(),
            initial_bytes: wanted.initial.as_bytes(),
            limit_bytes: wanted.limit.as_bytes(),
            meter: wanted.measured.into(),
        },
        rate_bytes_s: wanted.rate.as_bytes_per_second(),
        spare_mask: wanted.spared.mask,
        spare_mark: wanted.spared.mark,
        ack_class: wanted.acknowledgements.as_u32(),
        announced_segment: wanted.announced_segment.into(),
        announced_resets: wanted.announced_resets.into(),
        round_trip_ns: wanted.round_trip.as_nanos(),
        by_hosts: wanted.by_hosts.into(),
        beside_others: wanted.beside_others.into(),
        holds_l4s: wanted.l4s.into(),
        ..window_settings::new_zeroed()
    };
    let rooms = settings.classes.iter_mut().take(WINDOW_CLASSES as usize);
    for (room, (class, rate)) in rooms.zip(&wanted.classes) {
        settings.class_count += 1;
        *room = window_class {
            class: class.as_u32(),
            pad: 0,
            rate_bytes_s: rate.as_bytes_per_second(),
        };
    }
    settings
}

fn decode(settings: &window_settings) -> Windows {
    let rule = &settings.rule;
    let classes = settings.classes.iter().take(settings.class_count as usize);
    let class = |one: &window_class| {
        (
            Handle::from_u32(one.class),
            Rate::bytes_per_second(one.rate_bytes_s),
        )
    };
    Windows {
        rate: Rate::bytes_per_second(settings.rate_bytes_s),
        algorithm: match u32::try_from(rule.algorithm) {
            Ok(WINDOW_STEPS) => WindowAlgorithm::Steps,
            Ok(WINDOW_MSS) => WindowAlgorithm::Segments,
            _ => WindowAlgorithm::Edge,
        },
        fixed: Size::bytes(rule.fixed_bytes),
        horizon: Span::from_nanos(rule.horizon_ns),
        hold: Span::from_nanos(rule.hold_ns),
        initial: Size::bytes(rule.initial_bytes),
        limit: Size::bytes(rule.limit_bytes),
        measured: rule.meter.into(),
        spared: SparedMark {
            mark: settings.spare_mark,
            mask: settings.spare_mask,
        },
        acknowledgements: Handle::from_u32(settings.ack_class),
        classes: classes.map(class).collect(),
        announced_segment: settings.announced_segment as u16,
        announced_resets: settings.announced_resets != 0,
        round_trip: Span::from_nanos(settings.round_trip_ns),
        by_hosts: settings.by_hosts != 0,
        beside_others: settings.beside_others != 0,
        l4s: settings.holds_l4s != 0,
    }
}

/// Returns the time of the clock that programs use, `bpf_ktime_get_ns()`, in nanoseconds.
fn monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn named(ingress: bool) -> &'static str {
    if ingress { IN } else { OUT }
}

impl Attach for Windows {
    fn load(settings: &Self, _: u32, _: &mut Loader) -> Result<Vec<OwnedFd>, BpfError> {
        let control = WindowControl::load(settings)?;
        Ok(vec![control.program(true)?, control.program(false)?])
    }

    fn update(settings: &Self, id: u32, _: u32) -> Result<(), BpfError> {
        let maps = WindowMaps::of_program(id);
        maps.ok_or(BpfError::NoProgram(FILE))?.set(settings)
    }

    /// Returns `None` if the two programs do not share their maps.
    fn read(found: &[FoundFilter], _: u32) -> Option<Self> {
        let [ingress, egress] = found else {
            return None;
        };
        let maps = WindowMaps::of_program(ingress.id)?;
        let same = maps.are(&WindowMaps::of_program(egress.id)?);
        same.then(|| maps.settings().ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::Measured;

    #[test]
    fn the_map_holds_all_of_it() {
        for algorithm in [
            WindowAlgorithm::Edge,
            WindowAlgorithm::Steps,
            WindowAlgorithm::Segments,
        ] {
            let wanted = Windows {
                rate: Rate::kbit(4_000),
                algorithm,
                fixed: Size::bytes(1),
                horizon: Span::from_secs(1),
                hold: Span::from_millis(300),
                initial: Size::bytes(7_300),
                limit: Size::bytes(40_000),
                measured: Measured {
                    chunk: Span::from_millis(100),
                    chunks: 30,
                    age: Span::from_secs(5),
                },
                spared: SparedMark {
                    mark: 0x10,
                    mask: 0xf0,
                },
                acknowledgements: Handle::new(2, 0x10),
                classes: vec![
                    (Handle::new(2, 0x11), Rate::kbit(800)),
                    (Handle::new(2, 0x12), Rate::default()),
                ],
                announced_segment: 536,
                announced_resets: true,
                round_trip: Span::from_millis(20),
                by_hosts: true,
                beside_others: true,
                l4s: true,
            };
            assert_eq!(decode(&encode(&wanted)), wanted);
        }
    }
}
