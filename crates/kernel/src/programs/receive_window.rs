// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What holds senders to a rate from the receiving side: programs are loaded
//! when a step needs them, what they are told goes through their maps. They live
//! as long as the device has them; nothing is pinned.

use crate::Kernel;
use crate::error::KernelError;
use crate::tc::filters::{Holder, Holders};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;
use weirgate_bpf::{
    BpfError, UdpControl, UdpMaps, UdpStream, WindowConnection, WindowControl, WindowMaps,
    WindowTotals,
};
use weirgate_plan::Step;
use weirgate_state::{Arriving, Datagrams, DeviceName, Windows};

/// What the programs of a device that hold senders to a rate know.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Received {
    /// What chooses receive windows has done, and its connections; `None` where
    /// nothing does.
    pub windows: Option<(WindowTotals, Vec<WindowConnection>)>,
    /// Streams of datagrams; `None` where nothing holds them.
    pub streams: Option<Vec<UdpStream>>,
}

/// The programs that a step attaches.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    windows: Option<(OwnedFd, OwnedFd)>,
    datagrams: Option<OwnedFd>,
}

impl Loaded {
    pub(crate) fn windows(&self) -> Option<(RawFd, RawFd)> {
        let (arriving, leaving) = self.windows.as_ref()?;
        Some((arriving.as_raw_fd(), leaving.as_raw_fd()))
    }

    pub(crate) fn datagrams(&self) -> Option<RawFd> {
        self.datagrams.as_ref().map(AsRawFd::as_raw_fd)
    }
}

/// What a change says of both; `None` where it says nothing.
fn said<'a>(
    before: Option<&Arriving>,
    after: Option<&'a Arriving>,
) -> (Option<&'a Windows>, Option<&'a Datagrams>) {
    let windows = after.and_then(|place| place.windows.as_deref());
    let there = before.and_then(|place| place.windows.as_deref());
    let datagrams = after.and_then(|place| place.datagrams.as_deref());
    let streams = before.and_then(|place| place.datagrams.as_deref());
    (
        windows.filter(|wanted| !Windows::same(Some(wanted), there)),
        datagrams.filter(|wanted| !Datagrams::same(Some(wanted), streams)),
    )
}

/// Whether the programs that are there can be told something else: they are of
/// this version.
fn can_be_told(before: Option<&Arriving>) -> (bool, bool) {
    let windows = before.and_then(|place| place.windows.as_deref());
    let datagrams = before.and_then(|place| place.datagrams.as_deref());
    (
        windows.is_some_and(|one| !one.stale),
        datagrams.is_some_and(|one| !one.stale),
    )
}

/// The programs that a step attaches.
pub(crate) fn programs(
    step: &Step,
    before: Option<&Arriving>,
    after: Option<&Arriving>,
) -> Result<Loaded, KernelError> {
    let (windows, datagrams) = said(before, after);
    let (tell_windows, tell_datagrams) = can_be_told(before);
    let load = |windows: &Windows| {
        let control = WindowControl::load(windows)?;
        Ok((control.program(true)?, control.program(false)?))
    };
    let windows = windows.filter(|_| !tell_windows).map(load);
    let datagrams = datagrams
        .filter(|_| !tell_datagrams)
        .map(|wanted| UdpControl::load(wanted)?.program());
    Ok(Loaded {
        windows: windows
            .transpose()
            .map_err(|source| refused(step, source))?,
        datagrams: datagrams
            .transpose()
            .map_err(|source| refused(step, source))?,
    })
}

/// What programs have been told. Those that cannot be read are to be exchanged.
pub(crate) fn read(place: &mut Arriving, holders: &Holders) {
    let pair = (holders.window_in, holders.window_out);
    if pair != (None, None) {
        let found = read_windows(pair).unwrap_or_else(|| Windows {
            stale: true,
            ..Windows::default()
        });
        place.windows = Some(Box::new(found));
    }
    place.datagrams = holders.datagrams.map(|holder| {
        let found = UdpMaps::of_program(holder.id).and_then(|maps| maps.settings().ok());
        Box::new(Datagrams {
            stale: holder.stale || found.is_none(),
            ..found.unwrap_or_default()
        })
    });
}

fn read_windows(pair: (Option<Holder>, Option<Holder>)) -> Option<Windows> {
    let (arriving, leaving) = (pair.0?, pair.1?);
    let maps = WindowMaps::of_program(arriving.id)?;
    let other = WindowMaps::of_program(leaving.id)?;
    let found = maps.settings().ok()?;
    let stale = arriving.stale || leaving.stale || !maps.are(&other);
    Some(Windows { stale, ..found })
}

impl Kernel {
    /// Tells the programs of a device something else, where they can be told and
    /// a step says something else; they forget nothing.
    pub(crate) async fn tell_receive(
        &self,
        step: &Step,
        index: u32,
        before: Option<&Arriving>,
        after: Option<&Arriving>,
    ) -> Result<(), KernelError> {
        let (windows, datagrams) = said(before, after);
        let (tell_windows, tell_datagrams) = can_be_told(before);
        let windows = windows.filter(|_| tell_windows);
        let datagrams = datagrams.filter(|_| tell_datagrams);
        if windows.is_none() && datagrams.is_none() {
            return Ok(());
        }
        let (window_maps, udp_maps) = self.receive_maps(index).await?;
        let told = windows.map(|wanted| {
            let maps = window_maps.ok_or(BpfError::NoProgram("window"))?;
            maps.set(wanted)
        });
        told.transpose().map_err(|source| refused(step, source))?;
        let told = datagrams.map(|wanted| {
            let maps = udp_maps.ok_or(BpfError::NoProgram("udp"))?;
            maps.set(wanted)
        });
        told.transpose().map_err(|source| refused(step, source))?;
        Ok(())
    }

    /// What the programs of a device that hold senders to a rate know; nothing
    /// where there are none, or this process may not look.
    ///
    /// # Errors
    ///
    /// Occurs where the kernel cannot be asked.
    pub async fn received(&self, device: &DeviceName) -> Result<Received, KernelError> {
        let index = self.device(device).await?.number();
        let (window_maps, udp_maps) = self.receive_maps(index).await?;
        let failed = |source| unread(device, source);
        let windows = window_maps.map(|maps| Ok((maps.totals()?, maps.connections()?)));
        let streams = udp_maps.map(|maps| maps.streams());
        Ok(Received {
            windows: windows.transpose().map_err(failed)?,
            streams: streams.transpose().map_err(failed)?,
        })
    }

    /// What chooses receive windows at a device has done, without its connections,
    /// which are many; nothing where nothing does, or this process may not look.
    ///
    /// # Errors
    ///
    /// Occurs where the kernel cannot be asked.
    pub async fn windowed(&self, device: &DeviceName) -> Result<Option<WindowTotals>, KernelError> {
        let index = self.device(device).await?.number();
        let (maps, _) = self.receive_maps(index).await?;
        let totals = maps.map(|maps| maps.totals()).transpose();
        totals.map_err(|source| unread(device, source))
    }

    /// Tells the programs of a device that choose receive windows that a session
    /// of high priority goes on for so long, unless this is said again; no time
    /// ends it. False where no such programs are there.
    ///
    /// # Errors
    ///
    /// Occurs where the device is not there, or its programs cannot be told.
    pub async fn announce(
        &self,
        device: &DeviceName,
        lease: Duration,
    ) -> Result<bool, KernelError> {
        let index = self.device(device).await?.number();
        let (maps, _) = self.receive_maps(index).await?;
        let told = maps.map(|maps| maps.announce(lease));
        let told = told.transpose().map_err(|source| KernelError::Kit {
            object: format!("{device}: announce a session"),
            source,
        })?;
        Ok(told.is_some())
    }

    async fn receive_maps(
        &self,
        index: u32,
    ) -> Result<(Option<WindowMaps>, Option<UdpMaps>), KernelError> {
        let listed = self.arriving_filters(index).await?;
        let (_, holders) = crate::tc::filters::read(&listed);
        Ok((
            holders
                .window_in
                .and_then(|one| WindowMaps::of_program(one.id)),
            holders
                .datagrams
                .and_then(|one| UdpMaps::of_program(one.id)),
        ))
    }
}

fn unread(device: &DeviceName, source: BpfError) -> KernelError {
    KernelError::Kit {
        object: format!("{device}: read what holds senders to a rate"),
        source,
    }
}

fn refused(step: &Step, source: BpfError) -> KernelError {
    KernelError::Kit {
        object: step.action.to_string(),
        source,
    }
}
