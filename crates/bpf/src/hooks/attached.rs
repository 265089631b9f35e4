// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs at a device's hooks in the form of a state: loads them, updates them in place
//! and reads their settings.

use super::attach::{Attach, FoundFilter, Loader};
use crate::error::BpfError;
use crate::present::WithPrograms;
use crate::programs;
use std::os::fd::OwnedFd;
use weirgate_state::{
    Datagrams, EgressConditioners, HookPrograms, IngressConditioners, Order, Payload, Program,
    VirtualQueueFilter, Windows,
};

/// The operations of a program, independent of its type.
struct Functions {
    load: fn(&HookPrograms, u32, &mut Loader) -> Result<Vec<OwnedFd>, BpfError>,
    update: fn(&HookPrograms, u32, u32) -> Result<(), BpfError>,
    read: fn(&[FoundFilter], u32, &mut HookPrograms) -> bool,
    readdress: fn(u32, u32, u32) -> Result<(), BpfError>,
}

/// Returns the operations of a program.
const fn functions(program: Program) -> Functions {
    match program {
        Program::Payload => Functions::of::<Payload>(),
        Program::VirtualQueue => Functions::of::<VirtualQueueFilter>(),
        Program::Windows => Functions::of::<Windows>(),
        Program::Datagrams => Functions::of::<Datagrams>(),
        Program::IngressConditioners => Functions::of::<IngressConditioners>(),
        Program::EgressConditioners => Functions::of::<EgressConditioners>(),
        Program::Order => Functions::of::<Order>(),
    }
}

impl Functions {
    const fn of<P: Attach<Settings: Default>>() -> Self {
        Self {
            load: |wanted, device, loader| P::load(settings::<P>(wanted)?, device, loader),
            update: |wanted, id, device| P::update(settings::<P>(wanted)?, id, device),
            read: |found, device, hooks| {
                let settings = P::read(found, device);
                let known = settings.is_some();
                P::put(hooks, settings.unwrap_or_default());
                known
            },
            readdress: P::readdress,
        }
    }
}

fn settings<P: Attach>(wanted: &HookPrograms) -> Result<&P::Settings, BpfError> {
    P::of(wanted).ok_or(BpfError::NoProgram(P::ROW.object))
}

/// Returns the name of a program's filter: the one at index `filter` in [`Program::row`]. The
/// name identifies the version of the program and some of its settings.
pub fn filter_name(program: Program, filter: usize, hooks: &HookPrograms) -> String {
    let row = program.row();
    let label = row.filters.get(filter).map_or("", |filter| filter.label);
    let own = program.in_name(hooks);
    format!("{label}{own}{:08x}", programs::digest(row.object))
}

impl Loader {
    /// Loads a program for a device with these settings. Returns a descriptor for each of its
    /// filters.
    pub fn load(
        &mut self,
        program: Program,
        wanted: &HookPrograms,
        device: u32,
    ) -> Result<Vec<OwnedFd>, BpfError> {
        (functions(program).load)(wanted, device, self)
    }
}

/// Changes the settings of a program that is attached to a device; its state stays.
pub fn update(
    program: Program,
    wanted: &HookPrograms,
    found: &[FoundFilter],
    device: u32,
) -> Result<(), BpfError> {
    let Some(FoundFilter { id, .. }) = found.first() else {
        return Err(BpfError::NoProgram(program.row().object));
    };
    (functions(program).update)(wanted, *id, device)
}

/// Returns a descriptor of a loaded program, which keeps the program and its maps alive even if
/// it is detached. Needs CAP_SYS_ADMIN (`bpf_prog_get_fd_by_id`, kernel/bpf/syscall.c).
///
/// # Errors
///
/// Returns an error if the program is gone, or if this process lacks the permission.
pub fn hold(program: Program, id: u32) -> Result<OwnedFd, BpfError> {
    WithPrograms::of(program.row().object)?;
    libbpf_rs::Program::fd_from_id(id).map_err(|source| BpfError::Program {
        name: program.row().object,
        doing: "held",
        source,
    })
}

/// Adapts a program to a device that was created again with another index.
///
/// # Errors
///
/// Returns an error if the program cannot be adapted.
pub fn readdress(program: Program, id: u32, before: u32, after: u32) -> Result<(), BpfError> {
    (functions(program).readdress)(id, before, after)
}

/// Reads the settings of a program whose filters were found at a device. A program that cannot
/// be read, or lacks a filter, is stale, and a plan replaces it.
pub fn read(program: Program, found: &[FoundFilter], device: u32, hooks: &mut HookPrograms) {
    let known = (functions(program).read)(found, device, hooks);
    let current = |(at, filter): (usize, &FoundFilter)| {
        filter.direct && filter.name == filter_name(program, at, hooks)
    };
    let whole = found.len() == program.row().filters.len();
    if !(known && whole && found.iter().enumerate().all(current)) {
        hooks.stale.insert(program);
    }
}
