// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What holds senders to a rate from the receiving side: programs are loaded
//! when a step needs them, what they are told goes through their maps. They live
//! as long as the device has them; nothing is pinned.

use crate::Kernel;
use crate::error::KernelError;
use crate::programs::shaper::rate;
use crate::tc::filters::{Holder, Holders};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;
use weirgate_aqm::{UdpRule, WindowRule};
use weirgate_bpf::{
    BpfError, UdpControl, UdpMaps, UdpSetup, UdpStream, WindowConnection, WindowControl,
    WindowMaps, WindowSetup, WindowTotals,
};
use weirgate_plan::Step;
use weirgate_state::{
    Arriving, Datagrams, DeviceName, Measured, SparedMark, WindowAlgorithm, Windows,
};
use weirgate_units::{Handle, Size, Span};

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
        let control = WindowControl::load(&window_setup(windows))?;
        Ok((control.program(true)?, control.program(false)?))
    };
    let windows = windows.filter(|_| !tell_windows).map(load);
    let datagrams = datagrams
        .filter(|_| !tell_datagrams)
        .map(|wanted| UdpControl::load(&udp_setup(wanted))?.program());
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
        let setup = UdpMaps::of_program(holder.id).and_then(|maps| maps.setup().ok());
        Box::new(Datagrams {
            stale: holder.stale || setup.is_none(),
            ..setup.as_ref().map(datagrams).unwrap_or_default()
        })
    });
}

fn read_windows(pair: (Option<Holder>, Option<Holder>)) -> Option<Windows> {
    let (arriving, leaving) = (pair.0?, pair.1?);
    let maps = WindowMaps::of_program(arriving.id)?;
    let other = WindowMaps::of_program(leaving.id)?;
    let setup = maps.setup().ok()?;
    let stale = arriving.stale || leaving.stale || !maps.are(&other);
    Some(Windows {
        stale,
        ..windows(&setup)
    })
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
            maps.set(&window_setup(wanted))
        });
        told.transpose().map_err(|source| refused(step, source))?;
        let told = datagrams.map(|wanted| {
            let maps = udp_maps.ok_or(BpfError::NoProgram("udp"))?;
            maps.set(&udp_setup(wanted))
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

fn spared(mark: SparedMark) -> (u32, u32) {
    (mark.mark, mark.mask)
}

/// What maps hold of the programs that choose windows.
fn window_setup(windows: &Windows) -> WindowSetup {
    let class = |(class, rate): &(Handle, weirgate_units::Rate)| {
        (class.as_u32(), rate.as_bytes_per_second())
    };
    WindowSetup {
        rule: WindowRule {
            algorithm: match windows.algorithm {
                WindowAlgorithm::Edge => 0,
                WindowAlgorithm::Steps => 1,
                WindowAlgorithm::Segments => 2,
            },
            fixed_bytes: windows.fixed.as_bytes(),
            horizon_ns: windows.horizon.as_nanos(),
            hold_ns: windows.hold.as_nanos(),
            initial_bytes: windows.initial.as_bytes(),
            limit_bytes: windows.limit.as_bytes(),
            chunk_ns: windows.measured.chunk.as_nanos(),
            chunks: windows.measured.chunks.into(),
            age_ns: windows.measured.age.as_nanos(),
        },
        rate_bytes_s: windows.rate.as_bytes_per_second(),
        spared: spared(windows.spared),
        ack_class: windows.acknowledgements.as_u32(),
        classes: windows.classes.iter().map(class).collect(),
        announced_segment: windows.announced_segment,
        announced_resets: windows.announced_resets,
        round_trip_ns: windows.round_trip.as_nanos(),
    }
}

/// The programs that maps hold.
fn windows(setup: &WindowSetup) -> Windows {
    let rule = &setup.rule;
    let classes = setup.classes.iter();
    Windows {
        rate: rate(setup.rate_bytes_s),
        algorithm: match rule.algorithm {
            1 => WindowAlgorithm::Steps,
            2 => WindowAlgorithm::Segments,
            _ => WindowAlgorithm::Edge,
        },
        fixed: Size::bytes(rule.fixed_bytes),
        horizon: Span::from_nanos(rule.horizon_ns),
        hold: Span::from_nanos(rule.hold_ns),
        initial: Size::bytes(rule.initial_bytes),
        limit: Size::bytes(rule.limit_bytes),
        measured: measured(rule.chunk_ns, rule.chunks, rule.age_ns),
        spared: SparedMark {
            mark: setup.spared.0,
            mask: setup.spared.1,
        },
        acknowledgements: Handle::from_u32(setup.ack_class),
        classes: classes
            .map(|(class, bytes)| (Handle::from_u32(*class), rate(*bytes)))
            .collect(),
        announced_segment: setup.announced_segment,
        announced_resets: setup.announced_resets,
        round_trip: Span::from_nanos(setup.round_trip_ns),
        stale: false,
    }
}

/// What maps hold of the filter of datagrams.
fn udp_setup(datagrams: &Datagrams) -> UdpSetup {
    UdpSetup {
        rule: UdpRule {
            mode: datagrams.bucket.into(),
            rate_bytes_s: datagrams.rate.as_bytes_per_second(),
            burst_bytes: datagrams.burst.as_bytes(),
            drop_ns: datagrams.drop.as_nanos(),
            warn_ns: datagrams.warn.as_nanos(),
            chunk_ns: datagrams.measured.chunk.as_nanos(),
            chunks: datagrams.measured.chunks.into(),
            age_ns: datagrams.measured.age.as_nanos(),
        },
        refuse_mark: datagrams.refuse,
        spared: spared(datagrams.spared),
    }
}

/// The filter of datagrams that maps hold.
fn datagrams(setup: &UdpSetup) -> Datagrams {
    let rule = &setup.rule;
    Datagrams {
        rate: rate(rule.rate_bytes_s),
        bucket: rule.mode != 0,
        burst: Size::bytes(rule.burst_bytes),
        drop: Span::from_nanos(rule.drop_ns),
        warn: Span::from_nanos(rule.warn_ns),
        measured: measured(rule.chunk_ns, rule.chunks, rule.age_ns),
        refuse: setup.refuse_mark,
        spared: SparedMark {
            mark: setup.spared.0,
            mask: setup.spared.1,
        },
        stale: false,
    }
}

fn measured(chunk_ns: u64, chunks: u64, age_ns: u64) -> Measured {
    Measured {
        chunk: Span::from_nanos(chunk_ns),
        chunks: u32::try_from(chunks).unwrap_or(u32::MAX),
        age: Span::from_nanos(age_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_units::Rate;

    #[test]
    fn maps_hold_all_of_it() {
        let measured = Measured {
            chunk: Span::from_millis(100),
            chunks: 30,
            age: Span::from_secs(5),
        };
        let spared = SparedMark {
            mark: 0x10,
            mask: 0xf0,
        };
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
                measured,
                spared,
                acknowledgements: Handle::new(2, 0x10),
                classes: vec![
                    (Handle::new(2, 0x11), Rate::kbit(800)),
                    (Handle::new(2, 0x12), Rate::default()),
                ],
                announced_segment: 536,
                announced_resets: true,
                round_trip: Span::from_millis(20),
                stale: false,
            };
            assert_eq!(windows(&window_setup(&wanted)), wanted);
        }
        for bucket in [false, true] {
            let wanted = Datagrams {
                rate: Rate::kbit(2_000),
                bucket,
                burst: Size::bytes(30_000),
                drop: Span::from_secs(2),
                warn: Span::from_secs(3),
                measured,
                refuse: 0x0800_0000,
                spared,
                stale: false,
            };
            assert_eq!(datagrams(&udp_setup(&wanted)), wanted);
        }
    }
}
