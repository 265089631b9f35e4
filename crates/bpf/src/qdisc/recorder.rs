// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records the packets and decisions of a discipline in the kernel for `weirgate_aqm::Mirror`.

use crate::error::BpfError;
use crate::maps::Map;
use crate::qdisc::kind::raise;
use libbpf_rs::{ErrorKind, MapHandle, MapType, RingBufferBuilder};
use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// The longest time between two calls of `more`.
const TURN: Duration = Duration::from_millis(200);

/// An active recording, which ends when this is dropped.
#[derive(Debug)]
pub struct Recorder<'q> {
    source: Source<'q>,
    ring: MapHandle,
}

/// The source of records.
#[derive(Debug)]
pub(crate) struct Source<'q> {
    /// The maps of rings and of change counters.
    pub(crate) recorders: &'q Map<u32, i32>,
    pub(crate) changes: &'q Map<u32, u32>,
    /// The indices in these maps. Each class of a shaper has its own ring.
    pub(crate) ring: u32,
    pub(crate) number: u32,
}

impl<'q> Recorder<'q> {
    pub(crate) fn begin(source: Source<'q>, bytes: u32) -> Result<Self, BpfError> {
        let ring = make(bytes).map_err(source.recorders.failed("made"))?;
        let descriptor = ring.as_fd().as_raw_fd();
        source.recorders.put(&source.ring, &descriptor)?;
        let recorder = Self { source, ring };
        recorder.checkpoint()?;
        Ok(recorder)
    }

    /// Requests a record of the whole state, which the program writes at the next arrival.
    pub fn checkpoint(&self) -> Result<(), BpfError> {
        raise(self.source.changes, self.source.number)
    }

    /// Passes every record to `take` until it returns false, `more` returns false, or a signal
    /// arrives. `more` is called several times a second.
    pub fn follow(
        &self,
        mut take: impl FnMut(&[u8]) -> bool,
        mut more: impl FnMut() -> bool,
    ) -> Result<(), BpfError> {
        let failed = self.source.recorders.failed("read");
        follow(&self.ring, &mut take, &mut more).map_err(failed)
    }
}

/// Makes a ring buffer of this size.
pub(crate) fn make(bytes: u32) -> libbpf_rs::Result<MapHandle> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    MapHandle::create(MapType::RingBuf, Some("recorder"), 0, 0, bytes, &options)
}

/// Passes every record of a ring to `take` until it or `more` returns false.
pub(crate) fn follow(
    ring: &MapHandle,
    take: &mut dyn FnMut(&[u8]) -> bool,
    more: &mut dyn FnMut() -> bool,
) -> libbpf_rs::Result<()> {
    let going = Cell::new(true);
    let mut builder = RingBufferBuilder::new();
    builder.add(ring, |record| {
        if going.get() {
            going.set(take(record));
        }
        0
    })?;
    let ring = builder.build()?;
    while going.get() && more() {
        match ring.poll(TURN) {
            Err(error) if error.kind() == ErrorKind::Interrupted => break,
            other => other?,
        }
    }
    Ok(())
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        // Ignore: the map may be gone with its qdisc, and then nothing is left to end.
        let _ = self.source.recorders.remove(&self.source.ring);
        let _ = self.checkpoint();
    }
}
