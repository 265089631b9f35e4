// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP Prague (`bpf/prague/prague.bpf.c`): a congestion control of the running kernel, and the
//! program that sets ECT(1) in its packets.

use crate::error::BpfError;
use crate::layout::{PRAGUE_SHIFT, prague_state};
use crate::maps::Map;
use crate::programs::Attached;
use crate::programs::packet::PacketPrograms;
use libbpf_rs::Link;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// The object file, the name in errors, and the name of the congestion control.
const NAME: &str = "prague";
const EGRESS: &str = "prague_egress";
const STATES: &str = "prague_states";
/// The pins of the congestion control, and of the program on the device with an index.
const PINNED: &str = "control";
const DEVICE: &str = "device";

/// The registered congestion control. When this is dropped, connections that use it keep it, but
/// new ones cannot select it.
pub struct Prague {
    programs: PacketPrograms,
    registered: Link,
    attached: Vec<(u32, Attached)>,
}

/// The state of the congestion control for a connection. Windows are in segments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PragueState {
    /// The congestion window, with its fraction.
    pub window: f64,
    /// The window before marks last reduced it.
    pub before: f64,
    /// The window before the latest loss.
    pub before_loss: f64,
    /// The moving average of the fraction of marked segments, from 0 to 1.
    pub alpha: f64,
    /// Packets that were sent with ECT(1).
    pub identified: u32,
    /// Segments whose marks were reported.
    pub marked: u32,
    /// Rounds in which marks were counted: one round trip each, but at least 25 ms.
    pub rounds: u32,
    /// Reductions by half of alpha.
    pub reductions: u32,
    /// Halvings of the window because of loss or classic marks.
    pub halvings: u32,
    /// Whether the marks were found to come from a classic queue.
    pub classic: bool,
}

impl Prague {
    /// The name by which a socket selects it (`TCP_CONGESTION`).
    pub const NAME: &'static str = NAME;

    /// Loads and registers it. Needs CAP_BPF and CAP_NET_ADMIN. A kernel before Linux 7.0 may
    /// accept it but does not negotiate accurate ECN feedback for it; it then behaves like Reno.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel rejects the programs, or already has a congestion control
    /// with this name.
    pub fn load() -> Result<Self, BpfError> {
        let mut programs = PacketPrograms::load(NAME, NAME, None)?;
        Ok(Self {
            registered: programs.register(NAME)?,
            programs,
            attached: Vec::new(),
        })
    }

    /// Makes packets of its connections leave a device with ECT(1). The device must be in the
    /// network namespace of this thread. Without this, a connection behaves like a classic one.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel has no tcx, or if the device does not exist.
    pub fn attach(&mut self, ifindex: u32) -> Result<(), BpfError> {
        let attached = self.programs.at_egress(EGRESS, ifindex)?;
        self.attached.push((ifindex, attached));
        Ok(())
    }

    /// Pins it in a new folder of a BPF file system, so that it outlives this process.
    /// [`Prague::unload`] removes it.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder exists, or is not in a BPF file system. No pins are left
    /// in that case.
    pub fn pin(mut self, folder: &Path) -> Result<(), BpfError> {
        fs::create_dir(folder).map_err(|source| BpfError::File {
            path: folder.to_owned(),
            doing: "made",
            source,
        })?;
        let pinned = self.pin_all(folder);
        if pinned.is_err() {
            // Report the first error only.
            let _ = Self::unload(folder);
        }
        pinned
    }

    fn pin_all(&mut self, folder: &Path) -> Result<(), BpfError> {
        for (ifindex, attached) in &self.attached {
            attached.pin(&folder.join(format!("{DEVICE}{ifindex}")))?;
        }
        let path = folder.join(PINNED);
        let pinned = self.registered.pin(&path);
        pinned.map_err(|source| BpfError::Pin {
            path,
            doing: "made",
            source,
        })
    }

    /// Removes the pins and the folder; returns whether the folder existed.
    ///
    /// # Errors
    ///
    /// Returns an error if a pin cannot be removed.
    pub fn unload(folder: &Path) -> Result<bool, BpfError> {
        let remove = || {
            for entry in fs::read_dir(folder)? {
                fs::remove_file(entry?.path())?;
            }
            fs::remove_dir(folder)
        };
        match remove() {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(source) => Err(BpfError::File {
                path: folder.to_owned(),
                doing: "removed",
                source,
            }),
        }
    }

    /// Returns the state for the connection of a socket of this process. It is `None` if the
    /// socket has another congestion control or is not connected.
    ///
    /// # Errors
    ///
    /// Returns an error if the map cannot be read.
    pub fn state(&self, socket: &impl AsFd) -> Result<Option<PragueState>, BpfError> {
        let states: Map<i32, prague_state> = self.programs.map(STATES)?;
        let found = states.get(&socket.as_fd().as_raw_fd())?;
        Ok(found.map(|state| PragueState {
            window: fraction(state.window),
            before: fraction(state.before),
            before_loss: fraction(state.undo),
            alpha: fraction(state.alpha),
            identified: state.identified,
            marked: state.seen_marked,
            rounds: state.rounds,
            reductions: state.reductions,
            halvings: state.halvings,
            classic: state.classic != 0,
        }))
    }
}

impl fmt::Debug for Prague {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prague")
            .field("attached", &self.attached)
            .finish_non_exhaustive()
    }
}

/// Converts a fixed-point number with 20 binary places.
fn fraction(units: u64) -> f64 {
    units as f64 / f64::from(1_u32 << PRAGUE_SHIFT)
}
