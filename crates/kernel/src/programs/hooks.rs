// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs of a device's ingress and egress hooks: reads what they have done from their maps.
//! Crate bpf loads, updates and reads them. They live as long as the device has them, or `held`
//! holds them; nothing is pinned.

use crate::Kernel;
use crate::error::KernelError;
use crate::observe::files;
use rustix::thread::{CapabilitySet, capabilities};
use std::time::Duration;
use weirgate_bpf::{
    BpfError, ConditionCount, ConditionMaps, FilterFlow, FilterMaps, FilterState, Loader, UdpMaps,
    UdpStream, WindowConnection, WindowMaps, WindowTotals,
};
use weirgate_plan::{Action, Step};
use weirgate_state::{Ability, DeviceName, Presence, Program};

/// What the virtual-queue filter has done so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policed {
    /// Its virtual queue and its counts.
    pub state: FilterState,
    /// The flows that it tracks.
    pub flows: Vec<FilterFlow>,
}

/// The state of a device's programs that limit the rate of senders.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Received {
    /// The totals of receive-window control and its connections; `None` without that program.
    pub windows: Option<(WindowTotals, Vec<WindowConnection>)>,
    /// Streams of datagrams; `None` without the datagram filter.
    pub streams: Option<Vec<UdpStream>>,
}

/// The counters of a device's conditioners.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditioned {
    /// Those for arriving packets.
    pub entering: Vec<ConditionCount>,
    /// Those for departing packets.
    pub leaving: Vec<ConditionCount>,
}

/// Returns a loader for the programs of a plan's steps.
pub(crate) fn loader(steps: &[Step]) -> Loader {
    let changes = |step: &&Step| matches!(step.action, Action::SetHooks { .. });
    Loader::new(steps.iter().filter(changes).count() as u32)
}

/// Returns the error for a program that could not be loaded.
pub(crate) fn refused(program: Program, step: &Step, source: BpfError) -> KernelError {
    KernelError::Program {
        program,
        object: step.action.to_string(),
        source,
        denial: denial(),
    }
}

/// Returns which capability for loading programs this process lacks, as the end of a message.
/// CAP_SYS_ADMIN implies both (`bpf_token_capable`, kernel/bpf/token.c).
fn denial() -> &'static str {
    let Ok(own) = capabilities(None) else {
        return "";
    };
    let has = |one| own.effective.intersects(one | CapabilitySet::SYS_ADMIN);
    match (has(CapabilitySet::BPF), has(CapabilitySet::NET_ADMIN)) {
        (true, true) => "",
        (false, true) => " (this needs CAP_BPF)",
        (true, false) => " (this needs CAP_NET_ADMIN)",
        (false, false) => " (this needs CAP_BPF and CAP_NET_ADMIN)",
    }
}

/// Returns whether the payload classifier can be attached on this kernel, according to its files,
/// which take tens of milliseconds to read. If they do not tell, it is assumed to work.
pub fn can_look() -> bool {
    files::presence(Ability::ClsBpf) != Presence::Absent
}

impl Kernel {
    /// Returns what a device's virtual-queue filter has done so far; `None` if there is none, or
    /// this process may not read it.
    ///
    /// # Errors
    ///
    /// Occurs if a netlink request fails.
    pub async fn policed(&self, device: &DeviceName) -> Result<Option<Policed>, KernelError> {
        let read = |maps: FilterMaps| {
            let state = maps.state()?;
            maps.flows().map(|flows| Policed { state, flows })
        };
        self.read_filter(device, read).await
    }

    /// Does the same without the flows, which are many.
    ///
    /// # Errors
    ///
    /// Occurs if a netlink request fails.
    pub async fn filter_state(
        &self,
        device: &DeviceName,
    ) -> Result<Option<FilterState>, KernelError> {
        self.read_filter(device, |maps| maps.state()).await
    }

    async fn read_filter<T>(
        &self,
        device: &DeviceName,
        read: impl Fn(FilterMaps) -> Result<T, BpfError>,
    ) -> Result<Option<T>, KernelError> {
        let maps = |id| FilterMaps::of_program(id).ok().flatten();
        let maps = self.maps(device, Program::VirtualQueue, |id, _| maps(id));
        let read = maps.await?.map(read).transpose();
        read.map_err(unread(device, "read the virtual-queue filter"))
    }

    /// Returns the state of a device's programs that limit the rate of senders; nothing if there
    /// are none, or this process may not read it.
    ///
    /// # Errors
    ///
    /// Occurs if a netlink request fails.
    pub async fn received(&self, device: &DeviceName) -> Result<Received, KernelError> {
        let windows = self.windows(device).await?;
        let windows = windows.map(|maps| Ok((maps.totals()?, maps.connections()?)));
        let streams = self.maps(device, Program::Datagrams, |id, _| UdpMaps::of_program(id));
        let streams = streams.await?.map(|maps| maps.streams());
        let failed = unread(device, "read what holds senders to a rate");
        Ok(Received {
            windows: windows.transpose().map_err(&failed)?,
            streams: streams.transpose().map_err(&failed)?,
        })
    }

    /// Returns the totals of a device's receive-window control, without its connections, which are
    /// many. Returns `None` if there is none, or this process may not read it.
    ///
    /// # Errors
    ///
    /// Occurs if a netlink request fails.
    pub async fn windowed(&self, device: &DeviceName) -> Result<Option<WindowTotals>, KernelError> {
        let totals = self.windows(device).await?.map(|maps| maps.totals());
        let totals = totals.transpose();
        totals.map_err(unread(device, "read what holds senders to a rate"))
    }

    /// Tells a device's receive-window control that a session of high priority lasts for this time
    /// from now, unless this is called again; a time of zero ends it. Returns false if the device
    /// has no receive-window control.
    ///
    /// # Errors
    ///
    /// Occurs if the device does not exist, or its programs cannot be reached.
    pub async fn announce(
        &self,
        device: &DeviceName,
        lease: Duration,
    ) -> Result<bool, KernelError> {
        let announced = self.windows(device).await?.map(|maps| maps.announce(lease));
        let announced = announced.transpose();
        Ok(announced
            .map_err(unread(device, "announce a session"))?
            .is_some())
    }

    /// Returns the counters of a device's conditioners; nothing if there are none, or this process
    /// may not read them.
    ///
    /// # Errors
    ///
    /// Occurs if a netlink request fails.
    pub async fn conditioned(&self, device: &DeviceName) -> Result<Conditioned, KernelError> {
        let counts = async |program| {
            let maps = self
                .maps(device, program, ConditionMaps::of_program)
                .await?;
            let counts = maps.map(|maps| maps.counts()).transpose();
            let counts = counts.map_err(unread(device, "read what conditioners have counted"))?;
            Ok::<_, KernelError>(counts.unwrap_or_default())
        };
        Ok(Conditioned {
            entering: counts(Program::IngressConditioners).await?,
            leaving: counts(Program::EgressConditioners).await?,
        })
    }

    async fn windows(&self, device: &DeviceName) -> Result<Option<WindowMaps>, KernelError> {
        let of = |id, _| WindowMaps::of_program(id);
        self.maps(device, Program::Windows, of).await
    }

    /// Opens the maps of a device's program, by the program's id and the interface index.
    async fn maps<T>(
        &self,
        device: &DeviceName,
        program: Program,
        maps: impl Fn(u32, u32) -> Option<T>,
    ) -> Result<Option<T>, KernelError> {
        let index = self.device(device).await?.number();
        let (_, found) = self.at_hooks(index).await?;
        let found = found.of(program);
        Ok(found.first().and_then(|filter| maps(filter.id, index)))
    }
}

fn unread(device: &DeviceName, doing: &str) -> impl Fn(BpfError) -> KernelError + use<> {
    let object = format!("{device}: {doing}");
    move |source| KernelError::Kit {
        object: object.clone(),
        source,
    }
}
