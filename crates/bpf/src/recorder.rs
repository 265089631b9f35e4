// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records of what a discipline in the kernel is told and says, as
//! `weirgate_aqm::Mirror` takes them.

use crate::error::BpfError;
use crate::object::RECORDERS;
use crate::qdisc::Qdisc;
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, MapType, RingBufferBuilder};
use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// The longest time between two looks at whether to go on.
const TURN: Duration = Duration::from_millis(200);

/// Recording is on while this is there.
#[derive(Debug)]
pub struct Recorder<'q> {
    qdisc: &'q Qdisc,
    number: u32,
    ring: MapHandle,
}

impl<'q> Recorder<'q> {
    pub(crate) fn begin(qdisc: &'q Qdisc, number: u32, bytes: u32) -> Result<Self, BpfError> {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        let ring = MapHandle::create(MapType::RingBuf, Some("recorder"), 0, 0, bytes, &options)
            .map_err(qdisc.failed(RECORDERS, "made"))?;
        let descriptor = ring.as_fd().as_raw_fd().to_ne_bytes();
        qdisc
            .recorders()
            .update(&number.to_ne_bytes(), &descriptor, MapFlags::ANY)
            .map_err(qdisc.failed(RECORDERS, "written"))?;
        let recorder = Self {
            qdisc,
            number,
            ring,
        };
        recorder.checkpoint()?;
        Ok(recorder)
    }

    /// Asks for the whole state, which comes with the next packet that arrives.
    pub fn checkpoint(&self) -> Result<(), BpfError> {
        self.qdisc.raise(self.number)
    }

    /// Gives every record to `take` as it comes, until that or `more` says
    /// false; `more` is asked several times a second. A signal ends it too.
    pub fn follow(
        &self,
        mut take: impl FnMut(&[u8]) -> bool,
        mut more: impl FnMut() -> bool,
    ) -> Result<(), BpfError> {
        let failed = self.qdisc.failed(RECORDERS, "read");
        let going = Cell::new(true);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&self.ring, |record| {
                if going.get() {
                    going.set(take(record));
                }
                0
            })
            .map_err(&failed)?;
        let ring = builder.build().map_err(&failed)?;
        while going.get() && more() {
            match ring.poll(TURN) {
                Err(error) if error.kind() == ErrorKind::Interrupted => break,
                other => other.map_err(&failed)?,
            }
        }
        Ok(())
    }
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        // The map may be gone with its qdisc; then there is nothing to end.
        let _ = self.qdisc.recorders().delete(&self.number.to_ne_bytes());
        let _ = self.checkpoint();
    }
}
