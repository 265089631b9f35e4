// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps a BPF array of the engine into this process.

use super::Engine;
use crate::error::BpfError;
use crate::maps::failed;
use crate::present::WithPrograms;
use libbpf_rs::MapHandle;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

/// The rows of a map, which the program may change at any time.
#[derive(Debug)]
pub(crate) struct Mapped<T> {
    rows: NonNull<T>,
    count: usize,
    map: MapHandle,
    _with: WithPrograms,
}

#[expect(unsafe_code, reason = "an address is no value of one thread")]
// SAFETY: BPF programs change this memory at any time anyway, so it is only accessed by volatile
// or atomic operations.
unsafe impl<T: Send> Send for Mapped<T> {}

impl<T> Mapped<T> {
    /// Maps `count` rows of the map with this name.
    pub(crate) fn new(
        name: &'static str,
        map: Option<MapHandle>,
        count: usize,
    ) -> Result<Self, BpfError> {
        let with = WithPrograms::of(name)?;
        let map = map.ok_or(BpfError::NoProgram(name))?;
        #[expect(unsafe_code, reason = "libbpf-rs maps no memory")]
        // SAFETY: a new mapping takes no memory in use.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                count * size_of::<T>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        let rows = NonNull::new(address.cast()).filter(|_| address != libc::MAP_FAILED);
        let rows = rows.ok_or_else(|| {
            let error = libbpf_rs::Error::from(std::io::Error::last_os_error());
            failed(Engine::KIND, name, "mapped")(error)
        })?;
        Ok(Self {
            rows,
            count,
            map,
            _with: with,
        })
    }

    /// Returns the map, to pin it.
    pub(crate) fn handle(&mut self) -> &mut MapHandle {
        &mut self.map
    }

    /// Returns a row by its number.
    pub(crate) fn at(&self, row: usize) -> Option<*mut T> {
        (row < self.count).then(|| self.rows.as_ptr().wrapping_add(row))
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        let bytes = self.count * size_of::<T>();
        #[expect(unsafe_code, reason = "libbpf-rs unmaps no memory")]
        // SAFETY: the mapping belongs to this value, and nothing refers to it.
        let _ = unsafe { libc::munmap(self.rows.as_ptr().cast(), bytes) };
    }
}
