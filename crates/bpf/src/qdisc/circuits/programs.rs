// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The BPF programs of circuits. They are loaded once and pinned with their maps, so that
//! changing one circuit loads no program.

use super::{FILE, MAPS};
use crate::error::BpfError;
use crate::present::WithPrograms;
use crate::programs::tcx::{Attached, End};
use crate::programs::{self, log};
use crate::qdisc::load;
use libbpf_rs::{ErrorExt, MapCore as _, MapHandle, Object, ObjectBuilder, Program};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// The names of the programs in the object file, and of their pins.
const EGRESS: &str = "circuits_egress";
const COMMIT: &str = "circuits_commit";

/// Descriptors of both programs.
#[derive(Debug)]
pub(super) struct Programs {
    /// The program at egress, which finds the leaf of a packet.
    egress: OwnedFd,
    /// The program that puts the staged rows into force.
    commit: OwnedFd,
    _with: WithPrograms,
}

impl Programs {
    /// Loads the programs with this map of rows, and with the given sizes of the other maps.
    /// Returns these maps in the order of their names.
    pub(super) fn load(
        rows: (&str, BorrowedFd<'_>),
        entries: &[(&str, u32)],
    ) -> Result<(Self, Vec<MapHandle>), BpfError> {
        let with = WithPrograms::of(FILE)?;
        let program = programs::named(FILE).ok_or(BpfError::NoProgram(FILE))?;
        let (loaded, log) = log::recorded(|| {
            let mut open = ObjectBuilder::default().name(FILE)?.open_memory(&program)?;
            for mut map in open.maps_mut() {
                let name = map.name().to_string_lossy().into_owned();
                if name == rows.0 {
                    map.reuse_fd(rows.1).context("the qdisc's maps")?;
                } else if let Some((_, count)) = entries.iter().find(|(own, _)| *own == name) {
                    map.set_max_entries(*count)?;
                }
            }
            let object = open.load()?;
            let own = Self {
                egress: descriptor(&object, EGRESS)?,
                commit: descriptor(&object, COMMIT)?,
                _with: with,
            };
            let maps = MAPS.iter().map(|name| {
                let map = object.maps().find(|map| map.name() == *name);
                MapHandle::try_from(&map.ok_or_else(missing).context(*name)?)
            });
            Ok((own, maps.collect::<Result<_, _>>()?))
        });
        loaded.map_err(|source| BpfError::Refused {
            kind: "the programs of circuits".to_owned(),
            source,
            log,
        })
    }

    /// Opens the programs that [`Self::pin`] pinned in a folder.
    pub(super) fn pinned(folder: &Path) -> Result<Self, BpfError> {
        let with = WithPrograms::of(FILE)?;
        let open = |name: &str| {
            let path = folder.join(name);
            Program::fd_from_pinned_path(&path).map_err(|source| BpfError::Pin {
                path,
                doing: "opened",
                source,
            })
        };
        Ok(Self {
            egress: open(EGRESS)?,
            commit: open(COMMIT)?,
            _with: with,
        })
    }

    /// Pins the programs in a folder of a BPF file system, so that they outlive this process.
    pub(super) fn pin(&self, folder: &Path) -> Result<(), BpfError> {
        for (program, name) in [(&self.egress, EGRESS), (&self.commit, COMMIT)] {
            load::pin_descriptor(program.as_fd(), &folder.join(name))?;
        }
        Ok(())
    }

    /// Removes the pins.
    pub(super) fn unpin(folder: &Path) -> Result<(), BpfError> {
        for name in [EGRESS, COMMIT] {
            load::remove(&folder.join(name), |path| std::fs::remove_file(path))?;
        }
        Ok(())
    }

    /// Attaches the program that finds leaves to a device.
    pub(super) fn attach(&self, ifindex: u32) -> Result<Attached, BpfError> {
        let attached = Attached::to(self.egress.as_fd(), ifindex, End::Egress);
        attached.map_err(|source| BpfError::Program {
            name: EGRESS,
            doing: "put on the device",
            source,
        })
    }

    /// Runs the commit program, which puts the staged rows into force.
    pub(super) fn commit(&self) -> Result<(), BpfError> {
        let failed = |source| BpfError::Program {
            name: COMMIT,
            doing: "run",
            source,
        };
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
            ..libbpf_sys::bpf_test_run_opts::default()
        };
        #[expect(unsafe_code, reason = "libbpf-rs runs no program that was pinned")]
        // SAFETY: the descriptor is open, and the options contain no pointers.
        let status = unsafe {
            libbpf_sys::bpf_prog_test_run_opts(self.commit.as_raw_fd(), &raw mut options)
        };
        if status < 0 {
            return Err(failed(libbpf_rs::Error::from_raw_os_error(-status)));
        }
        if options.retval != 0 {
            return Err(failed(missing()));
        }
        Ok(())
    }
}

fn missing() -> libbpf_rs::Error {
    libbpf_rs::Error::from_raw_os_error(libc::ENOENT)
}

fn descriptor(object: &Object, name: &'static str) -> libbpf_rs::Result<OwnedFd> {
    let mut programs = object.progs();
    let program = programs.find(|program| program.name() == name);
    let program = program.ok_or_else(missing).context(name)?;
    Ok(program.as_fd().try_clone_to_owned()?)
}
