// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs of a device's hooks as a state has them: loaded, updated in place
//! and read back.

use super::condition::{Condition, ConditionMaps};
use super::datagrams::{UdpControl, UdpMaps};
use super::order::Order;
use super::payload::Payload;
use super::virtual_queue::{Filter, FilterMaps};
use super::window::{WindowControl, WindowMaps};
use crate::error::BpfError;
use crate::present::WithPrograms;
use crate::programs;
use std::os::fd::OwnedFd;
use weirgate_state::{
    Attached, Conditioner, Conditioning, HookPrograms, Order as OrderState,
    Payload as PayloadState, Program, Windows,
};

/// What the steps of a plan load. Conditioners have one program of each hook for all
/// devices, because to load one takes the kernel as long as all else about a device.
#[derive(Debug)]
pub struct Loader {
    ingress: Option<Condition>,
    egress: Option<Condition>,
    /// Devices at most that get conditioners.
    devices: u32,
}

/// A filter that was found at a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFilter {
    /// The number of its program.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Whether the program's answer is what becomes of a packet, as ours are.
    pub direct: bool,
}

/// The name of a program's filter (of [`Program::row`]'s, the one at `filter`): it
/// tells versions apart.
pub fn filter_name(program: Program, filter: usize, lowest: Option<u8>) -> String {
    let row = program.row();
    let label = row.filters.get(filter).map_or("", |filter| filter.label);
    let lowest = lowest.map(|lowest| format!("{lowest}-"));
    let lowest = lowest.unwrap_or_default();
    format!("{label}{lowest}{:08x}", programs::digest(row.object))
}

impl Loader {
    /// For so many devices at most.
    pub const fn new(devices: u32) -> Self {
        Self {
            ingress: None,
            egress: None,
            devices,
        }
    }

    /// Loads a program for a device, with a descriptor for each of its filters.
    pub fn load(
        &mut self,
        program: Program,
        wanted: Attached<'_>,
        device: u32,
    ) -> Result<Vec<OwnedFd>, BpfError> {
        Ok(match wanted {
            Attached::Payload(payload) => vec![Payload::attachable(payload.lowest)?],
            Attached::VirtualQueue(filter) => vec![Filter::attachable(filter)?],
            Attached::Windows(windows) => {
                let control = WindowControl::load(windows)?;
                vec![control.program(true)?, control.program(false)?]
            }
            Attached::Datagrams(datagrams) => vec![UdpControl::load(datagrams)?.program()?],
            Attached::Conditioners(own) => {
                vec![self.conditioners(program, &own.conditioners, device)?]
            }
            Attached::Order(_) => {
                let order = Order::load()?;
                vec![order.program(true)?, order.program(false)?]
            }
        })
    }

    fn conditioners(
        &mut self,
        program: Program,
        rules: &[Conditioner],
        device: u32,
    ) -> Result<OwnedFd, BpfError> {
        let shared = match program {
            Program::EgressConditioners => &mut self.egress,
            _ => &mut self.ingress,
        };
        let mut condition = match shared.take().filter(Condition::has_room) {
            Some(condition) => condition,
            None => Condition::load(self.devices.max(1))?,
        };
        condition.add(device, rules)?;
        shared.insert(condition).attachable()
    }
}

/// Writes the settings of a program that is attached to a device; it forgets nothing.
pub fn update(
    program: Program,
    wanted: Attached<'_>,
    found: &[FoundFilter],
    device: u32,
) -> Result<(), BpfError> {
    let gone = BpfError::NoProgram(program.row().object);
    let Some(FoundFilter { id, .. }) = found.first() else {
        return Err(gone);
    };
    match wanted {
        Attached::VirtualQueue(filter) => {
            FilterMaps::of_program(*id)?.ok_or(gone)?.set_filter(filter)
        }
        Attached::Windows(windows) => WindowMaps::of_program(*id).ok_or(gone)?.set(windows),
        Attached::Datagrams(datagrams) => UdpMaps::of_program(*id).ok_or(gone)?.set(datagrams),
        Attached::Conditioners(own) => {
            let maps = ConditionMaps::of_program(*id, device).ok_or(gone)?;
            maps.set(&own.conditioners)
        }
        Attached::Payload(_) | Attached::Order(_) => Ok(()),
    }
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
    match program {
        Program::IngressConditioners | Program::EgressConditioners => {
            ConditionMaps::readdress(id, before, after)
        }
        // The others know of no device.
        _ => Ok(()),
    }
}

/// Reads the settings of a program whose filters were found at a device. One that cannot
/// be read, or misses a filter, is stale: a plan exchanges it.
pub fn read(program: Program, found: &[FoundFilter], device: u32, hooks: &mut HookPrograms) {
    let lowest = || PayloadState::of_name(&found.first()?.name);
    let lowest = (program == Program::Payload).then(lowest).flatten();
    let named = |(at, filter): (usize, &FoundFilter)| {
        filter.direct && filter.name == filter_name(program, at, lowest)
    };
    let whole = found.len() == program.row().filters.len();
    let mut current = whole && found.iter().enumerate().all(named);
    let id = found.first().map_or(0, |filter| filter.id);
    match program {
        Program::Payload => hooks.payload = lowest.map(|lowest| PayloadState { lowest }),
        Program::Order => hooks.order = Some(OrderState {}),
        Program::VirtualQueue => {
            let maps = FilterMaps::of_program(id).ok().flatten();
            let settings = maps.and_then(|maps| maps.filter().ok().flatten());
            hooks.virtual_queue = Some(known(settings, &mut current));
        }
        Program::Windows => hooks.windows = Some(known(windows(found), &mut current)),
        Program::Datagrams => {
            let settings = UdpMaps::of_program(id).and_then(|maps| maps.settings().ok());
            hooks.datagrams = Some(known(settings.map(Box::new), &mut current));
        }
        Program::IngressConditioners => {
            hooks.entering = Some(known(conditioners(id, device), &mut current));
        }
        Program::EgressConditioners => {
            hooks.leaving = Some(known(conditioners(id, device), &mut current));
        }
    }
    if !current {
        hooks.stale.insert(program);
    }
}

/// The settings of a program; where they cannot be read, it is not current.
fn known<T: Default>(settings: Option<T>, current: &mut bool) -> T {
    *current &= settings.is_some();
    settings.unwrap_or_default()
}

/// `None` where the two do not belong together.
fn windows(found: &[FoundFilter]) -> Option<Box<Windows>> {
    let [ingress, egress] = found else {
        return None;
    };
    let maps = WindowMaps::of_program(ingress.id)?;
    let same = maps.are(&WindowMaps::of_program(egress.id)?);
    same.then(|| maps.settings().ok().map(Box::new)).flatten()
}

fn conditioners(id: u32, device: u32) -> Option<Box<Conditioning>> {
    let rules = ConditionMaps::of_program(id, device)?
        .rules()
        .ok()
        .flatten();
    rules.map(|conditioners| Box::new(Conditioning { conditioners }))
}
