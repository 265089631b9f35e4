// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs of a device's hooks as a state has them: loaded, updated in place
//! and read back.

use super::attach::{Attach, FoundFilter, Loader};
use crate::error::BpfError;
use crate::present::WithPrograms;
use crate::programs;
use std::os::fd::OwnedFd;
use weirgate_state::{
    Datagrams, EgressConditioners, HookPrograms, IngressConditioners, Order, Payload, Program,
    VirtualQueueFilter, Windows,
};

/// The functions of a program whose type is not known.
struct Functions {
    load: fn(&HookPrograms, u32, &mut Loader) -> Result<Vec<OwnedFd>, BpfError>,
    update: fn(&HookPrograms, u32, u32) -> Result<(), BpfError>,
    read: fn(&[FoundFilter], u32, &mut HookPrograms) -> bool,
    readdress: fn(u32, u32, u32) -> Result<(), BpfError>,
}

/// Those of every program.
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

/// The name of a program's filter (of [`Program::row`]'s, the one at `filter`) with the
/// settings that hooks have: it tells versions apart.
pub fn filter_name(program: Program, filter: usize, hooks: &HookPrograms) -> String {
    let row = program.row();
    let label = row.filters.get(filter).map_or("", |filter| filter.label);
    let own = program.in_name(hooks);
    format!("{label}{own}{:08x}", programs::digest(row.object))
}

impl Loader {
    /// Loads a program for a device as hooks shall have it, with a descriptor for each of
    /// its filters.
    pub fn load(
        &mut self,
        program: Program,
        wanted: &HookPrograms,
        device: u32,
    ) -> Result<Vec<OwnedFd>, BpfError> {
        (functions(program).load)(wanted, device, self)
    }
}

/// Writes the settings of a program that is attached to a device; it forgets nothing.
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

/// Holds the loaded program of this number, which is there as long as this is, with its
/// maps, whether a device has it or not. Needs CAP_SYS_ADMIN (`bpf_prog_get_fd_by_id`,
/// kernel/bpf/syscall.c).
///
/// # Errors
///
/// Occurs where it is gone, or this process may not.
pub fn hold(program: Program, id: u32) -> Result<OwnedFd, BpfError> {
    WithPrograms::of(program.row().object)?;
    libbpf_rs::Program::fd_from_id(id).map_err(|source| BpfError::Program {
        name: program.row().object,
        doing: "held",
        source,
    })
}

/// Prepares a program that is held for a device that came back under another number.
///
/// # Errors
///
/// Occurs where the program cannot be readdressed.
pub fn readdress(program: Program, id: u32, before: u32, after: u32) -> Result<(), BpfError> {
    (functions(program).readdress)(id, before, after)
}

/// Reads the settings of a program whose filters were found at a device. One that cannot
/// be read, or misses a filter, is stale: a plan exchanges it.
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
