// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs that choose the receive window of what leaves
//! (`bpf/inbound/window.bpf.c`).

use crate::error::BpfError;
use crate::object::{SETTINGS, failed};
use crate::packets::PacketPrograms;
use libbpf_rs::{MapCore, MapFlags};
use std::os::fd::OwnedFd;
use std::path::Path;
use weirgate_aqm::{Window, WindowRule};

/// Its file, and the programs in it.
const NAME: &str = "window";
const IN: &str = "window_in";
const OUT: &str = "window_out";

/// Its maps.
const TOTALS: &str = "totals";
const CONNECTIONS: &str = "connections";

/// Bytes of `struct window_settings`, `struct window_totals`, and of `struct
/// window_connection` behind the connection's own.
const SETTINGS_BYTES: usize = size_of::<WindowRule>() + 16;
const TOTALS_BYTES: usize = 48;
const OWN_BYTES: usize = 32;

/// How windows are to be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSetup {
    /// The algorithm and its numbers.
    pub rule: WindowRule,
    /// What all limited connections may have together, in bytes of payload a
    /// second; 0 for no limit.
    pub rate_bytes_s: u64,
    /// Connections whose arriving packets have this mark under this mask are
    /// not limited; a mask of 0 spares none.
    pub spared: (u32, u32),
}

/// Both programs, loaded. They are gone when this is dropped, unless a device
/// has them by then.
#[derive(Debug)]
pub struct WindowControl(PacketPrograms);

/// What the programs did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowTotals {
    /// Limited connections that had data in the last whole second.
    pub active: u64,
    /// Packets whose window was changed.
    pub rewritten: u64,
    /// Acknowledgements that were given a later time to leave.
    pub held: u64,
    /// Packets of connections whose handshake was not seen.
    pub unknown: u64,
}

impl WindowControl {
    /// Loads both. Needs CAP_BPF and CAP_NET_ADMIN.
    pub fn load(setup: &WindowSetup) -> Result<Self, BpfError> {
        let control = Self(PacketPrograms::load(NAME, NAME, None)?);
        control.0.map(CONNECTIONS, Window::bytes() + OWN_BYTES)?;
        control.set(setup)?;
        Ok(control)
    }

    /// States how windows are to be chosen from the next packet on.
    pub fn set(&self, setup: &WindowSetup) -> Result<(), BpfError> {
        let mut bytes: Vec<u8> = setup
            .rule
            .words()
            .into_iter()
            .chain([setup.rate_bytes_s])
            .flat_map(u64::to_ne_bytes)
            .collect();
        let (mark, under) = setup.spared;
        bytes.extend([under, mark].map(u32::to_ne_bytes).as_flattened());
        self.0
            .map(SETTINGS, SETTINGS_BYTES)?
            .update(&[0; 4], &bytes, MapFlags::ANY)
            .map_err(failed(NAME, SETTINGS, "written"))
    }

    /// What they did so far.
    pub fn totals(&self) -> Result<WindowTotals, BpfError> {
        let found = self
            .0
            .map(TOTALS, TOTALS_BYTES)?
            .lookup(&[0; 4], MapFlags::ANY)
            .map_err(failed(NAME, TOTALS, "read"))?
            .unwrap_or_default();
        let word = |index: usize| {
            let eight = found.get(8 * index..).and_then(|bytes| bytes.first_chunk());
            u64::from_ne_bytes(eight.copied().unwrap_or_default())
        };
        Ok(WindowTotals {
            active: word(1),
            rewritten: word(3),
            held: word(4),
            unknown: word(5),
        })
    }

    /// How many connections are known.
    pub fn connections(&self) -> Result<usize, BpfError> {
        let map = self.0.map(CONNECTIONS, Window::bytes() + OWN_BYTES)?;
        Ok(map.keys().count())
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
        Ok(self.0.run(named(arriving), frame, 0)?.frame)
    }
}

fn named(arriving: bool) -> &'static str {
    if arriving { IN } else { OUT }
}
