// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP Prague (`bpf/prague/prague.bpf.c`): a congestion control of the running kernel, and the
//! program that marks its leaving packets ECT(1).

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

/// Its file, what errors call it, and the congestion control's name.
const NAME: &str = "prague";
const EGRESS: &str = "prague_egress";
const STATES: &str = "prague_states";
/// Pins of the congestion control, and of the program on the device of a number.
const PINNED: &str = "control";
const DEVICE: &str = "device";

/// The congestion control, registered. Connections that have it when this is dropped
/// keep it, and no new ones can ask for it.
pub struct Prague {
    programs: PacketPrograms,
    registered: Link,
    attached: Vec<(u32, Attached)>,
}

/// What the congestion control knows of a connection. Windows are in segments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PragueState {
    /// The congestion window, with its fraction.
    pub window: f64,
    /// What it was before marks last reduced it.
    pub before: f64,
    /// What it was before the latest loss.
    pub before_loss: f64,
    /// The average of the share of marked segments, from 0 to 1.
    pub alpha: f64,
    /// Packets that left as ECT(1).
    pub identified: u32,
    /// Segments whose marks were reported.
    pub marked: u32,
    /// Rounds in which marks were counted: of a round trip, and 25 ms at least.
    pub rounds: u32,
    /// Reductions by half of alpha.
    pub reductions: u32,
    /// Halvings: by loss, or by classic marks.
    pub halvings: u32,
    /// Whether marks were found to come from a classic queue.
    pub classic: bool,
}

impl Prague {
    /// The name that a socket selects (`TCP_CONGESTION`).
    pub const NAME: &'static str = NAME;

    /// Loads and registers it. Needs CAP_BPF and CAP_NET_ADMIN. A kernel before Linux
    /// 7.0 may take it, and does not negotiate accurate feedback for it: then it responds
    /// as Reno.
    ///
    /// # Errors
    ///
    /// Occurs where the kernel refuses the programs, or has a congestion control of this
    /// name.
    pub fn load() -> Result<Self, BpfError> {
        let mut programs = PacketPrograms::load(NAME, NAME, None)?;
        Ok(Self {
            registered: programs.register(NAME)?,
            programs,
            attached: Vec::new(),
        })
    }

    /// Has the packets of its connections leave by this device, of this thread's
    /// network namespace, as ECT(1). Without that a connection responds as a classic
    /// one.
    ///
    /// # Errors
    ///
    /// Occurs where the kernel has no tcx, or no such device.
    pub fn attach(&mut self, ifindex: u32) -> Result<(), BpfError> {
        let attached = self.programs.at_egress(EGRESS, ifindex)?;
        self.attached.push((ifindex, attached));
        Ok(())
    }

    /// Keeps it beyond this process, by pins in a folder of a BPF file system, which is
    /// made: it goes with them ([`Prague::unload`]).
    ///
    /// # Errors
    ///
    /// Occurs where the folder exists, or is not of a BPF file system. Nothing is left
    /// in it then.
    pub fn pin(mut self, folder: &Path) -> Result<(), BpfError> {
        fs::create_dir(folder).map_err(|source| BpfError::File {
            path: folder.to_owned(),
            doing: "made",
            source,
        })?;
        let pinned = self.pin_all(folder);
        if pinned.is_err() {
            // What could not be pinned is the error to tell.
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

    /// Removes the pins of a folder, and the folder; says whether there was one.
    ///
    /// # Errors
    ///
    /// Occurs where one cannot be removed.
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

    /// What it knows of the connection of a socket of this process; `None` where that
    /// has another congestion control, or is not connected.
    ///
    /// # Errors
    ///
    /// Occurs where the map cannot be read.
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

/// A number of units of 2^-20.
fn fraction(units: u64) -> f64 {
    units as f64 / f64::from(1_u32 << PRAGUE_SHIFT)
}
