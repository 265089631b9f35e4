// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records of the packets and decisions of a discipline in the kernel, for `weirgate_aqm::Mirror`.

use crate::error::BpfError;
use crate::maps::Map;
use crate::qdisc::kind::raise;
use libbpf_rs::{ErrorKind, MapHandle, MapType, RingBufferBuilder};
use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// The longest time between two looks at whether to go on.
const TURN: Duration = Duration::from_millis(200);

/// Recording is on while this is there.
#[derive(Debug)]
pub struct Recorder<'q> {
    source: Source<'q>,
    ring: MapHandle,
}

/// What is recorded.
#[derive(Debug)]
pub(crate) struct Source<'q> {
    /// Its maps of rings and of counts of changes.
    pub(crate) recorders: &'q Map<u32, i32>,
    pub(crate) changes: &'q Map<u32, u32>,
    /// The places in these: of a shaper, each class has a ring.
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

    /// Asks for the whole state, which comes with the next packet that arrives.
    pub fn checkpoint(&self) -> Result<(), BpfError> {
        raise(self.source.changes, self.source.number)
    }

    /// Gives every record to `take` as it comes, until that or `more` says
    /// false; `more` is asked several times a second. A signal ends it too.
    pub fn follow(
        &self,
        mut take: impl FnMut(&[u8]) -> bool,
        mut more: impl FnMut() -> bool,
    ) -> Result<(), BpfError> {
        let failed = self.source.recorders.failed("read");
        follow(&self.ring, &mut take, &mut more).map_err(failed)
    }
}

/// A ring of so many bytes, to be put into a map of them.
pub(crate) fn make(bytes: u32) -> libbpf_rs::Result<MapHandle> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    MapHandle::create(MapType::RingBuf, Some("recorder"), 0, 0, bytes, &options)
}

/// Gives every record of a ring to `take` as it comes, until that or `more` says
/// false.
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
        // The map may be gone with its qdisc; then there is nothing to end.
        let _ = self.source.recorders.remove(&self.source.ring);
        let _ = self.checkpoint();
    }
}
